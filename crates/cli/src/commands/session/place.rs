//! Where a session is known: a directory of its own below the user's runtime directory.
//!
//! ```text
//! NAME/session.json   how it was started
//! NAME/lock           locked by its recorder as long as that lives
//! NAME/log            what its recorder, and a command that it started, had to say
//! NAME/control        where it is asked
//! NAME/follower       locked by who follows it
//! NAME/live           what that one is reading
//! NAME/programs       where programs announce themselves
//! ```

use crate::Failure;
use crate::failure::UNUSABLE;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sordino_collect::{Reply, Request, ask, is_session_name, remove_session_dir, runtime_dir, session_dir};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often it is tried to get a lock, each hundredth of a second.
const TRIES: u32 = 20;

/// A session's directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    path: PathBuf,
}

/// How a session was started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// Of this structure.
    pub(crate) schema: u32,
    /// What was typed behind the name.
    pub(crate) arguments: Vec<String>,
    /// In which directory.
    pub(crate) directory: PathBuf,
    /// Where its recordings go.
    pub(crate) output: PathBuf,
}

/// Whether a session's recorder lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It does.
    Running,
    /// It ended as it should.
    Stopped,
    /// It was killed.
    Died,
}

impl Place {
    /// The place of a session that is there.
    pub(crate) fn of(name: &str) -> Result<Self, Failure> {
        let place = Self { name: name.to_owned(), path: runtime_dir().join(name) };
        if is_session_name(name) && place.path.join("session.json").exists() {
            return Ok(place);
        }
        let others: Vec<String> = Self::all().into_iter().map(|place| place.name).collect();
        let hint = if others.is_empty() {
            format!("there is none; begin one with: sordino start {name}")
        } else {
            format!("there are: {}", others.join(", "))
        };
        Err(Failure::new(UNUSABLE, format!("there is no session '{name}': {hint}")))
    }

    /// The place of a session, made if it is not there.
    pub(crate) fn make(name: &str) -> Result<Self, Failure> {
        Ok(Self { name: name.to_owned(), path: session_dir(name)? })
    }

    /// This user's sessions, by name.
    pub(crate) fn all() -> Vec<Self> {
        let entries = fs::read_dir(runtime_dir()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> =
            names.filter(|name| runtime_dir().join(name).join("session.json").exists()).collect();
        names.sort_unstable();
        names.into_iter().map(|name| Self { path: runtime_dir().join(&name), name }).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What its recorder had to say.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn definition(&self) -> Result<Definition, Failure> {
        let path = self.path.join("session.json");
        let unreadable = |error: String| Failure::new(UNUSABLE, format!("{}: {error}", path.display()));
        let text = fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))
    }

    pub(crate) fn define(&self, definition: &Definition) -> Result<(), Failure> {
        let (path, new) = (self.path.join("session.json"), self.path.join("session.new"));
        fs::write(&new, serde_json::to_string_pretty(definition)? + "\n")?;
        Ok(fs::rename(new, path)?)
    }

    /// Takes the lock that says that its recorder lives; `None` if another has it.
    pub(crate) fn lock(&self) -> Result<Option<File>, Failure> {
        self.take("lock")
    }

    /// Takes the lock of the one process that follows; `None` if another has it.
    pub(crate) fn lock_to_follow(&self) -> Result<Option<File>, Failure> {
        self.take("follower")
    }

    fn take(&self, lock: &str) -> Result<Option<File>, Failure> {
        let path = self.path.join(lock);
        let inode = |found: std::io::Result<fs::Metadata>| found.ok().map(|found| found.ino());
        let is_there = |file: &File| inode(fs::metadata(&path)) == inode(file.metadata());
        // Who looks whether it is locked has it for a moment.
        for _ in 0..TRIES {
            let file = File::options().create(true).append(true).open(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Its directory may have been removed, and made anew, since it was opened.
                Ok(()) if is_there(&file) => return Ok(Some(file)),
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Whether its recorder lives. One that ended as it should has taken its socket with it.
    pub(crate) fn life(&self) -> Result<Life, Failure> {
        let lock = File::open(self.path.join("lock"));
        let is_running = match lock.map(|lock| flock(&lock, FlockOperation::NonBlockingLockShared)) {
            Ok(locked) => locked == Err(rustix::io::Errno::WOULDBLOCK),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error.into()),
        };
        Ok(match is_running {
            true => Life::Running,
            false if self.path.join("programs").exists() => Life::Died,
            false => Life::Stopped,
        })
    }

    /// Asks its recorder.
    pub(crate) fn ask(&self, request: &Request) -> Result<Reply, Failure> {
        let hint = |what: &str| {
            format!("session '{name}' {what}: go on with it by 'sordino start {name}'", name = self.name)
        };
        match self.life()? {
            Life::Running => {}
            Life::Stopped => return Err(Failure::new(UNUSABLE, hint("is stopped"))),
            Life::Died => return Err(Failure::new(UNUSABLE, hint("has died, its recorder was killed"))),
        }
        match ask(&self.path, request)? {
            Reply::Refused { reason } => Err(Failure::new(UNUSABLE, reason)),
            reply => Ok(reply),
        }
    }

    /// Waits until its recorder has ended.
    pub(crate) fn wait(&self) -> Result<(), Failure> {
        while self.life()? == Life::Running {
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Forgets the session; what it recorded stays.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        Ok(remove_session_dir(&self.name)?)
    }
}
