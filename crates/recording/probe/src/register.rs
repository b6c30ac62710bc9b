//! The registration of the program with recorders.
//!
//! A recorder listens on a Unix socket of packets. The address of the one that started this program, if one did, is in
//! `SORDINO_SESSION`; [`discovery`] finds those of others. The program sends each of them one
//! [packet](sordino_registration::RegistrationPacket). Then it waits for the replies, a [bounded
//! time](sordino_registration::Patience) for all of them together. From before the first packet on, its new tracepoints
//! are [pending](sordino_ring::pending): hits are counted for the recorders that have not answered. The
//! [reply](RecorderReply) is that the recorder has answered in the area, or that it will not; the end of the connection
//! is the latter, too. A program that stops waiting sends [`WENT_ON`].
//!
//! The recorder that started the program receives a descriptor for the area's file with the packet, if the program
//! still has one; root's recorder drops it. Others have to open the file in `/proc/PID/fd`: a process that has it open
//! can write to the program's memory, and there the kernel checks the right to trace the program.
//!
//! All but [`Recorders::from_environment`] may run in a fork's child: no lock, no allocation.

use crate::discovery;
use crate::emit::ThisThread;
use crate::system::{self, AreaFile};
use sordino_registration::{
    MAX_ADDRESS, MAX_RECORDERS, Patience, RecorderAddress, RecorderReply, RegistrationPacket, Socket, Token,
    WENT_ON, environment, is_runtime_dir,
};
use sordino_ring::pending::Pending;
use sordino_ring::write::ReadClock;
use std::ffi::CString;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The recorders with which this program registers.
pub(crate) struct Recorders {
    /// The recorder that started the program, and its token if it has one.
    starter: Option<(Address, Option<Token>)>,
    /// The directory of sessions that the environment names.
    runtime_dir: Option<CString>,
    patience: Patience,
}

impl Recorders {
    /// Returns the recorders that the environment names.
    pub(crate) fn from_environment() -> Self {
        let starter = system::environment(environment::SESSION);
        let runtime_dir = system::environment(environment::RUNTIME_DIR);
        Self {
            starter: starter.and_then(|value| starter_of(value.as_bytes())),
            runtime_dir: runtime_dir.filter(|path| is_runtime_dir(path.as_bytes())),
            patience: Patience::new(),
        }
    }

    /// Sends a packet to all recorders, then waits for their replies, so that a silent one does not delay the others.
    pub(crate) fn register(&mut self, file: &AreaFile, pending: Pending<'_>, new: Range<u16>) {
        let until = Instant::now() + self.patience.time();
        let mut registered = [const { None }; MAX_RECORDERS];
        let mut free = registered.iter_mut();
        let mut begun = false;
        let mut await_another = || {
            if !std::mem::replace(&mut begun, true) {
                pending.begin(new.clone(), ThisThread.monotonic());
            }
            pending.await_another();
        };
        let descriptor = file.get();
        let packet = |token| {
            let descriptor = descriptor.map(RawFd::cast_unsigned);
            RegistrationPacket { inode: file.inode(), descriptor, token }.encode()
        };
        let mut silent = false;
        let mut register_with = |address: &Address, token: Option<Token>, file: Option<RawFd>| {
            let Some(connected) = free.next() else { return };
            let connection = match address.connect(until) {
                Reached::Recorder(connection) => connection,
                Reached::Nobody => return,
                Reached::NoRoom => {
                    // The recorder is awaited: it finds this program in `/proc` later, and takes the counts of hits.
                    await_another();
                    silent = true;
                    return;
                }
            };
            await_another();
            let packet = packet(token);
            let sent = uninterrupted(until, || send(connection.as_raw_fd(), packet.as_bytes(), file)) >= 0;
            if sent { *connected = Some(connection) } else { pending.answer() }
        };
        if let Some((address, token)) = &self.starter {
            register_with(address, *token, descriptor);
        }
        discovery::each_session(self.runtime_dir.as_deref(), |session| register_with(session, None, None));
        for recorder in registered.iter().flatten() {
            match reply(recorder, until) {
                Some(RecorderReply::Answered) => {}
                Some(RecorderReply::GoOn) => pending.answer(),
                None => {
                    // A recorder that reads this after the program has ended knows that it may lack hits.
                    send_now(recorder.as_raw_fd(), WENT_ON);
                    silent = true;
                }
            }
        }
        if begun {
            pending.answer();
        }
        self.patience = self.patience.after(silent);
    }
}

/// Returns the recorder that `SORDINO_SESSION` names.
fn starter_of(value: &[u8]) -> Option<(Address, Option<Token>)> {
    let recorder = RecorderAddress::parse(value)?;
    Some((Address::of(recorder.socket)?, recorder.token))
}

/// The address of a recorder's socket, for the kernel.
pub(crate) struct Address {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

/// The result of connecting to an address.
enum Reached {
    /// A recorder, with the connection to it.
    Recorder(OwnedFd),
    /// A recorder whose queue stayed full, as when many programs start at once.
    NoRoom,
    Nobody,
}

impl Address {
    /// Returns the kernel's address of this socket; `None` if it is too long.
    pub(crate) fn of(socket: Socket<'_>) -> Option<Self> {
        const {
            assert!(
                size_of::<libc::sockaddr_un>() == offset_of!(libc::sockaddr_un, sun_path) + MAX_ADDRESS + 1
            )
        };
        // An abstract name has a zero byte in front; the zero byte behind a path is not part of the length.
        let (start, name) = match socket {
            Socket::Path(path) => (0, path),
            Socket::Abstract(name) => (1, name),
        };
        let end = start + name.len();
        // SAFETY: a `sockaddr_un` of zeros is a valid one, an unnamed address.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        if name.is_empty() || end > MAX_ADDRESS {
            return None;
        }
        for (to, &byte) in address.sun_path[start..].iter_mut().zip(name) {
            *to = byte as _;
        }
        let length = offset_of!(libc::sockaddr_un, sun_path) + end;
        Some(Self { address, length: length as libc::socklen_t })
    }

