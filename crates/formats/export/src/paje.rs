//! Pajé's format: text that pj_dump, ViTE and pajeng's space-time view read.
//!
//! The machine contains CPUs and processes, a process threads and fibers. A CPU has the thread that runs and the stack
//! of interrupts as states, a thread and a fiber their own state. A wake-up is a link from the waking thread to the
//! woken thread. All records are events.
//!
//! Times are seconds since the recording began, with nine decimals: readers keep them in double precision, in which
//! seconds since the epoch have no nanoseconds. Lines are in order of time, with one exception: the begin of a link is
//! written together with its end, because a link without an end is an error for readers.
//!
//! | module | content |
//! |---|---|
//! | `containers` | CPUs, processes, threads and fibers, created when they are first needed |
//! | `line` | lines: numbers, times, and texts that cannot end them |

mod containers;
mod line;

use crate::lines::object;
use crate::wakeups::OpenWakeUps;
use crate::{Exporter, Origin};
use containers::{Containers, FIBER, THREAD};
use line::PajeLine;
use sordino_event::{Classes, Cpu, Domain, Loss, Pid, Tid, Time};
use sordino_report::json_place;
use sordino_timeline::{
    Disorder, FiberEvent, FiberId, FiberState, Item, Kernel, Moment, System, TaskState, ThreadState,
};
use std::collections::BTreeMap;

/// Definitions of the lines, and of the types of containers, states, links and events.
const HEADER: &str = include_str!("paje/header.trace");
/// Maximum depth of nested interrupts on a CPU.
const DEPTH_MAX: usize = 16;

/// A writer of Pajé's format.
#[derive(Debug)]
pub struct Paje {
    begin: Time,
    /// The time of the last line.
    now: Time,
    classes: Classes,
    containers: Containers,
    /// The interrupts that each CPU handles, the innermost last.
    interrupts: BTreeMap<Cpu, Vec<String>>,
    /// The last wake-up of each thread that has not run since.
    wakeups: OpenWakeUps<Wakeup>,
    links: u64,
    fields: Vec<u8>,
}

/// A wake-up whose run is still to come.
#[derive(Debug)]
struct Wakeup {
    at: Time,
    cpu: Cpu,
    /// The thread that woke, with its container; `None` for an idle CPU.
    by: Option<(Tid, u64)>,
}

