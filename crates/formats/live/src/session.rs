//! Live readers of a session, side by side.
//!
//! The recorder writes each piece, the records since the last request, once and for one reader: the holder of the lock
//! `follower`. That reader hands the piece on to all others before it removes it, so that any number of readers costs
//! the recorder as much as one.
//!
//! ```text
//! NAME/live                 the piece, as the recorder wrote it
//! NAME/watchers/PID-N/lock  locked as long as this reader lives
//! NAME/watchers/PID-N/7     a piece that it has not read yet: links to the files of the piece
//! NAME/watchers/PID-N/missed  exists if pieces were not handed on, because too many waited
//! ```

use crate::Error;
use rustix::fs::{AtFlags, FlockOperation, flock, linkat};
use rustix::io::Errno;
use sordino_dirfd::Dir;
use sordino_intake::runtime::{is_session_name, runtime_dir};
use sordino_session::{Reply, Request, ask};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Maximum number of pieces that wait for a reader.
const WAITING_MAX: usize = 64;
/// Maximum depth of the directories in a piece.
const DEPTH_MAX: usize = 8;
/// Time within which a recorder usually replies.
const PROMPT: Duration = Duration::from_millis(500);
/// Time without pieces after which the reason is shown.
const SILENT: Duration = Duration::from_secs(3);
const WATCHERS: &str = "watchers";
const LIVE: &str = "live";
const LOCK: &str = "lock";
const MISSED: &str = "missed";

/// A session that others record.
#[derive(Clone, Debug)]
pub struct LiveSession {
    runtime: PathBuf,
}

/// A reader that shares the session's pieces with others. Its directory is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    session: LiveSession,
    name: String,
    own: Dir,
    /// Locked as long as this reader lives.
    _lock: File,
    /// The request that the recorder has not replied to.
    pending: Option<PendingRequest>,
    /// The time at which the last pieces came.
    came: Instant,
}

/// A request for a piece, which a recorder that stands still never replies to.
#[derive(Debug)]
struct PendingRequest {
    reply: Receiver<Result<Reply, sordino_collect::Error>>,
    /// Excludes requests of other readers until the piece is handed on.
    _lock: File,
}

impl LiveSession {
    /// Returns the session of this name, whether it is running or not; `None` if there is none.
    pub fn find(name: &str) -> Option<Self> {
        let runtime = runtime_dir().join(name);
        (is_session_name(name) && Dir::open_own(&runtime).is_ok_and(|dir| dir.has("session.json")))
            .then_some(Self { runtime })
    }

    /// Returns true if the session's recorder runs.
    pub fn is_running(&self) -> bool {
        let lock = self.dir().and_then(|dir| dir.read(LOCK));
        lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
    }

    /// Sends a request to the session's recorder, and returns the reply.
    ///
    /// # Errors
    /// The recorder does not reply, or not in time.
    pub fn ask(&self, request: &Request) -> Result<Reply, Error> {
        Ok(ask(&self.runtime, request)?)
    }

    fn dir(&self) -> io::Result<Dir> {
        Dir::open_own(&self.runtime)
    }

    /// Locks the session for a request; `None` if another reader has the lock.
    fn lock(&self) -> io::Result<Option<File>> {
        let dir = self.dir()?;
        let file = match dir.edit("follower") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => dir.create("follower"),
            file => file,
        }?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Watcher {
    /// Registers a reader: it gets all pieces from now on, whoever requests them.
    pub(crate) fn register(session: LiveSession) -> io::Result<Self> {
        let dir = session.dir()?;
        let watchers = match dir.make_new(WATCHERS) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.dir(WATCHERS)?,
            made => made?,
        };
        let pid = std::process::id();
        let name = (0..).map(|number| format!("{pid}-{number}")).find(|name| !watchers.has(name));
        let name = name.unwrap_or_default();
        let own = watchers.make_new(&name)?;
        let lock = own.create(LOCK)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { session, name, own, _lock: lock, pending: None, came: Instant::now() })
    }

    /// Returns the pieces that wait for this reader, oldest first. Requests one if there is none and no other reader
    /// requests them; a recorder that does not reply within half a second has replied at a later call.
    pub(crate) fn pieces(&mut self) -> Result<Vec<PathBuf>, Error> {
        let runtime = &self.session.runtime;
        if self.pending.is_none()
            && numbers(&self.own)?.is_empty()
            && let Some(lock) = self.session.lock()?
        {
            self.pending = Some(PendingRequest::send(runtime.clone(), lock));
        }
        match self.pending.as_ref().map(|pending| pending.reply.recv_timeout(PROMPT)) {
            None | Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) => self.pending = None,
            Some(Ok(reply)) => {
                let _pending = self.pending.take();
                reply?;
                hand_on(runtime)?;
                Dir::remove(&runtime.join(LIVE))?;
            }
        }
        let numbers = numbers(&self.own)?;
        if !numbers.is_empty() {
            self.came = Instant::now();
        }
        Ok(numbers.into_iter().map(|number| self.own.path().join(number.to_string())).collect())
    }

    /// Returns the reason why no pieces come, if there have been none for some seconds.
    pub(crate) fn silence(&self) -> Option<&'static str> {
        let reason = match self.pending.is_some() {
            true => "the recorder does not reply: it is stopped, or waits for a disk",
            false => "another reader has the session and hands nothing on: end it, or let it go on",
        };
        (self.came.elapsed() > SILENT).then_some(reason)
    }

    /// Removes a piece that was read.
    pub(crate) fn remove(&self, piece: &Path) {
        let _ = Dir::remove(piece);
    }

    /// Returns true if pieces were not handed on since the last call.
    pub(crate) fn has_missed(&self) -> bool {
        self.own.remove_file(MISSED).is_ok()
    }
}

