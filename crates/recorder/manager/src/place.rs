//! The directory of a session, below the user's runtime directory.
//!
//! ```text
//! NAME/session.json   the options of its start
//! NAME/lock           locked as long as its recorder runs
//! NAME/log            standard error of its recorder, and the output of a command that it started
//! NAME/control        the socket for requests to its recorder
//! NAME/follower       locked by the live reader
//! NAME/live           the events that the live reader reads
//! NAME/programs       the socket at which programs register
//! ```
//!
//! Programs of all users can connect to `programs` in a session of root; everything else is accessible to its owner
//! alone.

use crate::Error;
use crate::files::SessionFiles;
use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use sordino_inspect::locks::holders;
use sordino_intake::runtime::{is_session_name, remove_session_dir, runtime_dir, session_dir};
use sordino_registration::SOCKET;
use sordino_session::{Reply, Request, send_request};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Attempts to get a lock, one each hundredth of a second.
const TRIES: u32 = 20;
/// Interval at which the holder of the lock is checked while waiting for a recorder to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The file with a session's definition, and its name until it is complete.
const DEFINITION: (&str, &str) = ("session.json", "session.new");
const LOCK: &str = "lock";
const LOG: &str = "log";

/// A session's name and its directory.
#[derive(Clone, Debug)]
pub struct SessionPlace {
    /// The name of the session.
    pub name: String,
    path: PathBuf,
}

/// The definition of a session: the options of its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Definition {
    /// Version of this structure.
    pub schema: u32,
    /// The arguments of `sordino start`, the session's name first.
    pub arguments: Vec<String>,
    /// The working directory of `sordino start`.
    pub directory: PathBuf,
    /// The directory for its recordings.
    pub output: PathBuf,
}

/// The state of a session's recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The recorder is running.
    Running,
    /// The recorder ended normally.
    Stopped,
    /// The recorder was killed before it could clean up.
    Died,
}

impl SessionPlace {
    /// Returns the directory of an existing session.
    pub fn of(name: &str) -> Result<Self, Error> {
        if is_session_name(name) && SessionFiles::of(name)?.is_some_and(|files| files.has(DEFINITION.0)) {
            return Ok(Self { name: name.to_owned(), path: runtime_dir().join(name) });
        }
        let others: Vec<String> = Self::all().into_iter().map(|place| place.name).collect();
        let hint = if others.is_empty() {
            format!("there is none; begin one with: sordino start {name}")
        } else {
            format!("there are: {}", others.join(", "))
        };
        Err(Error::Unusable(format!("there is no session '{name}': {hint}")))
    }

    /// Returns the directory of a session, and makes it if it does not exist.
    pub fn make(name: &str) -> Result<Self, Error> {
        Ok(Self { name: name.to_owned(), path: session_dir(name)? })
    }

