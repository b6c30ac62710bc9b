//! A shield that is up: what was asked for, and who may run in it.

use crate::machine::SYSTEM;
use crate::request::as_text;
use crate::{Error, Machine, Remaining, Request, Task};
use serde::{Deserialize, Serialize};
use sordino_sched::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A shield that is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shield {
    /// What was asked for.
    pub request: Request,
    /// When, in seconds since 1970.
    pub since: u64,
    /// The directory of the control group of what runs on its CPUs; `None` where there are no cpusets.
    pub group: Option<PathBuf>,
    /// What did not hold when it was raised, and why.
    pub refused: Vec<Refused>,
    /// The CPUs that are not shielded.
    #[serde(with = "as_text")]
    pub rest: CpuList,
    /// When the youngest thread was started that was there before: see [`sordino_sched::Thread`].
    pub(crate) youngest: u64,
    /// Where each interrupt was delivered before.
    pub(crate) landed: BTreeMap<PathBuf, String>,
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// What was to be changed.
    pub what: String,
    /// Where.
    pub place: String,
    /// Why it was not.
    pub reason: String,
}

impl Shield {
    /// Takes a process, with all its threads, to the shielded CPUs. A thread may then choose one of them.
    ///
    /// # Errors
    /// What the kernel says; it takes root.
    pub fn take_in(&self, pid: u32) -> Result<(), Error> {
        self.group.as_deref().map_or(Ok(()), |group| join(group, pid))
    }

    /// Takes a process away from the shielded CPUs.
    ///
    /// # Errors
    /// What the kernel says; it takes root.
    pub fn send_out(&self, pid: u32) -> Result<(), Error> {
        let Some(mount) = self.group.as_deref().and_then(Path::parent) else { return Ok(()) };
        let system = mount.join(SYSTEM);
        join(if system.is_dir() { &system } else { mount }, pid)
    }

    /// How many threads run in it.
    pub(crate) fn members(&self) -> usize {
        let Some(group) = &self.group else { return 0 };
        let lists =
            ["tasks", "cgroup.threads", "cgroup.procs"].map(|name| fs::read_to_string(group.join(name)));
        lists.into_iter().find_map(Result::ok).map_or(0, |list| list.lines().count())
    }

    /// Gives all CPUs to threads that were made under the shield by one that was confined by its affinity, and inherited that: those
    /// of the kernel's, and without control groups all.
    pub(crate) fn free_new_threads(&self) -> Result<(), Error> {
        let machine = Machine::read()?;
        let inherited = |task: &&Task| {
            let is_confined = (task.of_kernel || self.group.is_none()) && task.affinity == self.rest;
            is_confined && !task.bound && task.thread.started > self.youngest
        };
        for task in machine.tasks.iter().filter(inherited) {
            // One that has ended or is the kernel's to move needs nothing.
            let _ = task.thread.set_affinity(&machine.online);
        }
        Ok(())
    }

    /// Which interrupts are delivered elsewhere now.
    pub(crate) fn moved_interrupts(&self) -> Vec<Remaining> {
        let now = |file: &Path| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
        let moved = self.landed.iter().filter_map(|(file, before)| {
            let now = now(file).filter(|now| now != before)?;
            Some(Remaining { what: file.display().to_string(), before: before.clone(), now })
        });
        moved.collect()
    }
}

/// Where each interrupt is delivered now.
pub(crate) fn landed(machine: &Machine) -> BTreeMap<PathBuf, String> {
    let files =
        machine.entries("proc/irq").into_iter().map(|directory| directory.join("effective_affinity_list"));
    files.filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?.trim().to_owned()))).collect()
}

fn join(group: &Path, pid: u32) -> Result<(), Error> {
    let file = group.join("cgroup.procs");
    fs::write(&file, pid.to_string()).map_err(Error::io(&file))
}
