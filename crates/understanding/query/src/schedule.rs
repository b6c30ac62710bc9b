//! The states of all threads: running, waiting for a CPU, asleep.
//!
//! A thread's state is known from its first switch on. After a loss of the kernel's records, the state of a thread is
//! unknown if a record of the thread may be missing. A thread that runs on another CPU certainly still runs; any other
//! thread may have been woken, have run and slept again.

use crate::cpu_use::{CpuUse, CpuUseSums, Uses};
use crate::finder::SpanFinder;
use crate::span::{FoundSpan, Span, SpanState};
use foldhash::HashMap;
use sordino_event::{Cpu, Loss, Nanos, Tid, Time};
use sordino_timeline::{Evidence, Kernel, Moment, RunningThreads, TaskState, ThreadMap, UnrecordedSwitch};

/// The kind of spans that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// The stretches for which a thread has a CPU. Stretches that the recording's begin or end cuts are marked as cut.
    Runs,
    /// The waits from a wake-up until the thread has a CPU, in four parts.
    Latencies,
    /// The waits from a preemption until the thread has a CPU again, in four parts.
    Preemptions,
    /// The sleeps until a wake-up.
    Sleeps,
    /// All of these states of threads.
    States,
}

impl SpanKind {
    fn includes(self, kind: Self) -> bool {
        self == kind || self == Self::States
    }
}

/// Tracker of the threads and CPUs of a trace.
#[derive(Debug)]
pub(crate) struct ScheduleTracker {
    kind: SpanKind,
    running: RunningThreads,
    threads: ThreadMap<RunState>,
    cpu_uses: HashMap<Cpu, CpuUseSums>,
    /// The time of the first event, at which the sums of all CPUs begin.
    begin: Option<Time>,
    lost_until: Option<Time>,
}

#[derive(Debug)]
enum RunState {
    Unknown,
    Running {
        since: Time,
    },
    /// Boxed, as most of the threads that a recording names are asleep.
    Waiting(Box<Wait>),
    Asleep {
        since: Time,
    },
}

/// The wait of a thread for a CPU.
#[derive(Debug)]
struct Wait {
    since: Time,
    is_wake_up: bool,
    /// The CPU that has the thread in its queue, the time at which the thread entered the queue, and the uses of that
    /// CPU until then.
    queue: Option<(Cpu, Time, Uses)>,
    /// The parts of the time before the thread entered that queue.
    before: Uses,
}

impl ScheduleTracker {
    pub(crate) fn new(kind: SpanKind) -> Self {
        Self {
            kind,
            running: RunningThreads::default(),
            threads: ThreadMap::default(),
            cpu_uses: HashMap::default(),
            begin: None,
            lost_until: None,
        }
    }

    /// Applies a switch that was not recorded. The run that it ends and the run that it begins are not wholly known,
    /// nor is a wait or a sleep that it ends.
    fn correct(&mut self, switch: &UnrecordedSwitch, now: Time, found: &mut Vec<FoundSpan>) {
        let &UnrecordedSwitch { cpu, tid, believed, seen, .. } = switch;
        let own = believed.map(|believed| (cpu, believed, seen));
        let left = switch.left.iter().map(|&(other, seen)| (other, tid, seen));
        for (cpu, tid, seen) in own.into_iter().chain(left) {
            self.cpu_uses.get_mut(&cpu).into_iter().for_each(|cpu_use| cpu_use.lose(seen));
            if let Some(state @ RunState::Running { .. }) = self.threads.get_mut(&tid) {
                *state = RunState::Unknown;
                found.extend(self.kind.includes(SpanKind::Runs).then_some(FoundSpan::Broken));
            }
        }
        if let (Some(_), Some(cpu_use)) = (believed, self.cpu_uses.get_mut(&cpu)) {
            cpu_use.switch(now, tid);
        }
        if let Some(state) = self.threads.get_mut(&tid) {
            let is_found = match state {
                RunState::Waiting(wait) => wait.is_its(self.kind),
                RunState::Asleep { .. } => self.kind.includes(SpanKind::Sleeps),
                RunState::Running { .. } | RunState::Unknown => false,
            };
            *state = RunState::Unknown;
            found.extend(is_found.then_some(FoundSpan::Broken));
        }
    }

    /// Ends the run of the thread that leaves a CPU. If the run began before the recording, `cut` is the first time at
    /// which the thread certainly had the CPU.
    fn leave(
        &mut self,
        tid: Tid,
        state: TaskState,
        cpu: Cpu,
        now: Time,
        cut: Option<Time>,
        found: &mut Vec<FoundSpan>,
    ) {
        if tid == Tid(0) {
            return;
        }
        let before = self.threads.insert(
            tid,
            match state {
                TaskState::Runnable => RunState::Waiting(self.wait(false, Some(cpu), now).into()),
                _ => RunState::Asleep { since: now },
            },
        );
        // The kernel's tracer misses a switch now and then.
        if let Some(RunState::Waiting(wait)) = &before
            && wait.is_its(self.kind)
        {
            found.push(FoundSpan::Broken);
        }
        if self.kind.includes(SpanKind::Runs) {
            found.push(match (before, cut) {
                (Some(RunState::Running { since }), _) => {
                    FoundSpan::Whole(span(SpanState::Running, tid, Some(cpu), since, now))
                }
                (_, Some(first)) => FoundSpan::Cut(span(SpanState::Running, tid, Some(cpu), first, now)),
                _ => FoundSpan::Broken,
            });
        }
        if state == TaskState::Dead {
            self.threads.swap_remove(&tid);
        }
    }

