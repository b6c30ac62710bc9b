//! A connection to a recorder's socket: packets and descriptors, sent and received, and bounded waits.
//!
//! All of this may run in a fork's child: no lock, no allocation.

use sordino_registration::{MAX_ADDRESS, Socket};
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// The address of a recorder's socket, for the kernel.
pub(crate) struct Address {
    address: libc::sockaddr_un,
    length: libc::socklen_t,
}

/// The result of connecting to an address.
pub(crate) enum Reached {
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
    pub(crate) fn connect(&self, until: Instant) -> Reached {
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

/// Waits until something has arrived, not longer than `until`. Returns false if nothing has.
pub(crate) fn is_readable(recorder: &OwnedFd, until: Instant) -> bool {
    let mut reply = libc::pollfd { fd: recorder.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let spoke = uninterrupted(until, || {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as _;
        // SAFETY: `reply` is one `pollfd`, which outlives the call.
        unsafe { libc::poll(&mut reply, 1, left) as isize }
    });
    spoke > 0
}

/// Returns the user who listens at the other end, as the kernel reports it.
pub(crate) fn peer_user(connection: &OwnedFd) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel writes at most `size` bytes, the size of `peer`, and then that size.
    let result =
        unsafe { libc::getsockopt(connection.as_raw_fd(), level, name, (&raw mut peer).cast(), &mut size) };
    (result == 0).then_some(peer.uid)
}

/// Receives a reply of one byte, and the descriptor that came with it; `None` if there are no such.
pub(crate) fn receive_file(connection: &OwnedFd) -> Option<(u8, OwnedFd)> {
    let mut control = Control([0; 64]);
    let mut byte = 0u8;
    let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: a `msghdr` of zeros is a valid one, an empty message.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: pure arithmetic. There is room for one descriptor, which with padding would be two: the kernel drops
    // others.
    message.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: all that the message points to lives until the call returns.
    let received = unsafe { libc::recvmsg(connection.as_raw_fd(), &mut message, flags) };
    // SAFETY: the kernel has set the length of the control messages in `control`, which is aligned.
    let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    if received < 0 || header.is_null() {
        return None;
    }
    // SAFETY: `header` is not null, so a whole header lies in `control`, which the kernel has written.
    let found = unsafe { header.read() };
    // SAFETY: pure arithmetic.
    let length = unsafe { libc::CMSG_LEN(size_of::<RawFd>() as u32) } as usize;
    let is_file = (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    if !is_file || found.cmsg_len as usize != length {
        return None;
    }
    // SAFETY: `header` points to a whole header in `control`.
    let data = unsafe { libc::CMSG_DATA(header) };
    // SAFETY: the header's length includes a descriptor behind it; no alignment is needed.
    let fd = unsafe { data.cast::<RawFd>().read_unaligned() };
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    (received == 1).then_some((byte, file))
}

/// Repeats a system call that a signal interrupts, until this time. `SA_RESTART` does not restart calls on a socket
/// with a timeout, and SIGCONT interrupts them without a handler: signal(7).
pub(crate) fn uninterrupted(until: Instant, mut call: impl FnMut() -> isize) -> isize {
    loop {
        let result = call();
        let is_interrupted = result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !is_interrupted || Instant::now() >= until {
            return result;
        }
    }
}

/// Sends bytes if there is room for them.
pub(crate) fn send_now(socket: RawFd, bytes: [u8; 1]) {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `bytes` has the length that is passed, and outlives the call.
    unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
}

/// Room for a control message with one descriptor, aligned as such messages have to be.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Sends a packet, with `file` if there is one; negative if that failed.
pub(crate) fn send(socket: RawFd, packet: &[u8], file: Option<RawFd>) -> isize {
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
    use std::io::{PipeReader, Read};

    /// A connection over which a recorder has sent `byte` with so many write ends of a pipe, and the pipe's read end,
    /// which ends when nobody has a write end any more.
    fn sent(byte: u8, files: usize) -> (OwnedFd, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let mut ends = [0; 2];
        // SAFETY: the call writes two descriptors to `ends`.
        let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0, ends.as_mut_ptr()) };
        assert_eq!(made, 0);
        // SAFETY: the call has just returned these descriptors, and nothing else owns them.
        let [recorder, program] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let descriptors = vec![writer.as_raw_fd(); files];
        let mut control = Control([0; 64]);
        let mut part = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
        // SAFETY: a `msghdr` of zeros is a valid one, an empty message.
        let mut message: libc::msghdr = unsafe { zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
        if files > 0 {
            let bytes = (files * size_of::<RawFd>()) as u32;
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: pure arithmetic.
            message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as _;
            // SAFETY: pure arithmetic.
            let length = unsafe { libc::CMSG_LEN(bytes) };
            let header = libc::cmsghdr {
                cmsg_len: length as _,
                cmsg_level: libc::SOL_SOCKET,
                cmsg_type: libc::SCM_RIGHTS,
            };
            // SAFETY: `control` is aligned, and has room for a header and some descriptors.
            unsafe { control.0.as_mut_ptr().cast::<libc::cmsghdr>().write(header) };
            let data = control.0.as_mut_ptr().wrapping_add(size_of::<libc::cmsghdr>());
            // SAFETY: `control` has room for the descriptors behind the header, and no alignment is needed.
            unsafe { data.copy_from_nonoverlapping(descriptors.as_ptr().cast(), bytes as usize) };
        }
        // SAFETY: all that the message points to lives until the call returns.
        assert_eq!(unsafe { libc::sendmsg(recorder.as_raw_fd(), &message, 0) }, 1);
        (program, reader)
    }

    #[test]
    fn a_reply_brings_at_most_one_descriptor_and_no_other_is_left_open() {
        for (files, received) in [(0, false), (1, true), (2, true), (3, true)] {
            let (connection, mut reader) = sent(b'p', files);
            let reply = receive_file(&connection);
            assert_eq!(reply.as_ref().map(|(byte, _)| *byte), received.then_some(b'p'), "{files}");
            drop((reply, connection));
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{files}");
        }
    }

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
}
