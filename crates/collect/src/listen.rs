//! The session's socket, by which programs say that they are there.
//!
//! The other side is `crates/probe/src/session.rs`.

use crate::Error;
use crate::discover::{Found, Hidden, area_at, areas};
use crate::runtime::{self, SOCKET};
use rustix::fs::{AtFlags, FileType, Mode, chmodat, statat, unlinkat};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recvmsg, send, socket_with,
};
use rustix::process::{Uid, geteuid};
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::iter;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The first word of a program's packet.
const HELLO: u64 = u64::from_le_bytes(*b"sordino1");
/// How long a program that has connected may take to send its packet.
const PATIENCE: Duration = Duration::from_millis(200);
/// Programs that may wait to be looked at; the next ones wait to connect.
const QUEUE: i32 = 1024;
/// Connections that are looked at in one go: who connects all the time shall not keep the recorder from its work.
const MOST: usize = 256;
/// Connections that may be silent: who makes more shall not use up the recorder's descriptors.
const MOST_SILENT: usize = 64;

/// Where programs announce themselves.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// What `SORDINO_SESSION` is set to.
    environment: OsString,
    /// The session's directory, if the socket lies in one.
    directory: Option<OwnedFd>,
    /// Those who have connected and not spoken yet, and since when.
    silent: Vec<(OwnedFd, Instant)>,
}

/// A program that waits for an answer; dropping it lets it go on.
#[derive(Debug)]
pub struct Announced {
    /// Its pid in our namespace; not positive if that is not visible here.
    pub pid: i32,
    /// The area's inode number, as it says.
    pub inode: u64,
    /// The number of its own descriptor for the area, as it says.
    descriptor: Option<u64>,
    file: Option<OwnedFd>,
    connection: OwnedFd,
}

impl Listener {
    /// For programs that are told: a socket with a name that nobody can guess and that leaves nothing in the file system.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> Result<Self, Error> {
        let mut random = [0u8; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(cannot_listen)?;
        let name = format!("sordino-{}-{:016x}", std::process::id(), u64::from_ne_bytes(random));
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(cannot_listen)?;
        let socket = bound(&address)?;
        listen(&socket, QUEUE).map_err(cannot_listen)?;
        Ok(Self { socket, environment: format!("@{name}").into(), directory: None, silent: Vec::new() })
    }

    /// For every program that looks into a [session's directory](crate::session_dir). A socket that an earlier recorder left
    /// there is replaced.
    ///
    /// # Errors
    /// Programs would not trust the directory, or what the kernel says.
    pub fn at(directory: &Path) -> Result<Self, Error> {
        let opened = runtime::open(directory)?;
        let is_socket = |found: rustix::fs::Stat| FileType::from_raw_mode(found.st_mode) == FileType::Socket;
        if statat(&opened, SOCKET, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_socket) {
            unlinkat(&opened, SOCKET, AtFlags::empty()).map_err(cannot_listen)?;
        }
        // An address has room for 107 bytes, and a path may be longer.
        let address = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
        let socket = bound(&SocketAddrUnix::new(address).map_err(cannot_listen)?)?;
        // Whose programs may come the directory says.
        chmodat(&opened, SOCKET, Mode::from_raw_mode(0o666), AtFlags::empty()).map_err(cannot_listen)?;
        listen(&socket, QUEUE).map_err(cannot_listen)?;
        let environment = directory.join(SOCKET).into_os_string();
        Ok(Self { socket, environment, directory: Some(opened), silent: Vec::new() })
    }

    /// What `SORDINO_SESSION` is set to in programs that the recorder starts.
    pub(crate) fn environment(&self) -> &OsStr {
        &self.environment
    }

    /// Whether only those programs come that the recorder started, or that were started by those.
    pub(crate) fn is_private(&self) -> bool {
        self.directory.is_none()
    }

