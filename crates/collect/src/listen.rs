//! The session's socket, by which programs say that they are there.
//!
//! The other side is `crates/probe/src/session.rs`. A program sends one packet of words in its byte order: [`HELLO`], its area's inode
//! number, and the number of its descriptor for the area. The third word is missing if it has closed that descriptor, and
//! [`NO_DESCRIPTOR`] where others follow. They follow on the private socket of a recorder that starts its command: two words, the
//! token that the command has inherited. The name of a private socket stands in `/proc/net/unix`, the token nowhere.
//!
//! Behind it comes a byte, [`WENT_ON`], if the program waits no longer.
//!
//! A descriptor sent with the packet is accepted from the recorder's own command alone, and never by root: root can open
//! `/proc/PID/fd` itself, and to close a descriptor of somebody else's may take for ever (FUSE).

use crate::Error;
use crate::backlog::{self, Backlog};
use crate::discover::{Found, Hidden, announced_areas, area_at};
use crate::refused::{Offence, Refused};
use crate::runtime::{self, SOCKET};
use rustix::fs::{AtFlags, FileType, Mode, chmodat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, listen, recv, recvmsg, send, socket_with,
};
use rustix::process::{Uid, geteuid};
use sordino_ring::control::FileId;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first word of a program's packet.
const HELLO: u64 = u64::from_le_bytes(*b"sordino1");
/// The third word of a packet with a token, if the program has closed its descriptor.
const NO_DESCRIPTOR: u64 = u64::MAX;
/// The byte for a program whose area says that this recorder has [answered](sordino_ring::pending), and for others.
const ANSWERED: &[u8] = b"a";
const GO_ON: &[u8] = b"g";
/// The byte that follows a program's packet when the program waits no longer.
const WENT_ON: [u8; 1] = *b"w";
/// How long a program that has connected may take to send its packet.
const PATIENCE: Duration = Duration::from_millis(200);
/// Connections that are looked at in one go: who connects all the time shall not keep the recorder from its work.
const MOST: usize = 256;
/// Connections that may be silent: who makes more shall not use up the recorder's descriptors.
const MOST_SILENT: usize = 64;
/// For how long nobody is accepted where descriptors or memory are used up: the socket stays readable meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// What a recorder's own programs inherit.
type Token = [u64; 2];

/// Where programs announce themselves.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// What `SORDINO_SESSION` is set to.
    environment: OsString,
    /// The session's directory, if the socket lies in one.
    directory: Option<OwnedFd>,
    /// What packets have to contain, on a private socket.
    token: Option<Token>,
    /// Those who have connected and not sent anything yet, and since when.
    silent: Vec<(Peer, Instant)>,
    refused: Refused,
    /// Until when nobody is accepted.
    paused: Option<Instant>,
    backlog: Backlog,
}

/// A connection, and who is at its other end, as the kernel says.
#[derive(Debug)]
struct Peer {
    connection: OwnedFd,
    /// 0 if the process is in a pid namespace that is not visible here.
    pid: i32,
    user: Uid,
}

/// A program that waits for an answer; dropping it lets it go on.
#[derive(Debug)]
pub struct Announced {
    /// Its pid in our namespace; not positive if that is not visible here.
    pub pid: i32,
    /// The user of the process, as the kernel gives it.
    pub user: u32,
    /// The area's inode number, as it says.
    pub inode: u64,
    /// The number of its own descriptor for the area, as it says.
    descriptor: Option<u64>,
    file: Option<Arc<OwnedFd>>,
    connection: OwnedFd,
    /// True if the recorder's answer is in the program's area.
    pub(crate) is_answered: bool,
}

/// Where an announced area is to be found.
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    pid: i32,
    inode: u64,
    descriptor: Option<u64>,
    file: Option<Arc<OwnedFd>>,
}

impl Listener {
    /// For programs that inherit its token: an abstract socket, which leaves nothing in the file system.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> Result<Self, Error> {
        let [number, first, second] = [random()?, random()?, random()?];
        let name = format!("sordino-{}-{number:016x}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(cannot_listen)?;
        let socket = bound(&address)?;
        listen(&socket, backlog::MOST).map_err(cannot_listen)?;
        let environment = format!("@{name}/{first:016x}{second:016x}").into();
        Ok(Self::of(socket, environment, None, Some([first, second])))
    }

