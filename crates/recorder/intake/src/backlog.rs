//! The backlog of a socket: the connections that the kernel keeps until they are accepted. A full one may have turned
//! programs down.

use rustix::fs::fstat;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// The backlog that a socket requests, in connections.
pub(crate) const MOST: i32 = 4096;

/// The backlog of one socket.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// The most connections that the kernel keeps: one more than the smaller of [`MOST`] and `net.core.somaxconn`.
    room: usize,
    /// Connections that were accepted since the backlog was last empty.
    accepted: usize,
    was_full: bool,
}

impl Backlog {
    /// Returns the backlog of a socket that requests [`MOST`].
    pub(crate) fn new() -> Self {
        let limit = fs::read_to_string("/proc/sys/net/core/somaxconn");
        let limit = limit.ok().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(usize::MAX);
        Self { room: limit.min(MOST as usize) + 1, accepted: 0, was_full: false }
    }

    /// Notes that `number` connections were accepted from `socket` in one go, and if these were all. If they were not,
    /// the backlog was full if those left and those accepted now are as many as it has room for. If the kernel does not
    /// return the number of those left (`sock_diag`), it was full if so many were accepted since it was last empty.
    pub(crate) fn accepted(&mut self, number: usize, are_all: bool, socket: impl AsFd) {
        self.accepted += number;
        self.was_full |= self.room
            <= match are_all {
                true => number,
                false => length(socket).map_or(self.accepted, |left| left.saturating_add(number)),
            };
        if are_all {
            self.accepted = 0;
        }
    }

    /// Returns true if no connections were left after the last go.
    pub(crate) const fn is_empty(&self) -> bool {
        self.accepted == 0
    }

    /// Returns true if the backlog may have been full since the last call.
    pub(crate) const fn take_was_full(&mut self) -> bool {
        std::mem::replace(&mut self.was_full, false)
    }
}

/// Returns the number of connections that wait at a listening socket, by `sock_diag(7)`. Never waits.
fn length(socket: impl AsFd) -> io::Result<usize> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asking = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&asking, &request(fstat(socket)?.st_ino as u32), SendFlags::empty())?;
    let mut reply = [0; 512];
    let (_, length) = recv(&asking, &mut reply[..], RecvFlags::DONTWAIT)?;
    let waiting = waiting(reply.get(..length).unwrap_or(&reply));
    waiting.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The message type `SOCK_DIAG_BY_FAMILY` of the kernel's `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

/// Returns a `struct nlmsghdr` and a `struct unix_diag_req`, in the machine's byte order.
fn request(inode: u32) -> [u8; 40] {
    const NLM_F_REQUEST: u16 = 1;
    const UDIAG_SHOW_RQLEN: u32 = 16;
    let mut bytes = [0; 40];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &40u32.to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(16, &[AddressFamily::UNIX.as_raw() as u8]);
    // Sockets in any state; no cookie, which follows at offset 32.
    put(20, &[0xff; 4]);
    put(24, &inode.to_ne_bytes());
    put(28, &UDIAG_SHOW_RQLEN.to_ne_bytes());
    put(32, &[0xff; 8]);
    bytes
}

/// Returns the length of the queue that a reply states: a `struct nlmsghdr`, a `struct unix_diag_msg`, and attributes.
fn waiting(reply: &[u8]) -> Option<usize> {
    const HEADERS: usize = 32;
    const UNIX_DIAG_RQLEN: u16 = 4;
    let short = |at: usize| Some(u16::from_ne_bytes(reply.get(at..at + 2)?.try_into().ok()?));
    let mut at = HEADERS;
    while short(4)? == BY_FAMILY {
        let (length, kind) = (short(at)?, short(at + 2)?);
        if kind == UNIX_DIAG_RQLEN {
            let number = reply.get(at + 4..at + 8)?.try_into().ok()?;
            return usize::try_from(u32::from_ne_bytes(number)).ok();
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn the_kernel_reports_the_number_of_waiting_clients() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = |_| UnixStream::connect(&path).unwrap();
        let _waiting: Vec<UnixStream> = (0..3).map(connect).collect();
        assert_eq!(length(&listener).unwrap(), 3);
        drop(listener.accept().unwrap());
        assert_eq!(length(&listener).unwrap(), 2);
        assert!(length(fs::File::open(place.path()).unwrap()).is_err());
    }

    #[test]
    fn it_was_full_if_as_many_waited_as_it_has_room_for() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let was_full = |room: usize, goes: &[(usize, bool)]| {
            let mut backlog = Backlog { room, ..Backlog::new() };
            goes.iter().for_each(|(number, are_all)| backlog.accepted(*number, *are_all, &listener));
            (backlog.take_was_full(), backlog.is_empty(), backlog.take_was_full())
        };
        let connect = |_| UnixStream::connect(&path).unwrap();
        let _waiting: Vec<UnixStream> = (0..3).map(connect).collect();
        // A client that connects all the time does not fill the backlog.
        assert_eq!(was_full(6, &[(2, false), (2, false), (2, false), (2, true)]), (false, true, false));
        assert_eq!(was_full(5, &[(2, false)]), (true, false, false));
        assert_eq!(was_full(5, &[(4, true)]), (false, true, false));
        assert_eq!(was_full(5, &[(5, true)]), (true, true, false));
    }

    #[test]
    fn replies_that_make_no_sense_are_none() {
        assert_eq!(waiting(&[]), None);
        assert_eq!(waiting(&[0; 64]), None);
        let mut reply = [0u8; 64];
        reply[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert_eq!(waiting(&reply), None);
        reply[34..36].copy_from_slice(&4u16.to_ne_bytes());
        reply[36..40].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(waiting(&reply), Some(7));
    }
}
