//! Persistent data of a shield that is up.

use crate::apply::{ChangeObserver, ChangeOutcome, Done, apply};
use crate::plan::{check_permission, check_root};
use crate::restore::{Lowered, remaining, restore};
use crate::shield::{Refused, Shield, landed};
use crate::{Change, Error, Machine, ShieldRequest, plan};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use sordino_undo::Journal;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Directory of a shield's data. A reboot, which undoes the shield, clears the directory as well.
const DIRECTORY: &str = "/run/sordino";

/// Directory with the description of the machine's shield, and with the steps that undo it.
///
/// | file | content |
/// |---|---|
/// | `shield.journal` | steps that undo the shield: each is written before its change is made. Only root can read it |
/// | `shield.json` | description of the shield: it is created after all changes were made |
/// | `shield.lowering` | the same description during lowering: it is renamed before the first step is undone |
///
/// A journal without `shield.json` is that of a process that died: [`up`](Self::up) and [`down`](Self::down) undo it
/// first, [`status`](Self::status) reports it. One process at a time changes anything: the directory is locked
/// meanwhile.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
}

/// Result of raising a shield.
#[derive(Clone, Debug)]
pub struct Raised {
    /// Description of the shield.
    pub shield: Shield,
    /// Changes in the order in which they were made.
    pub done: Vec<Done>,
}

impl Raised {
    /// Returns the changes that the kernel accepted but that read back differently, with that value.
    pub fn differing(&self) -> impl Iterator<Item = (&Change, &str)> {
        self.done.iter().filter_map(|done| match &done.outcome {
            ChangeOutcome::Differs(now) => Some((&done.change, now.as_str())),
            _ => None,
        })
    }
}

impl Default for Store {
    /// Uses the machine's directory, `/run/sordino`.
    fn default() -> Self {
        Self { directory: DIRECTORY.into() }
    }
}

/// Returns the shield that is up; `None` if there is none, or if that can't be read.
pub fn current() -> Option<Shield> {
    Store::default().shield().ok().flatten()
}

impl Store {
    /// Reads the shield that is up. One that is just being raised or lowered is not up.
    ///
    /// # Errors
    /// Returns an error if its description cannot be read.
    pub fn shield(&self) -> Result<Option<Shield>, Error> {
        // A description of another boot has no journal.
        match read(&self.description())? {
            Some(shield) if self.has_journal()? => Ok(Some(shield)),
            _ => Ok(None),
        }
    }

    /// Returns true if there is a journal of this boot. Users other than root cannot read it, only its existence.
    fn has_journal(&self) -> Result<bool, Error> {
        if !geteuid().is_root() {
            return Ok(self.journal().exists());
        }
        Ok(Journal::open(&self.journal())?.is_some())
    }

