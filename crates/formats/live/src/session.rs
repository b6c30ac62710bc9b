//! Live readers of a session, side by side.
//!
//! The recorder writes each piece (the records since the last request) once, for one reader: the holder of the lock
//! `follower`. That reader hands the piece on to all others before it removes it, so the recorder's cost does not
//! depend on the number of readers.
//!
//! ```text
//! NAME/live                 the piece, as the recorder wrote it
//! NAME/watchers/PID-N/lock  locked as long as this reader lives
//! NAME/watchers/PID-N/7     a piece that it has not read yet: links to the files of the piece
//! NAME/watchers/PID-N/missed  exists if the last pieces were not handed on, for example as too many waited
//! NAME/watchers/PID-N/7/missed  exists if pieces before this one were not handed on
//! ```

use crate::Error;
use rustix::fs::{AtFlags, FlockOperation, flock, linkat};
use rustix::io::Errno;
use sordino_dirfd::Dir;
use sordino_intake::runtime::{is_session_name, runtime_dir};
use sordino_session::{Reply, Request, send_request};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Maximum number of pieces that wait for a reader.
const WAITING_MAX: usize = 64;
/// Maximum size of the pieces that wait for a reader, in bytes; one piece may be larger.
const WAITING_BYTES_MAX: u64 = 256 << 20;
/// Number of attempts to register a reader: another reader that ends may remove their common directory meanwhile, and a
/// dead process of the same id may have left a directory.
const ATTEMPTS: usize = 100;
/// Maximum depth of the directories in a piece.
const DEPTH_MAX: usize = 8;
/// Time within which a recorder usually replies.
const PROMPT: Duration = Duration::from_millis(500);
/// Time without pieces after which the reason is shown.
const SILENT: Duration = Duration::from_secs(3);
/// Number of the next reader of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);
const WATCHERS: &str = "watchers";
const LIVE: &str = "live";
const LOCK: &str = "lock";
const MISSED: &str = "missed";
/// Name of a lock that is not held yet.
const LOCK_NEW: &str = "lock.new";
/// Name of a piece that does not have all of its files yet.
const NEW: &str = ".new";

/// A session that others record.
#[derive(Clone, Debug)]
pub struct LiveSession {
    runtime: PathBuf,
}

/// A reader that shares the session's pieces with others. Its directory is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct SessionReader {
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

/// The process that delays the pieces of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The recorder does not reply.
    Recorder,
    /// Another reader has requested a piece, and does not hand it on.
    Reader,
}

/// A piece that waits for its reader.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The directory with the piece.
    pub(crate) path: PathBuf,
    /// True if pieces before it were not handed on.
    pub(crate) follows_gap: bool,
}

/// A request for a piece. A recorder that is stopped never replies to it.
#[derive(Debug)]
struct PendingRequest {
    reply: Receiver<Result<Reply, sordino_collect::Error>>,
    sent: Instant,
    /// Lock that excludes requests of other readers until the piece is handed on.
    _lock: File,
}

impl LiveSession {
    /// Returns the session of this name, running or not; `None` if there is none.
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
    pub fn request(&self, request: &Request) -> Result<Reply, Error> {
        Ok(send_request(&self.runtime, request)?)
    }

    fn dir(&self) -> io::Result<Dir> {
        Dir::open_own(&self.runtime)
    }

    /// Locks the session for a request; `None` if another reader has the lock.
    fn lock(&self) -> io::Result<Option<File>> {
        let dir = self.dir()?;
        let file = match dir.edit("follower") {
            Err(error) if error.kind() == ErrorKind::NotFound => dir.create("follower"),
            file => file,
        }?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl SessionReader {
    /// Registers a reader: it gets all pieces from now on, including those that others request.
    pub(crate) fn register(session: LiveSession) -> io::Result<Self> {
        let registered = (1..ATTEMPTS).find_map(|_| match Self::try_register(&session) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => None,
            registered => Some(registered),
        });
        registered.unwrap_or_else(|| Self::try_register(&session))
    }

    fn try_register(session: &LiveSession) -> io::Result<Self> {
        let dir = session.dir()?;
        let watchers = match dir.make_new(WATCHERS) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => dir.dir(WATCHERS)?,
            made => made?,
        };
        let name = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let own = watchers.make_new(&name)?;
        let lock = own.create(LOCK_NEW)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // A lock that nobody holds is that of a dead reader, so it gets its name when it is held.
        own.rename(LOCK_NEW, LOCK)?;
        Ok(Self { session: session.clone(), name, own, _lock: lock, pending: None, came: Instant::now() })
    }

