//! The socket: connections, each with one request.
//!
//! Every user of the machine can connect. A client without the token takes one of few places, and no thread: its head
//! is read as it arrives, and its refusal fits the socket's buffer. If all places are taken, the connection that has
//! been silent longest is closed, so that clients that send nothing do not keep others out.

use crate::page::{Shown, address};
use crate::policy::{AccessRules, Answer, HttpRefusal, Method};
use crate::request::{HEAD_MAX, parse};
use crate::response::{Response, ServedFiles};
use crate::{HandoverError, PUBLIC_PAGE, PUBLIC_PORT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};
use sordino_dirfd::Dir;
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of files that are sent at the same time; more requests are refused.
const SENDING_MAX: usize = 32;
/// Maximum number of connections whose requests are not complete.
const UNREAD_MAX: usize = 64;
/// Longest time from a connection to its complete head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest time for which a client may receive nothing of a file.
const SEND_TIME: Duration = Duration::from_secs(60);
/// Pause after a connection that could not be accepted, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A server on the loopback address.
pub struct Server {
    listener: TcpListener,
    policy: AccessRules,
    content: Arc<ServedFiles>,
    /// Reference count of the files that are being sent, plus one.
    sending: Arc<()>,
}

/// Leaves out the token.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("port", &self.policy.port).finish_non_exhaustive()
    }
}

/// A connection whose request is not complete.
struct Unread {
    stream: TcpStream,
    head: Vec<u8>,
    since: Instant,
}

impl Server {
    /// Binds a port of the loopback address: this one, or the one that the public page needs, or, with a page of the
    /// server's own, any free one.
    ///
    /// # Errors
    /// [`HandoverError::Taken`] if another program has the port; the kernel's error otherwise.
    pub fn bind(port: Option<u16>, content: ServedFiles) -> Result<Self, HandoverError> {
        let has_page = content.page.is_some();
        let port = port.unwrap_or(if has_page { 0 } else { PUBLIC_PORT });
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => HandoverError::Taken(port),
                _ => error.into(),
            })?;
        // A client may end its connection before it is accepted.
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        Ok(Self {
            listener,
            policy: AccessRules { token: token()?, port, has_page },
            content: Arc::new(content),
            sending: Arc::default(),
        })
    }

    /// Returns the port on the loopback address.
    pub const fn port(&self) -> u16 {
        self.policy.port
    }

    /// Returns the address that a browser is to open, which contains the secret token.
    pub fn address(&self, shown: Option<Shown>) -> String {
        let AccessRules { token, port, has_page } = &self.policy;
        let own = format!("http://127.0.0.1:{port}/{token}");
        let page = if *has_page { format!("{own}/ui") } else { PUBLIC_PAGE.to_owned() };
        address(&page, &format!("{own}/trace"), shown)
    }

    /// Answers requests until `stop` is readable. Files that are being sent then are not waited for. Connections that
    /// can't be accepted are tried again after a pause.
    ///
    /// # Errors
    /// The kernel's error for poll(2).
    pub fn run(&self, stop: BorrowedFd<'_>) -> io::Result<()> {
        let mut unread = VecDeque::new();
        loop {
            let Some(Ready { is_listener, connections }) = self.wait(stop, &unread)? else { return Ok(()) };
            let waiting = std::mem::take(&mut unread).into_iter().zip(connections);
            unread.extend(waiting.filter_map(|(connection, is_ready)| match is_ready {
                true => self.receive(connection),
                false => Some(connection).filter(|connection| !connection.time_left().is_zero()),
            }));
            if !is_listener {
                continue;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    unread.extend(Unread::of(stream).ok().and_then(|connection| self.receive(connection)));
                    unread.drain(..unread.len().saturating_sub(UNREAD_MAX));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => {
                    wait_for(&mut [PollFd::new(&stop, PollFlags::IN)], Some(PAUSE))?;
                }
            }
        }
    }

    /// Waits for connections and bytes; `None` if `stop` is readable.
    fn wait(&self, stop: BorrowedFd<'_>, unread: &VecDeque<Unread>) -> io::Result<Option<Ready>> {
        let mut polled = vec![PollFd::new(&stop, PollFlags::IN), PollFd::new(&self.listener, PollFlags::IN)];
        polled.extend(unread.iter().map(|connection| PollFd::new(&connection.stream, PollFlags::IN)));
        wait_for(&mut polled, unread.front().map(Unread::time_left))?;
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let (is_stopped, is_listener) = (ready.next() == Some(true), ready.next() == Some(true));
        Ok((!is_stopped).then(|| Ready { is_listener, connections: ready.collect() }))
    }

    /// Reads what a client has sent, and answers once its head is complete. Returns the connection if it is not.
    fn receive(&self, mut connection: Unread) -> Option<Unread> {
        let asked = match connection.read() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(connection),
            Ok(0) | Err(_) => return None,
            Ok(_) => parse(&connection.head),
        };
        let decided = match asked {
            Ok(None) => return Some(connection),
            Ok(Some(asked)) => self.policy.answer(asked).map(|answer| (answer, asked.method)),
            Err(refusal) => Err(refusal),
        };
        match decided {
            Ok(_) if Arc::strong_count(&self.sending) > SENDING_MAX => {
                refuse(&connection.stream, HttpRefusal::Crowded);
            }
            Ok((answer, method)) => self.send(connection.stream, answer, method == Method::Head),
            Err(refusal) => refuse(&connection.stream, refusal),
        }
        None
    }

    /// Sends an answer, in a thread of its own. If the client has gone, nothing is sent.
    fn send(&self, mut stream: TcpStream, answer: Answer, is_head: bool) {
        let (content, reader) = (Arc::clone(&self.content), self.policy.reader());
        let sending = Arc::clone(&self.sending);
        let send = move || {
            let response = Response::of(&answer, &content);
            let sent = stream
                .set_nonblocking(false)
                .and_then(|()| stream.set_write_timeout(Some(SEND_TIME)))
                .and_then(|()| stream.write_all(response.head(reader).as_bytes()));
            let _ = sent.and_then(|()| if is_head { Ok(()) } else { response.send_body(&mut stream) });
            drop(sending);
        };
        // Without a thread, the connection is closed.
        let _ = thread::Builder::new().name("sordino-answer".to_owned()).spawn(send);
    }
}

