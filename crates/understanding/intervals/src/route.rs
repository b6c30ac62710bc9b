//! The route of a request from thread to thread: the events with its key between the one that begins it and the one
//! that ends it.

use crate::interval::Interval;
use foldhash::HashMap;
use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_timeline::{FiberId, ThreadOrFiber};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of steps of one request; later ones belong to its last stage.
const STEPS_MAX: usize = 16;
/// The maximum number of steps of all requests in progress; at the limit, no more steps are kept.
const ALL_MAX: usize = 1 << 20;
/// The number of the longest requests whose routes are kept.
const ROUTES_MAX: usize = 1000;

/// An event on the route of a request.
#[derive(Clone, Debug)]
pub(crate) struct RouteStep {
    pub(crate) event: Arc<str>,
    pub(crate) time: Time,
    pub(crate) tid: Tid,
    pub(crate) pid: Option<Pid>,
    pub(crate) cpu: Option<Cpu>,
    pub(crate) fiber: Option<FiberId>,
}

impl RouteStep {
    fn owner(&self) -> ThreadOrFiber {
        self.fiber.map_or(ThreadOrFiber::Thread(self.tid), ThreadOrFiber::Fiber)
    }
}

/// The steps of requests in progress.
#[derive(Debug)]
pub(crate) struct Underway<K> {
    steps: HashMap<K, Vec<RouteStep>>,
    count: usize,
}

impl<K> Default for Underway<K> {
    fn default() -> Self {
        Self { steps: HashMap::default(), count: 0 }
    }
}

impl<K: Eq + std::hash::Hash> Underway<K> {
    /// Adds a step of the request with this key.
    pub(crate) fn step(&mut self, key: K, step: RouteStep) {
        if self.count == ALL_MAX {
            return;
        }
        let steps = self.steps.entry(key).or_default();
        if steps.len() < STEPS_MAX {
            steps.push(step);
            self.count += 1;
        }
    }

    /// Removes and returns the steps of a request that has ended, or begins again.
    pub(crate) fn end(&mut self, key: &K) -> Vec<RouteStep> {
        if self.count == 0 {
            return Vec::new();
        }
        let steps = self.steps.remove(key).unwrap_or_default();
        self.count -= steps.len();
        steps
    }

    /// Forgets the requests for which `is_kept` returns false.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&K) -> bool) {
        self.steps.retain(|key, _| is_kept(key));
        self.count = self.steps.values().map(Vec::len).sum();
    }
}

/// The routes of the longest requests that passed through more than one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(BTreeMap<(Nanos, Interval), Vec<RouteStep>>);

impl Routes {
    /// Keeps a request's steps, if one of them is of another thread or fiber than the request's.
    pub(crate) fn add(&mut self, interval: &Interval, begin: Option<ThreadOrFiber>, steps: Vec<RouteStep>) {
        let is_others = |owner: ThreadOrFiber| owner != interval.owner();
        if steps.is_empty() || !begin.into_iter().chain(steps.iter().map(RouteStep::owner)).any(is_others) {
            return;
        }
        self.0.insert((interval.length(), interval.clone()), steps);
        if self.0.len() > ROUTES_MAX {
            self.0.pop_first();
        }
    }

    /// Returns the stages of a request, with the names of the events at their ends.
    pub(crate) fn stages(&self, interval: &Interval, ends: [&str; 2]) -> Vec<([Arc<str>; 2], Interval)> {
        let Some(steps) = self.0.get(&(interval.length(), interval.clone())) else { return Vec::new() };
        let [begin, end] = ends.map(Arc::<str>::from);
        let Interval { begin: since, end: time, tid, pid, begin_cpu, end_cpu: cpu, fiber, .. } = *interval;
        let last = RouteStep { event: end, time, tid, pid, cpu, fiber };
        let (mut from, mut since, mut begin_cpu) = (begin, since, begin_cpu);
        let mut stages = Vec::new();
        for step in steps.iter().cloned().chain([last]) {
            let RouteStep { event: to, time: end, tid, pid, cpu: end_cpu, fiber } = step;
            let overhead = Nanos::ZERO;
            let stage = Interval { begin: since, end, tid, pid, begin_cpu, end_cpu, fiber, overhead };
            stages.push(([from, Arc::clone(&to)], stage));
            (from, since, begin_cpu) = (to, end, end_cpu);
        }
        stages
    }
}
