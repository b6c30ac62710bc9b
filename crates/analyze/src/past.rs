//! What threads did lately: all of them, because any may turn out to have kept an explained one waiting.

use crate::cause::Thread;
use sordino_event::{Nanos, Tid, Time};
use std::collections::{HashMap, VecDeque};

/// As many spans of a thread are remembered: one that holds a lock is rarely preempted more often.
const REMEMBERED: usize = 32;

/// A time in which a thread did one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: Time,
    to: Time,
    pub(crate) did: Did,
}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// It had a CPU.
    Run,
    /// It could have run, and this one did, at least at first.
    Wait(Thread),
    /// It slept.
    Sleep,
}

impl Span {
    /// How much of it lies between two points in time.
    pub(crate) fn within(&self, from: Time, to: Time) -> Nanos {
        (self.to.min(to) - self.from.max(from)).max(Nanos::ZERO)
    }
}

/// The latest spans of every thread.
#[derive(Debug, Default)]
pub(crate) struct Past(HashMap<Tid, VecDeque<Span>>);

impl Past {
    /// `tid` has a CPU from now on.
    pub(crate) fn run(&mut self, tid: Tid, now: Time) {
        self.begin(tid, now, Did::Run);
    }

    /// `tid` could run, but `behind` has the CPU. Changes nothing if it already waits.
    pub(crate) fn wait(&mut self, tid: Tid, now: Time, behind: Thread) {
        let latest = self.0.get(&tid).and_then(VecDeque::back);
        if !latest.is_some_and(|span| matches!(span.did, Did::Wait(_))) {
            self.begin(tid, now, Did::Wait(behind));
        }
    }

    /// `tid` sleeps from now on.
    pub(crate) fn sleep(&mut self, tid: Tid, now: Time) {
        self.begin(tid, now, Did::Sleep);
    }

    fn begin(&mut self, tid: Tid, now: Time, did: Did) {
        let spans = self.0.entry(tid).or_default();
        let now = spans.back().map_or(now, |latest| now.max(latest.from));
        spans.back_mut().into_iter().for_each(|latest| latest.to = now);
        if spans.len() == REMEMBERED {
            spans.pop_front();
        }
        spans.push_back(Span { from: now, to: Time::MAX, did });
    }

    /// What `tid` did after `since`, as far as it is remembered.
    pub(crate) fn of(&self, tid: Tid, since: Time) -> impl Iterator<Item = &Span> {
        self.0.get(&tid).into_iter().flatten().filter(move |span| span.to > since)
    }

    /// `tid` is no thread any more.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// Records are missing: what anybody does is unknown.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
