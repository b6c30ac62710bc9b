//! The tracker: follows the kernel's events and derives the activities of the explained threads.

mod entry;
mod evidence;
mod limits;
mod wakers;

use crate::cause::{After, Cause, Thread, Waker, function};
use crate::cpu::{CurrentThread, Handling, Processor, Serial};
use crate::entry_cost::MeasuredCosts;
use crate::files::{Device, File, Readers};
use crate::signals::{SignalReceiver, Signals};
use crate::thread::{Activity, ExplainedThread, Happening, Schedule};
use crate::thread_history::ThreadHistory;
use crate::timers::Timers;
use foldhash::HashMap;
use sordino_event::{Cpu, Domain, Loss, Nanos, Tid, Time};
use sordino_timeline::{Arch, Evidence, Futex, Kernel, Moment, Recorded, RunningThreads, System, TaskState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The order of an allocation from which on it is a huge page: 2 MiB of 4 KiB pages, 32 MiB or more of larger ones.
const HUGE: u32 = 9;

/// The state of the machine at one moment, as far as it concerns the explained threads.
#[derive(Debug)]
pub(crate) struct Tracker {
    running: RunningThreads,
    cpus: BTreeMap<Cpu, Processor>,
    threads: Vec<ExplainedThread>,
    by_tid: HashMap<Tid, usize>,
    /// The softirqs of threads that were preempted inside.
    softirqs: HashMap<Tid, Vec<Handling>>,
    /// The pieces of work that worker threads execute.
    works: HashMap<Tid, Arc<str>>,
    past: ThreadHistory,
    signals: Signals,
    timers: Timers,
    readers: Readers,
    /// The threads in a call of `futex`.
    futexes: HashMap<Tid, Futex>,
    recorded: Recorded,
    arch: Arch,
    now: Time,
    serial: Serial,
    /// The costs of interrupts that the recorder measured.
    pub(crate) entry_cost: MeasuredCosts,
    /// The changes of the explained threads, which the caller removes after each call.
    pub(crate) happenings: Vec<Happening>,
}

impl Tracker {
    /// Creates a tracker of these threads in a trace that has these events.
    pub(crate) fn new(tids: &[Tid], recorded: Recorded, arch: Arch) -> Self {
        Self {
            running: RunningThreads::default(),
            cpus: BTreeMap::new(),
            threads: tids.iter().copied().map(ExplainedThread::new).collect(),
            by_tid: tids.iter().copied().zip(0..).collect(),
            softirqs: HashMap::default(),
            works: HashMap::default(),
            past: ThreadHistory::new(recorded.migrations),
            signals: Signals::default(),
            timers: Timers::default(),
            readers: Readers::default(),
            futexes: HashMap::default(),
            recorded,
            arch,
            now: Time::MIN,
            serial: Serial::default(),
            entry_cost: MeasuredCosts::default(),
            happenings: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        self.step(moment.event.time);
        let system = moment.system;
        if let Some(evidence) = Evidence::of(moment).filter(|evidence| evidence.is_ordered) {
            self.observe(evidence, system);
        }
        if let Some(kernel) = moment.kernel {
            match kernel {
                Kernel::Waking { tid, cpu, .. } => self.wake(tid, cpu, self.waker(moment), system),
                Kernel::Woken { tid, cpu, .. } => {
                    self.wake(tid, cpu, Waker::Unknown, system);
                    cpu.into_iter().for_each(|cpu| self.past.elsewhere(tid, self.now, cpu));
                    self.queued(tid);
                }
                Kernel::Migrate { tid, to, .. } => self.migrate(tid, to, system),
                Kernel::Boost { tid, .. } => self.boost(tid, system),
                Kernel::SignalSent { signal, tid, is_for_process, result } => {
                    let to = SignalReceiver::of(tid, is_for_process, system.pid(tid));
                    self.signals.send(to, signal, result, self.waker(moment));
                }
                Kernel::Interrupted { cpu, time } => {
                    let (from, to) = (moment.event.time - time, moment.event.time);
                    let cost = self.cpus.get(&cpu).and_then(|processor| processor.entry_cost(from, to));
                    self.entry_cost.measured(cost);
                }
                Kernel::Message { to, function: called } => {
                    let message = (self.waker(moment), called.map(|called| function(system, &called)));
                    if let Some(processor) = self.cpus.get_mut(&to) {
                        processor.message(message);
                    }
                }
                Kernel::Gone { tid } => {
                    self.past.remove(tid);
                    self.signals.remove(tid);
                    self.futexes.remove(&tid);
                    self.works.remove(&tid);
                    self.softirqs.remove(&tid);
                    self.ends_program(tid);
                }
                Kernel::Exec { tid, .. } => self.ends_program(tid),
                _ => {
                    if let Some(cpu) = moment.cpu {
                        self.on_cpu(cpu, kernel, moment);
                        self.refresh_cpu(cpu, system);
                    }
                }
            }
        } else if moment.domain == Domain::User
            && let Some(tid) = moment.tid
        {
            self.in_user_code(tid, moment.cpu, system);
        }
    }

    /// Processes a loss: records are missing from here on.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        if loss.pid.is_some() {
            return;
        }
        self.step(loss.from);
        self.running.lose(loss);
        let is_lost = |cpu: Option<Cpu>| loss.cpu.is_none() || loss.cpu == cpu;
        self.cpus.iter_mut().filter(|(cpu, _)| is_lost(Some(**cpu))).for_each(|(_, cpu)| cpu.forget());
        self.softirqs.clear();
        self.past.clear(loss.to);
        self.signals.clear();
        self.timers.clear();
        self.readers.clear();
        self.futexes.clear();
        for index in 0..self.threads.len() {
            let thread = &mut self.threads[index];
            // On another CPU it may have returned from them, or been moved.
            thread.queued = None;
            thread.handlers.clear();
            // A sleeping thread continues to sleep until a record shows it again.
            if is_lost(thread.cpu) && !matches!(thread.schedule, Schedule::Blocked(_)) {
                (thread.syscall, thread.fault, thread.file) = (None, None, None);
                thread.handlers.clear();
                self.set(index, Schedule::Unknown);
                self.replace(index, Activity::of(Cause::Unknown, self.serial));
            }
        }
    }

    /// Accounts for the time until `end`, the end of the trace.
    pub(crate) fn finish(&mut self, end: Time) {
        self.step(end);
        for index in 0..self.threads.len() {
            self.replace(index, Activity::of(Cause::Unknown, self.serial));
        }
    }

    /// Returns the time and the identity of the present event.
    pub(crate) fn now(&self) -> (Time, Serial) {
        (self.now, self.serial)
    }

    /// Returns the index of a thread, if it is followed.
    pub(crate) fn index(&self, tid: Tid) -> Option<usize> {
        self.by_tid.get(&tid).copied()
    }

    /// Returns the index of a thread that carries a fiber, and follows the thread from now on.
    pub(crate) fn follow(&mut self, tid: Tid, moment: &Moment<'_>) -> usize {
        if let Some(&index) = self.by_tid.get(&tid) {
            return index;
        }
        let index = self.threads.len();
        self.threads.push(ExplainedThread::new(tid));
        self.by_tid.insert(tid, index);
        if moment.tid == Some(tid) {
            self.in_user_code(tid, moment.cpu, moment.system);
        }
        index
    }

    /// Accounts for the thread's time until now.
    pub(crate) fn account(&mut self, index: usize) {
        let activity = self.threads[index].activity.clone();
        self.spend(index, self.now, activity);
    }

    pub(crate) fn step(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.serial.0 += 1;
    }

    fn on_cpu(&mut self, cpu: Cpu, kernel: Kernel<'_>, moment: &Moment<'_>) {
        let (now, serial) = (self.now, self.serial);
        let processor = self.cpus.entry(cpu).or_default();
        match kernel {
            Kernel::Switch { prev, state, next } => {
                self.switch(cpu, prev.tid, state, next.tid, moment.system)
            }
            Kernel::Enter(interrupt) => processor.enter(&interrupt, now, serial),
            Kernel::Exit(interrupt) => processor.exit(&interrupt, now),
            Kernel::Raise { softirq } => processor.raise(softirq),
            Kernel::TimerStart { timer, due } => self.timers.start(timer, due),
            Kernel::TimerEntry { function: called, timer } => {
                let due = timer.and_then(|(timer, clock)| self.timers.expire(timer, clock, now));
                processor.timer(Some(function(moment.system, &called)), due);
            }
            Kernel::TimerExit => processor.timer(None, None),
            Kernel::Nmi { handler, duration } => self.nmi(cpu, function(moment.system, &handler), duration),
            Kernel::WorkEntry(called) => self.work(cpu, moment.tid, Some(function(moment.system, &called))),
            Kernel::WorkExit => self.work(cpu, moment.tid, None),
            Kernel::SyscallEntry { call, arguments } => self.syscall(cpu, moment, Some((call, arguments))),
            Kernel::SyscallExit => self.syscall(cpu, moment, None),
            Kernel::SignalDelivered { signal, is_handled } => self.signal(moment, signal, is_handled),
            Kernel::Fault { user, reason } => self.fault(cpu, moment, user, reason),
            Kernel::Allocation { order } if order >= HUGE => self.huge_page(cpu, moment),
            Kernel::File { device, inode, index, read } => {
                let (major, minor) = device;
                self.file(moment, (File { device: Device(major, minor), inode }, index), read);
            }
            _ => {}
        }
    }

    fn switch(&mut self, cpu: Cpu, prev: Tid, state: TaskState, next: Tid, system: &System) {
        let now = self.now;
        self.running.switch(cpu, next, now);
        let thread = Thread::of(system, next);
        match state {
            _ if prev == Tid(0) => {}
            TaskState::Runnable => self.past.wait(prev, now, cpu),
            state => self.past.sleep(prev, now, state),
        }
        if next != Tid(0) {
            self.past.run(next, now);
        }
        self.past.begin_slice(cpu, now, Some(thread.clone()));
        let work = self.works.get(&next).cloned();
        let run = CurrentThread {
            thread,
            work,
            in_call: false,
            is_inferred: false,
            since: now,
            serial: self.serial,
        };
        let softirqs = self.softirqs.remove(&next).unwrap_or_default();
        let left = self.cpus.entry(cpu).or_default().switch(run, softirqs);
        if !left.is_empty() && prev != Tid(0) {
            self.softirqs.insert(prev, left);
        }
        if let Some(&index) = self.by_tid.get(&prev) {
            self.place(index, cpu);
            self.set(
                index,
                match state {
                    TaskState::Runnable if self.awaits_period(index, system) => {
                        Schedule::Blocked(TaskState::Interruptible)
                    }
                    TaskState::Runnable => Schedule::Waiting(After::Preemption),
                    _ => Schedule::Blocked(state),
                },
            );
            let thread = &mut self.threads[index];
            thread.queued = (state == TaskState::Runnable).then_some(now);
            if !self.recorded.syscalls {
                // The thread may have slept in a system call after the fault.
                thread.fault = None;
            }
            if state == TaskState::Dead {
                self.refresh(index, system);
                self.leave(index);
            }
        }
        if let Some(&index) = self.by_tid.get(&next) {
            self.place(index, cpu);
            if matches!(self.threads[index].schedule, Schedule::Waiting(After::WakeUp)) {
                self.threads[index].file = None;
            }
            self.set(index, Schedule::Running);
        }
        self.throttle(cpu, prev, now, system);
    }

    /// Forgets the handlers of the program that this thread ran.
    fn ends_program(&mut self, tid: Tid) {
        if let Some(&index) = self.by_tid.get(&tid) {
            self.threads[index].handlers.clear();
        }
    }

    fn wake(&mut self, tid: Tid, target: Option<Cpu>, waker: Waker, system: &System) {
        // A thread that is about to sleep may be woken before it leaves its CPU.
        let runs = |cpu| self.running.on(cpu) == Some(tid);
        if system.cpu(tid).is_none() && !target.is_some_and(runs) {
            self.past.wake(tid, self.now, &waker, target);
        }
        let Some(&index) = self.by_tid.get(&tid) else { return };
        match self.threads[index].schedule {
            Schedule::Blocked(_) => {
                self.woken(index, waker, system);
                self.set(index, Schedule::Waiting(After::WakeUp));
                self.threads[index].queued = None;
            }
            Schedule::Waiting(_) => {}
            // A thread that is woken has slept.
            Schedule::Throttled(_) => self.may_run(index),
            // The thread is awake, or was about to sleep and is woken before.
            Schedule::Running | Schedule::Unknown => return,
        }
        target.into_iter().for_each(|cpu| self.place(index, cpu));
        self.refresh(index, system);
    }

    fn has_interrupts(&self) -> bool {
        let Recorded { irqs, vectors, softirqs, .. } = self.recorded;
        irqs && vectors && softirqs
    }

    fn migrate(&mut self, tid: Tid, to: Cpu, system: &System) {
        self.past.elsewhere(tid, self.now, to);
        if let Some(&index) = self.by_tid.get(&tid)
            && self.threads[index].schedule != Schedule::Running
        {
            // The thread enters the new queue a little later.
            self.threads[index].queued = None;
            self.may_run(index);
            self.place(index, to);
            self.refresh(index, system);
        }
    }

    fn boost(&mut self, tid: Tid, system: &System) {
        if let Some(cpu) = self.running.cpu_of(tid) {
            let processor = self.cpus.entry(cpu).or_default();
            processor.running.iter_mut().for_each(|run| run.thread = Thread::of(system, tid));
            self.past.begin_slice(cpu, self.now, Some(Thread::of(system, tid)));
            self.refresh_cpu(cpu, system);
        }
        if let Some(&index) = self.by_tid.get(&tid) {
            self.may_run(index);
            if let Some(since) = &mut self.threads[index].queued {
                *since = self.now;
            }
            self.refresh(index, system);
        }
    }

    /// Accounts the `duration` before now to the NMI's handler, but no further back than the thread's last event.
    fn nmi(&mut self, cpu: Cpu, handler: Arc<str>, duration: Nanos) {
        let begin = self.now - duration;
        for index in self.cpus.entry(cpu).or_default().explained.clone() {
            let thread = &self.threads[index];
            if matches!(thread.schedule, Schedule::Running | Schedule::Waiting(_) | Schedule::Throttled(_)) {
                let (activity, from) = (thread.activity.clone(), begin.max(thread.since));
                let cause = Cause::Nmi { handler: handler.clone() };
                self.spend(index, from, activity);
                self.spend(index, self.now, Activity::of(cause, self.serial));
            }
        }
    }

    fn set(&mut self, index: usize, schedule: Schedule) {
        let thread = &mut self.threads[index];
        (thread.schedule, thread.changed) = (schedule, (self.now, self.serial));
        thread.is_settled = false;
    }

    /// Notes that the thread belongs to `cpu` from now on.
    fn place(&mut self, index: usize, cpu: Cpu) {
        let before = self.threads[index].cpu.replace(cpu);
        if before == Some(cpu) {
            return;
        }
        self.cpus.entry(cpu).or_default().explained.push(index);
        if let Some(from) = before {
            self.cpus.entry(from).or_default().explained.retain(|other| *other != index);
            self.happenings.push(Happening::Moved { thread: index, at: self.now, from, to: cpu });
        }
    }

    /// Removes a thread that has exited from its CPU: memory must not grow with the number of threads that the machine
    /// starts.
    fn leave(&mut self, index: usize) {
        let processor = self.threads[index].cpu.take().and_then(|cpu| self.cpus.get_mut(&cpu));
        processor.into_iter().for_each(|processor| processor.explained.retain(|other| *other != index));
    }

    fn refresh_cpu(&mut self, cpu: Cpu, system: &System) {
        let count = self.cpus.get(&cpu).map_or(0, |processor| processor.explained.len());
        for place in 0..count {
            let index = self.cpus[&cpu].explained[place];
            if !self.threads[index].is_settled {
                self.refresh(index, system);
            }
        }
    }

    /// Ends the thread's activity if it has another one now.
    fn refresh(&mut self, index: usize, system: &System) {
        let thread = &self.threads[index];
        let processor = thread.cpu.and_then(|cpu| self.cpus.get(&cpu));
        let activity = thread.activity(processor, &Thread::of(system, thread.tid));
        let is_other = activity != thread.activity;
        self.threads[index].is_settled = !self.threads[index].depends_on_cpu();
        if is_other {
            self.replace(index, activity);
        }
    }

    fn replace(&mut self, index: usize, activity: Activity) {
        let before = std::mem::replace(&mut self.threads[index].activity, activity);
        self.spend(index, self.now, before);
    }

    /// Accounts the thread's time since the last account, until `to`, to `activity`.
    fn spend(&mut self, index: usize, to: Time, activity: Activity) {
        let from = std::mem::replace(&mut self.threads[index].since, to);
        self.happenings.push(Happening::Spent { thread: index, from, to, activity });
    }
}
