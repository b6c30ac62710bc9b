//! The session's socket, where programs register.
//!
//! `sordino_registration` defines the protocol; the program's side is `crates/recording/probe/src/register.rs`. A
//! socket in a session's directory is for all programs that discover it. The private socket of a recorder that starts
//! its command is for programs with the token that the command inherits: every user can read the name of a private
//! socket in `/proc/net/unix`, but not the token.

use crate::backlog::{self, Backlog};
use crate::error::Error;
use crate::limits;
use crate::prepared::PreparedAreas;
use crate::refused::{Offence, RefusedPrograms};
use crate::registration::Registration;
use crate::runtime;
use rustix::fs::{AtFlags, FileType, Mode, chmodat, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    recv, recvmsg, sendmsg, socket_with,
};
use rustix::process::{Uid, geteuid};
use sordino_registration::trust::{is_token_right, may_register, offers_prepared_area, takes_descriptors};
use sordino_registration::{
    AnyPacket, BUFFER_SIZE, NO_PREPARED_AREA, PACKET_TIME, PREPARED_AREA, PacketError, PreparedAreaRequest,
    RecorderAddress, RegistrationPacket, SOCKET, Socket, SocketPath, Token, private_name,
};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most connections that are accepted in one go, so that a client that connects all the time does not keep the
/// recorder from its work.
const MOST: usize = 256;
/// The most connections that may be silent, so that they do not use up the recorder's descriptors.
const MOST_SILENT: usize = 64;
/// The time without accepting after descriptors or memory were used up: the socket stays readable meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The socket with which programs register.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The value of `SORDINO_SESSION` in programs that the recorder starts.
    environment: OsString,
    /// The session's directory, if the socket lies in one.
    directory: Option<OwnedFd>,
    /// The token that packets have to contain, on a private socket.
    token: Option<Token>,
    /// Connections that have not sent anything yet, and the time of each.
    silent: Vec<(Peer, Instant)>,
    refused: RefusedPrograms,
    /// The areas that programs may request.
    prepared: Option<PreparedAreas>,
    /// Shared with each registration that waits for its answer.
    waiting: Arc<()>,
    most_waiting: usize,
    /// The end of the time without accepting.
    paused: Option<Instant>,
    backlog: Backlog,
}

/// A connection, with the process and the user at its other end as the kernel reports them.
#[derive(Debug)]
struct Peer {
    connection: OwnedFd,
    /// The process id; 0 if the process is in a pid namespace that is not visible here.
    pid: i32,
    user: Uid,
}

