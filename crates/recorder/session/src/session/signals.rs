//! Signals that request a snapshot or another chunk, received by signalfd(2).

use super::recordings::RecordSink;
use super::state::RecordingSession;
use std::os::fd::BorrowedFd;

/// Size of `struct signalfd_siginfo`, and the offsets of the signal, the sender's process and its user.
const SIZE: usize = 128;

const SIGNO: usize = 0;

const PID: usize = 12;

const UID: usize = 16;

/// `SIGUSR1`; the other one that is accepted is `SIGUSR2`.
const USR1: u32 = 10;

impl<'a> RecordingSession<'a> {
    /// Returns the descriptor of the signals, unless other snapshots wait to be written: signals then stay pending and
    /// are answered later.
    pub(super) fn signals_in_time(&self) -> Option<BorrowedFd<'a>> {
        self.progress.write_now.filter(|_| !self.recordings.has_backlog())
    }

    /// Writes a snapshot, or begins another chunk, if a signal has arrived since the last call.
    pub(super) fn answer_signals(&mut self) {
        let Some(why) = self.signals_in_time().and_then(came) else { return };
        match &self.recordings.sink {
            RecordSink::Memory(_) => {
                let job = self.snapshot(None, &why);
                self.recordings.write(job, None);
            }
            RecordSink::Chunk(_) => match self.rotate() {
                Ok(job) => self.recordings.write(job, None),
                Err(error) => self.recordings.add_note(format!("no other chunk for {why}: {error}")),
            },
        }
    }
}

/// Describes the last pending signal and its sender. Several at once count as one.
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
    fn the_sender_of_a_signal_is_reported() {
        let mut info = [0; SIZE];
        info[SIGNO] = 12;
        info[UID..UID + 4].copy_from_slice(&1000_u32.to_ne_bytes());
        assert_eq!(describe(&info), "signal SIGUSR2 of user 1000 from outside of this container");
        info[SIGNO] = 10;
        info[PID..PID + 4].copy_from_slice(&4711_u32.to_ne_bytes());
        assert_eq!(describe(&info), "signal SIGUSR1 of user 1000 from process 4711");
    }
}