    /// Returns the pieces that wait for this reader, oldest first. Requests one if there is none and no other reader
    /// requests them; a recorder that does not reply within half a second has replied at a later call.
    pub(crate) fn pieces(&mut self) -> Result<Vec<Piece>, Error> {
        let runtime = &self.session.runtime;
        if self.pending.is_none()
            && numbers(&self.own)?.is_empty()
            && let Some(lock) = self.session.lock()?
        {
            self.pending = Some(PendingRequest::send(runtime.clone(), lock));
        }
        match self.pending.as_ref().map(PendingRequest::wait) {
            None | Some(Err(RecvTimeoutError::Timeout)) => {}
            Some(Err(RecvTimeoutError::Disconnected)) => self.pending = None,
            Some(Ok(reply)) => {
                let _pending = self.pending.take();
                reply?;
                hand_on(runtime)?;
                // The recorder replaces a piece that is left.
                let _ = Dir::remove(&runtime.join(LIVE));
            }
        }
        let numbers = numbers(&self.own)?;
        if !numbers.is_empty() {
            self.came = Instant::now();
        }
        let piece = |number: u64| {
            let path = self.own.path().join(number.to_string());
            let follows_gap = path.join(MISSED).exists();
            Piece { path, follows_gap }
        };
        Ok(numbers.into_iter().map(piece).collect())
    }

    /// Returns the reason why no pieces come, if there have been none for some seconds.
    pub(crate) fn silence(&self) -> Option<Silence> {
        let reason = if self.pending.is_some() { Silence::Recorder } else { Silence::Reader };
        (self.came.elapsed() > SILENT).then_some(reason)
    }

    /// Removes a piece that was read.
    pub(crate) fn remove(&self, piece: &Piece) {
        let _ = Dir::remove(&piece.path);
    }
}

impl PendingRequest {
    fn send(runtime: PathBuf, lock: File) -> Self {
        let (sender, reply) = channel();
        std::thread::spawn(move || {
            // The reader may have ended.
            let _ = sender.send(send_request(&runtime, &Request::Live));
        });
        Self { reply, sent: Instant::now(), _lock: lock }
    }

    /// Waits for the reply until it is late.
    fn wait(&self) -> Result<Result<Reply, sordino_collect::Error>, RecvTimeoutError> {
        self.reply.recv_timeout(PROMPT.saturating_sub(self.sent.elapsed()))
    }
}

impl Drop for SessionReader {
    fn drop(&mut self) {
        let Ok(watchers) = self.session.dir().and_then(|dir| dir.dir(WATCHERS)) else { return };
        let _ = watchers.remove_all(&self.name);
        // It stays if another reader has a directory there.
        let _ = self.session.dir().and_then(|dir| dir.remove_dir(WATCHERS));
    }
}

/// Hands the piece of the session called `name` on to all other readers. They lose the piece if that fails, for example
/// when the session ends.
pub fn hand_on_in(name: &str) {
    let _ = hand_on(&runtime_dir().join(name));
}

/// Hands the session's piece on to all registered readers. Directories of readers that were killed are removed.
fn hand_on(runtime: &Path) -> io::Result<()> {
    let session = Dir::open_own(runtime)?;
    let watchers = match session.dir(WATCHERS) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        watchers => watchers?,
    };
    let piece = session.dir(LIVE)?;
    for name in watchers.names()? {
        let Ok(watcher) = watchers.dir(&name) else { continue };
        if is_dead(&watcher) {
            let _ = watchers.remove_all(&name);
            continue;
        }
        // One without a lock gets no pieces yet. One that ends removes its directory meanwhile, which ends no other.
        if watcher.has(LOCK) && !hand_to(&watcher, &piece).is_ok_and(|is_handed| is_handed) {
            let _ = watcher.create(MISSED);
        }
    }
    Ok(())
}

/// Hands the piece to a reader. Returns false if too much waits for it.
fn hand_to(watcher: &Dir, piece: &Dir) -> io::Result<bool> {
    let waiting = numbers(watcher)?;
    let bytes_of = |number: &u64| watcher.dir(number.to_string()).map_or(0, |piece| piece.bytes());
    let bytes = waiting.iter().map(bytes_of).fold(piece.bytes(), u64::saturating_add);
    if waiting.len() >= WAITING_MAX || (!waiting.is_empty() && bytes > WAITING_BYTES_MAX) {
        return Ok(false);
    }
    // The name is set last, so that readers find complete pieces only.
    let _ = watcher.remove_all(NEW);
    let new = watcher.make_new(NEW)?;
    link_all(piece, &new, DEPTH_MAX)?;
    if watcher.has(MISSED) {
        new.create(MISSED)?;
    }
    watcher.rename(NEW, &waiting.last().map_or(0, |last| last.saturating_add(1)).to_string())?;
    let _ = watcher.remove_file(MISSED);
    Ok(true)
}

