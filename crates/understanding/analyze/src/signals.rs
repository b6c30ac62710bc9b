//! Signals that are sent and not delivered yet, with their senders.

use crate::cause::Waker;
use foldhash::HashMap;
use sordino_event::{Pid, Tid};
use sordino_timeline::kernel::Sent;

/// The maximum number of signals that are remembered for each thread or process.
const PENDING_MAX: usize = 64;
/// The first real-time signal: from this number on, each signal that is sent is delivered.
const QUEUED: i64 = 32;

/// The receiver of a signal: one thread, or any thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SignalReceiver {
    Thread(Tid),
    Process(Pid),
}

impl SignalReceiver {
    /// Returns the receiver of a signal to `tid`. If the trace does not have the kind of receiver, the first thread of
    /// a process stands for the process.
    pub(crate) fn of(tid: Tid, is_for_process: Option<bool>, pid: Option<Pid>) -> Self {
        let process = pid.unwrap_or(Pid(tid.0));
        // A signal to a process names the process's first thread.
        match is_for_process.unwrap_or(process.0 == tid.0) {
            true => Self::Process(process),
            false => Self::Thread(tid),
        }
    }
}

/// The senders of the signals that are not delivered yet, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Signals(HashMap<SignalReceiver, Vec<(i64, Waker)>>);

impl Signals {
    /// Notes that `sender` sends a signal. A pending signal is not sent again; `result` shows whether it was consumed
    /// without a delivery (`sigwait`).
    pub(crate) fn send(&mut self, to: SignalReceiver, signal: i64, result: Option<Sent>, sender: Waker) {
        if result == Some(Sent::Dropped) {
            return;
        }
        let pending = self.0.entry(to).or_default();
        let has_room = pending.len() < PENDING_MAX;
        match pending.iter_mut().find(|(other, _)| *other == signal && signal < QUEUED) {
            Some((_, known)) => match result {
                Some(Sent::Again) => {}
                Some(_) => *known = sender,
                None if *known == sender => {}
                None => *known = Waker::Unknown,
            },
            None if has_room => pending.push((signal, sender)),
            None => {}
        }
    }

    /// Returns the sender of a signal that this thread of this process receives. Signals to the thread come first.
    pub(crate) fn deliver(&mut self, tid: Tid, pid: Option<Pid>, signal: i64) -> Waker {
        let targets = [SignalReceiver::Thread(tid), SignalReceiver::Process(pid.unwrap_or(Pid(tid.0)))];
        targets.into_iter().find_map(|to| self.take(to, signal)).unwrap_or(Waker::Unknown)
    }

    fn take(&mut self, to: SignalReceiver, signal: i64) -> Option<Waker> {
        let pending = self.0.get_mut(&to)?;
        let place = pending.iter().position(|(other, _)| *other == signal)?;
        Some(pending.remove(place).1)
    }

    /// Forgets the signals of `tid`, which has ended.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&SignalReceiver::Thread(tid));
        self.0.remove(&SignalReceiver::Process(Pid(tid.0)));
    }

    /// Forgets all signals, as records are missing: they may have been delivered.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
