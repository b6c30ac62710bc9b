//! What is kept of a shield while it is up.

use crate::apply::{Done, Outcome, Watch, apply};
use crate::plan::check_permission;
use crate::request::as_text;
use crate::restore::{Lowered, Remaining, remaining, restore};
use crate::{Change, Error, Machine, Request, Task, plan};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sordino_sched::CpuList;
use sordino_undo::Journal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where everything of a shield's is kept. A reboot, which undoes it, clears that, too.
const DIRECTORY: &str = "/run/sordino";

/// The directory in which the machine's shield is described, and how to undo it.
///
/// It holds `shield.journal`, which has each step before its change is made, and `shield.json`, which is there from the moment at
/// which all changes are made to that at which they begin to be undone. A journal without the other is that of a process that
/// died: [`up`](Self::up), [`down`](Self::down) and [`status`](Self::status) undo it first. One process at a time changes anything:
/// the directory is locked meanwhile.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

/// The right to change the store, as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _directory: File,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nothing stays behind: it goes if it is empty.
        let _ = fs::remove_dir(&self.path);
    }
}

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
    /// When the youngest thread was started that was there before: see `sordino_sched::Thread`.
    youngest: u64,
    /// Where each interrupt was delivered before.
    landed: BTreeMap<PathBuf, String>,
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

/// What came of raising a shield.
#[derive(Clone, Debug)]
pub struct Raised {
    /// The shield.
    pub shield: Shield,
    /// Every change.
    pub done: Vec<Done>,
}

impl Raised {
    /// What the kernel did not take.
    pub fn refused(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().filter(|done| matches!(done.outcome, Outcome::Refused(_)))
    }

    /// What the kernel took, and something else holds.
    pub fn differing(&self) -> impl Iterator<Item = &Done> {
        self.done.iter().filter(|done| matches!(done.outcome, Outcome::Differs(_)))
    }
}

impl Store {
    /// The machine's.
    ///
    /// # Errors
    /// None yet.
    pub fn open() -> Result<Self, Error> {
        Ok(Self { directory: DIRECTORY.into() })
    }

    /// The shield that is up, as far as anybody can read that. One that is just being raised or lowered is not.
    ///
    /// # Errors
    /// If its description can't be read.
    pub fn shield(&self) -> Result<Option<Shield>, Error> {
        let path = self.description();
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            result => result.map_err(Error::io(&path))?,
        };
        // Another boot's would have no journal.
        if Journal::open(&self.journal())?.is_none() {
            return Ok(None);
        }
        let shield = serde_json::from_slice(&text).map_err(|error| Error::io(&path)(error.into()))?;
        Ok(Some(shield))
    }

    /// Whether [`up`](Self::up) would begin: what is asked for can be had, no shield is up, and the right to change it is there.
    ///
    /// # Errors
    /// Why not.
    pub fn may_raise(&self, request: &Request) -> Result<(), Error> {
        let planned = plan(&Machine::read()?, request)?;
        match self.shield()? {
            Some(shield) => Err(Error::Up { cpus: shield.request.cpus }),
            None => check_permission(&planned),
        }
    }

    /// Raises a shield. Each change is noted before it is made; whenever this process dies, the next call of a [`Store`]'s undoes it.
    /// What fails or is interrupted halfway is undone before this returns.
    ///
    /// Takes some 100 ms for some 100 threads; ends early if `watch` wants that.
    ///
    /// # Errors
    /// Why there is no shield; nothing is changed then.
    pub fn up(&mut self, request: &Request, watch: &mut dyn Watch) -> Result<Raised, Error> {
        self.may_raise(request)?;
        let _lock = self.lock()?;
        self.settle()?;
        // Things may have changed before the lock was ours.
        self.may_raise(request)?;
        let machine = Machine::read()?;
        let path = self.journal();
        // Another boot's. A description beside the new journal would say that all changes are made.
        remove(&self.description())?;
        remove(&path)?;
        let landed = landed(&machine);
        let mut journal = Journal::create(&path).map_err(Error::io(&path))?;
        let done = match apply(request, &mut journal, watch) {
            Ok(done) => done,
            Err(error) => return Err(undone(journal, error)),
        };
        let shield = Shield {
            request: request.clone(),
            since: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            group: machine.cpusets.shield(),
            refused: done.iter().filter_map(refused).collect(),
            rest: request.rest(&machine),
            youngest: machine.tasks.iter().map(|task| task.thread.started).max().unwrap_or_default(),
            landed,
        };
        match self.describe(&shield) {
            Ok(()) => Ok(Raised { shield, done }),
            Err(error) => Err(undone(journal, error)),
        }
    }

    /// Lowers the shield, or undoes what a process that died left of one, and reads back whether that holds.
    ///
    /// # Errors
    /// [`Error::NotUp`]; what else keeps it from being lowered.
    pub fn down(&mut self) -> Result<Lowered, Error> {
        if !self.journal().exists() {
            return Err(Error::NotUp);
        }
        let _lock = self.lock()?;
        self.lower()?.ok_or(Error::NotUp)
    }

    /// Undoes what a process that died left. `None`: nothing did. To be called with the lock.
    pub(crate) fn settle(&mut self) -> Result<Option<Lowered>, Error> {
        if self.description().exists() { Ok(None) } else { self.lower() }
    }

    fn lower(&mut self) -> Result<Option<Lowered>, Error> {
        let path = self.journal();
        let shield = self.shield().ok().flatten();
        // From now on it is one that a dead process left.
        remove(&self.description())?;
        let Some(journal) = Journal::open(&path)? else {
            return Ok(None);
        };
        let members = shield.as_ref().and_then(|shield| shield.group.as_deref()).map_or(0, members);
        let steps = journal.steps().to_vec();
        let failures = journal.undo(restore).map_err(Error::io(&path))?;
        if let Some(shield) = &shield {
            shield.free_new_threads()?;
        }
        let failed = |step: &&sordino_undo::Step| !failures.iter().any(|failure| failure.step == **step);
        Ok(Some(Lowered {
            steps: steps.len(),
            remaining: steps.iter().filter(failed).filter_map(remaining).collect(),
            landed: shield.map(|shield| moved(&shield.landed)).unwrap_or_default(),
            members,
            failures,
        }))
    }

    /// Held as long as the result is.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = &self.directory;
        loop {
            fs::create_dir_all(path).map_err(Error::io(path))?;
            let directory = File::open(path).map_err(Error::io(path))?;
            if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Err(Error::Busy { path: path.clone() });
            }
            // Whoever had the lock before us may have removed the directory.
            let inode =
                |metadata: std::io::Result<fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
            if inode(directory.metadata()) == inode(fs::metadata(path)) {
                return Ok(Lock { _directory: directory, path: path.clone() });
            }
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.join("shield.journal")
    }

    fn description(&self) -> PathBuf {
        self.directory.join("shield.json")
    }

    /// There at once, and whole.
    fn describe(&self, shield: &Shield) -> Result<(), Error> {
        let path = self.description();
        let partial = path.with_extension("partial");
        let text = serde_json::to_vec_pretty(shield).map_err(|error| Error::io(&path)(error.into()))?;
        fs::write(&partial, text).map_err(Error::io(&partial))?;
        fs::rename(&partial, &path).map_err(Error::io(&path))
    }
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Undoes what was done before `error`.
fn undone(journal: Journal, error: Error) -> Error {
    match journal.undo(restore) {
        Ok(failures) if failures.is_empty() => error,
        Ok(failures) => Error::NotUndone { reason: error.to_string(), failures },
        Err(io) => Error::NotUndone { reason: format!("{error}; {io}"), failures: Vec::new() },
    }
}

