//! The intervals that are explained, by their threads and fibers.

use super::ExplainOptions;
use crate::account::Account;
use crate::cause::{FiberName, Thread};
use crate::usual::outside;
use foldhash::HashMap;
use sordino_event::{Nanos, Tid, Time};
use sordino_intervals::{Interval, Survey};
use sordino_timeline::{FiberId, FiberState, System, ThreadOrFiber};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The maximum number of intervals in the ranking that are not longer than twice the median.
const RANKED_FROM: usize = 1000;

/// The intervals of one thread or fiber.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) owner: ThreadOrFiber,
    /// The thread, or the one that carries the fiber.
    pub(super) thread: Thread,
    pub(super) fiber: Option<FiberName>,
    /// The intervals that have not begun, the earliest first.
    pub(super) ahead: VecDeque<(Interval, Role)>,
    pub(super) open: Vec<(Account, Role)>,
}

/// The purposes for which an interval is explained.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Role {
    /// The interval is listed with its explanation.
    pub(super) on_its_own: bool,
    /// The interval counts in the ranking.
    pub(super) is_ranked: bool,
    /// The interval belongs to the sample that defines usual times.
    pub(super) is_sample: bool,
    /// The interval is a stage of one that is listed.
    pub(super) is_stage: bool,
}

impl Story {
    pub(super) fn new((owner, intervals): (ThreadOrFiber, Looked)) -> Self {
        let (tid, fiber) = match owner {
            ThreadOrFiber::Thread(tid) => (tid, None),
            ThreadOrFiber::Fiber(FiberId { number, .. }) => {
                let tid = intervals.keys().next().map_or(Tid(0), |(interval, _)| interval.tid);
                (tid, Some(FiberName { number, name: None, is_doubtful: false }))
            }
        };
        let ahead = intervals.into_iter().map(|((interval, _), role)| (interval, role)).collect();
        let thread = Thread { tid, comm: None, priority: None, is_recorder: false };
        Self { owner, thread, fiber, ahead, open: Vec::new() }
    }

    /// Updates the names of the thread and the fiber. A fiber that has ended keeps its last name.
    pub(super) fn name(&mut self, system: &System) {
        if let ThreadOrFiber::Fiber(fiber) = self.owner {
            let name = FiberName::of(system, fiber);
            self.fiber = Some(name).filter(|name| name.name.is_some()).or(self.fiber.take());
            if let FiberState::Mounted { tid } = *system.fibers().state(fiber) {
                self.thread.tid = tid;
            }
        }
        self.thread = Thread::of(system, self.thread.tid);
    }

    /// Opens an account for each interval that has begun.
    pub(super) fn open_until(&mut self, now: Time) {
        while let Some((interval, role)) = self.ahead.pop_front_if(|(ahead, _)| ahead.begin <= now) {
            self.open.push((Account::open(interval), role));
        }
    }

    /// Returns the begin of the earliest interval that is not closed.
    pub(super) fn earliest(&self) -> Option<Time> {
        let ahead = self.ahead.front().map(|(interval, _)| interval.begin);
        self.open.iter().map(|(account, _)| account.interval.begin).chain(ahead).min()
    }
}

/// Returns the limit above which intervals are ranked: twice the median, or less where no more than [`RANKED_FROM`]
/// intervals are far outside of the usual lengths.
pub(super) fn default_limit(survey: &Survey) -> Nanos {
    let twice = Nanos(survey.statistics.median.0.saturating_mul(2));
    let many = survey.longest.get(RANKED_FROM).map_or(Nanos::ZERO, Interval::length);
    outside(&survey.sample).map_or(twice, |outside| twice.min(outside.max(many)))
}

/// The intervals of a thread or fiber that are explained, with their purposes. Equal intervals are numbered.
pub(super) type Looked = BTreeMap<(Interval, u32), Role>;

/// The maximum number of threads and fibers in the sample besides those of the explained intervals: each is followed
/// through the trace.
const OTHERS_SAMPLED: usize = 32;

pub(super) fn by_owner(
    survey: &Survey,
    limit: Nanos,
    options: ExplainOptions,
) -> BTreeMap<ThreadOrFiber, Looked> {
    let mut all: BTreeMap<ThreadOrFiber, Looked> = BTreeMap::new();
    let mut look = |interval: &Interval, alike: &mut HashMap<Interval, u32>, role: Role| {
        let number = alike.entry(interval.clone()).and_modify(|number| *number += 1).or_default();
        let known = all.entry(interval.owner()).or_default().entry((interval.clone(), *number)).or_default();
        known.on_its_own |= role.on_its_own;
        known.is_ranked |= role.is_ranked;
        known.is_sample |= role.is_sample;
        known.is_stage |= role.is_stage;
    };
    let mut alike = HashMap::default();
    let mut sampled: BTreeSet<ThreadOrFiber> = BTreeSet::new();
    for (place, interval) in survey.longest.iter().enumerate() {
        let is_over = interval.length() > limit;
        let on_its_own = place < options.longest && (is_over || options.limit.is_none());
        let is_ranked = is_over || on_its_own && survey.statistics.max <= limit;
        if is_ranked || on_its_own {
            look(interval, &mut alike, Role { on_its_own, is_ranked, ..Role::default() });
        }
        if on_its_own {
            sampled.insert(interval.owner());
            for (_, stage) in survey.stages(interval) {
                look(&stage, &mut HashMap::default(), Role { is_stage: true, ..Role::default() });
            }
        }
    }
    let most = sampled.len() + OTHERS_SAMPLED;
    let mut alike = HashMap::default();
    for interval in &survey.sample {
        if sampled.len() < most {
            sampled.insert(interval.owner());
        }
        if sampled.contains(&interval.owner()) {
            look(interval, &mut alike, Role { is_sample: true, ..Role::default() });
        }
    }
    all
}
