//! The recent past of all threads: any of them may have kept an explained thread waiting.

use crate::cause::{Limit, Thread, Waker};
use foldhash::HashMap;
use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_timeline::{Priority, TaskState};
use std::collections::VecDeque;

/// The number of spans of a thread that are remembered: a thread rarely is preempted more often while it holds a lock.
const REMEMBERED: usize = 32;
/// The number of turns of each CPU that are remembered: some tens of milliseconds under load.
const SLICES: usize = 1024;
/// The number of wake-ups that a chain is followed back.
const LEVELS: u32 = 4;
/// The maximum number of links in a chain, beyond which it is followed no further.
const LINKS_MAX: usize = 256;
/// The maximum number of threads behind which a thread waits in one span.
const TURNS_MAX: usize = 64;

/// A span of time in which a thread did one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ActivitySpan {
    from: Time,
    to: Time,
    pub(crate) did: Did,
    /// The CPU that it waited for, if it waited and the CPU is known.
    cpu: Option<Cpu>,
    /// True if it has waited since it was preempted there, and so stands in that CPU's queue.
    queued: bool,
}

/// The activity of a thread in a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// It had a CPU.
    Run,
    /// It was runnable, and this thread ran; `None` if the trace does not have it.
    Wait(Option<Thread>),
    /// It was runnable and its CPU was idle: a limit kept it from the CPU, or other threads had short turns meanwhile.
    Throttle,
    /// It slept; the waker, if the sleep is over.
    Sleep(Option<Waker>),
    /// A signal or a debugger had stopped it: the thread that continued it did not work for it meanwhile.
    Stop,
    /// The records contradict each other.
    Unknown,
}

/// The activity of one thread for some time while another one slept: a part of what the sleeper waited for.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The level: 1 for the thread that woke the sleeper, 2 for one that woke that thread, and so on.
    pub(crate) level: u32,
    pub(crate) thread: Thread,
    pub(crate) span: ActivitySpan,
}

impl ActivitySpan {
    /// Returns the time of the span that lies between two points in time.
    pub(crate) fn within(&self, from: Time, to: Time) -> Nanos {
        (self.to.min(to) - self.from.max(from)).max(Nanos::ZERO)
    }
}

/// The latest spans of every thread, and turns on every CPU.
#[derive(Debug)]
pub(crate) struct ThreadHistory {
    spans: HashMap<Tid, VecDeque<ActivitySpan>>,
    /// The threads that had each CPU, each with the time at which it got the CPU, the earliest first; `None` if the
    /// thread is not known.
    slices: HashMap<Cpu, VecDeque<(Time, Option<Thread>)>>,
    /// The time since which no records are missing.
    whole_since: Time,
    /// True if moves of threads from one CPU to another are recorded: without them, it is not known how long a thread
    /// waits for a CPU.
    knows_moves: bool,
}

impl ThreadHistory {
    /// Creates an empty past; `knows_moves` is true if moves of threads to other CPUs are recorded.
    pub(crate) fn new(knows_moves: bool) -> Self {
        Self { spans: HashMap::default(), slices: HashMap::default(), whole_since: Time::MIN, knows_moves }
    }

    /// Notes that `tid` has a CPU from now on.
    pub(crate) fn run(&mut self, tid: Tid, now: Time) {
        self.begin(tid, now, Did::Run, None);
    }

    /// Notes that a CPU has this thread from now on; `None` if the thread is not known.
    pub(crate) fn begin_slice(&mut self, cpu: Cpu, now: Time, thread: Option<Thread>) {
        let slices = self.slices.entry(cpu).or_default();
        let now = slices.back().map_or(now, |(latest, _)| now.max(*latest));
        if slices.len() == SLICES {
            slices.pop_front();
        }
        slices.push_back((now, thread));
    }

    /// Notes that `tid` is runnable, but another thread has its CPU.
    pub(crate) fn wait(&mut self, tid: Tid, now: Time, cpu: Cpu) {
        self.begin(tid, now, Did::Wait(None), Some(cpu));
        self.spans.get_mut(&tid).and_then(VecDeque::back_mut).into_iter().for_each(|span| span.queued = true);
    }