    /// Connects to the recorder that listens at this address. Tries it even after `until`, but then without waiting for
    /// room in the recorder's queue.
    fn connect(&self, until: Instant) -> Reached {
        // SAFETY: no preconditions.
        let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Reached::Nobody;
        }
        // SAFETY: the call has just returned it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let fd = socket.as_raw_fd();
        let connected = uninterrupted(until, || {
            limit_waiting(fd, until);
            // SAFETY: an initialised address of that length.
            unsafe { libc::connect(fd, (&raw const self.address).cast(), self.length) as isize }
        });
        match io::Error::last_os_error().kind() {
            _ if connected == 0 => Reached::Recorder(socket),
            // The time is over, and the queue was full all the time.
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Reached::NoRoom,
            _ => Reached::Nobody,
        }
    }
}

/// Makes `connect` and `send` fail if they would wait beyond `until`.
fn limit_waiting(socket: RawFd, until: Instant) {
    // A timeout of zero would mean for ever.
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let left = libc::timeval { tv_sec: left.as_secs() as _, tv_usec: left.subsec_micros() as _ };
    let (value, size) = ((&raw const left).cast(), size_of::<libc::timeval>() as _);
    // SAFETY: `value` points to a `timeval`, and `size` is its size. If this fails, waiting ends when the recorder
    // does.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, size) };
}

/// Waits for a recorder's reply, not longer than `until`; `None` if it is silent.
fn reply(recorder: &OwnedFd, until: Instant) -> Option<RecorderReply> {
    let mut reply = libc::pollfd { fd: recorder.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let spoke = uninterrupted(until, || {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as _;
        // SAFETY: `reply` is one `pollfd`, which outlives the call.
        unsafe { libc::poll(&mut reply, 1, left) as isize }
    });
    if spoke <= 0 {
        return None;
    }
    let mut byte = 0u8;
    // SAFETY: `byte` has room for the one byte that is requested.
    let received = unsafe { libc::recv(recorder.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
    Some(RecorderReply::decode(if received == 1 { std::slice::from_ref(&byte) } else { &[] }))
}

/// Repeats a system call that a signal interrupts, until this time. `SA_RESTART` does not restart calls on a socket
/// with a timeout, and SIGCONT interrupts them without a handler: signal(7).
fn uninterrupted(until: Instant, mut call: impl FnMut() -> isize) -> isize {
    loop {
        let result = call();
        let is_interrupted = result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !is_interrupted || Instant::now() >= until {
            return result;
        }
    }
}

/// Sends bytes if there is room for them.
fn send_now(socket: RawFd, bytes: [u8; 1]) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `bytes` has the length that is passed, and outlives the call.
    unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
}

/// Sends a packet, with `file` if there is one; negative if that failed.
fn send(socket: RawFd, packet: &[u8], file: Option<RawFd>) -> isize {
    /// Room for a control message with one descriptor, aligned as such messages have to be.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
    // SAFETY: a `msghdr` of zeros is a valid one, an empty message.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if let Some(file) = file {
        message.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: pure arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as u32) } as _;
        // SAFETY: the message has room for a header (64 bytes are more than CMSG_SPACE of a descriptor).
        let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
        // SAFETY: pure arithmetic.
        let length = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as _;
        let filled =
            libc::cmsghdr { cmsg_len: length, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
        // SAFETY: `header` is the start of `control`, which is aligned and has room for it.
        unsafe { header.write(filled) };
        // SAFETY: `header` points into `control`, which has room for a header and a descriptor.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: `data` lies behind the header in `control`, with room for a descriptor; no alignment is needed.
        unsafe { data.cast::<RawFd>().write_unaligned(file) };
    }
    // SAFETY: all that the message points to lives until the call returns.
    unsafe { libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_the_kernel_s() {
        let path_at = offset_of!(libc::sockaddr_un, sun_path);
        let address = |text: &str| Address::of(Socket::parse(text.as_bytes()).unwrap()).unwrap();
        let bytes = |address: &Address| address.address.sun_path.map(|byte| byte as u8);
        let (named, hidden) = (address("/run/a/programs"), address("@sordino-1-2"));
        assert_eq!(named.length as usize, path_at + "/run/a/programs".len());
        assert!(bytes(&named).starts_with(b"/run/a/programs\0"));
        assert_eq!(hidden.length as usize, path_at + "\0sordino-1-2".len());
        assert!(bytes(&hidden).starts_with(b"\0sordino-1-2\0"));
        let longest = "x".repeat(MAX_ADDRESS);
        assert_eq!(address(&longest).length as usize, path_at + MAX_ADDRESS);
        assert!(Address::of(Socket::Abstract(longest.as_bytes())).is_none());
        assert!(Address::of(Socket::Path(b"")).is_none() && Address::of(Socket::Abstract(b"")).is_none());
    }

    #[test]
    fn the_recorder_that_started_the_program_is_named_with_its_token() {
        let (address, token) = starter_of(b"@sordino-1-2/00000000000000010123456789abcdef").unwrap();
        assert!(token == Some(Token::new([1, 0x0123_4567_89ab_cdef])));
        assert_eq!(address.length as usize, offset_of!(libc::sockaddr_un, sun_path) + "@sordino-1-2".len());
        assert!(starter_of(b"/run/a/programs").unwrap().1.is_none());
        for wrong in ["", "@a/", "@a/12", "@a/0123456789abcdefg123456789abcdef"] {
            assert!(starter_of(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
