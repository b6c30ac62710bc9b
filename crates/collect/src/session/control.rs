//! What a session is asked by other processes, through a socket in its own directory.
//!
//! A request and its reply are a line of JSON each; a connection takes one of them. Requests are read one after the other; whoever
//! carries one out writes the reply.

use super::bell::Bell;
use super::status::Status;
use crate::Error;
use crate::missing::Missing;
use crate::shortfall::{RuleProblem, Shortfall};
use crate::threads;
use rustix::fs::{AtFlags, Mode, chmodat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use serde::{Deserialize, Serialize};
use sordino_dirfd::Dir;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// The socket, in the session's directory.
const SOCKET: &str = "control";
/// The longest request, in bytes.
const MOST: usize = 64 << 10;
/// How long a client may take to say what it wants, or to take the reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections that may wait to be taken.
const WAITING: i32 = 128;
/// Until it is tried again to take a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// What a session is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
pub enum Request {
    /// How it is.
    Status,
    /// A snapshot, of a flight recorder.
    Snapshot {
        /// How many nanoseconds of the time before; `None`: as the session says.
        last_ns: Option<u64>,
        /// Why, for the snapshot's summary.
        why: String,
    },
    /// What came since it was asked last for this, as a recording in its own directory; whoever asks removes it.
    Live,
    /// To go on in another chunk, if it writes to disk.
    Rotate,
    /// To record these tracepoints too.
    Enable {
        /// Rules as for the session's start.
        events: String,
    },
    /// Not to record these tracepoints any more.
    Disable {
        /// Names and globs.
        events: String,
    },
    /// To record these processes too.
    Attach {
        /// Their pids.
        pids: Vec<i32>,
    },
    /// To end; answered when all that was recorded is complete.
    Stop {
        /// Whether a flight recorder takes a last snapshot.
        snapshot: bool,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply {
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// A recording is complete.
    Written {
        /// Where it lies.
        directory: PathBuf,
        /// What it lacks.
        #[serde(default)]
        missing: Missing,
    },
    /// It is done, or will be in a moment.
    Done,
    /// Other tracepoints are recorded from now on.
    Changed {
        /// The rules of the request that choose nothing so far.
        rules: Vec<RuleProblem>,
    },
    /// The session has ended.
    Ended {
        /// What could not be written.
        missing: Missing,
        /// What it was to record and did not.
        shortfall: Shortfall,
    },
    /// It can't be done.
    Refused {
        /// Why, and what can.
        reason: String,
    },
}

impl Request {
    /// How long its reply may take. What waits for the disk, or for other recordings to be complete, takes as long as it takes.
    fn patience(&self) -> Option<Duration> {
        let waits = matches!(self, Self::Snapshot { .. } | Self::Live | Self::Rotate | Self::Stop { .. });
        (!waits).then_some(Duration::from_secs(5))
    }
}

/// Asks the session whose directory this is, and waits for its answer.
///
/// # Errors
/// [`Error::Silent`] if nobody answers there, or not in time.
pub fn ask(runtime: &Path, request: &Request) -> Result<Reply, Error> {
    let exchange = || -> io::Result<Reply> {
        let mut stream = UnixStream::connect(runtime.join(SOCKET))?;
        stream.set_read_timeout(request.patience())?;
        stream.write_all(&line(request)?)?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        match reply.is_empty() {
            false => Ok(serde_json::from_str(&reply)?),
            true => Err(io::Error::new(ErrorKind::UnexpectedEof, "it ended before it had answered")),
        }
    };
    let told = |source: io::Error| match source.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::TimedOut,
            "no answer in time: its recorder is stopped, or waits for a disk",
        ),
        _ => source,
    };
    exchange().map_err(|source| Error::Silent { session: runtime.to_owned(), source: told(source) })
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Who asked, and waits for the reply. Without one, the connection says that it ended.
#[derive(Debug)]
pub(super) struct Asker(UnixStream);

impl Asker {
    /// Tells; who is gone by then, or does not listen, is not told.
    pub(super) fn tell(mut self, reply: &Reply) {
        if let Ok(line) = line(reply) {
            let _ = self.0.write_all(&line);
        }
    }
}

/// Listens for requests.
#[derive(Debug)]
pub(super) struct Control {
    dir: Dir,
    path: PathBuf,
    /// Which socket is ours.
    inode: u64,
    requests: Receiver<(Request, Asker)>,
}

impl Control {
    /// Listens in a directory; whoever may write there may ask. Its thread ends with the process.
    pub(super) fn listen(runtime: &Path, bell: Bell) -> Result<Self, Error> {
        let path = runtime.join(SOCKET);
        let dir = Dir::open_own(runtime).map_err(Error::output(runtime))?;
        // Of a recorder that was killed: whoever comes here has the session's lock.
        let _ = dir.remove_file(SOCKET);
        let listener = bound(&dir).map_err(Error::output(&path))?;
        let inode = inode(&path).ok_or_else(|| Error::output(&path)(ErrorKind::NotFound.into()))?;
        let (ask, requests) = channel();
        let spawned = threads::start("sordino-control", move || {
            while let Some(()) = hear(&listener, &ask) {
                bell.ring();
            }
        });
        spawned.map_err(Error::system("can't start the thread that listens for requests"))?;
        Ok(Self { dir, path, inode, requests })
    }

    /// Whether anybody can still ask: its directory may have been removed, and made anew for another recorder.
    pub(super) fn is_there(&self) -> bool {
        inode(&self.path) == Some(self.inode)
    }

    /// What was asked since this was asked last.
    pub(super) fn asked(&self) -> Vec<(Request, Asker)> {
        self.requests.try_iter().collect()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = self.dir.remove_file(SOCKET);
        }
    }
}

/// A socket that its owner alone may connect to, from its first connection on: nobody can connect before it listens.
fn bound(dir: &Dir) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // An address has room for 107 bytes, and a path may be longer.
    bind(&socket, &SocketAddrUnix::new(dir.proc_path().join(SOCKET))?)?;
    chmodat(dir, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|metadata| metadata.ino())
}

