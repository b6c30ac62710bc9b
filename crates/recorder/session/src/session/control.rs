//! Requests from other processes to a session, through a socket in the session's runtime directory.
//!
//! A request and its reply are a line of JSON each; a connection carries one request. Requests are read one after the
//! other; the thread that carries one out writes the reply.

use super::bell::Bell;
use super::status::Status;
use rustix::fs::{AtFlags, Mode, chmodat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use serde::{Deserialize, Serialize};
use sordino_collect::Error;
use sordino_collect::missing::UnwrittenData;
use sordino_collect::shortfall::{RuleProblem, Shortfall};
use sordino_dirfd::Dir;
use sordino_inspect::threads;
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Name of the socket in the session's directory.
const SOCKET: &str = "control";
/// Maximum length of a request, in bytes.
const MOST: usize = 64 << 10;
/// Longest time that a client may take to send its request, or to receive the reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of connections that wait to be accepted.
const WAITING: i32 = 128;
/// Time until the next attempt to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A request to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
pub enum Request {
    /// Returns the session's status.
    Status,
    /// Takes a snapshot, of a flight recorder.
    Snapshot {
        /// The time before the request to include, in nanoseconds; `None` for the session's setting.
        last_ns: Option<u64>,
        /// The reason, for the snapshot's summary.
        why: String,
    },
    /// Writes the records since the last such request as a recording into the session's directory. The client removes
    /// it.
    Live,
    /// Begins another chunk, of a session that writes to disk.
    Rotate,
    /// Enables tracepoints in addition to the present ones.
    Enable {
        /// The rules, as for the session's start.
        events: String,
    },
    /// Disables tracepoints that are enabled now.
    Disable {
        /// Names and globs of the tracepoints.
        events: String,
    },
    /// Records processes in addition to the present ones.
    Attach {
        /// The ids of the processes.
        pids: Vec<i32>,
    },
    /// Ends the session; answered when all recordings are complete.
    Stop {
        /// True if a flight recorder takes a last snapshot.
        snapshot: bool,
    },
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply {
    /// The reply to [`Request::Status`].
    Status(Box<Status>),
    /// A recording is complete.
    Written {
        /// Path of the recording.
        directory: PathBuf,
        /// The data that could not be written.
        #[serde(default)]
        missing: UnwrittenData,
    },
    /// The request is carried out, or will be in a moment.
    Done,
    /// The rules have changed.
    Changed {
        /// The rules of the request that choose nothing so far.
        rules: Vec<RuleProblem>,
    },
    /// The session has ended.
    Ended {
        /// The data that could not be written.
        missing: UnwrittenData,
        /// Missing events, with the reasons.
        shortfall: Shortfall,
    },
    /// The request can't be carried out.
    Refused {
        /// A description of the reason, and of the alternative.
        reason: String,
    },
}

impl Request {
    /// Returns the time limit for the reply. Requests that wait for the disk, or for other recordings, have none.
    fn patience(&self) -> Option<Duration> {
        let waits = matches!(self, Self::Snapshot { .. } | Self::Live | Self::Rotate | Self::Stop { .. });
        (!waits).then_some(Duration::from_secs(5))
    }
}

/// Sends a request to the session with this runtime directory, and waits for the reply.
///
/// # Errors
/// [`Error::Silent`] if no session replies, or not in time.
pub fn send_request(runtime: &Path, request: &Request) -> Result<Reply, Error> {
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
    let reason_of = |source: io::Error| match source.kind() {
        ErrorKind::WouldBlock => io::Error::new(
            ErrorKind::TimedOut,
            "no answer in time: its recorder is stopped, or waits for a disk",
        ),
        _ => source,
    };
    exchange().map_err(|source| Error::Silent { session: runtime.to_owned(), source: reason_of(source) })
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// A client that waits for the reply. If it is dropped without one, the client finds the connection closed.
#[derive(Debug)]
pub(super) struct WaitingClient(UnixStream);

impl WaitingClient {
    /// Sends the reply, unless the client is gone or does not receive it.
    pub(super) fn reply(mut self, reply: &Reply) {
        if let Ok(line) = line(reply) {
            let _ = self.0.write_all(&line);
        }
    }
}

/// The socket for requests, and the thread that reads them.
#[derive(Debug)]
pub(super) struct ControlSocket {
    dir: Dir,
    path: PathBuf,
    /// The inode number of our socket.
    inode: u64,
    requests: Receiver<(Request, WaitingClient)>,
}

impl ControlSocket {
    /// Listens in a directory; every user who may write there may send requests. The thread ends with the process.
    pub(super) fn listen(runtime: &Path, bell: Bell) -> Result<Self, Error> {
        let path = runtime.join(SOCKET);
        let dir = Dir::open_own(runtime).map_err(Error::output(runtime))?;
        // A socket that a killed recorder left: the caller holds the session's lock.
        let _ = dir.remove_file(SOCKET);
        let listener = bound(&dir).map_err(Error::output(&path))?;
        let inode = inode(&path).ok_or_else(|| Error::output(&path)(ErrorKind::NotFound.into()))?;
        let (sender, requests) = channel();
        let spawned = threads::start("sordino-control", move || {
            while let Some(()) = receive(&listener, &sender) {
                bell.ring();
            }
        });
        spawned.map_err(Error::system("can't start the thread that listens for requests"))?;
        Ok(Self { dir, path, inode, requests })
    }

    /// Returns true if clients can still connect: the directory may have been removed, and created again for another
    /// recorder.
    pub(super) fn is_there(&self) -> bool {
        inode(&self.path) == Some(self.inode)
    }

    /// Returns the requests since the last call.
    pub(super) fn requests(&self) -> Vec<(Request, WaitingClient)> {
        self.requests.try_iter().collect()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = self.dir.remove_file(SOCKET);
        }
    }
}

/// Creates a socket to which only its owner can connect: nobody can before `listen`.
fn bound(dir: &Dir) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // A socket's address is limited to 107 bytes, and a path may be longer.
    bind(&socket, &SocketAddrUnix::new(dir.proc_path().join(SOCKET))?)?;
    chmodat(dir, SOCKET, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    listen(&socket, WAITING)?;
    Ok(socket.into())
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|metadata| metadata.ino())
}

/// Accepts one connection, and passes on its request. Returns `None` if the session has ended.
fn receive(listener: &UnixListener, sender: &Sender<(Request, WaitingClient)>) -> Option<()> {
    let Ok((stream, _)) = listener.accept() else {
        // Descriptors have run out, perhaps only for a moment.
        std::thread::sleep(PAUSE);
        return Some(());
    };
    // A client that does not read its reply must not block the recorder.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    match read(&stream) {
        Ok(request) => sender.send((request, WaitingClient(stream))).ok(),
        Err(error) => {
            WaitingClient(stream).reply(&Reply::Refused { reason: format!("this is no request: {error}") });
            Some(())
        }
    }
}

