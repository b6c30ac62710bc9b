//! How a program tells recorders that it is there.
//!
//! A recorder listens on a Unix socket of packets. The name of the one that started this program, if one did, is in
//! `SORDINO_SESSION`, with `@` for the zero byte of an abstract name; those of others are found by [`runtime`]. The program
//! sends each of them one packet: [`HELLO`], its area's inode number, and the number of its descriptor for it, if it still has one.
//! Then it waits for a byte back from each, about [`PATIENCE`] for all of them together. From before the first packet on, its new
//! tracepoints are [pending](sordino_ring::pending): hits are counted for those who have not answered. [`ANSWERED`] says that the recorder has
//! said so in the area; any other byte, and the end of the connection, that it will not. A program that waits no longer sends
//! [`WENT_ON`].
//!
//! Anybody on the machine can see an abstract name. So behind it, after the last `/`, stands a [token](Token), 32 hexadecimal digits,
//! which the packet to that recorder repeats in two more words; a third word of [`NO_DESCRIPTOR`] then stands for a closed descriptor.
//!
//! The recorder that started it gets a descriptor for the area's file with the packet, if there still is one; root's recorder drops it.
//! Others have to open it in `/proc/PID/fd`: whoever has it can write into the program's memory, and there the kernel sees to it that
//! only those get it who have the right to trace the program.
//!
//! All but [`Recorders::from_environment`] may run in a fork's child: no lock, no allocation.

use crate::emit::Clocks;
use crate::runtime;
use crate::system::{self, AreaFile};
use sordino_ring::pending::Pending;
use sordino_ring::write::Stamp;
use std::ffi::CString;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The first word of the packet.
pub(crate) const HELLO: u64 = u64::from_le_bytes(*b"sordino1");

/// The byte of a recorder that has [answered](Pending::answer) in the area.
const ANSWERED: u8 = b'a';

/// The byte that a program sends behind its packet when it goes on without an answer.
const WENT_ON: u8 = b'w';

/// The third word of a packet with a token, of a program that has closed its descriptor.
const NO_DESCRIPTOR: u64 = u64::MAX;

/// What a recorder's own programs inherit, and others do not know.
type Token = [u64; 2];

/// How long a program waits for recorders that do not answer, the first time; then a quarter of it each time until all answer again.
/// A program announces itself once for each module, and this way never waits much longer than the first time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Recorders that are told at once, at most. A program has eight slots; more may listen, for other programs.
const MOST: usize = 64;

/// Who wants to know of this program.
pub(crate) struct Recorders {
    /// The one that started it, and its token if it gave one.
    starter: Option<(Address, Option<Token>)>,
    /// What `SORDINO_RUNTIME_DIR` says.
    runtime_dir: Option<CString>,
    patience: Duration,
}

impl Recorders {
    /// What the environment says of them.
    pub(crate) fn from_environment() -> Self {
        let starter = system::environment(c"SORDINO_SESSION");
        let runtime_dir = system::environment(c"SORDINO_RUNTIME_DIR");
        Self {
            starter: starter.and_then(|name| starter_of(name.as_bytes())),
            runtime_dir: runtime_dir.filter(|path| path.as_bytes().starts_with(b"/")),
            patience: PATIENCE,
        }
    }

    /// Tells them all, and waits until they have looked. First the one, then the other: one that does not answer keeps
    /// nobody else from looking.
    pub(crate) fn announce(&mut self, file: &AreaFile, pending: Pending<'_>, new: Range<u16>) {
        let until = Instant::now() + self.patience;
        let mut told = [const { None }; MOST];
        let mut free = told.iter_mut();
        let mut begun = false;
        let mut await_another = || {
            if !std::mem::replace(&mut begun, true) {
                pending.begin(new.clone(), Clocks.monotonic());
            }
            pending.await_another();
        };
        let descriptor = file.get();
        let number = descriptor.map_or(NO_DESCRIPTOR, |descriptor| descriptor as u64);
        let words = [HELLO, file.inode(), number];
        let words = if descriptor.is_some() { &words[..] } else { &words[..2] };
        let mut silent = false;
        let mut tell = |address: &Address, words: &[u64], file: Option<RawFd>| {
            let Some(place) = free.next() else { return };
            let connection = match address.connect(until) {
                Reached::Recorder(connection) => connection,
                Reached::Nobody => return,
                Reached::NoRoom => {
                    // It is awaited: it finds this program by itself later, and takes over what was counted until then.
                    await_another();
                    silent = true;
                    return;
                }
            };
            await_another();
            let sent = uninterrupted(until, || send(connection.as_raw_fd(), words, file)) >= 0;
            if sent { *place = Some(connection) } else { pending.answer() }
        };
        match &self.starter {
            Some((address, Some([first, second]))) => {
                tell(address, &[HELLO, file.inode(), number, *first, *second], descriptor);
            }
            Some((address, None)) => tell(address, words, descriptor),
            None => {}
        }
        runtime::each_session(self.runtime_dir.as_deref(), |session| tell(session, words, None));
        for recorder in told.iter().flatten() {
            match answer(recorder, until) {
                Some(true) => {}
                Some(false) => pending.answer(),
                None => {
                    // If it looks after this program has ended, it knows that there may be hits that it lacks.
                    send_now(recorder.as_raw_fd(), WENT_ON);
                    silent = true;
                }
            }
        }
        if begun {
            pending.answer();
        }
        self.patience = if silent { self.patience / 4 } else { PATIENCE };
    }
}