    /// Ends the run of a thread that has the CPU, and begins another one. Returns the run that ended; `None` if its
    /// begin is not known.
    pub(crate) fn cut(&mut self, tid: Tid, cpu: Cpu, now: Time) -> Option<FoundSpan> {
        if self.lost_until.is_some_and(|until| now < until) {
            return None;
        }
        let before = self.threads.insert(tid, RunState::Running { since: now });
        // Until the CPU's first switch, the thread has had it since before the recording began.
        let first = match self.cpu_uses.get(&cpu) {
            Some(cpu_use) => cpu_use.first.filter(|_| cpu_use.running.is_none()),
            None => self.begin,
        };
        match (before, first) {
            (Some(RunState::Running { since }), _) => {
                Some(FoundSpan::Whole(span(SpanState::Running, tid, Some(cpu), since, now)))
            }
            (_, Some(first)) => Some(FoundSpan::Cut(span(SpanState::Running, tid, Some(cpu), first, now))),
            _ => None,
        }
    }

    fn come(&mut self, tid: Tid, cpu: Cpu, now: Time, found: &mut Vec<FoundSpan>) {
        if tid == Tid(0) {
            return;
        }
        match self.threads.insert(tid, RunState::Running { since: now }) {
            Some(RunState::Waiting(wait)) if wait.is_its(self.kind) => {
                let parts = self.parts(&wait, cpu, now).to_vec();
                let state = if wait.is_wake_up { SpanState::Woken } else { SpanState::Preempted };
                found.push(FoundSpan::Whole(Span { parts, ..span(state, tid, Some(cpu), wait.since, now) }));
            }
            // The wake-up was not recorded.
            Some(RunState::Asleep { .. } | RunState::Unknown) | None
                if self.kind.includes(SpanKind::Latencies) =>
            {
                found.push(FoundSpan::Broken);
            }
            Some(RunState::Asleep { .. }) if self.kind.includes(SpanKind::Sleeps) => {
                found.push(FoundSpan::Broken)
            }
            _ => {}
        }
    }

    fn wake(&mut self, tid: Tid, cpu: Option<Cpu>, now: Time, found: &mut Vec<FoundSpan>) {
        match self.threads.get(&tid) {
            Some(RunState::Asleep { since }) if self.lost_until.is_none_or(|until| until <= *since) => {
                if self.kind.includes(SpanKind::Sleeps) {
                    found.push(FoundSpan::Whole(span(SpanState::Sleeping, tid, cpu, *since, now)));
                }
                let wait = self.wait(true, cpu, now);
                self.threads.insert(tid, RunState::Waiting(wait.into()));
            }
            Some(RunState::Asleep { .. }) => {
                found.extend(self.kind.includes(SpanKind::Sleeps).then_some(FoundSpan::Broken));
                self.threads.insert(tid, RunState::Unknown);
            }
            // The first record may have the CPU on which it ran last, and the second that which was chosen.
            Some(RunState::Waiting(_)) => self.queue(tid, cpu, now),
            Some(RunState::Running { .. } | RunState::Unknown) | None => {}
        }
    }

    /// Notes that a waiting thread is in the queue of this CPU from now on.
    fn queue(&mut self, tid: Tid, cpu: Option<Cpu>, now: Time) {
        let Some(RunState::Waiting(wait)) = self.threads.get(&tid) else { return };
        if cpu.is_some() && wait.queue.map(|(cpu, ..)| cpu) != cpu {
            let before = self.passed(wait, wait.queue.map(|(cpu, ..)| cpu), now);
            let wait = Wait { before, since: wait.since, ..self.wait(wait.is_wake_up, cpu, now) };
            self.threads.insert(tid, RunState::Waiting(wait.into()));
        }
    }

    fn wait(&self, is_wake_up: bool, cpu: Option<Cpu>, now: Time) -> Wait {
        let unknown =
            || [Nanos::ZERO, Nanos::ZERO, Nanos::ZERO, self.begin.map_or(Nanos::ZERO, |begin| now - begin)];
        let uses = |cpu: Cpu| self.cpu_uses.get(&cpu).map_or_else(unknown, |cpu_use| cpu_use.until(now));
        Wait { since: now, is_wake_up, queue: cpu.map(|cpu| (cpu, now, uses(cpu))), before: [Nanos::ZERO; 4] }
    }

