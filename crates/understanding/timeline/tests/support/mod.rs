//! Hand-made traces, written as they happen: `script.at(100).cpu(1).switch(NPT, RUNNABLE, HOG)`.
#![allow(dead_code, reason = "no test uses all of it")]

use sordino_event::{
    Class, ClassId, Classes, Cpu, Domain, Event, EventCosts, Loss, LossCause, Pid, PriorityNumbering, Step,
    Tid, Time, Value, View,
};
use sordino_timeline::{Host, Item, SuperTrace};
use std::convert::Infallible;
use std::sync::Arc;

/// A thread: tid, name, the kernel's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptThread(pub(crate) i32, pub(crate) &'static str, pub(crate) i32);

pub(crate) const IDLE: ScriptThread = ScriptThread(0, "swapper", 120);
pub(crate) const NPT: ScriptThread = ScriptThread(10, "npt", 4);
pub(crate) const HOG: ScriptThread = ScriptThread(123, "hog", 3);
pub(crate) const KWORKER: ScriptThread = ScriptThread(77, "kworker/1:2", 120);

/// States in which a thread leaves its CPU.
pub(crate) const RUNNABLE: i64 = 0x100;
pub(crate) const SLEEPING: i64 = 1;
pub(crate) const WAITING: i64 = 2;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum V {
    I(i64),
    U(u64),
    T(&'static str),
    L([u64; 3]),
}

#[derive(Clone, Debug)]
enum ScriptEntry {
    Event(Event),
    Loss(Loss),
}

/// An event of a trace.
#[derive(Clone, Debug)]
pub(crate) struct ScriptEvent {
    pub(crate) time: i64,
    pub(crate) cpu: Option<u32>,
    pub(crate) name: String,
    /// True if it is an event of the given thread, or one that names it.
    pub(crate) names_thread: bool,
    /// The value of the first field, if it is a signed integer: the number of a call or of a signal.
    pub(crate) first: Option<i64>,
}

/// A trace being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) classes: Classes,
    entries: Vec<(i64, ScriptEntry)>,
    at: i64,
    cpu: Option<u32>,
    /// The process of the programs' events and losses; without one, the process has its thread's number.
    process: Option<i32>,
    /// The thread of the kernel's events, if they name it.
    thread: Option<ScriptThread>,
    /// True if the source yields its events as written, even if time goes back.
    pub(crate) disordered: bool,
    /// The numbering of priorities that the trace states.
    pub(crate) numbering: Option<PriorityNumbering>,
    /// The costs of events, if the overhead is subtracted.
    pub(crate) costs: Option<EventCosts>,
    /// The futexes that programs wake sordino's recorder by.
    pub(crate) wake_ups: Vec<(Pid, u64)>,
    /// The names of programs, from their own traces.
    pub(crate) programs: Vec<(Pid, &'static str)>,
}

impl Script {
    /// Creates a trace that declares every kind of event of the kernel.
    pub(crate) fn new() -> Self {
        let mut script = Self::default();
        script
            .switch(IDLE, 0, IDLE)
            .waking(NPT, 0)
            .migrate(NPT, 0, 0)
            .irq(0, "")
            .softirq(0)
            .vector("local_timer")
            .syscall(0)
            .fault(true)
            .signal(0, NPT)
            .delivered(0, 0)
            .nmi(0, 0);
        script.entries.clear();
        script
    }

    /// Creates a trace of programs alone.
    pub(crate) fn of_programs() -> Self {
        Self::default()
    }

    /// Sets the time of the events that follow.
    pub(crate) fn at(&mut self, time: i64) -> &mut Self {
        self.at = time;
        self
    }

    /// Sets the CPU of the events that follow.
    pub(crate) fn cpu(&mut self, cpu: u32) -> &mut Self {
        self.cpu = Some(cpu);
        self
    }

    /// Leaves the CPU of the events that follow unknown.
    pub(crate) fn no_cpu(&mut self) -> &mut Self {
        self.cpu = None;
        self
    }

    /// Makes the kernel's events that follow name this thread.
    pub(crate) fn by(&mut self, thread: ScriptThread) -> &mut Self {
        self.thread = Some(thread);
        self
    }

    /// Sets the process of the programs' events and losses that follow.
    pub(crate) fn of(&mut self, process: i32) -> &mut Self {
        self.process = Some(process);
        self
    }

    pub(crate) fn switch(&mut self, prev: ScriptThread, state: i64, next: ScriptThread) -> &mut Self {
        self.kernel(
            "sched_switch",
            &[
                ("prev_comm", V::T(prev.1)),
                ("prev_tid", V::I(prev.0.into())),
                ("prev_prio", V::I(prev.2.into())),
                ("prev_state", V::I(state)),
                ("next_comm", V::T(next.1)),
                ("next_tid", V::I(next.0.into())),
                ("next_prio", V::I(next.2.into())),
            ],
        )
    }

    pub(crate) fn waking(&mut self, thread: ScriptThread, target: i64) -> &mut Self {
        self.task_event("sched_waking", thread, &[("target_cpu", V::I(target))])
    }

    pub(crate) fn woken(&mut self, thread: ScriptThread, target: i64) -> &mut Self {
        self.task_event("sched_wakeup", thread, &[("target_cpu", V::I(target))])
    }

    pub(crate) fn migrate(&mut self, thread: ScriptThread, from: i64, to: i64) -> &mut Self {
        self.task_event("sched_migrate_task", thread, &[("orig_cpu", V::I(from)), ("dest_cpu", V::I(to))])
    }

    fn task_event(&mut self, name: &str, thread: ScriptThread, more: &[(&str, V)]) -> &mut Self {
        let mut fields =
            vec![("comm", V::T(thread.1)), ("tid", V::I(thread.0.into())), ("prio", V::I(thread.2.into()))];
        fields.extend_from_slice(more);
        self.kernel(name, &fields)
    }

    pub(crate) fn irq(&mut self, irq: i64, name: &'static str) -> &mut Self {
        self.kernel("irq_handler_entry", &[("irq", V::I(irq)), ("name", V::T(name))])
    }

    pub(crate) fn irq_exit(&mut self, irq: i64) -> &mut Self {
        self.kernel("irq_handler_exit", &[("irq", V::I(irq)), ("ret", V::I(1))])
    }

    pub(crate) fn softirq_raise(&mut self, vec: u64) -> &mut Self {
        self.kernel("irq_softirq_raise", &[("vec", V::U(vec))])
    }

    pub(crate) fn softirq(&mut self, vec: u64) -> &mut Self {
        self.kernel("irq_softirq_entry", &[("vec", V::U(vec))])
    }

    pub(crate) fn softirq_exit(&mut self, vec: u64) -> &mut Self {
        self.kernel("irq_softirq_exit", &[("vec", V::U(vec))])
    }

    pub(crate) fn vector(&mut self, name: &str) -> &mut Self {
        self.kernel(&format!("x86_irq_vectors_{name}_entry"), &[("vector", V::I(236))])
    }

    pub(crate) fn vector_exit(&mut self, name: &str) -> &mut Self {
        self.kernel(&format!("x86_irq_vectors_{name}_exit"), &[("vector", V::I(236))])
    }

    pub(crate) fn nmi(&mut self, handler: u64, duration: i64) -> &mut Self {
        let fields = [("handler", V::U(handler)), ("delta_ns", V::I(duration)), ("handled", V::I(1))];
        self.kernel("nmi_handler", &fields)
    }

    pub(crate) fn fault(&mut self, user: bool) -> &mut Self {
        self.fault_of(user, if user { 4 } else { 0 })
    }

    /// Adds a page fault with an error code of x86.
    pub(crate) fn fault_of(&mut self, user: bool, code: u64) -> &mut Self {
        let name = if user { "x86_exceptions_page_fault_user" } else { "x86_exceptions_page_fault_kernel" };
        self.kernel(name, &[("address", V::U(4096)), ("ip", V::U(0)), ("error_code", V::U(code))])
    }

    pub(crate) fn allocation(&mut self, order: u64) -> &mut Self {
        self.kernel("kmem_mm_page_alloc", &[("pfn", V::U(7)), ("order", V::U(order))])
    }

    pub(crate) fn syscall(&mut self, number: i64) -> &mut Self {
        self.kernel("sys_enter", &[("id", V::I(number)), ("args", V::L([0; 3]))])
    }

    /// Adds a `futex` of x86-64 as locks use it: a waiter expects 2, a waker wakes one.
    pub(crate) fn futex(&mut self, word: u64, operation: u64) -> &mut Self {
        self.futex_of(word, operation, if matches!(operation & 0x7f, 0 | 9) { 2 } else { 1 })
    }

    /// Adds a `futex` of x86-64.
    pub(crate) fn futex_of(&mut self, word: u64, operation: u64, value: u64) -> &mut Self {
        self.kernel("sys_enter", &[("id", V::I(202)), ("args", V::L([word, operation, value]))])
    }

    /// Adds a signal that is sent to a thread.
    pub(crate) fn signal(&mut self, signal: i64, to: ScriptThread) -> &mut Self {
        self.kernel("signal_generate", &[("sig", V::I(signal)), ("pid", V::I(to.0.into()))])
    }

    /// Adds a signal that the running thread receives, and handles by the function at this address.
    pub(crate) fn delivered(&mut self, signal: i64, handler: u64) -> &mut Self {
        self.kernel("signal_deliver", &[("sig", V::I(signal)), ("sa_handler", V::U(handler))])
    }

    pub(crate) fn syscall_exit(&mut self, number: i64) -> &mut Self {
        self.kernel("sys_exit", &[("id", V::I(number)), ("ret", V::I(0))])
    }

    pub(crate) fn timer(&mut self, function: u64) -> &mut Self {
        self.kernel("timer_hrtimer_expire_entry", &[("hrtimer", V::U(1)), ("function", V::U(function))])
    }

    /// Adds the start of the high-resolution timer at this address; `due` is its earliest and latest expiry, by its
    /// clock.
    pub(crate) fn timer_start(&mut self, timer: u64, due: [i64; 2]) -> &mut Self {
        let due = [("hrtimer", V::U(timer)), ("expires", V::I(due[1])), ("softexpires", V::I(due[0]))];
        self.kernel("timer_hrtimer_start", &due)
    }

    /// Adds the begin of that timer's function, at this time of its clock.
    pub(crate) fn timer_of(&mut self, timer: u64, now: i64) -> &mut Self {
        let fields = [("hrtimer", V::U(timer)), ("now", V::I(now)), ("function", V::U(1))];
        self.kernel("hrtimer_expire_entry", &fields)
    }

    pub(crate) fn timer_exit(&mut self) -> &mut Self {
        self.kernel("timer_hrtimer_expire_exit", &[("hrtimer", V::U(1))])
    }

    pub(crate) fn work(&mut self, function: u64) -> &mut Self {
        self.kernel("workqueue_execute_start", &[("work", V::U(1)), ("function", V::U(function))])
    }

    pub(crate) fn work_exit(&mut self) -> &mut Self {
        self.kernel("workqueue_execute_end", &[("work", V::U(1))])
    }

    /// Adds the event of a thread that begins to execute fibers.
    pub(crate) fn fiber_enter(&mut self, thread: ScriptThread) -> &mut Self {
        self.user("sordino_fiber:thread_enter", thread, &[("scheduler", V::T("test"))])
    }

    /// Adds the event of a thread that ends to execute fibers.
    pub(crate) fn fiber_leave(&mut self, thread: ScriptThread) -> &mut Self {
        self.user("sordino_fiber:thread_leave", thread, &[])
    }

    pub(crate) fn fiber_new(&mut self, thread: ScriptThread, fiber: u64, name: &'static str) -> &mut Self {
        self.user("sordino_fiber:new", thread, &[("fiber", V::U(fiber)), ("name", V::T(name))])
    }

    /// Adds a switch between fibers; 0 is the thread's own code.
    pub(crate) fn fiber_switch(&mut self, thread: ScriptThread, from: u64, to: u64, why: u64) -> &mut Self {
        let fields = [("from", V::U(from)), ("to", V::U(to)), ("why", V::U(why)), ("on", V::T("a lock"))];
        self.user("sordino_fiber:switch", thread, &fields)
    }

    pub(crate) fn fiber_end(&mut self, thread: ScriptThread, fiber: u64) -> &mut Self {
        self.user("sordino_fiber:end", thread, &[("fiber", V::U(fiber))])
    }

    pub(crate) fn fiber_wake(&mut self, thread: ScriptThread, fiber: u64, by: u64) -> &mut Self {
        self.user("sordino_fiber:wake", thread, &[("fiber", V::U(fiber)), ("by", V::U(by))])
    }

    pub(crate) fn fiber_rename(&mut self, thread: ScriptThread, fiber: u64, name: &'static str) -> &mut Self {
        self.user("sordino_fiber:rename", thread, &[("fiber", V::U(fiber)), ("name", V::T(name))])
    }

    /// Adds an event of the kernel, which names its thread only [`by`](Self::by) one.
    pub(crate) fn kernel(&mut self, name: &str, fields: &[(&str, V)]) -> &mut Self {
        let mut event = self.event(Domain::Kernel, name, fields);
        event.tid = self.thread.map(|thread| Tid(thread.0));
        self.push(ScriptEntry::Event(event))
    }

    /// Adds an event of a program's thread.
    pub(crate) fn user(&mut self, name: &str, thread: ScriptThread, fields: &[(&str, V)]) -> &mut Self {
        let mut event = self.event(Domain::User, name, fields);
        (event.tid, event.pid) = (Some(Tid(thread.0)), Some(self.process_of(thread)));
        self.push(ScriptEntry::Event(event))
    }

    /// Adds a loss of the kernel's records on the current CPU from now to `to`.
    pub(crate) fn lose_kernel(&mut self, to: i64, count: u64) -> &mut Self {
        self.lose(to, None, Some(count), LossCause::KernelOverrun, None)
    }

    /// Adds a loss of the process's records on the current CPU from now to `to`.
    pub(crate) fn lose_user(&mut self, thread: ScriptThread, to: i64, count: u64) -> &mut Self {
        self.lose(to, Some(self.process_of(thread)), Some(count), LossCause::RingFull, None)
    }

    /// Adds a stretch of the kernel's records on the current CPU, from now to `to`, that are invalid in this place.
    pub(crate) fn corrupt(&mut self, to: i64, place: &str) -> &mut Self {
        self.lose(to, None, None, LossCause::Corrupt, Some(place.into()))
    }

    fn process_of(&self, thread: ScriptThread) -> Pid {
        Pid(self.process.unwrap_or(thread.0))
    }

    fn lose(
        &mut self,
        to: i64,
        pid: Option<Pid>,
        count: Option<u64>,
        cause: LossCause,
        place: Option<Arc<str>>,
    ) -> &mut Self {
        let (from, cpu) = (Time(self.at), self.cpu.map(Cpu));
        self.push(ScriptEntry::Loss(Loss { from, to: Time(to), cpu, pid, count, cause, place }))
    }

    fn event(&mut self, domain: Domain, name: &str, fields: &[(&str, V)]) -> Event {
        let class = self.class(domain, name, fields);
        let mut event = Event::default();
        event.begin(Time(self.at), class);
        event.cpu = self.cpu.map(Cpu);
        for (_, value) in fields {
            match *value {
                V::I(value) => event.push(Value::signed(value)),
                V::U(value) => event.push(Value::unsigned(value)),
                V::T(text) => event.push_text(text.as_bytes()),
                V::L(list) => {
                    event.push(Value::List(list.len() as u32));
                    list.into_iter().for_each(|value| event.push(Value::unsigned(value)));
                }
            }
        }
        event
    }

    fn class(&mut self, domain: Domain, name: &str, fields: &[(&str, V)]) -> ClassId {
        let known = self.classes.iter().find(|(_, class)| class.name == name).map(|(id, _)| id);
        known.unwrap_or_else(|| {
            self.classes.add(Class::new(domain, name, fields.iter().map(|(name, _)| *name)))
        })
    }

    fn push(&mut self, entry: ScriptEntry) -> &mut Self {
        self.entries.push((self.at, entry));
        self
    }

    /// Returns the trace without the events for which `is_removed` returns true; it is called in their order, with
    /// their relation to `thread`.
    pub(crate) fn without(
        &self,
        thread: ScriptThread,
        mut is_removed: impl FnMut(ScriptEvent) -> bool,
    ) -> Self {
        let mut left = self.clone();
        left.entries.retain(|(time, entry)| {
            let ScriptEntry::Event(event) = entry else { return true };
            let class = &self.classes[event.class];
            let tids =
                ["tid", "prev_tid", "next_tid"].iter().filter_map(|name| event.value(class.field(name)?));
            let is_it = |tid: View<'_>| matches!(tid, View::Signed(tid, _) if tid == i64::from(thread.0));
            let names_thread = event.tid == Some(Tid(thread.0)) || tids.into_iter().any(is_it);
            let cpu = event.cpu.map(|cpu| cpu.0);
            let first = event.value(0).and_then(|value| match value {
                View::Signed(value, _) => Some(value),
                _ => None,
            });
            !is_removed(ScriptEvent { time: *time, cpu, name: class.name.clone(), names_thread, first })
        });
        left
    }

    /// Returns the trace in which each `sched_switch` for which `is_swapped` returns true has changed places with the
    /// next one of its CPU. It is called with the numbers of the trace's entries; the pairs of numbers are returned,
    /// too.
    pub(crate) fn swapped(&self, mut is_swapped: impl FnMut(usize) -> bool) -> (Self, Vec<(usize, usize)>) {
        let (mut swapped, mut pairs) = (self.clone(), Vec::new());
        let entries = &mut swapped.entries;
        let cpu_of = |entry: &ScriptEntry| match entry {
            ScriptEntry::Event(event) if &*self.classes[event.class].name == "sched_switch" => event.cpu,
            _ => None,
        };
        let mut free = 0;
        for one in 0..entries.len() {
            let Some(cpu) = cpu_of(&entries[one].1).filter(|_| one >= free && is_swapped(one)) else {
                continue;
            };
            let mut later = one + 1..entries.len();
            let Some(other) = later.find(|later| cpu_of(&entries[*later].1) == Some(cpu)) else { continue };
            let (before, after) = entries.split_at_mut(other);
            let (ScriptEntry::Event(first), ScriptEntry::Event(second)) =
                (&mut before[one].1, &mut after[0].1)
            else {
                continue;
            };
            std::mem::swap(first, second);
            std::mem::swap(&mut first.time, &mut second.time);
            pairs.push((one, other));
            free = other + 1;
        }
        (swapped, pairs)
    }

    /// Passes every item of the merged trace to `take`, in the order of time; at equal times, in the written order.
    pub(crate) fn play(&self, take: impl FnMut(&Item<'_>)) {
        self.play_rounds(1, 0, take);
    }

    /// Merges the trace as often as there are rounds, each of this length in nanoseconds, one behind the other.
    pub(crate) fn play_rounds(&self, rounds: i64, length: i64, mut take: impl FnMut(&Item<'_>)) {
        let mut entries: Vec<&(i64, ScriptEntry)> = self.entries.iter().collect();
        if !self.disordered {
            entries.sort_by_key(|(time, _)| *time);
        }
        let entries = &entries;
        let mut entries = (0..rounds).flat_map(|round| entries.iter().map(move |(_, entry)| (round, entry)));
        let source = move |event: &mut Event| -> Result<Step, Infallible> {
            Ok(match entries.next() {
                Some((round, ScriptEntry::Event(next))) => {
                    event.clone_from(next);
                    event.time.0 += round * length;
                    Step::Event
                }
                Some((_, ScriptEntry::Loss(loss))) => Step::Loss(loss.clone()),
                None => Step::End,
            })
        };
        let mut trace = SuperTrace::new(&self.classes, [source]);
        self.numbering.into_iter().for_each(|numbering| trace.number_priorities(Host(0), numbering));
        self.costs.into_iter().for_each(|costs| trace.subtract_overhead(Host(0), costs));
        self.wake_ups.iter().for_each(|(pid, futex)| trace.set_wake_up(Host(0), *pid, *futex));
        self.programs.iter().for_each(|(pid, name)| trace.name_program(Host(0), *pid, name));
        while let Ok(Some(item)) = trace.next() {
            take(&item);
        }
    }
}