impl Paje {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes, origin: &Origin) -> Self {
        Self {
            begin: origin.begin,
            now: origin.begin,
            classes: classes.clone(),
            containers: Containers::default(),
            interrupts: BTreeMap::new(),
            wakeups: OpenWakeUps::default(),
            links: 0,
            fields: Vec::new(),
        }
    }

    /// Returns the begin of a line at the current time.
    fn line<'a>(&self, kind: u8, out: &'a mut Vec<u8>) -> PajeLine<'a> {
        PajeLine::at(kind, self.now - self.begin, out)
    }

    fn moment(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        self.containers.set_time(self.now - self.begin);
        self.event(moment, out);
        if let Some(kernel) = &moment.kernel {
            self.kernel(kernel, moment, out);
        }
        if let Some((about, pid)) = moment.about_fibers().zip(moment.pid()) {
            self.fibers(&about, pid, moment.system, out);
        }
    }

    /// Writes the record itself.
    fn event(&mut self, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let class = &self.classes[moment.event.class];
        let (kind, container) = match (moment.domain, moment.cpu, moment.tid) {
            (Domain::Kernel, Some(cpu), _) => ("EC", self.containers.cpu(cpu, out)),
            (Domain::User, _, Some(tid)) => {
                ("ET", self.containers.thread(tid, moment.pid(), moment.system, out))
            }
            _ => ("EM", containers::MACHINE),
        };
        self.fields.clear();
        object(moment, class, None, &mut self.fields);
        let who = match (moment.domain, moment.cpu, moment.tid) {
            (Domain::Kernel, _, Some(tid)) => thread_name(tid, moment.system),
            (Domain::User, Some(cpu), _) => format!("cpu{}", cpu.0),
            _ => "?".to_owned(),
        };
        let mut line = self.line(9, out);
        line.word(kind).number(container).text(class.name.as_bytes()).text(who.as_bytes()).text(&self.fields);
        line.end();
    }

    fn kernel(&mut self, kernel: &Kernel<'_>, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let system = moment.system;
        if let Some(tid) = self.wakeups.woken(kernel, system) {
            self.wake(tid, moment, out);
        }
        match *kernel {
            Kernel::Switch { prev, next, .. } => {
                for tid in [prev.tid, next.tid] {
                    self.thread_state(tid, system, out);
                }
                if let Some(cpu) = moment.cpu {
                    let container = self.containers.cpu(cpu, out);
                    self.set_state("SR", container, &thread_name(next.tid, system), out);
                }
                if let Some(wakeup) = self.wakeups.switch(prev.tid, next.tid) {
                    self.link(&wakeup, next.tid, system, out);
                }
            }
            Kernel::Enter(interrupt) => {
                let Some(cpu) = moment.cpu else { return };
                let open = self.interrupts.entry(cpu).or_default();
                if open.len() < DEPTH_MAX {
                    let name = interrupt.label();
                    let container = self.containers.cpu(cpu, out);
                    open.push(name.clone());
                    let mut line = self.line(7, out);
                    line.word("SI").number(container).text(name.as_bytes());
                    line.end();
                }
            }
            Kernel::Exit(interrupt) => {
                let Some(cpu) = moment.cpu else { return };
                let ended = interrupt.label();
                let open = self.interrupts.get(&cpu).map_or(&[][..], Vec::as_slice);
                if let Some(index) = open.iter().rposition(|name| name.starts_with(&ended)) {
                    self.pop(cpu, index, out);
                }
            }
            Kernel::Gone { tid } => {
                self.wakeups.forget(tid);
                self.containers.end_thread(tid, out);
            }
            _ => {}
        }
    }

    /// Ends the interrupts of a CPU but for the outer `left` ones.
    fn pop(&mut self, cpu: Cpu, left: usize, out: &mut Vec<u8>) {
        let container = self.containers.cpu(cpu, out);
        let ended = self.interrupts.get_mut(&cpu).map_or(0, |open| open.drain(left..).count());
        for _ in 0..ended {
            let mut line = self.line(8, out);
            line.word("SI").number(container);
            line.end();
        }
    }

    fn set_state(&self, kind: &str, container: u64, value: &str, out: &mut Vec<u8>) {
        let mut line = self.line(6, out);
        line.word(kind).number(container).text(value.as_bytes());
        line.end();
    }

    /// Writes the state of a thread, if it has changed.
    fn thread_state(&mut self, tid: Tid, system: &System, out: &mut Vec<u8>) {
        if tid == Tid(0) {
            return;
        }
        let container = self.containers.thread(tid, None, system, out);
        let state = state_name(system.thread_state(tid));
        if self.containers.change_thread(tid, state) {
            self.set_state(THREAD.state, container, state, out);
        }
    }

    /// Keeps a wake-up until the thread runs.
    fn wake(&mut self, tid: Tid, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let (system, Some(cpu)) = (moment.system, moment.cpu) else { return };
        self.thread_state(tid, system, out);
        self.containers.cpu(cpu, out);
        let waker = moment.tid.filter(|waker| *waker != Tid(0));
        let by = waker.map(|waker| (waker, self.containers.thread(waker, moment.pid(), system, out)));
        self.wakeups.begin(tid, Wakeup { at: self.now, cpu, by });
    }

    /// Writes the link from the thread's wake-up, which led to its run.
    fn link(&mut self, wakeup: &Wakeup, tid: Tid, system: &System, out: &mut Vec<u8>) {
        let Wakeup { at, cpu, by } = *wakeup;
        // The waker may have ended since.
        let by = by.filter(|(waker, container)| self.containers.is_thread(*waker, *container));
        let (kind, from) = match by {
            Some((_, container)) => ("LT", container),
            None => ("LC", self.containers.cpu(cpu, out)),
        };
        let to = self.containers.thread(tid, None, system, out);
        self.links += 1;
        let ends = [(10, at, from), (11, self.now, to)];
        for (line, time, container) in ends {
            let mut line = PajeLine::at(line, time - self.begin, out);
            line.word(kind).number(containers::MACHINE).number(container).word("wake-up").number(self.links);
            line.end();
        }
    }

    /// Writes the states of the fibers that a record is about.
    fn fibers(&mut self, about: &FiberEvent<'_>, pid: Pid, system: &System, out: &mut Vec<u8>) {
        let numbers = match *about {
            FiberEvent::Switch { from, to, .. } => [from, to],
            FiberEvent::New { fiber, .. }
            | FiberEvent::Present { fiber, .. }
            | FiberEvent::End { fiber }
            | FiberEvent::Wake { fiber, .. }
            | FiberEvent::Rename { fiber, .. } => [Some(fiber), None],
            _ => [None, None],
        };
        for number in numbers.into_iter().flatten() {
            let id = FiberId { pid, number };
            if matches!(about, FiberEvent::Switch { .. }) && self.containers.end_fiber(id, out) {
                continue;
            }
            let container = self.containers.fiber(id, system, out);
            let state = fiber_state_name(system.fibers().state(id));
            if self.containers.change_fiber(id, state, matches!(about, FiberEvent::End { .. })) {
                self.set_state(FIBER.state, container, state, out);
            }
        }
    }

    /// Writes the loss, and sets the states whose records are missing to unknown.
    fn lose(&mut self, loss: &Loss, out: &mut Vec<u8>) {
        self.containers.set_time(self.now - self.begin);
        let place = match (loss.cpu, loss.pid) {
            (Some(cpu), _) => format!("cpu{}", cpu.0),
            (None, Some(pid)) => format!("pid {}", pid.0),
            (None, None) => "?".to_owned(),
        };
        let count = loss.count.map_or("null".to_owned(), |count| count.to_string());
        let mut fields = format!("{{\"count\":{count},\"to_ns\":{}", loss.to.0).into_bytes();
        json_place(loss, &mut fields);
        fields.push(b'}');
        let mut line = self.line(9, out);
        line.word("EL").number(containers::MACHINE).text(loss.cause.to_string().as_bytes());
        line.text(place.as_bytes()).text(&fields);
        line.end();
        if let Some(pid) = loss.pid {
            for container in self.containers.forget_fibers(pid) {
                self.set_state(FIBER.state, container, UNKNOWN, out);
            }
            return;
        }
        self.wakeups.clear();
        for container in self.containers.forget_threads() {
            self.set_state(THREAD.state, container, UNKNOWN, out);
        }
        let cpus = self.containers.cpus().filter(|cpu| loss.cpu.is_none_or(|lost| lost == *cpu));
        for cpu in cpus.collect::<Vec<_>>() {
            self.pop(cpu, 0, out);
            let container = self.containers.cpu(cpu, out);
            self.set_state("SR", container, UNKNOWN, out);
        }
    }

    fn disorder(&self, disorder: &Disorder, out: &mut Vec<u8>) {
        let fields = format!("{{\"source\":{},\"back_ns\":{}}}", disorder.source, disorder.back.0);
        let mut line = self.line(9, out);
        line.word("ED")
            .number(containers::MACHINE)
            .text(b"time went back")
            .text(b"?")
            .text(fields.as_bytes());
        line.end();
    }
}