    fn of(socket: OwnedFd, environment: OsString, directory: Option<OwnedFd>, token: Option<Token>) -> Self {
        let (silent, refused, paused, backlog) = (Vec::new(), Refused::default(), None, Backlog::new());
        Self { socket, environment, directory, token, silent, refused, paused, backlog }
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
        listen(&socket, backlog::MOST).map_err(cannot_listen)?;
        let environment = directory.join(SOCKET).into_os_string();
        Ok(Self::of(socket, environment, Some(opened), None))
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
        let listening = (!self.is_paused()).then(|| self.socket.as_fd());
        listening.into_iter().chain(self.silent.iter().map(|(peer, _)| peer.connection.as_fd()))
    }

    /// Returns true if a connected program has not sent anything yet.
    pub(crate) const fn has_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| Instant::now() < until)
    }

    /// Returns true if the backlog may have been full since this was last asked: programs that found no room may have ended unseen.
    pub(crate) const fn was_full(&mut self) -> bool {
        self.backlog.take_was_full()
    }

    /// Returns true if all who had connected were accepted in the last go.
    pub(crate) const fn has_accepted_all(&self) -> bool {
        self.backlog.is_empty()
    }

    /// What was sent away, for the notes.
    pub(crate) fn refused(&self) -> impl Iterator<Item = String> {
        self.refused.notes()
    }

    /// The programs that have announced themselves. What does not speak as a program should is sent away.
    pub fn accept(&mut self) -> Vec<Announced> {
        let now = Instant::now();
        let waiting: Vec<_> = std::mem::take(&mut self.silent);
        let new = self.connections().into_iter().map(|peer| (peer, now));
        let mut announced = Vec::new();
        for (peer, since) in waiting.into_iter().chain(new) {
            match self.receive(&peer) {
                // It hung up.
                Ok(None) => {}
                Ok(Some(Packet { inode, descriptor, file })) => {
                    let Peer { connection, pid, user } = peer;
                    announced.push(Announced {
                        pid,
                        user: user.as_raw(),
                        inode,
                        descriptor,
                        file,
                        connection,
                        is_answered: false,
                    });
                }
                Err(None) if since.elapsed() < PATIENCE => self.silent.push((peer, since)),
                Err(offence) => self.refuse(&peer, offence.unwrap_or(Offence::Silence)),
            }
        }
        self.limit_silent();
        announced
    }

    /// The connections that were made, a limited number, by those who may announce themselves at all.
    fn connections(&mut self) -> Vec<Peer> {
        let mut peers = Vec::new();
        if self.is_paused() {
            return peers;
        }
        self.paused = None;
        let (mut accepted, mut are_all) = (0, false);
        for _ in 0..MOST {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    accepted += 1;
                    let Ok(peer) = Peer::of(connection) else { continue };
                    if may_announce(peer.user, geteuid()) {
                        peers.push(peer);
                    } else {
                        self.refuse(&peer, Offence::User);
                    }
                }
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.paused = Some(Instant::now() + PAUSE);
                    break;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    are_all = error == Errno::AGAIN;
                    break;
                }
            }
        }
        self.backlog.accepted(accepted, are_all, &self.socket);
        peers
    }

    /// Hangs up on the oldest silent connections of whoever has most. Programs among them are found in /proc instead.
    fn limit_silent(&mut self) {
        while self.silent.len() > MOST_SILENT {
            let mut counts: HashMap<u32, usize> = HashMap::new();
            for (peer, _) in &self.silent {
                *counts.entry(peer.user.as_raw()).or_default() += 1;
            }
            let Some((user, _)) = counts.into_iter().max_by_key(|&(_, count)| count) else { return };
            let Some(oldest) = self.silent.iter().position(|(peer, _)| peer.user.as_raw() == user) else {
                return;
            };
            let (peer, _) = self.silent.remove(oldest);
            self.refuse(&peer, Offence::Silence);
        }
    }

    fn refuse(&mut self, peer: &Peer, offence: Offence) {
        self.refused.add(peer.user.as_raw(), peer.pid, offence);
    }

    /// The packet of a program, unless it has hung up. `None` as the error if there is none yet.
    fn receive(&self, peer: &Peer) -> Result<Option<Packet>, Option<Offence>> {
        let takes_files = self.is_private() && !geteuid().is_root();
        let mut words = [0u8; 48];
        let received = if takes_files {
            receive_with_file(&peer.connection, &mut words)
        } else {
            // Without room for descriptors: the kernel drops them.
            recv(&peer.connection, &mut words, RecvFlags::DONTWAIT).map(|(length, _)| (length, None))
        };
        let (length, file) = match received {
            Ok((0, _)) => return Ok(None),
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Err(None),
            Err(_) => return Ok(None),
        };
        let word = |index: usize| words[8 * index..8 * index + 8].try_into().map_or(0, u64::from_ne_bytes);
        if word(0) != HELLO || length < 16 {
            return Err(Some(Offence::Nonsense));
        }
        let descriptor = match (self.token, length) {
            (Some(token), 40) if is_same(token, [word(3), word(4)]) => word(2),
            (Some(_), _) => return Err(Some(Offence::Token)),
            (None, 16) => NO_DESCRIPTOR,
            (None, 24) => word(2),
            (None, _) => return Err(Some(Offence::Nonsense)),
        };
        let descriptor = (descriptor != NO_DESCRIPTOR).then_some(descriptor);
        Ok(Some(Packet { inode: word(1), descriptor, file: file.map(Arc::new) }))
    }
}