/// Takes one connection after the other, and passes on what it asks for; `None` if nobody wants to know any more.
fn hear(listener: &UnixListener, ask: &Sender<(Request, Asker)>) -> Option<()> {
    let Ok((stream, _)) = listener.accept() else {
        // There are too few descriptors: there may be more in a moment.
        std::thread::sleep(PAUSE);
        return Some(());
    };
    // Who does not read its reply shall not keep the recorder from its work.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    match read(&stream) {
        Ok(request) => ask.send((request, Asker(stream))).ok(),
        Err(error) => {
            Asker(stream).tell(&Reply::Refused { reason: format!("this is no request: {error}") });
            Some(())
        }
    }
}

/// Reads a line, as long as that is neither too long nor takes too long: others wait meanwhile.
fn read(mut stream: &UnixStream) -> io::Result<Request> {
    let end = Instant::now() + PATIENCE;
    let (mut text, mut part) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || text.len() > MOST {
            return Err(io::Error::new(ErrorKind::InvalidData, "it has no end"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => break,
            length => text.extend_from_slice(&part[..length]),
        }
    }
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_make_no_sense_are_told_and_others_are_heard() {
        let place = tempfile::tempdir().unwrap();
        let control = Control::listen(place.path(), Bell::new().unwrap()).unwrap();
        let client = || UnixStream::connect(place.path().join(SOCKET)).unwrap();
        for garbage in [&b"nonsense\n"[..], b"", b"{\"request\":\"stop\"}\n", &[b'x'; 2 * MOST]] {
            let mut client = client();
            // It may have been refused before all was sent.
            let _ = client.write_all(garbage);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let mut reply = String::new();
            let _ = BufReader::new(client).read_line(&mut reply);
            assert!(reply.contains("this is no request") || garbage.len() > MOST, "{reply}");
        }
        // This one says nothing, and is not waited for for long.
        let silent = client();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| ask(place.path(), &Request::Status));
            let (request, asker) = control.requests.recv().unwrap();
            assert_eq!(request, Request::Status);
            asker.tell(&Reply::Done);
            assert_eq!(asked.join().unwrap().unwrap(), Reply::Done);
            let asked = scope.spawn(|| ask(place.path(), &Request::Rotate));
            drop(control.requests.recv().unwrap());
            let error = asked.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("ended before it had answered"), "{error}");
        });
        drop(silent);
    }

    #[test]
    fn a_socket_that_another_recorder_made_in_its_place_is_not_its_own() {
        let place = tempfile::tempdir().unwrap();
        let first = Control::listen(place.path(), Bell::new().unwrap()).unwrap();
        assert!(first.is_there());
        let second = Control::listen(place.path(), Bell::new().unwrap()).unwrap();
        assert!(!first.is_there() && second.is_there());
        drop(first);
        assert!(second.is_there());
    }
}