    /// Returns the parts of a wait that ends on `cpu`.
    fn parts(&self, wait: &Wait, cpu: Cpu, now: Time) -> Uses {
        self.passed(wait, Some(cpu), now)
    }

    /// Returns the parts of a wait until now, if the thread stood in the queue of `cpu` since it was queued last.
    fn passed(&self, wait: &Wait, cpu: Option<Cpu>, now: Time) -> Uses {
        let mut parts = wait.before;
        match (wait.queue, cpu.and_then(|cpu| Some((cpu, self.cpu_uses.get(&cpu)?)))) {
            (Some((queue, _, before)), Some((cpu, cpu_use))) if queue == cpu => {
                let after = cpu_use.until(now);
                for (part, (after, before)) in parts.iter_mut().zip(after.into_iter().zip(before)) {
                    *part += after - before;
                }
            }
            (Some((_, since, _)), _) => parts[CpuUse::Unknown as usize] += now - since,
            (None, _) => parts[CpuUse::Unknown as usize] += now - wait.since,
        }
        parts
    }
}

impl SpanFinder for ScheduleTracker {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        let begin = *self.begin.get_or_insert(now);
        let switch = Evidence::of(moment).and_then(|evidence| self.running.observe(evidence, now));
        switch.into_iter().for_each(|switch| self.correct(&switch, now, found));
        let Some(kernel) = moment.kernel else { return };
        if let Some(cpu) = moment.cpu {
            let cpu_use = self.cpu_uses.entry(cpu).or_insert_with(|| CpuUseSums::new(begin, now));
            match kernel {
                Kernel::Switch { prev, state, next } => {
                    let cut = cpu_use.first.filter(|_| cpu_use.running.is_none());
                    cpu_use.switch(now, next.tid);
                    self.running.switch(cpu, next.tid, now);
                    cpu_use.first = None;
                    self.leave(prev.tid, state, cpu, now, cut, found);
                    self.come(next.tid, cpu, now, found);
                }
                Kernel::Enter(_) => cpu_use.enter(now),
                Kernel::Exit(_) => cpu_use.exit(now),
                _ => {}
            }
        }
        match kernel {
            Kernel::Waking { tid, cpu, .. } | Kernel::Woken { tid, cpu, .. } => {
                self.wake(tid, cpu, now, found)
            }
            Kernel::Migrate { tid, to, .. } => self.queue(tid, Some(to), now),
            Kernel::Thread(born) if !born.dumped => {
                self.threads.insert(born.tid, RunState::Asleep { since: now });
            }
            Kernel::Gone { tid } => {
                self.threads.swap_remove(&tid);
            }
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        if loss.pid.is_some() {
            return;
        }
        self.running.lose(loss);
        self.lost_until = self.lost_until.max(Some(loss.to));
        let is_lost = |cpu: Cpu| loss.cpu.is_none_or(|lost| lost == cpu);
        for (cpu, cpu_use) in &mut self.cpu_uses {
            if is_lost(*cpu) {
                let running = cpu_use.running;
                cpu_use.lose(loss.from);
                let state = running.and_then(|tid| self.threads.get_mut(&tid));
                if let Some(state @ RunState::Running { .. }) = state {
                    *state = RunState::Unknown;
                    found.extend(self.kind.includes(SpanKind::Runs).then_some(FoundSpan::Broken));
                }
            }
        }
        for state in self.threads.values_mut() {
            if let RunState::Waiting(wait) = state {
                let is_found = wait.is_its(self.kind);
                *state = RunState::Unknown;
                found.extend(is_found.then_some(FoundSpan::Broken));
            }
        }
    }

    /// Ends the trace. Threads that run are found until then.
    fn finish(&mut self, end: Time, found: &mut Vec<FoundSpan>) -> u64 {
        for (cpu, cpu_use) in &self.cpu_uses {
            if let (Some(tid), true) =
                (cpu_use.running.filter(|tid| *tid != Tid(0)), self.kind.includes(SpanKind::Runs))
                && let Some(RunState::Running { since }) = self.threads.get(&tid)
            {
                found.push(FoundSpan::Cut(span(SpanState::Running, tid, Some(*cpu), *since, end)));
            }
        }
        let waits = self.threads.values().filter(|state| match state {
            RunState::Waiting(wait) => wait.is_its(self.kind),
            RunState::Asleep { .. } => self.kind.includes(SpanKind::Sleeps),
            _ => false,
        });
        waits.count() as u64
    }
}

impl Wait {
    fn is_its(&self, kind: SpanKind) -> bool {
        match kind {
            SpanKind::Latencies => self.is_wake_up,
            SpanKind::Preemptions => !self.is_wake_up,
            SpanKind::Runs | SpanKind::Sleeps => false,
            SpanKind::States => true,
        }
    }
}

fn span(state: SpanState, tid: Tid, cpu: Option<Cpu>, from: Time, to: Time) -> Span {
    Span { tid: Some(tid), state: Some(state), cpu, ..Span::between(from, to) }
}
