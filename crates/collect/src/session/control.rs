//! What a session is asked by other processes, through a socket in its own directory.
//!
//! A request and its reply are a line of JSON each; a connection takes one of them.

use super::bell::Bell;
use super::status::Status;
use crate::Error;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The socket, in the session's directory.
const SOCKET: &str = "control";
/// The longest request, in bytes.
const MOST: u64 = 64 << 10;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// To end.
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
    },
    /// It is done, or will be in a moment.
    Done,
    /// It can't be done.
    Refused {
        /// Why, and what can.
        reason: String,
    },
}

/// Asks the session whose directory this is, and waits for its answer.
///
/// # Errors
/// [`Error::Silent`] if nobody answers there.
pub fn ask(runtime: &Path, request: &Request) -> Result<Reply, Error> {
    let exchange = || -> io::Result<Reply> {
        let mut stream = UnixStream::connect(runtime.join(SOCKET))?;
        stream.write_all(&line(request)?)?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        Ok(serde_json::from_str(&reply)?)
    };
    exchange().map_err(|source| Error::Silent { session: runtime.to_owned(), source })
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// A request, and who waits for the reply.
pub(super) type Asked = (Request, Sender<Reply>);

/// Listens for requests.
#[derive(Debug)]
pub(super) struct Control {
    path: PathBuf,
    requests: Receiver<Asked>,
}

impl Control {
    /// Listens in a directory; whoever may write there may ask. Its threads end with the process.
    pub(super) fn listen(runtime: &Path, bell: Bell) -> Result<Self, Error> {
        let path = runtime.join(SOCKET);
        // Of a recorder that was killed: whoever comes here has the session's lock.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(Error::output(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(Error::output(&path))?;
        let (ask, requests) = channel();
        let thread = std::thread::Builder::new().name("sordino-control".to_owned());
        let spawned = thread.spawn(move || {
            for stream in listener.incoming().flatten() {
                let (ask, bell) = (ask.clone(), bell.clone());
                // A snapshot takes its time; others ask meanwhile. A connection that gets no thread is closed.
                let thread = std::thread::Builder::new().name("sordino-reply".to_owned());
                let _ = thread.spawn(move || serve(stream, &ask, &bell));
            }
        });
        spawned.map_err(Error::system("can't start the thread that listens for requests"))?;
        Ok(Self { path, requests })
    }

    /// Whether anybody can still ask.
    pub(super) fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// What was asked since this was asked last.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.requests.try_iter().collect()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Answers one request. A client that is gone gets no answer.
fn serve(mut stream: UnixStream, ask: &Sender<Asked>, bell: &Bell) {
    let reply = match read(&stream) {
        Ok(request) => answer(request, ask, bell),
        Err(error) => Reply::Refused { reason: format!("this is no request: {error}") },
    };
    if let Ok(line) = line(&reply) {
        let _ = stream.write_all(&line);
    }
}

fn read(stream: &UnixStream) -> io::Result<Request> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    BufReader::new(stream.take(MOST)).read_line(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

fn answer(request: Request, ask: &Sender<Asked>, bell: &Bell) -> Reply {
    let (reply, replied) = channel();
    if ask.send((request, reply)).is_ok() {
        bell.ring();
    }
    let ended = || Reply::Refused { reason: "the session has ended".to_owned() };
    replied.recv().unwrap_or_else(|_| ended())
}
