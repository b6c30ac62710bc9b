//! The behaviour of other work when a shield is up: it leaves the shield's CPUs, or moves to them.

use crate::{Error, current};
use sordino_event::text::with_causes;
use sordino_sched::{Right, affinity, is_root, set_affinity};
use std::ffi::OsString;

/// Moves this process, a recorder, off the shielded CPUs, and reports it. Returns the words to put in front of a
/// command that is to stay where this process was started, inside the shield.
///
/// # Errors
/// If `collector` is a shielded CPU, or if the kernel refuses.
pub fn keep_off(collector: Option<u32>, remark: &dyn Fn(&str)) -> Result<Vec<OsString>, Error> {
    let Some(shield) = current() else { return Ok(Vec::new()) };
    let shielded = &shield.request.cpus;
    if let Some(cpu) = collector.filter(|cpu| shielded.contains(*cpu)) {
        let rest = &shield.rest;
        return Err(Error::Unusable(format!(
            "--collector-cpu {cpu}: CPU {shielded} is shielded; others are {rest}"
        )));
    }
    let own = affinity()?;
    let outside = own.without(shielded);
    let (cpus, was_inside) = if outside.is_empty() { (&shield.rest, true) } else { (&outside, false) };
    if was_inside && let Err(error) = shield.send_out(std::process::id()) {
        remark(&format!(
            "the collector stays on CPU {own}, which is shielded, together with the programs that it records: {error} ({})",
            Right::Administer.remedy()
        ));
        return Ok(Vec::new());
    }
    set_affinity(cpus)?;
    remark(&format!("CPU {shielded} is shielded: the collector keeps to CPU {cpus}"));
    if !was_inside {
        return Ok(Vec::new());
    }
    let mut words = vec!["/proc/self/exe".to_owned(), "join-shield".to_owned()];
    // A process that only a control group confines gets other CPUs when the shield is lowered; one that has set its
    // affinity keeps it.
    if own != *shielded || shield.group.is_none() {
        words.extend(["--cpus".to_owned(), own.to_string()]);
    }
    words.push("--".to_owned());
    Ok(words.into_iter().map(OsString::from).collect())
}

/// Moves this process to the shielded CPUs if `cpu` is one of them, and reports it.
///
/// # Errors
/// If the shield's control group refuses this process.
pub fn go_to(cpu: Option<u32>, remark: &dyn Fn(&str)) -> Result<(), Error> {
    let Some(shield) = current() else { return Ok(()) };
    let Some(cpu) = cpu.filter(|cpu| shield.request.cpus.contains(*cpu)) else { return Ok(()) };
    if affinity()?.contains(cpu) {
        return Ok(());
    }
    shield.take_in(std::process::id()).map_err(|error| {
        Error::Unusable(format!(
            "CPU {cpu} is shielded, and this process can't go there: {} ({})",
            with_causes(&error),
            Right::Administer.remedy()
        ))
    })?;
    remark(&format!("CPU {cpu} is shielded: measuring inside the shield"));
    Ok(())
}

/// Returns the default CPU of a measurement: the last shielded one that this process may use, or else the last one on
/// which it may run.
///
/// # Errors
/// If the CPUs on which this process may run can't be read.
pub fn measured_cpu() -> Result<Option<u32>, Error> {
    let allowed = affinity()?;
    let shielded = current().map(|shield| shield.request.cpus).unwrap_or_default();
    let mut shielded = shielded.as_slice().iter().filter(|cpu| is_root() || allowed.contains(**cpu));
    Ok(shielded.next_back().or(allowed.as_slice().last()).copied())
}
