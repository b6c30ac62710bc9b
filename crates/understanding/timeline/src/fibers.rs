//! The fibers of all programs by their records so far: the thread of each, or the reason why it has none.

mod apply;
mod contradiction;

pub(crate) use apply::RecordOrigin;
pub use contradiction::{Contradiction, Inconsistency};

use crate::fiber::{FiberId, FiberState, Mounted};
use foldhash::{HashMap, HashSet};
use sordino_event::{Event, Loss, Pid, Tid, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of fibers above which fibers without any known fact are forgotten.
const PRUNED_FROM: usize = 1 << 16;

/// The fibers of the traced programs at one moment of the trace.
///
/// Memory is bounded by twice the number of living fibers: a fiber may have ended in a lost record.
#[derive(Clone, Debug, Default)]
pub struct Fibers {
    fibers: HashMap<FiberId, KnownFiber>,
    /// The processes that have recorded anything about fibers.
    programs: HashSet<Pid>,
    threads: HashMap<(Pid, Tid), (Mounted, Evidence)>,
    /// The losses of each process's records.
    holes: HashMap<Pid, ProcessLosses>,
    /// The number of fibers at which the unknown ones were forgotten last, doubled.
    prune_at: usize,
    /// The fiber that has ended last: the event of its end still belongs to it.
    ended: Option<(FiberId, KnownFiber)>,
    contradictions: BTreeMap<&'static str, (u64, Contradiction)>,
    /// The first contradiction that the last event shows.
    latest: Option<Contradiction>,
}

/// The known attributes of a fiber.
#[derive(Clone, Debug)]
struct KnownFiber {
    name: Option<Arc<str>>,
    named: Evidence,
    state: FiberState,
    seen: Evidence,
    /// The thread that it is on, was on last, or was made on.
    thread: Tid,
    /// The number of the fiber that woke it, with the evidence, if the fiber was not known to be off its thread then:
    /// the next switch from it leaves it ready.
    woken: Option<(Option<u64>, Evidence)>,
    /// True if it has ended, and its thread has not switched yet.
    has_ended: bool,
}

/// The time of the record that shows a fact, and the number of earlier losses of its process.
#[derive(Clone, Copy, Debug)]
struct Evidence {
    time: Time,
    losses: u64,
}

/// The losses of a process's records so far.
#[derive(Clone, Copy, Debug)]
struct ProcessLosses {
    losses: u64,
    /// The time until which records are missing.
    until: Time,
}

impl Evidence {
    /// Returns true if no record is missing that could have changed the fact, given the losses of its process.
    fn holds(self, hole: Option<ProcessLosses>) -> bool {
        hole.is_none_or(|hole| self.losses == hole.losses && self.time >= hole.until)
    }
}

impl Fibers {
    /// Returns the code that a thread executes while it has a CPU. Its ids are those in the program's events.
    pub fn mounted(&self, pid: Pid, tid: Tid) -> Mounted {
        match self.threads.get(&(pid, tid)) {
            Some((mounted, seen)) if self.holds(pid, *seen) => *mounted,
            None if !self.holes.contains_key(&pid) => Mounted::Outside,
            Some(_) | None => Mounted::Unknown,
        }
    }

    /// Returns the state of a fiber.
    pub fn state(&self, fiber: FiberId) -> &FiberState {
        match self.fibers.get(&fiber) {
            Some(record) if self.holds(fiber.pid, record.seen) => &record.state,
            Some(_) | None => &FiberState::Unknown,
        }
    }

    /// Returns the name of a fiber, if it has one. The fiber may have ended with the last event.
    pub fn name(&self, fiber: FiberId) -> Option<&Arc<str>> {
        self.record(fiber)?.name.as_ref()
    }

    /// Returns true if the fiber certainly has its [`name`](Self::name): no record was lost since that could have ended
    /// the fiber and given its number to another one.
    pub fn is_name_certain(&self, fiber: FiberId) -> bool {
        self.record(fiber).is_some_and(|record| self.holds(fiber.pid, record.named))
    }

    fn record(&self, fiber: FiberId) -> Option<&KnownFiber> {
        let ended = || self.ended.as_ref().filter(|(ended, _)| *ended == fiber).map(|(_, record)| record);
        self.fibers.get(&fiber).or_else(ended)
    }

    /// Removes a fiber that has ended.
    fn remove(&mut self, fiber: FiberId) {
        if let Some(record) = self.fibers.remove(&fiber) {
            self.ended = Some((fiber, record));
        }
    }

    /// Returns the thread that the fiber is on, was on last, or was made on.
    pub fn last_thread(&self, fiber: FiberId) -> Option<Tid> {
        self.fibers.get(&fiber).map(|record| record.thread)
    }

    /// Returns the number of fibers that are known.
    pub fn len(&self) -> usize {
        self.fibers.len()
    }

    /// Returns true if no fiber is known.
    pub fn is_empty(&self) -> bool {
        self.fibers.is_empty()
    }

    /// Returns the contradictions so far: of each kind their number and the first one.
    pub fn contradictions(&self) -> impl Iterator<Item = (u64, Contradiction)> {
        self.contradictions.values().copied()
    }

    pub(crate) fn latest_contradiction(&self) -> Option<Contradiction> {
        self.latest
    }

    /// Begins an event, which has shown no contradiction yet.
    pub(crate) fn begin(&mut self) {
        self.latest = None;
    }

    /// Counts a record whose process or thread is not known, which changes nothing.
    pub(crate) fn reject(&mut self, event: &Event) {
        let Event { time, pid, tid, .. } = *event;
        self.count(Contradiction { time, pid, tid, what: Inconsistency::Malformed });
    }

    /// Makes all facts about a process doubtful, as records are missing, until new records show them.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        let Some(pid) = loss.pid else { return };
        let hole = self.holes.entry(pid).or_insert(ProcessLosses { losses: 0, until: loss.to });
        hole.losses += 1;
        hole.until = hole.until.max(loss.to);
    }

    /// Forgets a process that has ended or executes another program.
    pub(crate) fn end_process(&mut self, pid: Pid) {
        if self.programs.remove(&pid) {
            self.threads.retain(|(of, _), _| *of != pid);
            self.fibers.retain(|fiber, _| fiber.pid != pid);
        }
        self.holes.remove(&pid);
    }

    /// Returns true if no record is missing that could have changed the fact.
    fn holds(&self, pid: Pid, seen: Evidence) -> bool {
        seen.holds(self.holes.get(&pid).copied())
    }

    /// Returns true if no program's record is missing so far.
    pub(crate) fn are_whole(&self) -> bool {
        self.holes.is_empty()
    }

    /// Returns true if no record of the process is missing so far.
    fn is_whole(&self, pid: Pid) -> bool {
        !self.holes.contains_key(&pid)
    }

    fn evidence(&self, pid: Pid, time: Time) -> Evidence {
        Evidence { time, losses: self.holes.get(&pid).map_or(0, |hole| hole.losses) }
    }

    /// Forgets the fibers about which nothing is known, if there are many.
    fn prune(&mut self) {
        if self.fibers.len() < self.prune_at.max(PRUNED_FROM) {
            return;
        }
        let Self { fibers, holes, .. } = self;
        fibers.retain(|fiber, record| {
            record.seen.holds(holes.get(&fiber.pid).copied()) && record.state != FiberState::Unknown
        });
        self.prune_at = 2 * self.fibers.len();
    }
}