impl Exporter for Paje {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(HEADER.as_bytes());
        self.containers.begin(out);
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        // The time of lines must not go back.
        self.now = self.now.max(match item {
            Item::Event(moment) => moment.event.time,
            Item::Loss(loss, _) => loss.from,
            Item::Disorder(disorder) => disorder.at,
        });
        match item {
            Item::Event(moment) => self.moment(moment, out),
            Item::Loss(loss, _) => self.lose(loss, out),
            Item::Disorder(disorder) => self.disorder(disorder, out),
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

const UNKNOWN: &str = "unknown";

/// Returns the name and the id of a thread, `idle` for a CPU without one.
fn thread_name(tid: Tid, system: &System) -> String {
    match tid {
        Tid(0) => "idle".to_owned(),
        Tid(number) => format!("{}/{number}", system.comm(tid).map_or("?", |comm| comm)),
    }
}

fn state_name(state: ThreadState) -> &'static str {
    match state {
        ThreadState::Running { .. } => "running",
        ThreadState::Preempted { .. } => "preempted",
        ThreadState::Woken { .. } => "woken",
        ThreadState::Unknown => UNKNOWN,
        ThreadState::Blocked { state } => match state {
            TaskState::Runnable => "preempted",
            TaskState::Interruptible => "sleeping",
            TaskState::Uninterruptible => "uninterruptible",
            TaskState::Stopped => "stopped",
            TaskState::Traced => "traced",
            TaskState::Parked => "parked",
            TaskState::Idle => "without work",
            TaskState::Dead => "dead",
        },
    }
}

fn fiber_state_name(state: &FiberState) -> &'static str {
    match state {
        FiberState::Mounted { .. } => "mounted",
        FiberState::Ready { .. } => "ready",
        FiberState::Blocked { .. } => "blocked",
        FiberState::Unmounted => "unmounted",
        FiberState::Unknown => UNKNOWN,
    }
}
