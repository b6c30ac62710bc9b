//! A sheet: what is painted of one window.

use crate::{CpuLane, Handler, Hole, LaneSpan, LaneState, Lanes, Mark, ThreadLane, WakeUp, Window};
use sordino_analyze::Thread;
use sordino_event::{Cpu, Nanos, Tid, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of spans, wake-ups and marks in a sheet, each.
const MOST: usize = 20_000;
/// The number of marks of a thread that hits one tracepoint all the time.
const MARKS_PER_THREAD: i64 = 500;
/// The maximum number of threads with a lane.
const MOST_THREADS: usize = 12;

/// The picture of a window while the trace is read.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) window: Window,
    cpus: BTreeMap<Cpu, CpuLane>,
    threads: HashMap<Tid, ThreadLane>,
    wake_ups: Vec<WakeUp>,
    marks: Vec<Mark>,
    /// The index of each thread's last mark.
    last_marks: HashMap<Tid, usize>,
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

    fn lane(&mut self, thread: &Thread) -> &mut ThreadLane {
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

    pub(super) fn mark(&mut self, at: Time, thread: &Thread, name: &Arc<str>) {
        let tid = thread.tid;
        // A thread that hits a tracepoint has a lane, even if its states are not recorded.
        self.lane(thread);
        let near = Nanos((self.window.to - self.window.from).0 / MARKS_PER_THREAD);
        let last = self.last_marks.get(&tid).and_then(|index| self.marks.get_mut(*index));
        if let Some(last) = last.filter(|last| last.name == *name && at - last.at < near) {
            last.count += 1;
        } else if self.marks.len() < MOST {
            self.last_marks.insert(tid, self.marks.len());
            self.marks.push(Mark { at, count: 1, tid, name: Arc::clone(name) });
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

    /// Returns the lanes: those of threads that did nothing in the window are left out.
    pub(super) fn finish(mut self, has_switches: bool) -> Lanes {
        let own = self.window.tid;
        let wakers: HashSet<Tid> = self
            .wake_ups
            .iter()
            .filter(|wake_up| wake_up.tid == own)
            .filter_map(|wake_up| wake_up.by)
            .collect();
        let is_active = |lane: &ThreadLane| {
            let tid = lane.thread.tid;
            let is_moving = |span: &LaneSpan<LaneState>| {
                matches!(span.activity, LaneState::Running(_) | LaneState::Runnable)
            };
            tid == own || wakers.contains(&tid) || lane.states.is_empty() || lane.states.iter().any(is_moving)
        };
        let own_cpus: HashSet<u32> = self.threads.get(&own).into_iter().flat_map(ThreadLane::cpus).collect();
        let mut threads: Vec<ThreadLane> = self.threads.into_values().filter(is_active).collect();
        threads.sort_by_key(|lane| {
            let tid = lane.thread.tid;
            let on_own = lane.ran_on(|cpu| own_cpus.contains(&cpu));
            (tid != own, !wakers.contains(&tid), Reverse(on_own), Reverse(lane.ran), tid)
        });
        let hidden_threads = threads.len().saturating_sub(MOST_THREADS);
        threads.truncate(MOST_THREADS);
        let has_lane = |tid: Tid| threads.iter().any(|lane| lane.thread.tid == tid);
        self.wake_ups.retain(|wake_up| has_lane(wake_up.tid));
        for lane in self.cpus.values_mut() {
            lane.interrupts.sort_by_key(|span| (span.from, span.activity.depth));
        }
        Lanes {
            window: self.window,
            has_switches,
            cpus: self.cpus.into_values().collect(),
            threads,
            hidden_threads,
            wake_ups: self.wake_ups,
            marks: self.marks,
            lost: self.lost,
            left_out: self.left_out,
        }
    }
}