    /// Returns this user's sessions in order of their names.
    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(runtime_dir()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_defined = |files: SessionFiles| files.has(DEFINITION.0);
        let is_known = |name: &String| {
            is_session_name(name) && SessionFiles::of(name).ok().flatten().is_some_and(is_defined)
        };
        let mut names: Vec<String> = names.filter(is_known).collect();
        names.sort_unstable();
        names.into_iter().map(|name| Self { path: runtime_dir().join(&name), name }).collect()
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the session was never started.
    pub fn is_new(&self) -> Result<bool, Error> {
        Ok(!self.files()?.has(DEFINITION.0))
    }

    fn files(&self) -> Result<SessionFiles, Error> {
        let gone = || Error::Unusable(format!("session '{}' has just been destroyed", self.name));
        SessionFiles::of(&self.name)?.ok_or_else(gone)
    }

    /// Opens the log of the session's recorder and of its command, to append to it.
    pub fn log(&self) -> Result<File, Error> {
        self.files()?.append(LOG)
    }

    /// Returns the last 4 KiB of the log.
    pub fn log_end(&self) -> Result<String, Error> {
        const MOST: u64 = 4096;
        let mut bytes = Vec::new();
        if let Some(mut log) = self.files()?.find(LOG)? {
            log.seek(SeekFrom::Start(log.metadata()?.len().saturating_sub(MOST)))?;
            log.take(MOST).read_to_end(&mut bytes)?;
        }
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Reads the options with which the session was started.
    ///
    /// # Errors
    /// The file does not exist, or can't be read.
    pub fn definition(&self) -> Result<Definition, Error> {
        let path = self.path.join(DEFINITION.0);
        let unreadable = |error: String| Error::Unusable(format!("{}: {error}", path.display()));
        let file = self.files()?.find(DEFINITION.0)?.ok_or_else(|| unreadable("no such file".to_owned()))?;
        let text = std::io::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
    }

    /// Stores the options with which the session is started.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn define(&self, definition: &Definition) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(definition)? + "\n";
        self.files()?.replace(DEFINITION.0, DEFINITION.1, &text)
    }

    /// Locks the session for a recorder; `None` if another process holds the lock.
    pub fn lock(&self) -> Result<Option<File>, Error> {
        self.take(LOCK)
    }

    /// Locks the session for a live reader; `None` if another process holds the lock.
    pub fn lock_to_follow(&self) -> Result<Option<File>, Error> {
        self.take("follower")
    }

    fn take(&self, lock: &str) -> Result<Option<File>, Error> {
        // Another sordino that checks the lock holds it for a moment.
        for _ in 0..TRIES {
            let files = self.files()?;
            let file = files.append(lock)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The directory may have been removed and made again since the file was opened.
                Ok(()) if files.is_current(lock, &file) => return Ok(Some(file)),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Returns the state of the session's recorder. One that ended normally has removed its socket `programs`.
    pub fn life(&self) -> Result<Life, Error> {
        let Some(files) = SessionFiles::of(&self.name)? else { return Ok(Life::Stopped) };
        let is_locked = |lock: File| {
            flock(&lock, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
        };
        Ok(match files.find(LOCK)?.is_some_and(is_locked) {
            true => Life::Running,
            false if files.has(SOCKET) => Life::Died,
            false => Life::Stopped,
        })
    }

    /// Sends a request to the session's recorder, and returns the reply.
    pub fn request(&self, request: &Request) -> Result<Reply, Error> {
        let hint = |what: &str| {
            format!("session '{name}' {what}: start it again with 'sordino start {name}'", name = self.name)
        };
        match self.life()? {
            Life::Running => {}
            Life::Stopped => return Err(Error::Unusable(hint("is stopped"))),
            Life::Died => return Err(Error::Unusable(hint("has ended, its recorder was killed"))),
        }
        match send_request(&self.path, request)? {
            Reply::Refused { reason } => Err(Error::Unusable(reason)),
            reply => Ok(reply),
        }
    }

    /// Waits until the recorder has ended, which may have much to write.
    ///
    /// # Errors
    /// Another user's process holds the recorder's lock: an older version let everybody open the file.
    pub fn wait(&self) -> Result<(), Error> {
        let mut look = Instant::now() + PATIENCE;
        while self.life()? == Life::Running {
            if Instant::now() > look {
                self.expect_no_stranger()?;
                look = Instant::now() + PATIENCE;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn expect_no_stranger(&self) -> Result<(), Error> {
        let Some(lock) = self.files()?.find(LOCK)? else { return Ok(()) };
        let user = geteuid().as_raw();
        let holders = holders(lock);
        let Some(stranger) =
            holders.into_iter().find(|holder| holder.user.is_some_and(|owner| owner != user))
        else {
            return Ok(());
        };
        let lock = self.path.join(LOCK);
        let text =
            format!("{} is locked by {stranger}: end that process, or remove the file", lock.display());
        Err(Error::Unusable(text))
    }

    /// Removes the session's directory; its recordings stay.
    pub fn remove(&self) -> Result<(), Error> {
        Ok(remove_session_dir(&self.name)?)
    }
}