    /// Notes that `waker` ends the sleep of `tid`, which then waits for this CPU, if the CPU is known. Changes nothing
    /// if the thread already waits.
    pub(crate) fn wake(&mut self, tid: Tid, now: Time, waker: &Waker, cpu: Option<Cpu>) {
        match self.spans.get_mut(&tid).and_then(VecDeque::back_mut).map(|latest| &mut latest.did) {
            Some(Did::Wait(_)) => return,
            Some(Did::Sleep(ended)) => *ended = Some(waker.clone()),
            // A thread whose first record is its wake-up has slept so far; a new one is never woken like this.
            None if *waker != Waker::Unknown => {
                self.begin(tid, self.whole_since, Did::Sleep(Some(waker.clone())), None);
            }
            Some(Did::Run | Did::Throttle | Did::Stop | Did::Unknown) | None => {}
        }
        self.begin(tid, now, Did::Wait(None), cpu);
    }

    /// Notes that `tid`, if it waits, waits for this CPU from now on.
    pub(crate) fn elsewhere(&mut self, tid: Tid, now: Time, cpu: Cpu) {
        let latest = self.spans.get(&tid).and_then(VecDeque::back);
        if latest.is_some_and(|span| matches!(span.did, Did::Wait(_)) && span.cpu != Some(cpu)) {
            self.begin(tid, now, Did::Wait(None), Some(cpu));
        }
    }

    /// Notes that `tid` sleeps from now on, or is stopped.
    pub(crate) fn sleep(&mut self, tid: Tid, now: Time, state: TaskState) {
        let is_stopped = matches!(state, TaskState::Stopped | TaskState::Traced);
        self.begin(tid, now, if is_stopped { Did::Stop } else { Did::Sleep(None) }, None);
    }

    fn begin(&mut self, tid: Tid, now: Time, did: Did, cpu: Option<Cpu>) {
        let spans = self.spans.entry(tid).or_default();
        let now = now.max(self.whole_since);
        let now = spans.back().map_or(now, |latest| now.max(latest.from));
        spans.back_mut().into_iter().for_each(|latest| latest.to = now);
        if spans.len() == REMEMBERED {
            spans.pop_front();
        }
        spans.push_back(ActivitySpan { from: now, to: Time::MAX, did, cpu, queued: false });
    }

    /// Returns the chain that a sleep between two points in time waited for, as far as it is remembered: at each moment
    /// one thread with one activity. It is the waker, and where the waker slept until another thread woke it, that
    /// thread, and so on. The method is the critical path of F. Giraldeau and M. Dagenais, "Wait Analysis of
    /// Distributed Systems Using Kernel Tracing", IEEE TPDS 27(8), 2016.
    pub(crate) fn chain(&self, sleeper: Tid, waker: &Thread, from: Time, to: Time) -> Vec<Link> {
        let mut chain = Chain { past: self, sleeper, links: Vec::new() };
        chain.follow(1, waker, from, to);
        chain.links
    }

    /// Returns the threads that had a CPU between two points in time, as far as they are remembered, each with the end
    /// of its turn.
    fn slices(&self, cpu: Option<Cpu>, from: Time, to: Time) -> Vec<(Time, Option<&Thread>)> {
        let (mut found, mut thread) = (Vec::new(), None);
        let slices = cpu.and_then(|cpu| self.slices.get(&cpu));
        let first =
            slices.map_or(0, |slices| slices.partition_point(|(since, _)| *since <= from).saturating_sub(1));
        for (since, next) in slices.into_iter().flat_map(|slices| slices.range(first..)) {
            if *since >= to {
                break;
            }
            if *since > from {
                found.push((*since, thread));
            }
            thread = next.as_ref();
        }
        found.push((to, thread));
        found
    }

