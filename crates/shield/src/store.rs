//! What is kept of a shield while it is up.

use crate::apply::{Done, Outcome, Watch, apply};
use crate::plan::{check_permission, check_root};
use crate::restore::{Lowered, remaining, restore};
use crate::shield::{Refused, Shield, landed};
use crate::{Change, Error, Machine, Request, plan};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use sordino_undo::Journal;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where everything of a shield's is kept. A reboot, which undoes it, clears that, too.
const DIRECTORY: &str = "/run/sordino";

/// The directory in which the machine's shield is described, and how to undo it.
///
/// | file | what it says |
/// |---|---|
/// | `shield.journal` | the steps that undo it: each is there before its change is made. Root's alone |
/// | `shield.json` | a shield is up: it appears when all changes are made |
/// | `shield.lowering` | the same while it is lowered: it is renamed before the first step is undone |
///
/// A journal without `shield.json` is that of a process that died: [`up`](Self::up) and [`down`](Self::down) undo it
/// first, [`status`](Self::status) reports it. One process at a time changes anything: the directory is locked meanwhile.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
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
    /// What the kernel took, and something else holds: with that.
    pub fn differing(&self) -> impl Iterator<Item = (&Change, &str)> {
        self.done.iter().filter_map(|done| match &done.outcome {
            Outcome::Differs(now) => Some((&done.change, now.as_str())),
            _ => None,
        })
    }
}

impl Default for Store {
    /// The machine's.
    fn default() -> Self {
        Self { directory: DIRECTORY.into() }
    }
}

impl Store {
    /// The shield that is up, as far as anybody can read that. One that is just being raised or lowered is not.
    ///
    /// # Errors
    /// If its description can't be read.
    pub fn shield(&self) -> Result<Option<Shield>, Error> {
        // Another boot's would have no journal.
        match read(&self.description())? {
            Some(shield) if self.has_journal()? => Ok(Some(shield)),
            _ => Ok(None),
        }
    }

    /// Whether this boot's journal is there. Only root may read it; others learn no more than that there is one.
    fn has_journal(&self) -> Result<bool, Error> {
        if !geteuid().is_root() {
            return Ok(self.journal().exists());
        }
        Ok(Journal::open(&self.journal())?.is_some())
    }

    /// Whether [`up`](Self::up) would begin: what is asked for can be had, no shield is up, and the right to change it is there.
    ///
    /// # Errors
    /// Why not.
    pub fn may_raise(&self, request: &Request) -> Result<(), Error> {
        let machine = Machine::read()?;
        let planned = plan(&machine, request)?;
        if let Some(shield) = self.shield()? {
            return Err(Error::Up { cpus: shield.request.cpus });
        }
        if let Some(group) = machine.cpusets.own_groups().into_iter().find(|group| group.exists()) {
            return Err(Error::GroupThere { group });
        }
        check_permission(&planned)
    }

    /// Undoes what a process left that died while it raised or lowered a shield. `None`: there was nothing.
    ///
    /// # Errors
    /// If it can't be undone, or somebody is at work.
    pub fn recover(&mut self) -> Result<Option<Lowered>, Error> {
        if !self.is_unfinished() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.settle()
    }

    /// Raises a shield. Each change is noted before it is made; whenever this process dies, the next call of a [`Store`]'s undoes it.
    /// What fails or is interrupted halfway is undone before this returns.
    ///
    /// Looks at all threads once for each knob; ends early if `watch` wants that.
    ///
    /// # Errors
    /// Why there is no shield; nothing is changed then.
    pub fn up(&mut self, request: &Request, watch: &mut dyn Watch) -> Result<Raised, Error> {
        check_root()?;
        let _lock = self.lock()?;
        // First: what was left may stand in the way of what is asked for.
        if let Some(lowered) = self.settle()?.filter(|lowered| !lowered.failures.is_empty()) {
            let reason = "an earlier shield could not be lowered".to_owned();
            return Err(Error::NotUndone { reason, failures: lowered.failures });
        }
        self.may_raise(request)?;
        let machine = Machine::read()?;
        let path = self.journal();
        // Another boot's. A description beside the new journal would say that all changes are made.
        for left in [self.description(), self.lowering(), path.clone()] {
            remove(&left)?;
        }
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
        if !self.journal().exists() && !self.is_unfinished() {
            return Err(Error::NotUp);
        }
        check_root()?;
        let _lock = self.lock()?;
        self.lower()?.ok_or(Error::NotUp)
    }

    /// Undoes what a process that died left. `None`: nothing did. To be called with the lock.
    pub(crate) fn settle(&mut self) -> Result<Option<Lowered>, Error> {
        if self.is_unfinished() { self.lower() } else { Ok(None) }
    }

