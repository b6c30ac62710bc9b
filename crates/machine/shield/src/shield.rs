//! A shield that is up: its request, and its control group.

use crate::machine::SYSTEM;
use crate::request::as_text;
use crate::{Error, Machine, Remaining, RunningThread, ShieldRequest};
use serde::{Deserialize, Serialize};
use sordino_sched::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Description of a shield that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shield {
    /// Request that raised the shield.
    pub request: ShieldRequest,
    /// Time at which it was raised, in seconds since 1970.
    pub since: u64,
    /// Directory of the control group for threads on its CPUs; `None` without cpusets.
    pub group: Option<PathBuf>,
    /// Changes that failed when it was raised, with reasons.
    pub refused: Vec<Refused>,
    /// CPUs that are not shielded.
    #[serde(with = "as_text")]
    pub rest: CpuList,
    /// Start time of the youngest thread that existed before the shield: see [`sordino_sched::ThreadIdentity`].
    pub(crate) youngest: u64,
    /// CPUs to which each interrupt was delivered before, by file.
    pub(crate) landed: BTreeMap<PathBuf, String>,
}

/// A change that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Description of the change.
    pub what: String,
    /// Place of the value.
    pub place: String,
    /// Reason of the failure.
    pub reason: String,
}

impl Shield {
    /// Moves a process with all of its threads to the shielded CPUs. A thread may then choose one of them by its
    /// affinity.
    ///
    /// # Errors
    /// The kernel's error; root is required.
    pub fn take_in(&self, pid: u32) -> Result<(), Error> {
        self.group.as_deref().map_or(Ok(()), |group| join(group, pid))
    }

    /// Moves a process away from the shielded CPUs.
    ///
    /// # Errors
    /// The kernel's error; root is required.
    pub fn send_out(&self, pid: u32) -> Result<(), Error> {
        let Some(mount) = self.group.as_deref().and_then(Path::parent) else { return Ok(()) };
        let system = mount.join(SYSTEM);
        join(if system.is_dir() { &system } else { mount }, pid)
    }

    /// Returns the number of threads in the shield's control group.
    pub(crate) fn members(&self) -> usize {
        let Some(group) = &self.group else { return 0 };
        let lists =
            ["tasks", "cgroup.threads", "cgroup.procs"].map(|name| fs::read_to_string(group.join(name)));
        lists.into_iter().find_map(Result::ok).map_or(0, |list| list.lines().count())
    }

    /// Permits all CPUs to threads that inherited the restricted affinity of their creator while the shield was up:
    /// kernel threads and, without control groups, all threads.
    pub(crate) fn free_new_threads(&self) -> Result<(), Error> {
        let machine = Machine::read()?;
        let inherited = |task: &&RunningThread| {
            let is_confined = (task.of_kernel || self.group.is_none()) && task.affinity == self.rest;
            is_confined && !task.bound && task.thread.started > self.youngest
        };
        for task in machine.tasks.iter().filter(inherited) {
            // A thread that has exited or cannot be moved needs nothing.
            let _ = task.thread.set_affinity(&machine.online);
        }
        Ok(())
    }

    /// Returns the interrupts that are delivered to other CPUs than before.
    pub(crate) fn moved_interrupts(&self) -> Vec<Remaining> {
        let now = |file: &Path| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
        let moved = self.landed.iter().filter_map(|(file, before)| {
            let now = now(file).filter(|now| now != before)?;
            Some(Remaining { what: file.display().to_string(), before: before.clone(), now })
        });
        moved.collect()
    }
}

/// Reads the CPUs to which each interrupt is delivered now, by file.
pub(crate) fn landed(machine: &Machine) -> BTreeMap<PathBuf, String> {
    let files =
        machine.entries("proc/irq").into_iter().map(|directory| directory.join("effective_affinity_list"));
    files.filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?.trim().to_owned()))).collect()
}

fn join(group: &Path, pid: u32) -> Result<(), Error> {
    let file = group.join("cgroup.procs");
    fs::write(&file, pid.to_string()).map_err(Error::io(&file))
}
