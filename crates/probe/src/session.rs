//! How a program that a recorder started tells it that it is there.
//!
//! The recorder listens on a Unix socket of packets; its name is in `SORDINO_SESSION`, with `@` for the zero byte of an
//! abstract name. The program sends one packet, [`HELLO`] and its area's inode number, with a descriptor for the area's
//! file if it still has one, and waits for one byte back, about [`PATIENCE`] and at most twice that.

use crate::system::{self, AreaFile};
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The first word of the packet.
pub(crate) const HELLO: u64 = u64::from_le_bytes(*b"sordino1");

/// How long a program waits for a recorder that does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the recorder listens, if one started this program.
pub(crate) struct Address {
    address: libc::sockaddr_un,
    /// 0: there is none.
    length: libc::socklen_t,
}

impl Address {
    /// What `SORDINO_SESSION` says.
    pub(crate) fn from_environment() -> Self {
        // SAFETY: all zeros is an unnamed address.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let none = Self { address, length: 0 };
        let Some(name) = system::environment(c"SORDINO_SESSION") else { return none };
        let name = name.as_bytes();
        if name.is_empty() || name.len() >= address.sun_path.len() {
            return none;
        }
        for (to, &byte) in address.sun_path.iter_mut().zip(name) {
            *to = byte as _;
        }
        if name[0] == b'@' {
            address.sun_path[0] = 0;
        }
        let length = offset_of!(libc::sockaddr_un, sun_path) + name.len();
        Self { address, length: length as libc::socklen_t }
    }

    /// Tells the recorder, and waits until it has looked.
    pub(crate) fn announce(&self, file: &AreaFile) {
        if self.length == 0 {
            return;
        }
        // SAFETY: no preconditions.
        let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return;
        }
        // SAFETY: the call has just returned it.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let patience = libc::timeval { tv_sec: PATIENCE.as_secs() as _, tv_usec: 0 };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            let (fd, value) = (socket.as_raw_fd(), (&raw const patience).cast());
            // SAFETY: a timeval of its size. Without the timeout we still end when the recorder does.
            unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, value, size_of::<libc::timeval>() as _) };
        }
        let (fd, until) = (socket.as_raw_fd(), Instant::now() + PATIENCE);
        let connected = uninterrupted(until, || {
            // SAFETY: an initialised address of that length.
            unsafe { libc::connect(fd, (&raw const self.address).cast(), self.length) as isize }
        });
        let sent =
            connected == 0 && uninterrupted(until, || send(&socket, [HELLO, file.inode()], file.get())) >= 0;
        if sent {
            let mut answer = 0u8;
            // SAFETY: one byte into our own.
            uninterrupted(until, || unsafe { libc::recv(fd, (&raw mut answer).cast(), 1, 0) });
        }
    }
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

/// Sends `words`, with `file` if there is one; negative if that failed.
fn send(socket: &OwnedFd, words: [u64; 2], file: Option<RawFd>) -> isize {
    /// Room for one descriptor, aligned as control messages want it.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(&words) };
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
    unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) }
}