fn refused(done: &Done) -> Option<Refused> {
    let reason = match &done.outcome {
        Outcome::Refused(reason) => reason.clone(),
        Outcome::Differs(now) => format!("it is '{now}' again"),
        _ => return None,
    };
    let Change { what, place, .. } = &done.change;
    Some(Refused { what: what.clone(), place: place.to_string(), reason })
}

/// How many are in a control group.
pub(crate) fn members(group: &Path) -> usize {
    let lists = ["tasks", "cgroup.threads", "cgroup.procs"].map(|name| fs::read_to_string(group.join(name)));
    lists.into_iter().find_map(Result::ok).map_or(0, |list| list.lines().count())
}

/// Where each interrupt is delivered now.
fn landed(machine: &Machine) -> BTreeMap<PathBuf, String> {
    let files =
        machine.entries("proc/irq").into_iter().map(|directory| directory.join("effective_affinity_list"));
    files.filter_map(|file| Some((file.clone(), fs::read_to_string(file).ok()?.trim().to_owned()))).collect()
}

fn moved(before: &BTreeMap<PathBuf, String>) -> Vec<Remaining> {
    let now = |file: &Path| fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let moved = before
        .iter()
        .filter_map(|(file, before)| Some((file, before, now(file).filter(|now| now != before)?)));
    moved
        .map(|(file, before, now)| Remaining {
            what: file.display().to_string(),
            before: before.clone(),
            now,
        })
        .collect()
}

impl Shield {
    /// Gives all CPUs to threads that the kernel has made while its maker of threads was confined, and which inherited that.
    fn free_new_threads(&self) -> Result<(), Error> {
        let machine = Machine::read()?;
        let is_new = |task: &&Task| task.of_kernel && !task.bound && task.thread.started > self.youngest;
        for task in machine.tasks.iter().filter(is_new).filter(|task| task.affinity == self.rest) {
            // One that has ended or is the kernel's to move needs nothing.
            let _ = task.thread.set_affinity(&machine.online);
        }
        Ok(())
    }

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
        let system = mount.join(crate::machine::SYSTEM);
        join(if system.is_dir() { &system } else { mount }, pid)
    }
}

fn join(group: &Path, pid: u32) -> Result<(), Error> {
    let file = group.join("cgroup.procs");
    fs::write(&file, pid.to_string()).map_err(Error::io(&file))
}