/// What `SORDINO_SESSION` says: an abstract name may have a token behind its last `/`.
fn starter_of(text: &[u8]) -> Option<(Address, Option<Token>)> {
    let end = text.iter().rposition(|&byte| byte == b'/').filter(|_| text.starts_with(b"@"));
    let Some(end) = end else { return Some((Address::named(text)?, None)) };
    Some((Address::named(&text[..end])?, Some(token_of(&text[end + 1..])?)))
}

/// 32 hexadecimal digits as two words, the first digits being the highest.
fn token_of(digits: &[u8]) -> Option<Token> {
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let word = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    Some([word(&digits[..16])?, word(&digits[16..])?])
}

/// Where a recorder listens.
pub(crate) struct Address {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

/// The result of connecting to an address.
enum Reached {
    /// A recorder, by this connection.
    Recorder(OwnedFd),
    /// A recorder whose queue stayed full: so many programs start at once.
    NoRoom,
    Nobody,
}

impl Address {
    /// A path, or an abstract name behind `@`; none if it is empty or too long for an address.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        // SAFETY: all zeros is an unnamed address.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        if name.is_empty() || name.len() >= address.sun_path.len() {
            return None;
        }
        for (to, &byte) in address.sun_path.iter_mut().zip(name) {
            *to = byte as _;
        }
        if name[0] == b'@' {
            address.sun_path[0] = 0;
        }
        let length = offset_of!(libc::sockaddr_un, sun_path) + name.len();
        Some(Self { address, length: length as libc::socklen_t })
    }

    /// A connection to who listens there. After `until` too, but then without waiting for room in the recorder's queue.
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
            // The time is over, and there was no room all the time.
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Reached::NoRoom,
            _ => Reached::Nobody,
        }
    }
}

/// Makes connecting and sending fail when they would wait longer than `until`.
fn limit_waiting(socket: RawFd, until: Instant) {
    // Zero would be for ever.
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let left = libc::timeval { tv_sec: left.as_secs() as _, tv_usec: left.subsec_micros() as _ };
    let (value, size) = ((&raw const left).cast(), size_of::<libc::timeval>() as _);
    // SAFETY: a timeval of its size. Without the limit we still end when the recorder does.
    unsafe { libc::setsockopt(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, size) };
}

/// Waits for a recorder, not longer than `until`: whether it has answered in the area; `None` if it is silent.
fn answer(recorder: &OwnedFd, until: Instant) -> Option<bool> {
    let mut answer = libc::pollfd { fd: recorder.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let spoke = uninterrupted(until, || {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as _;
        // SAFETY: one descriptor to look at.
        unsafe { libc::poll(&mut answer, 1, left) as isize }
    });
    if spoke <= 0 {
        return None;
    }
    let mut byte = 0u8;
    // SAFETY: room for the one byte that is asked for; never waits.
    let received = unsafe { libc::recv(recorder.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
    Some(received == 1 && byte == ANSWERED)
}

/// Makes a system call again that a signal has interrupted, until this time. Where a socket has a timeout, a handler's `SA_RESTART` does
/// not do that, and SIGCONT interrupts without a handler: signal(7).
fn uninterrupted(until: Instant, mut call: impl FnMut() -> isize) -> isize {
    loop {
        let result = call();
        let is_interrupted = result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !is_interrupted || Instant::now() >= until {
            return result;
        }
    }
}

/// Sends a byte if there is room for it.
fn send_now(socket: RawFd, byte: u8) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: one byte, which outlives the call.
    unsafe { libc::send(socket, (&raw const byte).cast(), 1, flags) };
}

/// Sends `words`, with `file` if there is one; negative if that failed.
fn send(socket: RawFd, words: &[u64], file: Option<RawFd>) -> isize {
    /// Room for one descriptor, aligned as control messages want it.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    // SAFETY: all zeros is an empty message.
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
        // SAFETY: inside `control`, aligned.
        unsafe { header.write(filled) };
        // SAFETY: behind the header, inside `control`.
        let data = unsafe { libc::CMSG_DATA(header) };
        // SAFETY: room for a descriptor; its alignment is not promised.
        unsafe { data.cast::<RawFd>().write_unaligned(file) };
    }
    // SAFETY: all that the message points to lives until the call returns.
    unsafe { libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stands_behind_an_abstract_name() {
        let (address, token) = starter_of(b"@sordino-1-2/00000000000000010123456789abcdef").unwrap();
        assert_eq!(token, Some([1, 0x0123_4567_89ab_cdef]));
        assert_eq!(address.length as usize, offset_of!(libc::sockaddr_un, sun_path) + "@sordino-1-2".len());
        assert_eq!(starter_of(b"/run/a/programs").unwrap().1, None);
        assert_eq!(starter_of(b"@nobody").unwrap().1, None);
        for wrong in
            ["@a/", "@a/12", "@a/+000000000000001+000000000000001", "@a/0123456789abcdefg123456789abcdef"]
        {
            assert!(starter_of(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