    /// Whether there is anything of a shield that is not up.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.description().exists() && (self.journal().exists() || self.lowering().exists())
    }

    fn lower(&mut self) -> Result<Option<Lowered>, Error> {
        let (description, lowering) = (self.description(), self.lowering());
        // One that can't be read leaves all as it is.
        let journal = Journal::open(&self.journal())?;
        if description.exists() {
            // From now on it is one that a dead process left.
            fs::rename(&description, &lowering).map_err(Error::io(&description))?;
        }
        // What it tells is for the report; the journal alone undoes.
        let shield = read(&lowering).ok().flatten();
        let members = shield.as_ref().map_or(0, Shield::members);
        let mut lowered = journal.map(|journal| undo(journal, members)).transpose()?;
        if let Some(shield) = &shield {
            // Without a look at the threads, nothing else is wrong.
            let _ = shield.free_new_threads();
            if let Some(lowered) = &mut lowered {
                lowered.landed = shield.moved_interrupts();
            }
        }
        for left in [lowering, self.partial()] {
            remove(&left)?;
        }
        Ok(lowered)
    }

    /// Returns true if another process is changing the machine. A user who may not open the directory never learns that.
    pub(crate) fn is_locked(&self) -> bool {
        let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
        let Ok(directory) = File::options().read(true).custom_flags(flags).open(&self.directory) else {
            return false;
        };
        flock(&directory, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Held as long as the result is.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = &self.directory;
        loop {
            match DirBuilder::new().mode(0o711).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io(path)(error));
                }
                _ => {}
            }
            let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
            let directory = match File::options().read(true).custom_flags(flags).open(path) {
                // Whoever had the lock before us has removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                result => result.map_err(Error::io(path))?,
            };
            own(&directory).map_err(Error::io(path))?;
            match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(Error::Busy { path: path.clone() }),
                result => result.map_err(|errno| Error::io(path)(errno.into()))?,
            }
            let inode = |metadata: io::Result<fs::Metadata>| metadata.map(|metadata| metadata.ino()).ok();
            if inode(directory.metadata()) == inode(fs::metadata(path)) {
                return Ok(Lock { _directory: directory, path: path.clone() });
            }
        }
    }

    fn journal(&self) -> PathBuf {
        self.directory.join("shield.journal")
    }

    fn description(&self) -> PathBuf {
        self.directory.join("shield.json")
    }

    fn lowering(&self) -> PathBuf {
        self.directory.join("shield.lowering")
    }

    fn partial(&self) -> PathBuf {
        self.directory.join("shield.partial")
    }

    /// There at once, whole, and for everybody to read.
    fn describe(&self, shield: &Shield) -> Result<(), Error> {
        let (path, partial) = (self.description(), self.partial());
        let text = serde_json::to_vec_pretty(shield).map_err(|error| Error::io(&path)(error.into()))?;
        fs::write(&partial, text).map_err(Error::io(&partial))?;
        fs::set_permissions(&partial, Permissions::from_mode(0o644)).map_err(Error::io(&partial))?;
        fs::rename(&partial, &path).map_err(Error::io(&path))
    }
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

/// Sees that a directory is this user's, and that nobody else can write to it. Others may read what is in it, and not open it: whoever
/// could, could lock it for ever.
fn own(directory: &File) -> io::Result<()> {
    let found = directory.metadata()?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != geteuid().as_raw() || mode & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "it belongs to user {owner}, with mode {mode:o}: others could write there; see what they did, then remove it"
        )));
    }
    if mode == 0o711 { Ok(()) } else { directory.set_permissions(Permissions::from_mode(0o711)) }
}

/// A shield's description; `None` if it is not there.
fn read(path: &Path) -> Result<Option<Shield>, Error> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(Error::io(path))?,
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| Error::io(path)(error.into()))
}

/// Removes a file, if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Undoes what a journal holds, and looks whether that holds.
fn undo(journal: Journal, members: usize) -> Result<Lowered, Error> {
    let (path, steps) = (journal.path().to_owned(), journal.steps().to_vec());
    let failures = journal.undo(restore).map_err(Error::io(path))?;
    let succeeded = |step: &&sordino_undo::Step| !failures.iter().any(|failure| failure.step == **step);
    let remaining = steps.iter().filter(succeeded).filter_map(remaining).collect();
    Ok(Lowered { steps: steps.len(), remaining, landed: Vec::new(), members, failures })
}

/// Undoes what was done before `error`.
fn undone(journal: Journal, error: Error) -> Error {
    match journal.undo(restore) {
        Ok(failures) if failures.is_empty() => Error::Undone(Box::new(error)),
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
