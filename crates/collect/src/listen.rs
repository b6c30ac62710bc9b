//! The session's socket, by which programs that the recorder started say that they are there.
//!
//! The other side is `crates/probe/src/session.rs`.

use crate::Error;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recvmsg, send, socket_with,
};
use std::io::{self, IoSliceMut};
use std::iter;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The first word of a program's packet.
const HELLO: u64 = u64::from_le_bytes(*b"sordino1");
/// How long a program that has connected may take to send its packet.
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections that are looked at in one go: who connects all the time shall not keep the recorder from its work.
const MOST: usize = 1024;

/// Where programs announce themselves.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    name: String,
    /// Those who have connected and not spoken yet, and since when.
    silent: Vec<(OwnedFd, Instant)>,
}

/// A program that waits for an answer; dropping it lets it go on.
#[derive(Debug)]
pub(crate) struct Announced {
    /// Its pid in our namespace.
    pub(crate) pid: i32,
    /// Its area, if it still has a descriptor for it.
    pub(crate) file: Option<OwnedFd>,
    /// The area's inode number.
    pub(crate) inode: u64,
    connection: OwnedFd,
}

impl Listener {
    /// A socket with a name that nobody can guess and that leaves nothing in the file system.
    pub(crate) fn new() -> Result<Self, Error> {
        let failed = || Error::system::<io::Error>("can't listen for programs");
        let mut random = [0u8; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| failed()(e.into()))?;
        let name = format!("sordino-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        let make = || -> io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
            listen(&socket, 1024)?;
            Ok(socket)
        };
        let socket = make().map_err(failed())?;
        Ok(Self { socket, name, silent: Vec::new() })
    }

    /// What `SORDINO_SESSION` is set to.
    pub(crate) fn environment(&self) -> String {
        format!("@{}", self.name)
    }

    /// To be polled for programs that come or speak.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        iter::once(self.socket.as_fd()).chain(self.silent.iter().map(|(connection, _)| connection.as_fd()))
    }

    /// The programs that have announced themselves. What does not speak as a program should is sent away.
    pub(crate) fn accept(&mut self) -> Vec<Announced> {
        let connections = iter::from_fn(|| accept_with(&self.socket, SocketFlags::CLOEXEC).ok());
        let new = connections.take(MOST).map(|connection| (connection, Instant::now()));
        let waiting: Vec<_> = self.silent.drain(..).chain(new).collect();
        let mut announced = Vec::new();
        for (connection, since) in waiting {
            match receive(&connection) {
                Ok((pid, inode, file)) => announced.push(Announced { pid, file, inode, connection }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && since.elapsed() < PATIENCE => {
                    self.silent.push((connection, since));
                }
                Err(_) => {}
            }
        }
        announced
    }
}

/// A program's packet: its pid, its area's inode number, its area.
fn receive(connection: &OwnedFd) -> io::Result<(i32, u64, Option<OwnedFd>)> {
    let mut words = [0u8; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        connection,
        &mut [IoSliceMut::new(&mut words)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().last();
    let [hello, inode] = [&words[..8], &words[8..]].map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    if received.bytes != words.len() || hello != HELLO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // 0 if the process is in a pid namespace that we can't see.
    let pid = rustix::net::sockopt::socket_peercred(connection)?.pid.as_raw_nonzero().get();
    Ok((pid, inode, file))
}

impl Drop for Announced {
    fn drop(&mut self) {
        // A program that has stopped waiting does not matter.
        let _ = send(&self.connection, b"g", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}