/// The sockets that have something to read.
struct Ready {
    is_listener: bool,
    /// True for each connection that has something to read, in their order.
    connections: Vec<bool>,
}

impl Unread {
    fn of(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, head: Vec::new(), since: Instant::now() })
    }

    /// Returns the time until the connection is closed.
    fn time_left(&self) -> Duration {
        HEAD_TIME.saturating_sub(self.since.elapsed())
    }

    /// Reads bytes of the head. Returns their number, or 0 if the client sends no more.
    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; HEAD_MAX];
        let room = HEAD_MAX - self.head.len();
        let read = self.stream.read(&mut bytes[..room])?;
        self.head.extend_from_slice(&bytes[..read]);
        Ok(read)
    }
}

/// Sends a refusal, which a new connection's buffer has room for.
fn refuse(mut stream: &TcpStream, refusal: HttpRefusal) {
    let _ = stream.write_all(Response::refusal(refusal).head(None).as_bytes());
}

/// Waits until a descriptor is ready, at most for this time. An interruption ends the wait, too.
fn wait_for(polled: &mut [PollFd<'_>], longest: Option<Duration>) -> io::Result<()> {
    let longest =
        longest.map(|longest| Timespec::try_from(longest).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 }));
    match poll(polled, longest.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory of a page.
///
/// # Errors
/// [`HandoverError::NoPage`] if it can't be opened, or has no `index.html`.
pub fn open_page(directory: &Path) -> Result<Dir, HandoverError> {
    let no_page = |reason: String| HandoverError::NoPage { directory: directory.to_owned(), reason };
    let dir = Dir::open(directory).map_err(|error| no_page(error.to_string()))?;
    dir.read("index.html").map_err(|error| no_page(format!("index.html: {error}")))?;
    Ok(dir)
}

/// Returns 128 random bits as text.
fn token() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