impl PendingRequest {
    fn send(runtime: PathBuf, lock: File) -> Self {
        let (sender, reply) = channel();
        std::thread::spawn(move || {
            // The reader may have ended.
            let _ = sender.send(ask(&runtime, &Request::Live));
        });
        Self { reply, _lock: lock }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Ok(watchers) = self.session.dir().and_then(|dir| dir.dir(WATCHERS)) else { return };
        let _ = watchers.remove_all(&self.name);
        // It stays if another reader has a directory there.
        let _ = self.session.dir().and_then(|dir| dir.remove_dir(WATCHERS));
    }
}

/// Hands the piece of the session called `name` on to all other readers. They lose the piece if that fails, as when the
/// session ends.
pub fn hand_on_in(name: &str) {
    let _ = hand_on(&runtime_dir().join(name));
}

/// Hands the session's piece on to all registered readers. Directories of readers that were killed are removed.
fn hand_on(runtime: &Path) -> io::Result<()> {
    let session = Dir::open_own(runtime)?;
    let watchers = match session.dir(WATCHERS) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        watchers => watchers?,
    };
    let piece = session.dir(LIVE)?;
    for name in watchers.names()? {
        let Ok(watcher) = watchers.dir(&name) else { continue };
        if is_dead(&watcher) {
            let _ = watchers.remove_all(&name);
            continue;
        }
        let waiting = numbers(&watcher)?;
        if waiting.len() >= WAITING_MAX {
            let _ = watcher.create(MISSED);
            continue;
        }
        // The name comes last: a reader sees whole pieces only.
        const NEW: &str = ".new";
        let _ = watcher.remove_all(NEW);
        link_all(&piece, &watcher.make_new(NEW)?, DEPTH_MAX)?;
        watcher.rename(NEW, &waiting.last().map_or(0, |last| last + 1).to_string())?;
    }
    Ok(())
}

/// Returns true if the reader does not live any more. One that has no lock yet is about to get it.
fn is_dead(watcher: &Dir) -> bool {
    let lock = watcher.read(LOCK);
    lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

/// Returns the numbers of the pieces that wait, in order.
fn numbers(watcher: &Dir) -> io::Result<Vec<u64>> {
    let names = watcher.names()?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Links all files of a directory, and of those in it, into another.
fn link_all(from: &Dir, to: &Dir, depth: usize) -> io::Result<()> {
    for name in from.names()? {
        match from.dir(&name) {
            Ok(inner) if depth > 0 => link_all(&inner, &to.make_new(&name)?, depth - 1)?,
            Ok(_) => {}
            Err(_) => linkat(from, &name, to, &name, AtFlags::empty())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// Makes a session with a piece, and returns it with its directory.
    fn session() -> (tempfile::TempDir, LiveSession) {
        let place = tempfile::tempdir().unwrap();
        let session = LiveSession { runtime: place.path().to_owned() };
        let dir = session.dir().unwrap();
        let user = dir.make_new(LIVE).unwrap().make_new("user").unwrap();
        user.create("cpu0").unwrap().write_all(b"events").unwrap();
        (place, session)
    }

    fn waiting(watcher: &Watcher) -> Vec<u64> {
        numbers(&watcher.own).unwrap()
    }

    #[test]
    fn every_reader_gets_every_piece_and_leaves_nothing_behind() {
        let (place, session) = session();
        let readers = [0, 1].map(|_| Watcher::register(session.clone()).unwrap());
        hand_on(place.path()).unwrap();
        hand_on(place.path()).unwrap();
        for reader in &readers {
            assert_eq!(waiting(reader), [0, 1]);
            let mut text = String::new();
            reader.own.read("1/user/cpu0").unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "events");
            reader.remove(&reader.own.path().join("0"));
            assert_eq!(waiting(reader), [1]);
        }
        drop(readers);
        assert!(!place.path().join(WATCHERS).exists());
    }

    #[test]
    fn a_reader_that_stands_still_misses_pieces_and_learns_it() {
        let (place, session) = session();
        let reader = Watcher::register(session).unwrap();
        assert!(!reader.has_missed());
        (0..WAITING_MAX + 2).for_each(|_| hand_on(place.path()).unwrap());
        assert_eq!(waiting(&reader).len(), WAITING_MAX);
        assert!(reader.has_missed() && !reader.has_missed());
    }

    #[test]
    fn the_directory_of_a_reader_that_was_killed_is_removed() {
        let (place, session) = session();
        let dir = session.dir().unwrap();
        dir.make_new(WATCHERS).unwrap().make_new("1-0").unwrap().create(LOCK).unwrap();
        hand_on(place.path()).unwrap();
        assert!(!place.path().join("watchers/1-0").exists());
    }
}
