//! Signals on their way: who sent them.

use crate::cause::Waker;
use sordino_event::{Pid, Tid};
use sordino_timeline::kernel::Sent;
use std::collections::HashMap;

/// Signals that were sent and not delivered yet, of each thread or process: at most as many are remembered.
const PENDING_MAX: usize = 64;
/// From this number on, each signal that is sent comes: real-time signals.
const QUEUED: i64 = 32;

/// The receiver of a signal: one thread, or any thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Thread(Tid),
    Process(Pid),
}

impl Target {
    /// Returns the receiver of a signal that names `tid`; the process is meant if that is its first thread and the trace does not tell.
    pub(crate) fn of(tid: Tid, is_for_process: Option<bool>, pid: Option<Pid>) -> Self {
        let process = pid.unwrap_or(Pid(tid.0));
        // Who sends to a process names its first thread.
        match is_for_process.unwrap_or(process.0 == tid.0) {
            true => Self::Process(process),
            false => Self::Thread(tid),
        }
    }
}

/// The senders of the signals that are not delivered yet, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Signals(HashMap<Target, Vec<(i64, Waker)>>);

impl Signals {
    /// Takes in that `sender` sends a signal. One that is pending is not sent again; whether it was taken without a delivery (`sigwait`), the
    /// result tells.
    pub(crate) fn send(&mut self, to: Target, signal: i64, result: Option<Sent>, sender: Waker) {
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

    /// Returns who sent a signal that this thread of this process gets: what was sent to the thread comes first.
    pub(crate) fn deliver(&mut self, tid: Tid, pid: Option<Pid>, signal: i64) -> Waker {
        let targets = [Target::Thread(tid), Target::Process(pid.unwrap_or(Pid(tid.0)))];
        targets.into_iter().find_map(|to| self.take(to, signal)).unwrap_or(Waker::Unknown)
    }

    fn take(&mut self, to: Target, signal: i64) -> Option<Waker> {
        let pending = self.0.get_mut(&to)?;
        let place = pending.iter().position(|(other, _)| *other == signal)?;
        Some(pending.remove(place).1)
    }

    /// Takes in that `tid` is no thread any more.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&Target::Thread(tid));
        self.0.remove(&Target::Process(Pid(tid.0)));
    }

    /// Takes in that records are missing: signals may have been delivered.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
