//! Signals that ask a session for what it has, as signalfd(2) tells of them.

use super::{Session, Sink};
use std::os::fd::BorrowedFd;

/// `struct signalfd_siginfo`: its size, and where in it stand the signal, the sender's process and its user.
const SIZE: usize = 128;
const SIGNO: usize = 0;
const PID: usize = 12;
const UID: usize = 16;

/// `SIGUSR1`; the other one that is asked for is `SIGUSR2`.
const USR1: u32 = 10;

impl<'a> Session<'a> {
    /// Where signals come. While others wait to be written, they stay with the kernel, and are answered then.
    pub(super) fn heard_signals(&self) -> Option<BorrowedFd<'a>> {
        self.write_now.filter(|_| !self.has_backlog())
    }

    /// Writes a snapshot, or goes on in another chunk, if a signal has come since this was called last.
    pub(super) fn answer_signals(&mut self) {
        let Some(why) = self.heard_signals().and_then(came) else { return };
        match &self.sink {
            Sink::Memory(_) => {
                let job = self.snapshot(None, &why);
                self.write(job, None);
            }
            Sink::Chunk(_) => match self.rotate() {
                Ok(job) => self.write(job, None),
                Err(error) => self.tell(format!("no other chunk for {why}: {error}")),
            },
        }
    }
}

/// The last signal that came and where from. Several at once are one.
fn came(signals: BorrowedFd<'_>) -> Option<String> {
    let (mut last, mut info) = (None, [0; SIZE]);
    while matches!(rustix::io::read(signals, &mut info), Ok(SIZE)) {
        last = Some(describe(&info));
    }
    last
}

fn describe(info: &[u8; SIZE]) -> String {
    let word = |at: usize| u32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
    let name = if word(SIGNO) == USR1 { "SIGUSR1" } else { "SIGUSR2" };
    match (word(PID), word(UID)) {
        (0, uid) => format!("signal {name} of user {uid} from outside of this container"),
        (pid, uid) => format!("signal {name} of user {uid} from process {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sent_a_signal_is_told() {
        let mut info = [0; SIZE];
        info[SIGNO] = 12;
        info[UID..UID + 4].copy_from_slice(&1000_u32.to_ne_bytes());
        assert_eq!(describe(&info), "signal SIGUSR2 of user 1000 from outside of this container");
        info[SIGNO] = 10;
        info[PID..PID + 4].copy_from_slice(&4711_u32.to_ne_bytes());
        assert_eq!(describe(&info), "signal SIGUSR1 of user 1000 from process 4711");
    }
}
