//! The state of the machine by the kernel's events so far: the running threads, and the identities of all threads.

use crate::Priority;
use crate::context::{Contexts, ThreadContext};
use crate::counted::{Count, Waiting};
use crate::kernel::{Born, Kernel, Observed, Process, Task};
use sordino_event::{Cpu, Event, Loss, Pid, PriorityNumbering, Tid};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The threads and CPUs of the traced machine at one moment of the trace.
#[derive(Clone, Debug, Default)]
pub struct System {
    threads: HashMap<Tid, Thread>,
    running: BTreeMap<Cpu, Tid>,
    symbols: HashMap<u64, Arc<str>>,
    /// The programs' own names, for threads that no event of the kernel names.
    programs: HashMap<Pid, Arc<str>>,
    /// The futexes by which programs wake sordino's recorder.
    wake_ups: HashSet<(Pid, u64)>,
    /// The threads of sordino's recorder.
    recorder: HashSet<Tid>,
    /// The other facts about programs' threads.
    contexts: Contexts,
    /// The records of counters whose events are still to come.
    counted: Waiting,
    /// The thread of the last event of a program.
    met: Option<Tid>,
    /// The numbering of the tracer's priorities that the trace states.
    stated: Option<PriorityNumbering>,
    /// The numbering that the priorities themselves show; for traces that state none.
    guessed: Option<PriorityNumbering>,
}

/// The known attributes of a thread.
#[derive(Clone, Debug, Default)]
struct Thread {
    pid: Option<Pid>,
    comm: Option<Arc<str>>,
    /// The priority as the tracer numbers it.
    priority: Option<i32>,
    /// The priority as the kernel numbers it, from a state dump: older than the other.
    dumped_priority: Option<Priority>,
    /// The CPU on which it ran last.
    cpu: Option<Cpu>,
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

    /// Returns the program's name from its own trace, or else the name of the process's first thread.
    pub fn program(&self, pid: Pid) -> Option<&Arc<str>> {
        self.programs.get(&pid).or_else(|| self.threads.get(&Tid(pid.0))?.comm.as_ref())
    }

    /// Returns the thread's priority in the kernel's numbering, whatever the tracer's is. If the trace does not
    /// [state](crate::SuperTrace::number_priorities) the tracer's, the idle thread's priority shows it; before that thread has run, the
    /// result may be 100 too low.
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
    pub(crate) fn introduce_wake_up(&mut self, pid: Pid, futex: u64) {
        self.wake_ups.insert((pid, futex));
    }

    /// Sets the numbering of the tracer's priorities, which is not guessed from then on.
    pub(crate) fn number_priorities(&mut self, numbering: PriorityNumbering) {
        self.stated = Some(numbering);
    }

    /// Sets the name of the program that runs as `pid`.
    pub(crate) fn introduce(&mut self, pid: Pid, name: Arc<str>) {
        self.programs.insert(pid, name);
    }

    /// Records that a program's event came from this thread of it.
    pub(crate) fn meet(&mut self, tid: Tid, pid: Pid) {
        if self.met != Some(tid) {
            self.met = Some(tid);
            self.threads.entry(tid).or_default().pid.get_or_insert(pid);
        }
    }

    pub(crate) fn name(&mut self, tid: Tid, comm: &[u8]) {
        self.threads.entry(tid).or_default().name(comm);
    }

    /// Applies an event of the kernel on `cpu`, where `maker` runs.
    pub(crate) fn learn(&mut self, kernel: &Kernel<'_>, cpu: Option<Cpu>, maker: Option<Tid>) {
        match *kernel {
            Kernel::Switch { prev, next, .. } => {
                self.task(&prev, None);
                self.task(&next, cpu);
                if let Some(cpu) = cpu {
                    self.running.insert(cpu, next.tid);
                }
            }
            Kernel::Boost { tid, priority }
            | Kernel::Waking { tid, priority: Some(priority), .. }
            | Kernel::Woken { tid, priority: Some(priority), .. }
            | Kernel::Migrate { tid, priority: Some(priority), .. } => {
                self.threads.entry(tid).or_default().priority = Some(priority);
            }
            Kernel::Thread(born) => self.born(&born, maker),
            Kernel::Rename { tid, comm } => self.name(tid, comm),
            Kernel::Exec { tid, old } => {
                // The thread that called `exec` takes over the id of the process.
                let old = old.and_then(|old| self.threads.remove(&old)).unwrap_or_default();
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
                self.threads.remove(&tid);
            }
            _ => {}
        }
    }

    /// Returns the other facts about a program's thread, by the ids in its events.
    pub fn context(&self, pid: Pid, tid: Tid) -> Option<&ThreadContext> {
        self.contexts.of(pid, tid)
    }

    /// Sets an annotation of a program's thread.
    pub(crate) fn hear(&mut self, pid: Pid, tid: Tid, (name, text): (&[u8], &[u8])) {
        self.contexts.learn(pid, tid, Observed::Value { name, text });
    }

    /// Applies a program's event to its thread's counters.
    pub(crate) fn count(&mut self, pid: Pid, tid: Tid, event: &Event, count: Count) {
        let counts = self.counted.pass(pid, tid, event, count);
        self.contexts.count(pid, tid, counts);
    }

    /// Forgets the running threads where the kernel's records are missing, and counters where a program's are.
    pub(crate) fn lose(&mut self, loss: &Loss) {
        self.counted.lose(loss);
        match (loss.pid, loss.cpu) {
            (Some(_), _) => {}
            (None, Some(cpu)) => {
                self.running.remove(&cpu);
            }
            (None, None) => self.running.clear(),
        }
    }

    fn task(&mut self, task: &Task<'_>, cpu: Option<Cpu>) {
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

impl Thread {
    fn name(&mut self, comm: &[u8]) {
        if self.comm.as_deref().map(str::as_bytes) != Some(comm) {
            self.comm = Some(String::from_utf8_lossy(comm).into());
        }
    }
}
