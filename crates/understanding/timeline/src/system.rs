//! The state of the machine by the kernel's events so far: the running threads, and the identities of all threads.

use crate::Priority;
use crate::context::{ThreadContext, ThreadContexts};
use crate::counted::{Count, PendingCounters};
use crate::fiber::{FiberEvent, FiberId, Mounted, ThreadOrFiber};
use crate::fibers::{Fibers, RecordOrigin};
use crate::kernel::{Born, Kernel, Observed, Process, Task};
use crate::overhead::{Overhead, Payer};
use crate::schedule::{OffCpu, ThreadState};
use crate::task::TaskState;
use crate::thread_map::ThreadMap;
use foldhash::{HashMap, HashSet};
use sordino_event::{Cpu, Domain, Event, EventCosts, Loss, Nanos, Pid, PriorityNumbering, Tid, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The threads and CPUs of the traced machine at one moment of the trace.
#[derive(Clone, Debug, Default)]
pub struct System {
    threads: ThreadMap<KnownThread>,
    running: BTreeMap<Cpu, Tid>,
    symbols: HashMap<u64, Arc<str>>,
    /// The programs' own names, for threads that no event of the kernel names.
    programs: HashMap<Pid, Arc<str>>,
    /// The futexes by which programs wake sordino's recorder.
    wake_ups: HashSet<(Pid, u64)>,
    /// The threads of sordino's recorder.
    recorder: HashSet<Tid>,
    /// The other facts about programs' threads.
    contexts: ThreadContexts,
    /// The records of counters whose events are still to come.
    counted: PendingCounters,
    /// The fibers of all programs.
    fibers: Fibers,
    /// The number of losses of the kernel's records, and the time until which records are missing.
    kernel_losses: (u64, Time),
    /// The thread of the last event of a program.
    met: Option<Tid>,
    /// The number of changes so far after which a name may be another one.
    names_revision: u64,
    /// The time that recording took, if it is to be subtracted.
    overhead: Option<Box<Overhead>>,
    /// The numbering of the tracer's priorities that the trace states.
    stated: Option<PriorityNumbering>,
    /// The numbering that the priorities themselves show; for traces that state none.
    guessed: Option<PriorityNumbering>,
}

/// The known attributes of a thread.
#[derive(Clone, Debug, Default)]
struct KnownThread {
    pid: Option<Pid>,
    comm: Option<Arc<str>>,
    /// The priority as the tracer numbers it.
    priority: Option<i32>,
    /// The priority as the kernel numbers it, from a state dump: older than the other.
    dumped_priority: Option<Priority>,
    /// The CPU on which it ran last.
    cpu: Option<Cpu>,
    /// The thread's state while it has no CPU.
    off: OffCpu,
}

impl System {
    /// Returns the thread that runs on `cpu`; `Tid(0)` when it is idle.
    pub fn running(&self, cpu: Cpu) -> Option<Tid> {
        self.running.get(&cpu).copied()
    }

    /// Returns the CPU on which the thread runs, if it does.
    pub fn cpu(&self, tid: Tid) -> Option<Cpu> {
        let cpu = self.threads.get(&tid)?.cpu?;
        (self.running(cpu) == Some(tid)).then_some(cpu)
    }

    /// Returns the state of the thread in the kernel's scheduler.
    pub fn thread_state(&self, tid: Tid) -> ThreadState {
        if let Some(cpu) = self.cpu(tid) {
            return ThreadState::Running { cpu };
        }
        self.threads.get(&tid).map_or(ThreadState::Unknown, |thread| thread.off.state(self.kernel_losses))
    }

    /// Returns the fibers of all programs.
    pub fn fibers(&self) -> &Fibers {
        &self.fibers
    }

    /// Returns the process of the thread.
    pub fn pid(&self, tid: Tid) -> Option<Pid> {
        self.threads.get(&tid)?.pid
    }

    /// Returns the thread's name; `idle` for `Tid(0)`, and the program's name if no event of the kernel named the
    /// thread.
    pub fn comm(&self, tid: Tid) -> Option<&Arc<str>> {
        let thread = self.threads.get(&tid)?;
        thread.comm.as_ref().or_else(|| self.programs.get(&thread.pid?))
    }

    /// Returns a number that differs from an earlier one if any name may have changed since. Callers that keep what
    /// they made of names then need no search for each event.
    pub fn names_revision(&self) -> u64 {
        self.names_revision
    }

    /// Returns the program's name from its own trace, or else the name of the process's first thread.
    pub fn program(&self, pid: Pid) -> Option<&Arc<str>> {
        self.programs.get(&pid).or_else(|| self.threads.get(&Tid(pid.0))?.comm.as_ref())
    }

    /// Returns the thread's priority in the kernel's numbering, whatever the tracer's is. If the trace does not
    /// [state](crate::SuperTrace::number_priorities) the tracer's, the idle thread's priority shows it; before that
    /// thread has run, the result may be 100 too low.
    pub fn priority(&self, tid: Tid) -> Option<Priority> {
        let thread = self.threads.get(&tid)?;
        let offset = self.stated.or(self.guessed).map_or(0, PriorityNumbering::offset);
        let traced = thread.priority.map(|priority| Priority(priority.saturating_add(offset)));
        traced.or(thread.dumped_priority)
    }

    /// Returns the name of the kernel's function at `address`, if the trace has it.
    pub fn symbol(&self, address: u64) -> Option<&Arc<str>> {
        self.symbols.get(&address)
    }

    /// Returns true if the thread belonged to the recorder that made the trace.
    pub fn is_recorder(&self, tid: Tid) -> bool {
        self.recorder.contains(&tid)
    }

    /// Returns true if the thread's program wakes sordino's recorder by the futex at this address.
    pub fn is_wake_up(&self, tid: Tid, futex: u64) -> bool {
        self.pid(tid).is_some_and(|pid| self.wake_ups.contains(&(pid, futex)))
    }

    /// Sets the address of the futex by which the program that runs as `pid` wakes sordino's recorder.
    pub(crate) fn set_wake_up(&mut self, pid: Pid, futex: u64) {
        self.wake_ups.insert((pid, futex));
    }

    /// Sets the numbering of the tracer's priorities, which is then no longer derived from the priorities.
    pub(crate) fn number_priorities(&mut self, numbering: PriorityNumbering) {
        self.stated = Some(numbering);
    }

    /// Sets the costs of events, from which the overhead is then computed.
    pub(crate) fn set_costs(&mut self, costs: EventCosts) {
        self.overhead = Some(Box::new(Overhead::new(costs)));
    }

    /// Returns the time between `from` and `to` that recording took of the payer, in events from `from` on. Zero unless
    /// [requested](crate::SuperTrace::subtract_overhead). Times before the payer's last 64 events are rounded to that
    /// of an event near by: the farther back, the farther away.
    pub fn overhead(&self, payer: Payer, from: Time, to: Time) -> Nanos {
        self.overhead.as_ref().map_or(Nanos::ZERO, |overhead| overhead.between(payer, from, to))
    }

    /// Returns true if the overhead is to be subtracted.
    pub fn subtracts_overhead(&self) -> bool {
        self.overhead.is_some()
    }

    /// Adds the cost of an event to what recording took of a CPU, a thread and a fiber.
    pub(crate) fn pay(
        &mut self,
        (time, domain): (Time, Domain),
        cpu: Option<Cpu>,
        thread: Option<Tid>,
        fiber: Option<FiberId>,
    ) {
        let Some(overhead) = &mut self.overhead else { return };
        let owners = thread.map(ThreadOrFiber::Thread).into_iter().chain(fiber.map(ThreadOrFiber::Fiber));
        overhead.add(time, domain, owners.map(Payer::Owner).chain(cpu.map(Payer::Cpu)));
    }

    /// Sets the name of the program that runs as `pid`.
    pub(crate) fn name_program(&mut self, pid: Pid, name: Arc<str>) {
        self.names_revision += 1;
        self.programs.insert(pid, name);
    }

    /// Notes that a program's event came from this thread.
    #[inline]
    pub(crate) fn add_thread(&mut self, tid: Tid, pid: Pid) {
        if self.met != Some(tid) {
            self.met = Some(tid);
            self.names_revision += 1;
            self.threads.entry(tid).or_default().pid.get_or_insert(pid);
        }
    }

    pub(crate) fn name(&mut self, tid: Tid, comm: &[u8]) {
        self.names_revision += 1;
        self.threads.entry(tid).or_default().name(comm);
    }

    /// Applies an event of the kernel at `time` on `cpu`, where `maker` runs.
    pub(crate) fn learn(
        &mut self,
        kernel: &Kernel<'_>,
        cpu: Option<Cpu>,
        (time, maker): (Time, Option<Tid>),
    ) {
        self.names_revision += 1;
        match *kernel {
            Kernel::Switch { prev, state, next } => {
                let off = match state {
                    TaskState::Runnable => ThreadState::Preempted { by: next.tid },
                    state => ThreadState::Blocked { state },
                };
                let losses = self.kernel_losses.0;
                self.task(&prev, None).off = OffCpu { state: off, seen: time, losses };
                self.task(&next, cpu).off = OffCpu::default();
                if let Some(cpu) = cpu {
                    self.running.insert(cpu, next.tid);
                }
            }
            Kernel::Boost { tid, priority } | Kernel::Migrate { tid, priority: Some(priority), .. } => {
                self.threads.entry(tid).or_default().priority = Some(priority);
            }
            Kernel::Waking { tid, priority, .. } | Kernel::Woken { tid, priority, .. } => {
                let thread = match priority {
                    Some(_) => Some(self.threads.entry(tid).or_default()),
                    None => self.threads.get_mut(&tid),
                };
                if let Some(thread) = thread {
                    thread.priority = priority.or(thread.priority);
                    thread.off.wake(maker, time, self.kernel_losses);
                }
            }
            Kernel::Thread(born) => self.born(&born, maker),
            Kernel::Rename { tid, comm } => self.name(tid, comm),
            Kernel::Exec { tid, old } => {
                // The thread that called `exec` takes over the id of the process.
                let old = old.and_then(|old| self.threads.swap_remove(&old)).unwrap_or_default();
                let cpu = old.cpu;
                let thread = self.threads.entry(tid).or_insert(old);
                (thread.pid, thread.cpu) = (Some(Pid(tid.0)), cpu.or(thread.cpu));
            }
            Kernel::Symbol { address, name } => {
                self.symbols.insert(address, String::from_utf8_lossy(name).into());
            }
            Kernel::Recorder { tid } => _ = self.recorder.insert(tid),
            Kernel::Context { pid, tid, seen } => self.contexts.learn(pid, tid, seen),
            Kernel::Gone { tid } => {
                self.met = None;
                // The id belongs to another thread from now on.
                self.recorder.remove(&tid);
                self.threads.swap_remove(&tid);
            }
            _ => {}
        }
    }

    /// Returns the other facts about a program's thread, by the ids in its events.
    pub fn context(&self, pid: Pid, tid: Tid) -> Option<&ThreadContext> {
        self.contexts.of(pid, tid)
    }

    /// Sets an annotation of a program's thread.
    pub(crate) fn set_annotation(&mut self, pid: Pid, tid: Tid, (name, text): (&[u8], &[u8])) {
        self.contexts.learn(pid, tid, Observed::Annotation { name, text });
    }

    /// Applies a program's event to its thread's counters.
    pub(crate) fn count(&mut self, pid: Pid, tid: Tid, event: &Event, count: Count) {
        let counts = self.counted.pass(pid, tid, event, count);
        self.contexts.count(pid, tid, counts);
    }

    /// Applies an event to the fibers, before it is applied to the threads: a record about fibers, or the end of a
    /// thread or a process. Returns the fiber of the event's thread.
    pub(crate) fn follow_fibers(
        &mut self,
        event: &Event,
        kernel: Option<&Kernel<'_>>,
        about: Option<FiberEvent<'_>>,
        tid: Option<Tid>,
    ) -> Mounted {
        self.fibers.begin();
        let pid = event.pid.or_else(|| self.pid(tid?));
        let at = pid.zip(tid).map(|(pid, tid)| RecordOrigin { pid, tid, time: event.time });
        if let Some(about) = about {
            let Some(at) = at else {
                self.fibers.reject(event);
                return Mounted::Unknown;
            };
            return self.fibers.apply(at, &about);
        }
        let mounted = match (at, tid) {
            (Some(at), _) => self.fibers.mounted(at.pid, at.tid),
            (None, Some(Tid(0))) => Mounted::Outside,
            // Records of its program may be missing.
            (None, Some(_)) if self.fibers.are_whole() => Mounted::Outside,
            (None, _) => Mounted::Unknown,
        };
        match kernel {
            Some(Kernel::Switch { state: TaskState::Dead, .. }) => {
                at.into_iter().for_each(|at| self.fibers.end_thread(at));
            }
            // The first thread of a process is the last that is removed.
            Some(Kernel::Gone { tid } | Kernel::Exec { tid, .. })
                if self.pid(*tid).is_none_or(|pid| pid.0 == tid.0) =>
            {
                self.fibers.end_process(Pid(tid.0));
            }
            _ => {}
        }
        mounted
    }

    /// Makes the fibers of a process unknown, as records of it are missing.
    pub(crate) fn lose_fibers(&mut self, loss: &Loss) {
        self.fibers.lose(loss);
    }

    /// Forgets the running threads after a loss of the kernel's records, and the counters after a loss of a program's
    /// records.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        self.counted.lose(loss);
        if loss.pid.is_none() {
            let (losses, until) = self.kernel_losses;
            self.kernel_losses = (losses + 1, until.max(loss.to));
        }
        match (loss.pid, loss.cpu) {
            (Some(_), _) => {}
            (None, Some(cpu)) => {
                self.running.remove(&cpu);
            }
            (None, None) => self.running.clear(),
        }
    }

    fn task(&mut self, task: &Task<'_>, cpu: Option<Cpu>) -> &mut KnownThread {
        let thread = self.threads.entry(task.tid).or_default();
        thread.cpu = cpu.or(thread.cpu);
        thread.priority = task.priority.or(thread.priority);
        match task.tid {
            Tid(0) => thread.name(b"idle"),
            _ => task.comm.into_iter().for_each(|comm| thread.name(comm)),
        }
        // In LTTng's numbering the idle thread has 20 instead of 120, and real-time threads are below -1.
        if task.priority.is_some_and(|priority| priority < -1 || (task.tid == Tid(0) && priority == 20)) {
            self.guessed = Some(PriorityNumbering::Lttng);
        }
        thread
    }

    fn born(&mut self, born: &Born<'_>, maker: Option<Tid>) {
        let pid = match born.process {
            Process::Unknown => None,
            Process::Known(pid) => Some(pid),
            Process::OfMaker => maker.and_then(|maker| self.pid(maker)),
        };
        let thread = self.threads.entry(born.tid).or_default();
        thread.pid = pid.or(thread.pid);
        // A dump is not taken at one moment: a name from another event is newer.
        if !born.dumped || thread.comm.is_none() {
            born.comm.into_iter().for_each(|comm| thread.name(comm));
        }
        thread.dumped_priority = born.priority.map(Priority).or(thread.dumped_priority);
    }
}

impl KnownThread {
    fn name(&mut self, comm: &[u8]) {
        if self.comm.as_deref().map(str::as_bytes) != Some(comm) {
            self.comm = Some(String::from_utf8_lossy(comm).into());
        }
    }
}
