//! Reports the processes that were forked or have executed another program since the last call: from the kernel's proc
//! connector where it is available, otherwise from the pid that the kernel assigned last.
//!
//! The connector (`linux/cn_proc.h`) sends messages to a netlink socket. Linux 6.6 and later accept a filter, allow
//! every user to listen, and remove a listener whose socket is closed; older kernels ignore the request with a filter
//! and keep their state. Events are sent for the initial user and pid namespaces only; recorders in other namespaces
//! receive none.

use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with,
};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// The connector's id for processes, in `linux/connector.h`: an index, a value and a multicast group.
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
/// `PROC_CN_MCAST_LISTEN`, which subscribes the socket to events.
const LISTEN: u32 = 1;
/// `NLMSG_DONE`, the only type of messages that the connector uses.
const NLMSG_DONE: u16 = 3;
/// Kinds of events, which are also the bits of the filter.
const NONE: u32 = 0;
const ALL: u32 = 0;
const FORK: u32 = 1;
const EXEC: u32 = 2;
/// Size of `struct nlmsghdr` and `struct cn_msg`, which precede `struct proc_event`, in bytes.
const HEADERS: usize = 36;
/// Offset of the data that depends on the kind of event, in bytes.
const EVENT: usize = HEADERS + 16;
/// Maximum number of events read before the kernel's answer.
const MOST_BEFORE: usize = 1000;

/// A source of changes of the machine's processes.
#[derive(Debug)]
pub enum ProcessEvents {
    /// Reports the id of each process that forks or executes.
    Connector(OwnedFd),
    /// Compares the last pid of `/proc/loadavg`, which changes when a process or a thread is created, but not by exec.
    #[expect(missing_docs, reason = "users need no more than the kind")]
    LastNumber { loadavg: Option<File>, last: Vec<u8> },
}

/// A change of the machine's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// A process is new, or executes another program.
    Changed(i32),
    /// Any number of processes may have changed.
    AnyChanged,
    /// No process has changed: a thread was created.
    Unrelated,
}

impl ProcessEvents {
    /// Starts to watch for changes, with the best source available.
    pub fn watch() -> Self {
        subscribe().map_or_else(Self::by_last_number, Self::Connector)
    }

    /// Starts to watch with the last pid only.
    pub fn by_last_number() -> Self {
        Self::LastNumber { loadavg: File::open("/proc/loadavg").ok(), last: Vec::new() }
    }

    /// Returns true if a process that executes another program causes an event.
    pub const fn have_exec(&self) -> bool {
        matches!(self, Self::Connector(_))
    }

    /// Returns the next event; `None` if there is none.
    #[expect(clippy::should_implement_trait, reason = "after `None` there may be more")]
    pub fn next(&mut self) -> Option<ProcessEvent> {
        match self {
            Self::Connector(socket) => next_message(socket),
            Self::LastNumber { loadavg, last } => {
                let mut text = [0; 64];
                let length = loadavg.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
                let number = text[..length].rsplit(|byte| *byte == b' ').next().unwrap_or_default();
                // Without the file, anything may have happened.
                let is_same = !number.is_empty() && number == last.as_slice();
                last.clear();
                last.extend_from_slice(number);
                (!is_same).then_some(ProcessEvent::AnyChanged)
            }
        }
    }
}

/// Opens a socket that receives the kernel's events of processes that fork and execute; `None` where there is no such
/// source.
fn subscribe() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR)).ok()?;
    bind(&socket, &SocketAddrNetlink::new(0, 1 << (CN_IDX_PROC - 1))).ok()?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(ALL), SendFlags::empty(), &kernel).ok()?;
    // The kernel answers before `sendto` returns. Events for other listeners may come first.
    let mut messages = std::iter::from_fn(|| receive(&socket).ok()).take(MOST_BEFORE).flatten();
    messages.any(|message| message.is_consent()).then_some(())?;
    // Now set the filter, which would have blocked the answer.
    sendto(&socket, &request(FORK | EXEC), SendFlags::empty(), &kernel).ok()?;
    Some(socket)
}

/// Builds the request for events of these kinds.
fn request(kinds: u32) -> Vec<u8> {
    let payload = [LISTEN, kinds].map(u32::to_ne_bytes).concat();
    let length = (HEADERS + payload.len()) as u32;
    // struct nlmsghdr: length, type, flags, sequence, port.
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend([NLMSG_DONE, 0].map(u16::to_ne_bytes).concat());
    bytes.extend([0u32; 2].map(u32::to_ne_bytes).concat());
    // struct cn_msg: index, value, sequence, acknowledgement, length, flags.
    bytes.extend([CN_IDX_PROC, CN_VAL_PROC, 0, 0].map(u32::to_ne_bytes).concat());
    bytes.extend([payload.len() as u16, 0].map(u16::to_ne_bytes).concat());
    bytes.extend(payload);
    bytes
}

fn next_message(socket: &OwnedFd) -> Option<ProcessEvent> {
    match receive(socket) {
        // Other messages are about threads, or answers to another process's request.
        Ok(message) => Some(
            message
                .and_then(|message| message.changed())
                .map_or(ProcessEvent::Unrelated, ProcessEvent::Changed),
        ),
        Err(Errno::INTR) => Some(ProcessEvent::Unrelated),
        Err(Errno::AGAIN) => None,
        // The buffer was too small for some (ENOBUFS), or another error.
        Err(_) => Some(ProcessEvent::AnyChanged),
    }
}