    /// Checks that [`up`](Self::up) would start: the request can be met, no shield is up, and this process may make the
    /// changes.
    ///
    /// # Errors
    /// Returns the reason why it would not.
    pub fn may_raise(&self, request: &ShieldRequest) -> Result<(), Error> {
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

    /// Undoes the changes of a process that died while it raised or lowered a shield. `None` if there were none.
    ///
    /// # Errors
    /// Returns an error if the changes cannot be undone, or if another process is at work.
    pub fn recover(&mut self) -> Result<Option<Lowered>, Error> {
        if !self.is_unfinished() {
            return Ok(None);
        }
        let _lock = self.lock()?;
        self.settle()
    }

    /// Raises a shield. Each change is journalled before it is made; if this process dies, the next call of a
    /// [`Store`]'s method undoes the changes. A failure or an interruption halfway is undone before this returns.
    ///
    /// Reads all threads once for each knob; stops early if `watch` is interrupted.
    ///
    /// # Errors
    /// Returns the reason why there is no shield; nothing is changed then.
    pub fn up(&mut self, request: &ShieldRequest, watch: &mut dyn ChangeObserver) -> Result<Raised, Error> {
        check_root()?;
        let _lock = self.lock()?;
        // An earlier shield goes first: its remains may prevent the new one.
        if let Some(lowered) = self.settle()?.filter(|lowered| !lowered.failures.is_empty()) {
            let reason = "an earlier shield could not be lowered".to_owned();
            return Err(Error::NotUndone { reason, failures: lowered.failures });
        }
        self.may_raise(request)?;
        let machine = Machine::read()?;
        let path = self.journal();
        // Files of another boot. A description beside the new journal would mean that all changes are made.
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

    /// Lowers the shield, or undoes the changes of a process that died, and reads back the result.
    ///
    /// # Errors
    /// [`Error::NotUp`], or the reason why the shield could not be lowered.
    pub fn down(&mut self) -> Result<Lowered, Error> {
        if !self.journal().exists() && !self.is_unfinished() {
            return Err(Error::NotUp);
        }
        check_root()?;
        let _lock = self.lock()?;
        self.lower()?.ok_or(Error::NotUp)
    }

    /// Undoes the changes of a process that died. `None` if there were none. The caller holds the lock.
    pub(crate) fn settle(&mut self) -> Result<Option<Lowered>, Error> {
        if self.is_unfinished() { self.lower() } else { Ok(None) }
    }

    /// Returns true if there are remains of a shield that is not up.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.description().exists() && (self.journal().exists() || self.lowering().exists())
    }

    fn lower(&mut self) -> Result<Option<Lowered>, Error> {
        let (description, lowering) = (self.description(), self.lowering());
        // A journal that cannot be read leaves everything unchanged.
        let journal = Journal::open(&self.journal())?;
        if description.exists() {
            // If this process dies from now on, the next one finds the shield unfinished.
            fs::rename(&description, &lowering).map_err(Error::io(&description))?;
        }
        // The description is needed for the report only; the journal alone undoes.
        let shield = read(&lowering).ok().flatten();
        let members = shield.as_ref().map_or(0, Shield::members);
        let mut lowered = journal.map(|journal| undo(journal, members)).transpose()?;
        if let Some(shield) = &shield {
            // Threads that cannot be read do no further harm.
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

    /// Returns true if another process is changing the machine. A user who may not open the directory never learns
    /// that.
    pub(crate) fn is_locked(&self) -> bool {
        let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
        let Ok(directory) = File::options().read(true).custom_flags(flags).open(&self.directory) else {
            return false;
        };
        flock(&directory, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    /// Locks the directory until the result is dropped.
    pub(crate) fn lock(&self) -> Result<StoreLock, Error> {
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
                // The previous holder of the lock has removed the directory.
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
                return Ok(StoreLock { _directory: directory, path: path.clone() });
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

    /// Writes the description atomically, readable by everybody.
    fn describe(&self, shield: &Shield) -> Result<(), Error> {
        let (path, partial) = (self.description(), self.partial());
        let text = serde_json::to_vec_pretty(shield).map_err(|error| Error::io(&path)(error.into()))?;
        fs::write(&partial, text).map_err(Error::io(&partial))?;
        fs::set_permissions(&partial, Permissions::from_mode(0o644)).map_err(Error::io(&partial))?;
        fs::rename(&partial, &path).map_err(Error::io(&path))
    }
}

/// Exclusive right to change the store.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _directory: File,
    path: PathBuf,
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Removes the directory if it is empty.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Checks that a directory belongs to this user and that nobody else can write to it. Its mode lets others read the
/// files in it but not open the directory itself, because whoever can open it could lock it forever.
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

/// Reads a shield's description; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Shield>, Error> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.map_err(Error::io(path))?,
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| Error::io(path)(error.into()))
}

/// Removes a file if it exists.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path)(error)),
        _ => Ok(()),
    }
}

/// Carries out a journal's steps, and reads back the values.
fn undo(journal: Journal, members: usize) -> Result<Lowered, Error> {
    let (path, steps) = (journal.path().to_owned(), journal.steps().to_vec());
    let failures = journal.undo(restore).map_err(Error::io(path))?;
    let succeeded = |step: &&sordino_undo::UndoStep| !failures.iter().any(|failure| failure.step == **step);
    let remaining = steps.iter().filter(succeeded).filter_map(remaining).collect();
    Ok(Lowered { steps: steps.len(), remaining, landed: Vec::new(), members, failures })
}

/// Undoes the changes that were made before `error`.
fn undone(journal: Journal, error: Error) -> Error {
    match journal.undo(restore) {
        Ok(failures) if failures.is_empty() => Error::Undone(Box::new(error)),
        Ok(failures) => Error::NotUndone { reason: error.to_string(), failures },
        Err(io) => Error::NotUndone { reason: format!("{error}; {io}"), failures: Vec::new() },
    }
}

fn refused(done: &Done) -> Option<Refused> {
    let reason = match &done.outcome {
        ChangeOutcome::Refused(reason) => reason.clone(),
        ChangeOutcome::Differs(now) => format!("it is '{now}' again"),
        _ => return None,
    };
    let Change { what, place, .. } = &done.change;
    Some(Refused { what: what.clone(), place: place.to_string(), reason })
}
