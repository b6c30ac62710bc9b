//! Follows the kernel's events and tells what explained threads spend their time on.

mod evidence;

use crate::cause::{After, Cause, Lock, Thread, Waker, function};
use crate::cpu::{Handling, Processor, Run, Serial};
use crate::past::Past;
use crate::syscall::{Arch, Futex, Operation};
use crate::thread::{Activity, Call, Explained, Happening, Schedule, WakeUp};
use sordino_event::{Cpu, Domain, Loss, Nanos, Tid, Time};
use sordino_timeline::kernel::Syscall;
use sordino_timeline::{Kernel, Moment, Recorded, System, TaskState};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The machine at one moment, as far as it matters to the explained threads.
#[derive(Debug)]
pub(crate) struct Tracker {
    cpus: BTreeMap<Cpu, Processor>,
    threads: Vec<Explained>,
    by_tid: HashMap<Tid, usize>,
    /// Softirqs of threads that were preempted inside.
    softirqs: HashMap<Tid, Vec<Handling>>,
    /// What worker threads carry out.
    works: HashMap<Tid, Arc<str>>,
    past: Past,
    /// Threads in a call of `futex`.
    futexes: HashMap<Tid, Futex>,
    recorded: Recorded,
    arch: Arch,
    now: Time,
    serial: Serial,
    /// To be taken after each call.
    pub(crate) happenings: Vec<Happening>,
}

