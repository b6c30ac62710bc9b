//! The merged trace, each event with its CPU, process and thread.

use crate::context::ThreadContext;
use crate::fiber::{FiberEvent, FiberId, Mounted};
use crate::fibers::Contradiction;
use crate::kernel::Kernel;
use crate::{
    Disorder, Host, Hosts, Merge, Merged, Priority, Recorded, Source, SourceError, System, Vocabulary,
};
use sordino_event::{Classes, Cpu, Domain, Event, EventCosts, Loss, Pid, PriorityNumbering, Tid};
use std::sync::Arc;

/// The merged trace (the papers' super-trace). While it merges, it follows the kernel's schedule, so that each event
/// has its CPU and thread.
#[derive(Debug)]
pub struct SuperTrace<S> {
    merge: Merge<S>,
    vocabulary: Vocabulary,
    hosts: Hosts,
    /// The states of the hosts, by their numbers.
    systems: Vec<System>,
}

/// The next item of the super-trace.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// An event with its context.
    Event(Moment<'a>),
    /// Records are missing from one source, of this host. The item stands in the order where the loss begins.
    Loss(&'a Loss, Host),
    /// The event that follows broke the order of its source and was moved.
    Disorder(Disorder),
}

/// An event, and the state of its host at its time.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The event as its source returned it.
    pub event: &'a Event,
    /// The origin of the event.
    pub domain: Domain,
    /// The decoded event, if it is one of the kernel's and complete.
    pub kernel: Option<Kernel<'a>>,
    /// The CPU of the event: its own field, or else derived from the kernel's schedule.
    pub cpu: Option<Cpu>,
    /// The thread of the event: its own field, or else derived from the kernel's schedule. A `sched_switch` belongs to
    /// the thread that leaves. A record about the machine, which the recorder adds, has none.
    pub tid: Option<Tid>,
    /// The fiber that the thread has, whether the event is a program's or the kernel's. A switch between fibers belongs
    /// to the one that leaves. [`Mounted::Outside`] in a trace without events about fibers.
    pub fiber: Mounted,
    /// The host of the event, to which its CPU, its thread and its process belong.
    pub host: Host,
    /// The threads, CPUs and fibers of the host just after the event.
    pub system: &'a System,
    vocabulary: &'a Vocabulary,
}

impl<S: Source> SuperTrace<S> {
    /// Merges `sources`, whose events are of `classes`. Reads nothing yet.
    pub fn new(classes: &Classes, sources: impl IntoIterator<Item = S>) -> Self {
        Self {
            merge: Merge::new(classes, sources),
            vocabulary: Vocabulary::new(classes),
            hosts: Hosts::default(),
            systems: vec![System::default()],
        }
    }

    /// Assigns the classes and sources to several hosts, each of which has a state of its own.
    #[must_use]
    pub fn of_hosts(self, hosts: Hosts) -> Self {
        let mut systems = self.systems;
        systems.resize_with(hosts.count(), System::default);
        Self { hosts, systems, ..self }
    }

    /// Sets the initial state of the first host: the one in which an earlier super-trace ended.
    #[must_use]
    pub fn continuing(mut self, before: System) -> Self {
        self.systems[0] = before;
        self
    }

    /// Ends the super-trace, and returns the state of the first host after the last item.
    pub fn into_system(mut self) -> System {
        self.systems.swap_remove(0)
    }

    /// Sets the name, from its own trace, of the program that runs as `pid` on the host.
    pub fn name_program(&mut self, host: Host, pid: Pid, name: &str) {
        self.system(host).name_program(pid, name.into());
    }

    /// Sets the address of the futex by which the program that runs as `pid` on the host wakes sordino's recorder.
    pub fn set_wake_up(&mut self, host: Host, pid: Pid, futex: u64) {
        self.system(host).set_wake_up(pid, futex);
    }

    /// Sets the numbering of priorities in the events of the host's kernel, as the trace states it. Without it, the
    /// idle thread's priority shows the numbering.
    pub fn number_priorities(&mut self, host: Host, numbering: PriorityNumbering) {
        self.system(host).number_priorities(numbering);
    }

    /// Sets the costs of the host's events. [`System::overhead`] returns the time that recording took from then on.
    pub fn subtract_overhead(&mut self, host: Host, costs: EventCosts) {
        self.system(host).set_costs(costs);
    }

    fn system(&mut self, host: Host) -> &mut System {
        &mut self.systems[usize::from(host.0)]
    }

    /// Returns the kinds of the kernel's events that the trace has.
    pub fn recorded(&self) -> Recorded {
        self.vocabulary.recorded()
    }