/// A message of the connector.
struct Message([u8; 128]);

/// Receives the next message; `None` if it was not sent by the kernel. Port 0 is reserved for the kernel: a sender
/// can't choose it.
fn receive(socket: &OwnedFd) -> Result<Option<Message>, Errno> {
    let mut bytes = [0; 128];
    let (_, length, from) = recvfrom(socket, &mut bytes, RecvFlags::DONTWAIT)?;
    let is_kernels = from
        .and_then(|address| SocketAddrNetlink::try_from(address).ok())
        .is_some_and(|address| address.pid() == 0);
    Ok((is_kernels && (EVENT..=bytes.len()).contains(&length)).then_some(Message(bytes)))
}

impl Message {
    /// Returns the word at this offset; bytes after the message are zero.
    fn word(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn is_of_processes(&self) -> bool {
        (self.word(16), self.word(20)) == (CN_IDX_PROC, CN_VAL_PROC)
    }

    /// Returns true if the message grants a request.
    fn is_consent(&self) -> bool {
        self.is_of_processes() && self.word(HEADERS) == NONE && self.word(EVENT) == 0
    }

    /// Returns the process that was forked or executes a program; `None` for other messages.
    fn changed(&self) -> Option<i32> {
        let pid = match self.word(HEADERS) {
            _ if !self.is_of_processes() => return None,
            // The parent's thread and process, then the child's thread and process.
            FORK => Some(self.word(EVENT + 12)).filter(|process| *process == self.word(EVENT + 8)),
            // Thread and process, which are equal by now.
            EXEC => Some(self.word(EVENT + 4)),
            _ => None,
        };
        pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Builds a message from the words after the connector's headers.
    fn message(index: u32, words: &[u32]) -> Message {
        let mut bytes = [0; 128];
        bytes[16..20].copy_from_slice(&index.to_ne_bytes());
        bytes[20..24].copy_from_slice(&CN_VAL_PROC.to_ne_bytes());
        for (place, word) in words.iter().enumerate() {
            bytes[HEADERS + 4 * place..][..4].copy_from_slice(&word.to_ne_bytes());
        }
        Message(bytes)
    }

    #[test]
    fn a_message_names_processes_and_not_their_threads() {
        let fork = |thread, process| message(CN_IDX_PROC, &[FORK, 0, 0, 0, 7, 7, thread, process]);
        assert_eq!(fork(8, 8).changed(), Some(8));
        assert_eq!(fork(9, 8).changed(), None);
        assert_eq!(fork(u32::MAX, u32::MAX).changed(), None);
        assert_eq!(message(CN_IDX_PROC, &[EXEC, 0, 0, 0, 8, 8]).changed(), Some(8));
        assert_eq!(message(CN_IDX_PROC, &[0x8000_0000, 0, 0, 0, 8, 8]).changed(), None);
        assert_eq!(message(2, &[EXEC, 0, 0, 0, 8, 8]).changed(), None);
        assert!(message(CN_IDX_PROC, &[NONE, 0, 0, 0, 0]).is_consent());
        assert!(!message(CN_IDX_PROC, &[NONE, 0, 0, 0, 1]).is_consent());
    }

    fn not_measured() {
        let why = "events of processes, which take Linux 6.6 and its first namespaces";
        let _ = writeln!(std::io::stderr(), "not measured here: {why}");
    }

    fn all(events: &mut ProcessEvents) -> Vec<ProcessEvent> {
        std::iter::from_fn(|| events.next()).collect()
    }

    #[test]
    fn a_new_process_changes_the_last_number() {
        let mut events = ProcessEvents::by_last_number();
        // The first call knows no earlier state.
        assert_eq!(events.next(), Some(ProcessEvent::AnyChanged));
        Command::new("true").status().unwrap();
        assert_eq!(events.next(), Some(ProcessEvent::AnyChanged));
        // Other tests start processes as well, but not all the time.
        assert!((0..100_000).any(|_| events.next().is_none()));
    }

    #[test]
    fn a_process_that_forks_and_executes_is_named() {
        let mut events = ProcessEvents::watch();
        if !events.have_exec() {
            return not_measured();
        }
        all(&mut events);
        let shell = "read line; exec sh -c 'read line'";
        let mut child = Command::new("sh").args(["-c", shell]).stdin(Stdio::piped()).spawn().unwrap();
        let changed = ProcessEvent::Changed(child.id() as i32);
        // The fork, and the exec of the first program: both have happened when `spawn` returns.
        assert!(all(&mut events).contains(&changed));
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !all(&mut events).contains(&changed) {
            assert!(std::time::Instant::now() < end, "its second program is not named");
            std::thread::yield_now();
        }
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn events_that_found_no_room_are_no_silent_loss() {
        let mut events = ProcessEvents::watch();
        if !events.have_exec() {
            return not_measured();
        }
        // More events than a socket's buffer holds.
        (0..1000).for_each(|_| assert!(Command::new("true").status().unwrap().success()));
        assert!(all(&mut events).contains(&ProcessEvent::AnyChanged));
        assert!(all(&mut events).len() < 1000, "it goes on with those to come");
    }
}