    /// Returns the time, from `from` to `to`, until which all turns of a CPU are recorded. A thread may follow the idle
    /// thread without a record.
    fn certain_until(&self, cpu: Option<Cpu>, from: Time, to: Time) -> Time {
        let (mut at, mut was_idle) = (from, false);
        for (until, thread) in self.slices(cpu, from, to) {
            if thread.is_none() && !was_idle {
                return at;
            }
            (at, was_idle) = (until, thread.is_some_and(Thread::is_idle));
        }
        to
    }

    /// Returns the time since which the activities of `tid` are remembered.
    fn earliest(&self, tid: Tid) -> Time {
        self.spans.get(&tid).and_then(VecDeque::front).map_or(Time::MAX, |earliest| earliest.from)
    }

    /// Forgets `tid`, which has ended.
    pub(crate) fn remove(&mut self, tid: Tid) {
        self.spans.remove(&tid);
    }

    /// Forgets the past of `tid`; its present activity is unknown.
    pub(crate) fn forget(&mut self, tid: Tid, now: Time) {
        self.remove(tid);
        self.begin(tid, now, Did::Unknown, None);
    }

    /// Forgets the past of all threads, as records are missing until now.
    pub(crate) fn clear(&mut self, now: Time) {
        self.spans.clear();
        self.slices.clear();
        self.whole_since = now;
    }
}

/// A chain of wake-ups that is being followed.
struct Chain<'a> {
    past: &'a ThreadHistory,
    sleeper: Tid,
    links: Vec<Link>,
}

impl Chain<'_> {
    fn follow(&mut self, level: u32, thread: &Thread, from: Time, to: Time) {
        let past = self.past;
        for ActivitySpan { from: begin, to: end, did, cpu, queued } in
            past.spans.get(&thread.tid).into_iter().flatten()
        {
            let span_begin = *begin;
            let (begin, end) = (from.max(*begin), to.min(*end));
            let mut link = |from: Time, to: Time, did: Did| {
                if from < to {
                    let span = ActivitySpan { from, to, did, cpu: None, queued: false };
                    self.links.push(Link { level, thread: thread.clone(), span });
                }
            };
            match did {
                _ if begin >= end => {}
                Did::Sleep(Some(Waker::Thread { thread: waker }))
                    if level < LEVELS && waker.tid != self.sleeper =>
                {
                    let known = past.earliest(waker.tid).clamp(begin, end);
                    link(begin, known, Did::Sleep(None));
                    if self.links.len() < LINKS_MAX {
                        self.follow(level + 1, waker, known, end);
                    }
                }
                Did::Unknown => {}
                Did::Wait(_) => {
                    let (mut at, slices) = (begin, past.slices(*cpu, begin, end));
                    let most = if past.knows_moves { TURNS_MAX } else { 1 };
                    let slices: Vec<_> = slices.into_iter().take(most).collect();
                    // It stands in the queue and the CPU is idle, so a limit keeps it from there. Without moves, only
                    // the first choice is certain. A deadline thread may wait for its next period instead.
                    let may_be_limited = *queued
                        && (past.knows_moves || begin == span_begin)
                        && !thread.priority.is_some_and(Priority::is_deadline);
                    let queued_until =
                        if may_be_limited { past.certain_until(*cpu, span_begin, end) } else { span_begin };
                    let is_limited = |(until, behind): &(Time, Option<&Thread>)| {
                        *until <= queued_until && behind.is_some_and(Thread::is_idle)
                    };
                    // The limit also held while other threads had turns in between.
                    let limited = slices.iter().position(is_limited)..=slices.iter().rposition(is_limited);
                    for (number, (until, behind)) in slices.into_iter().enumerate() {
                        if limited.contains(&Some(number)) {
                            link(at, until, Did::Throttle);
                            at = until;
                            continue;
                        }
                        // Where a thread of a lower class ran, it did not stand in the queue, or a limit kept it there.
                        let is_possible = |behind: &&Thread| {
                            behind.tid != thread.tid && Limit::shown_by(thread, behind).is_none()
                        };
                        link(at, until, Did::Wait(behind.filter(is_possible).cloned()));
                        at = until;
                    }
                    link(at, end, Did::Wait(None));
                }
                did => link(begin, end, did.clone()),
            }
        }
    }
}
