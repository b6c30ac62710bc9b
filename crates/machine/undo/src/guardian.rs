//! The parent's side: starts a guardian and sends it steps.

use crate::guard::GREETING;
use crate::step::unescape;
use crate::{FailedStep, UndoStep};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Time within which a guardian sends its greeting.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// A child process that undoes its parent's changes.
///
/// Dropping it undoes them as well, and waits; only [`undo`](Self::undo) returns the failures.
#[derive(Debug)]
pub struct Guardian {
    process: Child,
    /// Connection to the guardian; `None` after undoing.
    stream: Option<BufReader<UnixStream>>,
    steps: Vec<(ChangeId, UndoStep)>,
    added: u64,
}

/// Identifies a change, for [`Guardian::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeId(u64);

/// Reason why a guardian is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The guardian did not start; nothing was changed.
    #[error("cannot start the process that undoes changes")]
    Start(#[source] io::Error),
    /// The guardian has exited, for example because it was killed. The caller has to carry out these steps, in this
    /// order.
    #[error("the process that undoes changes is gone; steps left to undo: {}", steps.len())]
    Gone {
        /// Steps that the guardian would have carried out.
        steps: Vec<UndoStep>,
        /// Error by which its exit was noticed.
        #[source]
        source: io::Error,
    },
}

impl Guardian {
    /// Starts `command`, which has to call [`guard`](crate::guard()), and waits until it is ready. Its standard streams
    /// are set here.
    ///
    /// # Errors
    /// [`Error::Start`] if the process cannot be started or sends no greeting.
    pub fn start(command: &mut Command) -> Result<Self, Error> {
        Self::spawn(command).map_err(Error::Start)
    }

    fn spawn(command: &mut Command) -> io::Result<Self> {
        // Both ends are closed on exec: no other child, such as the recorded command, inherits them.
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        // `command` still holds the child's end, and would keep this side from noticing the child's death.
        command.stdin(Stdio::null());
        ours.set_read_timeout(Some(READY_WITHIN))?;
        let stream = Some(BufReader::new(ours));
        let mut guardian = Self { process, stream, steps: Vec::new(), added: 0 };
        let greeting = guardian
            .receive()
            .and_then(|greeting| if greeting == GREETING { Ok(()) } else { Err(unexpected(&greeting)) });
        if let (Ok(()), Some(stream)) = (&greeting, &guardian.stream) {
            // From now on, a reply is sent when the request is done, which may take any time.
            stream.get_ref().set_read_timeout(None)?;
        } else {
            // The process is no guardian and may never exit.
            guardian.process.kill()?;
        }
        greeting.map(|()| guardian)
    }

    /// Sends `step` to the guardian. The change must not be made before this has returned.
    ///
    /// # Errors
    /// [`Error::Gone`]: the change must not be made then.
    pub fn add(&mut self, step: UndoStep) -> Result<ChangeId, Error> {
        let change = ChangeId(self.added);
        self.request(&format_args!("add\t{}\t{step}", change.0))?;
        self.added += 1;
        self.steps.push((change, step));
        Ok(change)
    }

    /// Drops the step of `change`, because the change was not made or was undone already.
    ///
    /// # Errors
    /// [`Error::Gone`] if the guardian has exited.
    pub fn forget(&mut self, change: ChangeId) -> Result<(), Error> {
        self.request(&format_args!("forget\t{}", change.0))?;
        self.steps.retain(|&(number, _)| number != change);
        Ok(())
    }

    /// Undoes every change that was not forgotten, the last one first, and returns the failures.
    ///
    /// # Errors
    /// [`Error::Gone`]; its list includes steps that the guardian carried out before it exited.
    pub fn undo(mut self) -> Result<Vec<FailedStep>, Error> {
        self.finish().map_err(|source| self.gone(source))
    }

    /// Returns the guardian's process id, which distinguishes it from traced processes.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    fn request(&mut self, line: &dyn Display) -> Result<(), Error> {
        let reply = self.send(line).and_then(|()| self.receive());
        match reply {
            Ok(reply) if reply == "ok" => Ok(()),
            Ok(reply) => Err(self.gone(unexpected(&reply))),
            Err(error) => Err(self.gone(error)),
        }
    }

    fn gone(&self, source: io::Error) -> Error {
        Error::Gone { steps: self.steps.iter().rev().map(|(_, step)| step.clone()).collect(), source }
    }

    fn finish(&mut self) -> io::Result<Vec<FailedStep>> {
        let mut failures = Vec::new();
        let undone = self.send(&"undo").and_then(|()| {
            loop {
                let reply = self.receive()?;
                let mut words = reply.split('\t');
                match (words.next(), words.next(), words.next()) {
                    (Some("ok"), None, _) => {}
                    (Some("done"), None, _) => return Ok(()),
                    (Some("failed"), Some(change), Some(reason)) => {
                        let failure = self.failure(change, reason).ok_or_else(|| unexpected(&reply))?;
                        failures.push(failure);
                    }
                    _ => return Err(unexpected(&reply)),
                }
            }
        });
        // Closed first: a guardian that still waits for a command treats the end as one.
        self.stream = None;
        self.process.wait()?;
        undone.map(|()| failures)
    }

    fn failure(&self, change: &str, reason: &str) -> Option<FailedStep> {
        let change = ChangeId(change.parse().ok()?);
        let (_, step) = self.steps.iter().find(|&&(number, _)| number == change)?;
        let reason = String::from_utf8_lossy(&unescape(reason)?).into_owned();
        Some(FailedStep { step: step.clone(), reason })
    }

    fn send(&mut self, line: &dyn Display) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        stream.get_mut().write_all(format!("{line}\n").as_bytes())
    }

    fn receive(&mut self) -> io::Result<String> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.pop() == Some('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if self.stream.is_some() {
            // Nobody can receive the failures.
            let _ = self.finish();
        }
    }
}

fn unexpected(reply: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it said '{reply}'"))
}