impl Tracker {
    /// Follows these threads in a trace that has these events.
    pub(crate) fn new(tids: &[Tid], recorded: Recorded, arch: Arch) -> Self {
        Self {
            cpus: BTreeMap::new(),
            threads: tids.iter().copied().map(Explained::new).collect(),
            by_tid: tids.iter().copied().zip(0..).collect(),
            softirqs: HashMap::new(),
            works: HashMap::new(),
            past: Past::default(),
            futexes: HashMap::new(),
            recorded,
            arch,
            now: Time::MIN,
            serial: Serial::default(),
            happenings: Vec::new(),
        }
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        self.step(moment.event.time);
        let system = moment.system;
        let own = match moment.kernel {
            Some(Kernel::Switch { prev, .. }) => Some(prev.tid),
            _ => moment.event.tid,
        };
        // An NMI may come between the record of a switch and the switch.
        let is_nmi = matches!(moment.kernel, Some(Kernel::Nmi { .. }));
        if let (Domain::Kernel, Some(cpu), Some(tid)) = (moment.domain, moment.cpu, own)
            && !is_nmi
            && tid.0 >= 0
        {
            self.has_cpu(tid, cpu, system);
        }
        if let Some(kernel) = moment.kernel {
            match kernel {
                Kernel::Waking { tid, cpu } => self.wake(tid, cpu, self.waker(moment), system),
                Kernel::Woken { tid, cpu } => self.wake(tid, cpu, Waker::Unknown, system),
                Kernel::Migrate { tid, to, .. } => self.migrate(tid, to, system),
                Kernel::Boost { tid, .. } => self.boost(tid, system),
                Kernel::Gone { tid } => {
                    self.past.remove(tid);
                    self.futexes.remove(&tid);
                    self.works.remove(&tid);
                    self.softirqs.remove(&tid);
                }
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

    /// Records are missing from here on.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        if loss.pid.is_some() {
            return;
        }
        self.step(loss.from);
        let is_lost = |cpu: Option<Cpu>| loss.cpu.is_none() || loss.cpu == cpu;
        self.cpus.iter_mut().filter(|(cpu, _)| is_lost(Some(**cpu))).for_each(|(_, cpu)| cpu.forget());
        self.softirqs.clear();
        self.past.clear();
        self.futexes.clear();
        for index in 0..self.threads.len() {
            let thread = &mut self.threads[index];
            // A sleeping thread sleeps on until it is seen again.
            if is_lost(thread.cpu) && !matches!(thread.schedule, Schedule::Blocked(_)) {
                (thread.syscall, thread.fault) = (None, None);
                self.set(index, Schedule::Unknown);
                self.replace(index, Activity::of(Cause::Unknown, self.serial));
            }
        }
    }

    /// The trace is over; nothing happens until `end`.
    pub(crate) fn finish(&mut self, end: Time) {
        self.step(end);
        for index in 0..self.threads.len() {
            self.replace(index, Activity::of(Cause::Unknown, self.serial));
        }
    }

    fn step(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.serial.0 += 1;
    }

    /// What happens on a CPU.
    fn on_cpu(&mut self, cpu: Cpu, kernel: Kernel<'_>, moment: &Moment<'_>) {
        let (now, serial) = (self.now, self.serial);
        let processor = self.cpus.entry(cpu).or_default();
        match kernel {
            Kernel::Switch { prev, state, next } => {
                self.switch(cpu, prev.tid, state, next.tid, moment.system)
            }
            Kernel::Enter(interrupt) => processor.enter(&interrupt, now, serial),
            Kernel::Exit(interrupt) => processor.exit(&interrupt),
            Kernel::TimerEntry(called) => processor.timer(Some(function(moment.system, &called))),
            Kernel::TimerExit => processor.timer(None),
            Kernel::Nmi { handler, duration } => self.nmi(cpu, function(moment.system, &handler), duration),
            Kernel::WorkEntry(called) => self.work(cpu, moment.tid, Some(function(moment.system, &called))),
            Kernel::WorkExit => self.work(cpu, moment.tid, None),
            Kernel::SyscallEntry { call, arguments } => self.syscall(cpu, moment, Some((call, arguments))),
            Kernel::SyscallExit => self.syscall(cpu, moment, None),
            Kernel::Fault { user } => self.fault(cpu, moment, user),
            _ => {}
        }
    }

    fn switch(&mut self, cpu: Cpu, prev: Tid, state: TaskState, next: Tid, system: &System) {
        let now = self.now;
        let thread = Thread::of(system, next);
        match state {
            _ if prev == Tid(0) => {}
            TaskState::Runnable => self.past.wait(prev, now, thread.clone()),
            _ => self.past.sleep(prev, now),
        }
        if next != Tid(0) {
            self.past.run(next, now);
        }
        let work = self.works.get(&next).cloned();
        let run = Run { thread, work, since: now, serial: self.serial };
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
                    TaskState::Runnable => Schedule::Waiting(After::Preemption),
                    _ => Schedule::Blocked(state),
                },
            );
        }
        if let Some(&index) = self.by_tid.get(&next) {
            self.place(index, cpu);
            self.set(index, Schedule::Running);
        }
    }

    fn wake(&mut self, tid: Tid, target: Option<Cpu>, waker: Waker, system: &System) {
        let target_run = target.and_then(|cpu| self.cpus.get(&cpu)?.certainly_running());
        if let Some(run) = target_run
            && system.cpu(tid).is_none()
            && run.thread.tid != tid
        {
            self.past.wait(tid, self.now, run.thread.clone());
        }
        let Some(&index) = self.by_tid.get(&tid) else { return };
        match self.threads[index].schedule {
            Schedule::Blocked(_) => {
                self.woken(index, waker, system);
                self.set(index, Schedule::Waiting(After::WakeUp));
            }
            Schedule::Waiting(_) => {}
            // Already awake, or about to fall asleep and called back.
            Schedule::Running | Schedule::Unknown => return,
        }
        target.into_iter().for_each(|cpu| self.place(index, cpu));
        self.refresh(index, system);
    }

    fn woken(&mut self, index: usize, waker: Waker, system: &System) {
        let thread = &self.threads[index];
        let since = thread.changed.0;
        let (lock, meanwhile) = match &waker {
            Waker::Thread { thread: waker } => {
                (self.lock(thread.tid, waker.tid), self.past.of(waker.tid, since).cloned().collect())
            }
            _ => (None, Vec::new()),
        };
        let (sleeper, cause) = (Thread::of(system, thread.tid), thread.activity.cause.clone());
        let wake_up = WakeUp { sleeper, since, cause, waker, lock, meanwhile };
        self.happenings.push(Happening::Woken { thread: index, at: self.now, wake_up });
    }

    /// Whether the sleeper waits on the very futex by which the other thread wakes.
    fn lock(&self, sleeper: Tid, waker: Tid) -> Option<Lock> {
        let (waits, wakes) = (self.futexes.get(&sleeper)?, self.futexes.get(&waker)?);
        let lock = match (waits.operation, wakes.operation) {
            (Operation::Wait, Operation::Wake) => Lock::Inferred,
            (Operation::LockPi, Operation::UnlockPi) => Lock::Held,
            _ => return None,
        };
        (waits.word == wakes.word).then_some(lock)
    }

    /// Who wakes a thread in the event of `moment`.
    fn waker(&self, moment: &Moment<'_>) -> Waker {
        let interrupt = moment.cpu.and_then(|cpu| self.cpus.get(&cpu)?.interrupt());
        if let Some(handling) = interrupt {
            return Waker::Interrupt { cause: Box::new(handling.cause.clone()), cpu: moment.cpu };
        }
        match moment.tid {
            // Unless all interrupts are recorded, one may have come on top of the thread.
            Some(tid) if tid != Tid(0) && self.recorded.irqs && self.recorded.vectors => {
                Waker::Thread { thread: Thread::of(moment.system, tid) }
            }
            _ => Waker::Unknown,
        }
    }

    fn migrate(&mut self, tid: Tid, to: Cpu, system: &System) {
        if let Some(&index) = self.by_tid.get(&tid)
            && self.threads[index].schedule != Schedule::Running
        {
            self.place(index, to);
            self.refresh(index, system);
        }
    }

    fn boost(&mut self, tid: Tid, system: &System) {
        let running = self.cpus.iter_mut().find(|(_, processor)| processor.running_tid() == Some(tid));
        if let Some((&cpu, processor)) = running {
            processor.running.iter_mut().for_each(|run| run.thread = Thread::of(system, tid));
            self.refresh_cpu(cpu, system);
        }
        if let Some(&index) = self.by_tid.get(&tid) {
            self.refresh(index, system);
        }
    }

    /// The time before now belongs to the handler, as far as no other event of the thread lies in between.
    fn nmi(&mut self, cpu: Cpu, handler: Arc<str>, duration: Nanos) {
        let begin = self.now - duration;
        for index in self.cpus.entry(cpu).or_default().explained.clone() {
            let thread = &self.threads[index];
            if matches!(thread.schedule, Schedule::Running | Schedule::Waiting(_)) {
                let activity = thread.activity.clone();
                let from = begin.max(thread.since);
                self.spend(index, from, activity);
                self.spend(
                    index,
                    self.now,
                    Activity::of(Cause::Nmi { handler: handler.clone() }, self.serial),
                );
            }
        }
    }

    fn work(&mut self, cpu: Cpu, tid: Option<Tid>, called: Option<Arc<str>>) {
        let Some(tid) = tid else { return };
        if let Some(run) = &mut self.cpus.entry(cpu).or_default().running
            && run.thread.tid == tid
        {
            run.work.clone_from(&called);
        }
        match called {
            Some(called) => self.works.insert(tid, called),
            None => self.works.remove(&tid),
        };
    }

    fn syscall(&mut self, cpu: Cpu, moment: &Moment<'_>, call: Option<(Syscall<'_>, [Option<u64>; 2])>) {
        let Some(tid) = moment.tid else { return };
        self.seen(tid, Some(cpu), moment.system);
        let futex = call.and_then(|(call, arguments)| Futex::of(self.arch, &call, arguments));
        match futex {
            Some(futex) => self.futexes.insert(tid, futex),
            None => self.futexes.remove(&tid),
        };
        let Some(&index) = self.by_tid.get(&tid) else { return };
        let wakes_recorder = futex.is_some_and(|futex| {
            futex.operation == Operation::Wake && moment.system.is_wake_up(tid, futex.word)
        });
        let call = call.map(|(call, _)| {
            let name = self.arch.name(&call);
            Call { name, since: self.now, serial: self.serial, wakes_recorder }
        });
        let thread = &mut self.threads[index];
        (thread.syscall, thread.fault) = (call, None);
    }

    fn fault(&mut self, cpu: Cpu, moment: &Moment<'_>, user: bool) {
        let Some(&index) = moment.tid.and_then(|tid| self.by_tid.get(&tid)) else { return };
        if user {
            self.seen(self.threads[index].tid, Some(cpu), moment.system);
        }
        let in_interrupt = self.cpus.get(&cpu).is_some_and(|processor| processor.interrupt().is_some());
        if in_interrupt || self.threads[index].schedule != Schedule::Running {
            return;
        }
        if self.threads[index].syscall.is_some() {
            // Inside a call it only counts: that the rest of the call is the fault's doing is unlikely.
            let activity = self.threads[index].activity.clone();
            self.spend(index, self.now, activity);
            self.spend(index, self.now, Activity::of(Cause::PageFault, self.serial));
        } else {
            self.threads[index].fault = Some((self.now, self.serial));
        }
    }

    /// An event of a program: the thread is back in user code.
    fn in_user_code(&mut self, tid: Tid, cpu: Option<Cpu>, system: &System) {
        self.seen(tid, cpu, system);
        if let Some(&index) = self.by_tid.get(&tid) {
            let (now, thread) = (self.now, &mut self.threads[index]);
            thread.syscall.take_if(|call| call.since < now);
            thread.fault.take_if(|(since, _)| *since < now);
            self.refresh(index, system);
        }
        cpu.into_iter().for_each(|cpu| self.refresh_cpu(cpu, system));
    }

    fn set(&mut self, index: usize, schedule: Schedule) {
        let thread = &mut self.threads[index];
        (thread.schedule, thread.changed) = (schedule, (self.now, self.serial));
    }

    /// The thread belongs to `cpu` from now on.
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

    fn refresh_cpu(&mut self, cpu: Cpu, system: &System) {
        let count = self.cpus.get(&cpu).map_or(0, |processor| processor.explained.len());
        for place in 0..count {
            let index = self.cpus[&cpu].explained[place];
            self.refresh(index, system);
        }
    }

    /// Ends the thread's activity if it is another one now.
    fn refresh(&mut self, index: usize, system: &System) {
        let thread = &self.threads[index];
        let processor = thread.cpu.and_then(|cpu| self.cpus.get(&cpu));
        let activity = thread.activity(processor, &Thread::of(system, thread.tid));
        if activity != thread.activity {
            self.replace(index, activity);
        }
    }

    fn replace(&mut self, index: usize, activity: Activity) {
        let before = std::mem::replace(&mut self.threads[index].activity, activity);
        self.spend(index, self.now, before);
    }

    /// The time that is not accounted for yet, until `to`, went by with `activity`.
    fn spend(&mut self, index: usize, to: Time, activity: Activity) {
        let from = std::mem::replace(&mut self.threads[index].since, to);
        self.happenings.push(Happening::Spent { thread: index, from, to, activity });
    }
}
