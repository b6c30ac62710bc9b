//! When threads waited for a CPU: all of them, because any may turn out to have kept an explained one waiting.

use crate::cause::Thread;
use sordino_event::{Nanos, Tid, Time};
use std::collections::{HashMap, VecDeque};

/// As many waits of a thread are remembered: a thread that holds a lock is rarely preempted more often.
const REMEMBERED: usize = 8;

/// A time in which a thread could have run and another one did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    from: Time,
    to: Time,
    /// Who ran when it began.
    pub(crate) behind: Thread,
}

impl Wait {
    /// How much of it lies between two points in time.
    pub(crate) fn within(&self, from: Time, to: Time) -> Nanos {
        (self.to.min(to) - self.from.max(from)).max(Nanos::ZERO)
    }
}

/// The latest waits of every thread.
#[derive(Debug, Default)]
pub(crate) struct Waits(HashMap<Tid, VecDeque<Wait>>);

impl Waits {
    /// `tid` could run, but `behind` has the CPU. Changes nothing if it already waits.
    pub(crate) fn begin(&mut self, tid: Tid, now: Time, behind: Thread) {
        let waits = self.0.entry(tid).or_default();
        if waits.back().is_some_and(|wait| wait.to == Time::MAX) {
            return;
        }
        if waits.len() == REMEMBERED {
            waits.pop_front();
        }
        waits.push_back(Wait { from: now, to: Time::MAX, behind });
    }

    /// `tid` has a CPU.
    pub(crate) fn end(&mut self, tid: Tid, now: Time) {
        if let Some(wait) = self.0.get_mut(&tid).and_then(VecDeque::back_mut) {
            wait.to = wait.to.min(now);
        }
    }

    /// The latest waits of `tid`.
    pub(crate) fn of(&self, tid: Tid) -> impl Iterator<Item = &Wait> {
        self.0.get(&tid).into_iter().flatten()
    }

    /// `tid` is no thread any more.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// Records are missing: who waits is unknown.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
