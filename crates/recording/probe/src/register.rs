//! The registration of the program with recorders.
//!
//! A recorder listens on a Unix socket of packets. The address of the one that started this program, if one did, is in
//! `SORDINO_SESSION`; [`discovery`] finds those of others. The program sends each of them one
//! [packet](sordino_registration::RegistrationPacket). Then it waits for the replies, a [bounded
//! time](sordino_registration::Patience) for all of them together. From before the first packet on, its new tracepoints
//! are [pending](sordino_ring::area::pending): hits are counted for the recorders that have not answered. The
//! [reply](RecorderReply) is that the recorder has answered in the area, or that it will not; the end of the connection
//! is the latter, too. A program that stops waiting sends [`WENT_ON`].
//!
//! The recorder that started the program receives a descriptor for the area's file with the packet, if the program
//! still has one; root's recorder drops it. Others have to open the file in `/proc/PID/fd`: a process that has it open
//! can write to the program's memory, and there the kernel checks the right to trace the program.
//!
//! All but [`Recorders::from_environment`] may run in a fork's child: no lock, no allocation.

use crate::connection::{Address, Reached, is_readable, send, send_now, uninterrupted};
use crate::discovery;
use crate::emit::ThisThread;
use crate::system::{self, AreaFile};
use sordino_registration::{
    MAX_RECORDERS, Patience, RecorderAddress, RecorderReply, RegistrationPacket, Token, WENT_ON, environment,
    is_runtime_dir,
};
use sordino_ring::area::pending::Pending;
use sordino_ring::write::ReadClock;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

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

    /// The recorder that started the program, and its token if it has one.
    pub(crate) const fn starter(&self) -> Option<&(Address, Option<Token>)> {
        self.starter.as_ref()
    }

    /// The directory of sessions that the environment names.
    pub(crate) fn runtime_dir(&self) -> Option<&CStr> {
        self.runtime_dir.as_deref()
    }

    /// Sends a packet to all recorders, then waits for their replies, so that a silent one does not delay the others.
    pub(crate) fn register(&mut self, file: &AreaFile, pending: Pending<'_>, new: Range<u16>) {
        let until = Instant::now() + self.patience.time();
        let mut registered = [const { None }; MAX_RECORDERS];
        let mut free = registered.iter_mut();
        let mut begun = false;
        let mut await_another = || {
            if !std::mem::replace(&mut begun, true) {
                pending.begin(new.clone(), ThisThread.monotonic().0);
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
                    // It shows a recorder that reads it after the program has ended that hits may be missing.
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

/// Waits for a recorder's reply, not longer than `until`; `None` if it is silent.
fn reply(recorder: &OwnedFd, until: Instant) -> Option<RecorderReply> {
    if !is_readable(recorder, until) {
        return None;
    }
    let mut byte = 0u8;
    // SAFETY: `byte` has room for the one byte that is requested.
    let received = unsafe { libc::recv(recorder.as_raw_fd(), (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) };
    Some(RecorderReply::decode(if received == 1 { std::slice::from_ref(&byte) } else { &[] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorder_that_started_the_program_is_named_with_its_token() {
        let (_, token) = starter_of(b"@sordino-1-2/00000000000000010123456789abcdef").unwrap();
        assert!(token == Some(Token::new([1, 0x0123_4567_89ab_cdef])));
        assert!(starter_of(b"/run/a/programs").unwrap().1.is_none());
        for wrong in ["", "@a/", "@a/12", "@a/0123456789abcdefg123456789abcdef"] {
            assert!(starter_of(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