/// Reads one line, within limits for its length and for the time: other clients wait meanwhile.
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
    fn invalid_requests_are_rejected_and_others_are_received() {
        let place = tempfile::tempdir().unwrap();
        let control = ControlSocket::listen(place.path(), Bell::new().unwrap()).unwrap();
        let client = || UnixStream::connect(place.path().join(SOCKET)).unwrap();
        for garbage in [&b"nonsense\n"[..], b"", b"{\"request\":\"stop\"}\n", &[b'x'; 2 * MOST]] {
            let mut client = client();
            // The request may be refused before it was sent completely.
            let _ = client.write_all(garbage);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let mut reply = String::new();
            let _ = BufReader::new(client).read_line(&mut reply);
            assert!(reply.contains("this is no request") || garbage.len() > MOST, "{reply}");
        }
        // A client that sends nothing is dropped after a short time.
        let silent = client();
        std::thread::scope(|scope| {
            let reply = scope.spawn(|| send_request(place.path(), &Request::Status));
            let (request, client) = control.requests.recv().unwrap();
            assert_eq!(request, Request::Status);
            client.reply(&Reply::Done);
            assert_eq!(reply.join().unwrap().unwrap(), Reply::Done);
            let reply = scope.spawn(|| send_request(place.path(), &Request::Rotate));
            drop(control.requests.recv().unwrap());
            let error = reply.join().unwrap().unwrap_err().to_string();
            assert!(error.contains("ended before it had answered"), "{error}");
        });
        drop(silent);
    }

    #[test]
    fn a_socket_that_another_recorder_made_in_its_place_is_not_its_own() {
        let place = tempfile::tempdir().unwrap();
        let first = ControlSocket::listen(place.path(), Bell::new().unwrap()).unwrap();
        assert!(first.is_there());
        let second = ControlSocket::listen(place.path(), Bell::new().unwrap()).unwrap();
        assert!(!first.is_there() && second.is_there());
        drop(first);
        assert!(second.is_there());
    }
}