impl Peer {
    fn of(connection: OwnedFd) -> rustix::io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(&connection)?;
        Ok(Self { connection, pid: peer.pid.as_raw_nonzero().get(), user: peer.uid })
    }
}

/// Compares all of two tokens, whatever their first difference.
fn is_same(one: Token, other: Token) -> bool {
    (one[0] ^ other[0]) | (one[1] ^ other[1]) == 0
}

impl Announced {
    /// Its area: what it sent, or what `/proc` shows of it to those who have the right to trace it.
    ///
    /// # Errors
    /// [`Hidden`], if the area can't be reached, or is not the one that was announced.
    pub fn area(&self) -> Result<Found, Hidden> {
        self.whereabouts().area()
    }

    pub(crate) fn whereabouts(&self) -> Whereabouts {
        let Self { pid, inode, descriptor, ref file, .. } = *self;
        Whereabouts { pid, inode, descriptor, file: file.clone() }
    }
}

impl Whereabouts {
    /// See [`Announced::area`]. The inode number that the program says chooses among its own areas, and is believed in nothing else.
    pub(crate) fn area(&self) -> Result<Found, Hidden> {
        let pid = self.pid;
        let found = match &self.file {
            Some(file) => Some(Found { pid, id: FileId::of(file)?, file: file.try_clone()? }),
            None => self.descriptor.and_then(|descriptor| area_at(pid, descriptor)),
        };
        if let Some(found) = found {
            return if found.id.inode == self.inode { Ok(found) } else { Err(Hidden::NotItsOwn) };
        }
        let all = announced_areas(pid)?;
        let missing = if all.is_empty() { Hidden::Closed } else { Hidden::NotItsOwn };
        all.into_iter().find(|found| found.id.inode == self.inode).ok_or(missing)
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

/// What a program sends.
struct Packet {
    inode: u64,
    descriptor: Option<u64>,
    file: Option<Arc<OwnedFd>>,
}

/// Receives a packet and the last descriptor that was sent with it.
fn receive_with_file(connection: &OwnedFd, words: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(connection, &mut [IoSliceMut::new(words)], &mut ancillary, flags)?;
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().last();
    Ok((received.bytes, file))
}

/// 64 random bits.
fn random() -> Result<u64, Error> {
    let mut bytes = [0u8; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(bytes)),
        Ok(_) => Err(cannot_listen(Errno::IO)),
        Err(error) => Err(cannot_listen(error)),
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // Whoever removed the directory removed the socket.
            let _ = unlinkat(directory, SOCKET, AtFlags::empty());
        }
    }
}

impl Announced {
    /// Returns true if the program went on without an answer. A program that ended while it waited has hit nothing.
    pub(crate) fn went_on(&self) -> bool {
        let mut byte = [0];
        let received = recv(&self.connection, &mut byte, RecvFlags::DONTWAIT);
        received.is_ok_and(|(_, length)| length == 1) && byte == WENT_ON
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // A program that has stopped waiting does not matter.
        let byte = if self.is_answered { ANSWERED } else { GO_ON };
        let _ = send(&self.connection, byte, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
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
