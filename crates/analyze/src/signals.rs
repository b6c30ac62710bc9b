//! Signals on their way: who sent them.

use crate::cause::Waker;
use sordino_event::{Pid, Tid};
use std::collections::HashMap;

/// Signals that were sent and not delivered yet, of each thread: at most as many are remembered.
const PENDING_MAX: usize = 64;

/// Who sent the signals that are not delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Signals(HashMap<Tid, Vec<(i64, Waker)>>);

impl Signals {
    /// Takes in that `sender` sends a signal to this thread, or to the process that it is the first thread of. A signal that is pending is
    /// not sent again.
    pub(crate) fn send(&mut self, to: Tid, signal: i64, sender: Waker) {
        let pending = self.0.entry(to).or_default();
        if pending.len() < PENDING_MAX && pending.iter().all(|(other, _)| *other != signal) {
            pending.push((signal, sender));
        }
    }

    /// Returns who sent a signal that this thread of this process gets.
    pub(crate) fn deliver(&mut self, tid: Tid, pid: Option<Pid>, signal: i64) -> Waker {
        let process = pid.map(|pid| Tid(pid.0));
        let sender = [Some(tid), process].into_iter().flatten().find_map(|to| self.take(to, signal));
        sender.unwrap_or(Waker::Unknown)
    }

    fn take(&mut self, to: Tid, signal: i64) -> Option<Waker> {
        let pending = self.0.get_mut(&to)?;
        let place = pending.iter().position(|(other, _)| *other == signal)?;
        Some(pending.swap_remove(place).1)
    }

    /// Takes in that `tid` is no thread any more.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// Takes in that records are missing: signals may have been delivered.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
