//! A sheet: the painted contents of one window.

use crate::{
    CpuLane, FiberActivity, FiberLane, FiberWakeUp, Handler, Hole, LaneSpan, LaneState, Lanes, Mark,
    ThreadLane, WakeUp, Window,
};
use sordino_analyze::Thread;
use sordino_event::{Cpu, Domain, Nanos, Tid, Time};
use sordino_timeline::FiberId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of spans, wake-ups and marks in a sheet, each.
const MOST: usize = 20_000;
/// The number of marks of a thread that hits one tracepoint all the time.
const MARKS_PER_THREAD: i64 = 150;
/// The maximum number of CPUs with a lane, that of threads and that of fibers.
const MOST_CPUS: usize = 16;
const MOST_THREADS: usize = 12;
const MOST_FIBERS: usize = 12;

/// The picture of a window while the trace is read.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) window: Window,
    cpus: BTreeMap<Cpu, CpuLane>,
    threads: HashMap<Tid, ThreadLane>,
    wake_ups: Vec<WakeUp>,
    marks: Vec<Mark>,
    /// The index of the last mark of each thread and name.
    last_marks: HashMap<(Tid, Arc<str>), usize>,
    fibers: HashMap<FiberId, FiberLane>,
    fiber_wake_ups: Vec<FiberWakeUp>,
    lost: Vec<Hole>,
    spans: usize,
    left_out: u64,
}

