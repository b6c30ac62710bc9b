//! The connections that the kernel keeps for a socket until they are accepted: was there room for all who came?

use rustix::fs::fstat;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::fs;
use std::io;
use std::os::fd::AsFd;

/// The most that a socket asks for.
pub(crate) const MOST: i32 = 4096;

/// The backlog of one socket.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// The most that the kernel keeps: what the socket asked for, or `net.core.somaxconn`, and one.
    room: usize,
    /// Connections that were accepted since there were none.
    accepted: usize,
    was_full: bool,
}

impl Backlog {
    /// Returns the backlog of a socket that asks for [`MOST`].
    pub(crate) fn new() -> Self {
        let limit = fs::read_to_string("/proc/sys/net/core/somaxconn");
        let limit = limit.ok().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(usize::MAX);
        Self { room: limit.min(MOST as usize) + 1, accepted: 0, was_full: false }
    }

    /// So many were accepted from `socket` in one go, and whether there are no more. If there are, their number tells whether there
    /// was room before; where the kernel does not say it (`sock_diag`), there was none if as many as that were accepted without an end.
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

    /// Returns true if there were no more connections in the last go.
    pub(crate) const fn is_empty(&self) -> bool {
        self.accepted == 0
    }

    /// Returns true if it may have been full since this was last asked.
    pub(crate) const fn take_was_full(&mut self) -> bool {
        std::mem::replace(&mut self.was_full, false)
    }
}

/// The number of connections that wait at a listening socket, by `sock_diag(7)`. Waits for nobody.
fn length(socket: impl AsFd) -> io::Result<usize> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let asking = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&asking, &request(fstat(socket)?.st_ino as u32), SendFlags::empty())?;
    let mut reply = [0; 512];
    let (_, length) = recv(&asking, &mut reply[..], RecvFlags::DONTWAIT)?;
    let waiting = waiting(reply.get(..length).unwrap_or(&reply));
    waiting.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `SOCK_DIAG_BY_FAMILY` of the kernel's `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

/// A `struct nlmsghdr` and a `struct unix_diag_req`, in the machine's byte order.
fn request(inode: u32) -> [u8; 40] {
    const NLM_F_REQUEST: u16 = 1;
    const UDIAG_SHOW_RQLEN: u32 = 16;
    let mut bytes = [0; 40];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &40u32.to_ne_bytes());
    put(4, &BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(16, &[AddressFamily::UNIX.as_raw() as u8]);
    // In any state; no cookie.
    put(20, &[0xff; 4]);
    put(24, &inode.to_ne_bytes());
    put(28, &UDIAG_SHOW_RQLEN.to_ne_bytes());
    put(32, &[0xff; 8]);
    bytes
}

/// The length of the queue in a reply: a `struct nlmsghdr`, a `struct unix_diag_msg`, and attributes.
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
    fn the_kernel_says_how_many_wait() {
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
        // Somebody who connects all the time does not fill it.
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