/// Returns true if the reader does not live any more. A reader without a lock is about to get it, unless pieces are
/// left in its directory.
fn is_dead(watcher: &Dir) -> bool {
    match watcher.read(LOCK) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(_) => watcher.names().is_ok_and(|names| names.iter().any(|name| name != LOCK_NEW)),
    }
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

    fn waiting(reader: &SessionReader) -> Vec<u64> {
        numbers(&reader.own).unwrap()
    }

    fn piece(reader: &SessionReader, number: u64) -> Piece {
        let path = reader.own.path().join(number.to_string());
        let follows_gap = path.join(MISSED).exists();
        Piece { path, follows_gap }
    }

    #[test]
    fn every_reader_gets_every_piece_and_leaves_nothing_behind() {
        let (place, session) = session();
        let readers = [0, 1].map(|_| SessionReader::register(session.clone()).unwrap());
        hand_on(place.path()).unwrap();
        hand_on(place.path()).unwrap();
        for reader in &readers {
            assert_eq!(waiting(reader), [0, 1]);
            let mut text = String::new();
            reader.own.read("1/user/cpu0").unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "events");
            reader.remove(&piece(reader, 0));
            assert_eq!(waiting(reader), [1]);
        }
        drop(readers);
        assert!(!place.path().join(WATCHERS).exists());
    }

    #[test]
    fn a_reader_that_stands_still_misses_pieces_and_learns_after_which() {
        let (place, session) = session();
        let reader = SessionReader::register(session).unwrap();
        (0..WAITING_MAX + 2).for_each(|_| hand_on(place.path()).unwrap());
        assert_eq!(waiting(&reader).len(), WAITING_MAX);
        reader.remove(&piece(&reader, 0));
        (0..2).for_each(|_| hand_on(place.path()).unwrap());
        let last = WAITING_MAX as u64;
        assert!(piece(&reader, last).follows_gap && !piece(&reader, last - 1).follows_gap);
        reader.remove(&piece(&reader, 1));
        hand_on(place.path()).unwrap();
        assert!(piece(&reader, last + 1).follows_gap);
        reader.remove(&piece(&reader, 2));
        hand_on(place.path()).unwrap();
        assert!(!piece(&reader, last + 2).follows_gap);
    }

    #[test]
    fn the_pieces_that_wait_are_limited_in_bytes() {
        let (place, session) = session();
        let reader = SessionReader::register(session).unwrap();
        let large = File::create(place.path().join("live/user/cpu1")).unwrap();
        // A sparse file: it takes no memory.
        large.set_len(2 * WAITING_BYTES_MAX).unwrap();
        hand_on(place.path()).unwrap();
        assert_eq!(waiting(&reader), [0]);
        hand_on(place.path()).unwrap();
        assert_eq!(waiting(&reader), [0]);
        reader.remove(&piece(&reader, 0));
        hand_on(place.path()).unwrap();
        assert!(waiting(&reader) == [0] && piece(&reader, 0).follows_gap);
    }

    #[test]
    fn a_reader_that_is_gone_or_broken_ends_no_other() {
        let (place, session) = session();
        let [broken, other] = [0, 1].map(|_| SessionReader::register(session.clone()).unwrap());
        // The name of the next piece is taken.
        let taken = u64::MAX;
        broken.own.create(taken.to_string()).unwrap();
        hand_on(place.path()).unwrap();
        assert_eq!((waiting(&broken), waiting(&other)), (vec![taken], vec![0]));
        assert!(broken.own.has(MISSED));
        // A reader that ended while it got a piece leaves its directory without the lock.
        broken.own.remove_file(LOCK).unwrap();
        hand_on(place.path()).unwrap();
        assert!(!broken.own.path().exists() && waiting(&other) == [0, 1]);
    }

    #[test]
    fn a_reader_that_registers_is_not_taken_for_a_dead_one() {
        let (place, session) = session();
        let dir = session.dir().unwrap();
        dir.make_new(WATCHERS).unwrap().make_new("1-0").unwrap().create(LOCK_NEW).unwrap();
        hand_on(place.path()).unwrap();
        assert!(place.path().join("watchers/1-0").exists() && !place.path().join("watchers/1-0/0").exists());
        let many: Vec<_> = (0..8)
            .map(|_| {
                let session = session.clone();
                std::thread::spawn(move || {
                    (0..50).for_each(|_| drop(SessionReader::register(session.clone()).unwrap()))
                })
            })
            .collect();
        (0..50).for_each(|_| hand_on(place.path()).unwrap());
        many.into_iter().for_each(|thread| thread.join().unwrap());
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