    /// To be polled for programs that come or speak.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        iter::once(self.socket.as_fd()).chain(self.silent.iter().map(|(connection, _)| connection.as_fd()))
    }

    /// The programs that have announced themselves. What does not speak as a program should is sent away.
    pub fn accept(&mut self) -> Vec<Announced> {
        let connections = iter::from_fn(|| accept_with(&self.socket, SocketFlags::CLOEXEC).ok());
        let new = connections.take(MOST).map(|connection| (connection, Instant::now()));
        let waiting: Vec<_> = self.silent.drain(..).chain(new).collect();
        let mut announced = Vec::new();
        for (connection, since) in waiting {
            match receive(&connection) {
                Ok(Packet { pid, inode, descriptor, file }) => {
                    announced.push(Announced { pid, inode, descriptor, file, connection });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && since.elapsed() < PATIENCE => {
                    self.silent.push((connection, since));
                }
                Err(_) => {}
            }
        }
        // Programs among them are found in /proc instead.
        self.silent.drain(..self.silent.len().saturating_sub(MOST_SILENT));
        announced
    }
}

impl Announced {
    /// Its area: what it sent, or what `/proc` shows of it to those who have the right to trace it.
    ///
    /// # Errors
    /// [`Hidden`], if the area can't be reached.
    pub fn area(&self) -> Result<Found, Hidden> {
        let Some(file) = &self.file else {
            let is_it = |found: &Found| found.inode == self.inode;
            let there = self.descriptor.and_then(|descriptor| area_at(self.pid, descriptor)).filter(is_it);
            return match there {
                Some(found) => Ok(found),
                None => areas(self.pid)?.into_iter().find(is_it).ok_or(Hidden::Closed),
            };
        };
        Ok(Found { pid: self.pid, file: file.try_clone()?, inode: self.inode })
    }
}

/// A socket of packets with this address.
fn bound(address: &SocketAddrUnix) -> Result<OwnedFd, Error> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(cannot_listen)?;
    bind(&socket, address).map_err(cannot_listen)?;
    Ok(socket)
}

fn cannot_listen(error: impl Into<io::Error>) -> Error {
    Error::system("can't listen for programs")(error)
}

/// Whether a recorder takes what a program of this user says: its own programs', root those of all.
fn may_announce(program: Uid, recorder: Uid) -> bool {
    recorder.is_root() || program == recorder
}

/// What a program sends, with its pid.
struct Packet {
    pid: i32,
    inode: u64,
    descriptor: Option<u64>,
    file: Option<OwnedFd>,
}

fn receive(connection: &OwnedFd) -> io::Result<Packet> {
    let mut words = [0u8; 24];
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
    let word = |at: usize| words[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    let [hello, inode, descriptor] = [0, 8, 16].map(word);
    // Programs with an older library do not tell the descriptor.
    if !matches!(received.bytes, 16 | 24) || hello != HELLO {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let peer = rustix::net::sockopt::socket_peercred(connection)?;
    if !may_announce(peer.uid, geteuid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // 0 if the process is in a pid namespace that we can't see.
    let pid = peer.pid.as_raw_nonzero().get();
    Ok(Packet { pid, inode, descriptor: (received.bytes == 24).then_some(descriptor), file })
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // Whoever removed the directory removed the socket.
            let _ = unlinkat(directory, SOCKET, AtFlags::empty());
        }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // A program that has stopped waiting does not matter.
        let _ = send(&self.connection, b"g", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    #[test]
    fn a_recorder_hears_its_own_users_programs_and_root_all() {
        let [root, one, other] = [0, 1000, 1001].map(Uid::from_raw);
        assert!(may_announce(one, one) && may_announce(one, root) && may_announce(root, root));
        assert!(!may_announce(other, one) && !may_announce(root, one));
    }

    #[test]
    fn a_socket_in_a_directory_replaces_a_dead_one_and_is_gone_at_the_end() {
        // Longer than an address.
        let directory = tempfile::Builder::new().prefix(&"d".repeat(200)).tempdir().unwrap();
        let path = directory.path().join(SOCKET);
        let dead = Listener::at(directory.path()).unwrap();
        // As if its recorder had been killed.
        std::mem::forget(dead);
        let first = fs::metadata(&path).unwrap();
        let listener = Listener::at(directory.path()).unwrap();
        let second = fs::metadata(&path).unwrap();
        assert!(second.file_type().is_socket() && second.permissions().mode() & 0o777 == 0o666);
        assert_ne!(std::os::unix::fs::MetadataExt::ino(&first), std::os::unix::fs::MetadataExt::ino(&second));
        drop(listener);
        assert!(!path.exists());
        fs::write(&path, "not a socket").unwrap();
        assert!(
            Listener::at(directory.path()).unwrap_err().to_string().contains("can't listen for programs")
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "not a socket");
    }
}
