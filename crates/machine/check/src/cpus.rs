//! The CPUs that a check measures.

use crate::Error;
use sordino_sched::{CpuList, affinity};

/// Returns the CPUs that are online, and those to measure. Moves this process into the shield if it measures shielded
/// CPUs.
///
/// # Errors
/// A CPU is not online, or some of the named ones are shielded and others not.
pub fn choose_cpus(named: Option<&CpuList>, remark: &dyn Fn(&str)) -> Result<(CpuList, CpuList), Error> {
    let online = CpuList::online()?;
    let shielded =
        sordino_shield::current().map(|shield| shield.request.cpus).unwrap_or_default().intersection(&online);
    let cpus = match named {
        Some(cpus) => cpus.clone(),
        None if !shielded.is_empty() => shielded.clone(),
        None => affinity()?.intersection(&online),
    };
    let missing = cpus.without(&online);
    if !missing.is_empty() {
        return Err(Error::Unusable(format!("CPU {missing} is not online; online are {online}")));
    }
    if cpus.overlaps(&shielded) && !cpus.without(&shielded).is_empty() {
        let text = format!(
            "CPU {shielded} is shielded and the others are not: check them one after the other, with --cpus"
        );
        return Err(Error::Unusable(text));
    }
    if cpus.overlaps(&shielded) {
        sordino_shield::go_to(cpus.as_slice().first().copied(), remark)?;
    }
    Ok((online, cpus))
}