impl Listener {
    /// Returns the socket for programs that inherit its token: an abstract one, which leaves nothing in the file
    /// system.
    ///
    /// # Errors
    /// The kernel's error, if a system call fails.
    pub fn new() -> Result<Self, Error> {
        let [number, first, second] = [random()?, random()?, random()?];
        let name = private_name(std::process::id(), number);
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).map_err(cannot_listen)?;
        let socket = bound(&address)?;
        listen(&socket, backlog::MOST).map_err(cannot_listen)?;
        let token = Some(Token::new([first, second]));
        let recorder = RecorderAddress { socket: Socket::Abstract(name.as_bytes()), token };
        Ok(Self::of(socket, OsString::from_vec(recorder.to_bytes()), None, token))
    }

    fn of(socket: OwnedFd, environment: OsString, directory: Option<OwnedFd>, token: Option<Token>) -> Self {
        let (silent, refused, paused, backlog) =
            (Vec::new(), RefusedPrograms::default(), None, Backlog::new());
        let (waiting, most_waiting) = (Arc::default(), limits::most_waiting());
        Self {
            socket,
            environment,
            directory,
            token,
            silent,
            refused,
            prepared: None,
            waiting,
            most_waiting,
            paused,
            backlog,
        }
    }

    /// Offers these areas to programs that request one.
    pub fn offer(&mut self, prepared: PreparedAreas) {
        self.prepared = Some(prepared);
    }

    /// Returns the socket for every program that searches a [session's directory](crate::runtime::session_dir). A
    /// socket that an earlier recorder left there is replaced.
    ///
    /// # Errors
    /// An error if programs would not trust the directory; the kernel's error, if a system call fails.
    pub fn at(directory: &Path) -> Result<Self, Error> {
        let opened = runtime::open(directory)?;
        let is_socket = |found: rustix::fs::Stat| FileType::from_raw_mode(found.st_mode) == FileType::Socket;
        if statat(&opened, SOCKET, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_socket) {
            unlinkat(&opened, SOCKET, AtFlags::empty()).map_err(cannot_listen)?;
        }
        // An address has room for 107 bytes, and the directory's path may be longer.
        let address = SocketPath(opened.as_raw_fd()).to_string();
        let socket = bound(&SocketAddrUnix::new(address).map_err(cannot_listen)?)?;
        // The directory's permissions decide which users' programs may register.
        chmodat(&opened, SOCKET, Mode::from_raw_mode(0o666), AtFlags::empty()).map_err(cannot_listen)?;
        listen(&socket, backlog::MOST).map_err(cannot_listen)?;
        let environment = directory.join(SOCKET).into_os_string();
        Ok(Self::of(socket, environment, Some(opened), None))
    }

    /// Returns the value of `SORDINO_SESSION` in programs that the recorder starts.
    pub fn environment(&self) -> &OsStr {
        &self.environment
    }

    /// Returns true if the socket is only for programs that the recorder started, and for those that they started.
    pub fn is_private(&self) -> bool {
        self.directory.is_none()
    }

    /// Returns the descriptors to be polled for programs that connect or send their packet.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listening = (!self.is_paused() && self.has_room()).then(|| self.socket.as_fd());
        listening.into_iter().chain(self.silent.iter().map(|(peer, _)| peer.connection.as_fd()))
    }

    /// Returns true if a connected program has not sent anything yet.
    pub const fn has_silent(&self) -> bool {
        !self.silent.is_empty()
    }

    /// Returns true if another connection may be accepted now.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Returns the number of connections that may be accepted now. Programs beyond that wait in the backlog, so that
    /// those that wait for their answers leave descriptors for what the answers need.
    fn room(&self) -> usize {
        let waiting = Arc::strong_count(&self.waiting) - 1 + self.silent.len();
        self.most_waiting.saturating_sub(waiting).min(MOST)
    }

    fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| Instant::now() < until)
    }

    /// Returns true if the backlog may have been full since the last call: programs that found no room may have ended
    /// unnoticed.
    pub const fn was_full(&mut self) -> bool {
        self.backlog.take_was_full()
    }

    /// Returns true if all waiting connections were accepted in the last go.
    pub const fn has_accepted_all(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Returns notes of the connections that were refused.
    pub fn refused(&self) -> impl Iterator<Item = String> {
        self.refused.notes()
    }

    /// Returns the registrations that have arrived, and answers requests for a prepared area. Connections that break
    /// the protocol are refused.
    pub fn accept(&mut self) -> Vec<Registration> {
        let now = Instant::now();
        let new = self.connections().into_iter().map(|peer| (peer, now));
        let silent = std::mem::take(&mut self.silent);
        let mut registrations = Vec::new();
        for (peer, since) in silent.into_iter().chain(new) {
            match self.receive(&peer) {
                // The peer has closed the connection.
                Ok(None) => {}
                Ok(Some(Received {
                    packet: AnyPacket::PreparedArea(PreparedAreaRequest { sizes, .. }),
                    ..
                })) => {
                    let user = peer.user.as_raw();
                    let offers = offers_prepared_area(user, geteuid().as_raw(), self.is_private());
                    let prepared = self.prepared.as_ref().filter(|_| offers);
                    let file = prepared.and_then(|areas| areas.offer(peer.pid, sizes));
                    let is_sent = peer.answer_request(file.as_deref());
                    if let (Some(areas), Some(_), false) = (prepared, file, is_sent) {
                        areas.withdraw();
                    }
                }
                Ok(Some(Received {
                    packet: AnyPacket::Registration(RegistrationPacket { inode, descriptor, .. }),
                    file,
                })) => {
                    let Peer { connection, pid, user } = peer;
                    let user = user.as_raw();
                    let (file, is_answered) = (file.map(Arc::new), false);
                    registrations.push(Registration {
                        pid,
                        user,
                        inode,
                        descriptor,
                        file,
                        connection,
                        is_answered,
                        _waits: Arc::clone(&self.waiting),
                    });
                }
                Err(None) if since.elapsed() < PACKET_TIME => self.silent.push((peer, since)),
                Err(offence) => self.refuse(&peer, offence.unwrap_or(Offence::Silence)),
            }
        }
        self.limit_silent();
        registrations
    }

    /// Accepts connections, a limited number, and returns those of users whose programs may register.
    fn connections(&mut self) -> Vec<Peer> {
        let mut peers = Vec::new();
        if self.is_paused() {
            return peers;
        }
        self.paused = None;
        let (mut accepted, mut are_all) = (0, false);
        for _ in 0..self.room() {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    accepted += 1;
                    let Ok(peer) = Peer::of(connection) else { continue };
                    if may_register(peer.user.as_raw(), geteuid().as_raw()) {
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

    /// Closes the oldest silent connections of the user who has most of them. Programs among these are found in `/proc`
    /// instead.
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

    /// Receives the packet of a program and the descriptor that came with it; `None` if the program has closed the
    /// connection. The error is `None` if there is no packet yet.
    fn receive(&self, peer: &Peer) -> Result<Option<Received>, Option<Offence>> {
        let mut buffer = [0u8; BUFFER_SIZE];
        let received = if takes_descriptors(self.is_private(), geteuid().as_raw()) {
            receive_with_file(&peer.connection, &mut buffer)
        } else {
            // There is no room for descriptors, so the kernel drops them.
            recv(&peer.connection, &mut buffer, RecvFlags::DONTWAIT).map(|(length, _)| (length, None))
        };
        let (length, file) = match received {
            Ok((0, _)) => return Ok(None),
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Err(None),
            Err(_) => return Ok(None),
        };
        let packet =
            AnyPacket::decode(buffer.get(..length).unwrap_or_default()).map_err(|error| match error {
                PacketError::Version => Offence::Version,
                PacketError::Nonsense => Offence::Nonsense,
            })?;
        match is_token_right(self.token, packet.token()) {
            true => Ok(Some(Received { packet, file })),
            false if self.is_private() => Err(Some(Offence::Token)),
            false => Err(Some(Offence::Nonsense)),
        }
    }
}

/// A packet and the descriptor that came with it.
struct Received {
    packet: AnyPacket,
    file: Option<OwnedFd>,
}

impl Peer {
    fn of(connection: OwnedFd) -> rustix::io::Result<Self> {
        let peer = rustix::net::sockopt::socket_peercred(&connection)?;
        Ok(Self { connection, pid: peer.pid.as_raw_nonzero().get(), user: peer.uid })
    }
}

impl Peer {
    /// Sends the descriptor of a prepared area, or that there is none. Returns false if the program has stopped
    /// waiting: it makes its own.
    fn answer_request(&self, file: Option<&OwnedFd>) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let file = file.map(AsFd::as_fd);
        let is_sent = ancillary.push(SendAncillaryMessage::ScmRights(file.as_slice()));
        let byte = if file.is_some() && is_sent { PREPARED_AREA } else { NO_PREPARED_AREA };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.connection, &[IoSlice::new(&byte)], &mut ancillary, flags).is_ok() && is_sent
    }
}

/// Returns a new socket of packets with this address.
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

/// Receives a packet and the last descriptor that was sent with it.
fn receive_with_file(
    connection: &OwnedFd,
    buffer: &mut [u8],
) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(connection, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?;
    let files = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let file = files.flatten().last();
    Ok((received.bytes, file))
}

/// Returns 64 random bits from the kernel.
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
            // If the directory was removed, the socket was removed with it.
            let _ = unlinkat(directory, SOCKET, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::send;
    use sordino_registration::{AreaSizes, RecorderReply};
    use sordino_ring::area::control::FileId;
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};

    #[test]
    fn a_socket_in_a_directory_replaces_a_dead_one_and_is_gone_at_the_end() {
        // The path is longer than an address.
        let directory = tempfile::Builder::new().prefix(&"d".repeat(200)).tempdir().unwrap();
        let path = directory.path().join(SOCKET);
        let dead = Listener::at(directory.path()).unwrap();
        // The socket stays, as if the recorder had been killed.
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

    /// A program's connection, over which it has sent `bytes`.
    fn connected(address: &SocketAddrUnix, bytes: &[u8]) -> OwnedFd {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        rustix::net::connect(&socket, address).unwrap();
        send(&socket, bytes, SendFlags::NOSIGNAL).unwrap();
        socket
    }

    /// The bytes that came back; none if the recorder has hung up.
    fn reply(connection: &OwnedFd) -> Vec<u8> {
        let mut bytes = [0; 8];
        let (_, length) = recv(connection, &mut bytes[..], RecvFlags::empty()).unwrap();
        bytes[..length].to_vec()
    }

    fn packet(token: Option<Token>) -> Vec<u8> {
        RegistrationPacket { inode: 7, descriptor: Some(3), token }.encode().as_bytes().to_vec()
    }

    #[test]
    fn packets_of_another_version_are_refused_and_counted() {
        let place = tempfile::tempdir().unwrap();
        let mut listener = Listener::at(place.path()).unwrap();
        let address = SocketAddrUnix::new(place.path().join(SOCKET)).unwrap();
        let later = [&b"sordino3"[..], &[0xa5; 4088]].concat();
        let others: Vec<OwnedFd> =
            [b"sordino3", b"sordino\0", &later[..]].map(|bytes| connected(&address, bytes)).into();
        let ours = connected(&address, &packet(None));
        let registrations = listener.accept();
        assert_eq!(registrations.len(), 1);
        assert_eq!((registrations[0].inode, registrations[0].pid), (7, std::process::id() as i32));
        drop(registrations);
        assert_eq!(reply(&ours), RecorderReply::GoOn.encode());
        assert!(others.iter().all(|connection| reply(connection).is_empty()));
        let notes: Vec<String> = listener.refused().collect();
        let expected = format!(
            "refused 3 connections of user {}: another version of the registration protocol: rebuild the program",
            geteuid().as_raw()
        );
        assert!(notes.len() == 1 && notes[0].starts_with(&expected), "{notes:?}");
    }

    #[test]
    fn a_token_is_needed_on_a_private_socket_and_wrong_on_others() {
        let place = tempfile::tempdir().unwrap();
        let mut listener = Listener::at(place.path()).unwrap();
        let address = SocketAddrUnix::new(place.path().join(SOCKET)).unwrap();
        let refused = connected(&address, &packet(Some(Token::new([1, 2]))));
        assert!(listener.accept().is_empty() && reply(&refused).is_empty());
        assert!(listener.refused().next().unwrap().contains("no packet of a program"));

        let mut listener = Listener::new().unwrap();
        let value = listener.environment().as_encoded_bytes().to_owned();
        let recorder = RecorderAddress::parse(&value).unwrap();
        let Socket::Abstract(name) = recorder.socket else { panic!("{recorder:?}") };
        let address = SocketAddrUnix::new_abstract_name(name).unwrap();
        let [first, second] = recorder.token.unwrap().words();
        let close = Token::new([first, second ^ 1]);
        let refused = [None, Some(close)].map(|token| connected(&address, &packet(token)));
        let accepted = connected(&address, &packet(recorder.token));
        let mut registrations = listener.accept();
        assert_eq!(registrations.len(), 1);
        registrations[0].is_answered = true;
        drop(registrations);
        assert_eq!(reply(&accepted), RecorderReply::Answered.encode());
        assert!(refused.iter().all(|connection| reply(connection).is_empty()));
        let notes: Vec<String> = listener.refused().collect();
        assert!(notes.len() == 1 && notes[0].starts_with("refused 2 connections of user "), "{notes:?}");
        assert!(notes[0].contains("without the token"), "{notes:?}");
    }

    #[test]
    fn a_request_for_a_prepared_area_is_answered_with_it_or_without() {
        let mut listener = Listener::new().unwrap();
        let value = listener.environment().as_encoded_bytes().to_owned();
        let recorder = RecorderAddress::parse(&value).unwrap();
        let Socket::Abstract(name) = recorder.socket else { panic!("{recorder:?}") };
        let address = SocketAddrUnix::new_abstract_name(name).unwrap();
        let sizes = AreaSizes { cpus: 1, points: 2, catalogue: 3, reserve: 4 };
        let request = |token| PreparedAreaRequest { sizes, token }.encode().as_bytes().to_vec();
        let [asked, stranger] = [recorder.token, None].map(|token| connected(&address, &request(token)));
        assert!(listener.accept().is_empty());
        assert_eq!(reply(&asked), NO_PREPARED_AREA);
        assert!(reply(&stranger).is_empty());

        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        listener.offer(PreparedAreas::ready(&file, sizes));
        // It is offered to a program that has gone, and is ready for another.
        drop(connected(&address, &request(recorder.token)));
        assert!(listener.accept().is_empty());
        let [first, second] = [(); 2].map(|()| connected(&address, &request(recorder.token)));
        assert!(listener.accept().is_empty());
        let mut byte = [0; 8];
        let (1, Some(sent)) = receive_with_file(&first, &mut byte).unwrap() else { panic!("no descriptor") };
        assert_eq!((byte[0], FileId::of(&sent).unwrap()), (PREPARED_AREA[0], FileId::of(&*file).unwrap()));
        assert_eq!(reply(&second), NO_PREPARED_AREA);
    }

    #[test]
    fn programs_beyond_those_that_may_wait_stay_in_the_backlog_until_others_are_answered() {
        let place = tempfile::tempdir().unwrap();
        let mut listener = Listener::at(place.path()).unwrap();
        listener.most_waiting = 2;
        let address = SocketAddrUnix::new(place.path().join(SOCKET)).unwrap();
        let programs: Vec<_> = (0..5).map(|_| connected(&address, &packet(None))).collect();
        let mut first = listener.accept();
        assert_eq!((first.len(), listener.has_room(), listener.fds().count()), (2, false, 0));
        assert!(listener.accept().is_empty() && !listener.has_accepted_all());
        first.pop();
        let second = listener.accept();
        assert_eq!(second.len(), 1);
        drop((first, second));
        assert_eq!(listener.accept().len(), 2);
        assert!(programs.iter().all(|program| reply(program) == RecorderReply::GoOn.encode()));
    }
}