    /// Returns the next item in the order of time, which [`Merge`] defines; `None` at the end.
    ///
    /// # Errors
    /// When a source fails. It is left out from then on; the next call continues with the others.
    #[expect(clippy::should_implement_trait, reason = "what it yields borrows from it")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, SourceError<S::Error>> {
        Ok(match self.merge.next()? {
            Some(Merged::Event(event)) => {
                let host = self.hosts.of_class(event.class);
                let system = &mut self.systems[usize::from(host.0)];
                Some(Item::Event(moment(event, &self.vocabulary, host, system)))
            }
            Some(Merged::Loss(loss, source)) => {
                let host = self.hosts.of_source(source);
                let system = &mut self.systems[usize::from(host.0)];
                system.lose(loss);
                if self.vocabulary.has_fibers() {
                    system.lose_fibers(loss);
                }
                Some(Item::Loss(loss, host))
            }
            Some(Merged::Disorder(disorder)) => Some(Item::Disorder(disorder)),
            None => None,
        })
    }
}

#[inline]
fn moment<'a>(
    event: &'a Event,
    vocabulary: &'a Vocabulary,
    host: Host,
    system: &'a mut System,
) -> Moment<'a> {
    let kernel = vocabulary.read(event);
    if let (None, Some(tid), Some(pid)) = (&kernel, event.tid, event.pid) {
        system.add_thread(tid, pid);
        if let Some(annotations) = vocabulary.annotations(event) {
            system.set_annotation(pid, tid, annotations);
        }
        if let Some(count) = vocabulary.counted(event) {
            system.count(pid, tid, event, count);
        }
    }
    if let Some((tid, comm)) = event.tid.zip(vocabulary.comm(event)) {
        system.name(tid, comm);
    }
    // Each idle thread has a CPU of its own: a record of one without its CPU is about the machine.
    let made_by = event.tid.filter(|tid| event.cpu.is_some() || *tid != Tid(0));
    let cpu = event.cpu.or_else(|| system.cpu(made_by?));
    let leaving = match kernel {
        Some(Kernel::Switch { prev, .. }) => Some(prev.tid),
        _ => None,
    };
    let own = || made_by.or_else(|| vocabulary.perf_tid(event));
    let tid = leaving.or_else(own).or_else(|| system.running(cpu?));
    let fiber = if vocabulary.has_fibers() {
        system.follow_fibers(event, kernel.as_ref(), vocabulary.fiber(event), tid)
    } else {
        Mounted::Outside
    };
    if let Some(kernel) = &kernel {
        system.learn(kernel, cpu, (event.time, tid));
    }
    let domain = vocabulary.domain(event);
    // A record about the machine, which the recorder adds, has no thread, and cost nobody its time.
    if system.subtracts_overhead() && tid.is_some() {
        // A switch is recorded while its thread or fiber leaves: the cost falls into the time behind it, in which
        // others run.
        let is_fiber_switch = matches!(vocabulary.fiber(event), Some(FiberEvent::Switch { .. }));
        let thread = tid.filter(|_| leaving.is_none());
        let fiber = fiber.fiber().filter(|_| leaving.is_none() && !is_fiber_switch);
        system.pay((event.time, domain), cpu, thread, fiber);
    }
    Moment { event, domain, kernel, cpu, tid, fiber, host, system, vocabulary }
}

impl<'a> Moment<'a> {
    /// Returns the process of the event's thread.
    pub fn pid(&self) -> Option<Pid> {
        self.event.pid.or_else(|| self.system.pid(self.tid?))
    }

    /// Returns the name of the event's thread.
    pub fn comm(&self) -> Option<&Arc<str>> {
        let context = self.context().and_then(|context| context.comm.as_ref());
        context.or_else(|| self.system.comm(self.tid?))
    }

    /// Returns the name of the event's program: from its own trace, or else that of its first thread.
    pub fn program(&self) -> Option<&Arc<str>> {
        self.system.program(self.pid()?)
    }

    /// Returns the other facts about the thread, if the event is a program's and the recording has them.
    pub fn context(&self) -> Option<&ThreadContext> {
        match self.domain {
            Domain::User => self.system.context(self.event.pid?, self.event.tid?),
            Domain::Kernel => None,
        }
    }

    /// Returns the decoded event, if it is a program's about fibers.
    pub fn about_fibers(&self) -> Option<FiberEvent<'a>> {
        self.vocabulary.fiber(self.event)
    }

    /// Returns the first contradiction in the records about fibers that the event shows.
    pub fn contradiction(&self) -> Option<Contradiction> {
        self.system.fibers().latest_contradiction()
    }

    /// Returns the fiber that the event's thread has, if it certainly has one.
    pub fn fiber_id(&self) -> Option<FiberId> {
        self.fiber.fiber()
    }

    /// Returns the priority of the event's thread.
    pub fn priority(&self) -> Option<Priority> {
        self.system.priority(self.tid?)
    }
}