impl Sheet {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            cpus: BTreeMap::new(),
            threads: HashMap::new(),
            wake_ups: Vec::new(),
            marks: Vec::new(),
            last_marks: HashMap::new(),
            fibers: HashMap::new(),
            fiber_wake_ups: Vec::new(),
            lost: Vec::new(),
            spans: 0,
            left_out: 0,
        }
    }

    /// Returns the part of a stretch that lies in the window, if any does.
    pub(super) fn clip(&self, from: Time, to: Time) -> Option<(Time, Time)> {
        let (from, to) = (from.max(self.window.from), to.min(self.window.to));
        (from < to).then_some((from, to))
    }

    pub(super) fn has(&self, at: Time) -> bool {
        self.window.from <= at && at <= self.window.to
    }

    /// Returns true if there is room for another span, and counts it.
    fn has_room(&mut self) -> bool {
        self.spans += 1;
        let has_room = self.spans <= MOST;
        self.left_out += u64::from(!has_room);
        has_room
    }

    pub(super) fn run(&mut self, cpu: Cpu, (from, to): (Time, Time), thread: Option<&Thread>) {
        let Some((from, to)) = self.clip(from, to) else { return };
        if self.has_room() {
            self.cpu(cpu).runs.push(LaneSpan { from, to, activity: thread.cloned() });
        }
    }

    pub(super) fn interrupt(&mut self, cpu: Cpu, (from, to): (Time, Time), handler: &Handler) {
        let Some((from, to)) = self.clip(from, to) else { return };
        if self.has_room() {
            self.cpu(cpu).interrupts.push(LaneSpan { from, to, activity: handler.clone() });
        }
    }

    fn cpu(&mut self, cpu: Cpu) -> &mut CpuLane {
        self.cpus.entry(cpu).or_insert_with(|| CpuLane { cpu: cpu.0, ..CpuLane::default() })
    }

    pub(super) fn state(&mut self, thread: &Thread, (from, to): (Time, Time), state: LaneState) {
        let Some((from, to)) = self.clip(from, to) else { return };
        if !self.has_room() {
            return;
        }
        let lane = self.lane(thread);
        if matches!(state, LaneState::Running(_)) {
            lane.ran += to - from;
        }
        lane.states.push(LaneSpan { from, to, activity: state });
    }

    /// Returns the lane of a thread, which exists from now on.
    pub(super) fn lane(&mut self, thread: &Thread) -> &mut ThreadLane {
        let new = || ThreadLane { thread: thread.clone(), states: Vec::new(), ran: Nanos::ZERO };
        let lane = self.threads.entry(thread.tid).or_insert_with(new);
        lane.thread.clone_from(thread);
        lane
    }

    pub(super) fn wake_up(&mut self, wake_up: WakeUp) {
        match self.wake_ups.len() < MOST {
            true => self.wake_ups.push(wake_up),
            false => self.left_out += 1,
        }
    }

    pub(super) fn fiber(
        &mut self,
        fiber: FiberId,
        name: Option<&Arc<str>>,
        (from, to): (Time, Time),
        activity: &FiberActivity,
    ) {
        let Some((from, to)) = self.clip(from, to) else { return };
        if self.has_room() {
            let new = || FiberLane { fiber, name: None, states: Vec::new() };
            let lane = self.fibers.entry(fiber).or_insert_with(new);
            lane.name = name.cloned();
            lane.states.push(LaneSpan { from, to, activity: activity.clone() });
        }
    }

    pub(super) fn wake_fiber(&mut self, wake_up: FiberWakeUp) {
        match self.fiber_wake_ups.len() < MOST {
            true => self.fiber_wake_ups.push(wake_up),
            false => self.left_out += 1,
        }
    }

    /// Adds an event of a thread to the thread's mark of this name if that mark is near, or else adds a mark.
    pub(super) fn mark(&mut self, at: Time, tid: Tid, name: &Arc<str>, domain: Domain) {
        let near = Nanos((self.window.to - self.window.from).0 / MARKS_PER_THREAD);
        let key = (tid, Arc::clone(name));
        let last = self.last_marks.get(&key).and_then(|index| self.marks.get_mut(*index));
        if let Some(last) = last.filter(|last| at - last.at < near) {
            last.count += 1;
        } else if self.marks.len() < MOST {
            self.last_marks.insert(key, self.marks.len());
            self.marks.push(Mark { at, count: 1, tid, name: Arc::clone(name), domain });
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn hole(&mut self, hole: Hole) {
        let Some((from, to)) = self.clip(hole.from, hole.to) else { return };
        match self.lost.len() < MOST {
            true => self.lost.push(Hole { from, to, ..hole }),
            false => self.left_out += 1,
        }
    }

    /// Returns the lanes: those of threads that had no CPU and hit no tracepoint in the window are left out, unless the
    /// thread is the window's own or woke it.
    pub(super) fn finish(mut self, has_switches: bool) -> Lanes {
        let (fibers, hidden_fibers) = self.fiber_lanes();
        let own = self.window.tid;
        let wakers: HashSet<Tid> = self
            .wake_ups
            .iter()
            .filter(|wake_up| wake_up.tid == own)
            .filter_map(|wake_up| wake_up.by)
            .collect();
        let own_cpus: HashSet<u32> = self.threads.get(&own).into_iter().flat_map(ThreadLane::cpus).collect();
        let marked: HashSet<Tid> =
            self.marks.iter().filter(|mark| mark.domain == Domain::User).map(|mark| mark.tid).collect();
        let is_active = |lane: &ThreadLane| {
            let tid = lane.thread.tid;
            tid == own || wakers.contains(&tid) || marked.contains(&tid) || lane.ran > Nanos::ZERO
        };
        let waits = |lane: &ThreadLane| lane.states.iter().any(|span| span.activity == LaneState::Runnable);
        let (mut threads, others): (Vec<ThreadLane>, Vec<ThreadLane>) =
            self.threads.into_values().partition(is_active);
        threads.sort_by_key(|lane| {
            let tid = lane.thread.tid;
            let on_own = lane.ran_on(|cpu| own_cpus.contains(&cpu));
            (tid != own, !wakers.contains(&tid), Reverse(on_own), Reverse(lane.ran), tid)
        });
        let hidden_threads = threads.len().saturating_sub(MOST_THREADS);
        threads.truncate(MOST_THREADS);
        let has_lane = |tid: Tid| threads.iter().any(|lane| lane.thread.tid == tid);
        self.wake_ups.retain(|wake_up| has_lane(wake_up.tid));
        self.marks.retain(|mark| has_lane(mark.tid));
        self.fiber_wake_ups.retain(|wake_up| fibers.iter().any(|lane| lane.fiber == wake_up.fiber));
        let (cpus, hidden_cpus) = cpu_lanes(self.cpus, &own_cpus);
        Lanes {
            window: self.window,
            has_switches,
            cpus,
            hidden_cpus,
            threads,
            hidden_threads,
            waiting_threads: others.into_iter().filter(waits).count(),
            fibers,
            hidden_fibers,
            wake_ups: self.wake_ups,
            fiber_wake_ups: self.fiber_wake_ups,
            marks: self.marks,
            lost: self.lost,
            left_out: self.left_out,
        }
    }

    /// Returns the lanes of fibers that could run in the window, and the number of those that have none.
    fn fiber_lanes(&mut self) -> (Vec<FiberLane>, usize) {
        let (own, tid) = (self.window.fiber, self.window.tid);
        let is_active = |lane: &FiberLane| {
            let can_run = |span: &LaneSpan<FiberActivity>| {
                matches!(span.activity, FiberActivity::On { .. } | FiberActivity::Ready)
            };
            Some(lane.fiber) == own || lane.states.iter().any(can_run)
        };
        let on = |lane: &FiberLane, is_it: &dyn Fn(Tid) -> bool| -> Nanos {
            let spans = lane.states.iter();
            let on_it =
                spans.filter(|span| matches!(span.activity, FiberActivity::On { tid, .. } if is_it(tid)));
            on_it.map(|span| span.to - span.from).sum()
        };
        let mut fibers: Vec<FiberLane> =
            self.fibers.drain().map(|(_, lane)| lane).filter(is_active).collect();
        fibers.sort_by_key(|lane| {
            let (on_own, on_any) = (on(lane, &|on| on == tid), on(lane, &|_| true));
            (Some(lane.fiber) != own, Reverse(on_own), Reverse(on_any), lane.fiber)
        });
        let hidden = fibers.len().saturating_sub(MOST_FIBERS);
        fibers.truncate(MOST_FIBERS);
        for lane in &mut fibers {
            let spans = std::mem::take(&mut lane.states);
            lane.states = spans.into_iter().flat_map(|span| self.with_thread(span)).collect();
        }
        (fibers, hidden)
    }

    /// Divides the time of a fiber on a thread by the states of that thread.
    fn with_thread(&self, span: LaneSpan<FiberActivity>) -> Vec<LaneSpan<FiberActivity>> {
        let FiberActivity::On { tid, .. } = span.activity else { return vec![span] };
        let states = self.threads.get(&tid).map_or(&[][..], |lane| &lane.states);
        let first = states.partition_point(|state| state.to <= span.from);
        let within = states[first..].iter().take_while(|state| state.from < span.to);
        let mut parts = Vec::new();
        let mut at = span.from;
        let mut add = |from: &mut Time, to: Time, state: LaneState| {
            if *from < to {
                parts.push(LaneSpan { from: *from, to, activity: FiberActivity::On { tid, state } });
                *from = to;
            }
        };
        for state in within {
            add(&mut at, state.from.max(span.from), LaneState::Unknown);
            add(&mut at, state.to.min(span.to), state.activity);
        }
        add(&mut at, span.to, LaneState::Unknown);
        parts
    }
}

/// Returns the lanes of CPUs by number, those of the window's thread and the busiest, and the number of those without
/// one.
fn cpu_lanes(cpus: BTreeMap<Cpu, CpuLane>, own: &HashSet<u32>) -> (Vec<CpuLane>, usize) {
    let mut lanes: Vec<CpuLane> = cpus.into_values().collect();
    lanes.sort_by_cached_key(|lane| (!own.contains(&lane.cpu), Reverse(lane.busy()), lane.cpu));
    let hidden = lanes.len().saturating_sub(MOST_CPUS);
    lanes.truncate(MOST_CPUS);
    lanes.sort_by_key(|lane| lane.cpu);
    for lane in &mut lanes {
        lane.interrupts.sort_by_key(|span| (span.from, span.activity.depth));
    }
    (lanes, hidden)
}
