//! The painter: follows the kernel's events over the whole trace, and paints the windows.

use crate::fibers::FiberPainter;
use crate::sheet::Sheet;
use crate::{Handler, Hole, LaneState, Lanes, WakeUp, Window};
use foldhash::HashMap;
use sordino_analyze::{Cause, Thread};
use sordino_event::{ClassId, Classes, Cpu, Domain, Loss, Tid, Time};
use sordino_timeline::kernel::{Interrupt, Kernel};
use sordino_timeline::{
    Consumer, Evidence, Item, Moment, Recorded, RunningThreads, System, TaskState, UnrecordedSwitch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum depth of nested interrupts; a trace with more has lost their exits.
const DEPTH_MAX: usize = 32;

/// A pass over a trace that collects the lanes of some windows, in memory bounded by the number of windows and of
/// living threads and fibers.
///
/// The thread on a CPU is the one that the CPU's own records name. If a record names another thread than the last
/// switch did, the time since the CPU's previous record is unknown.
#[derive(Debug)]
pub struct Painter {
    has_switches: bool,
    /// The end of the last window; later events are ignored.
    end: Time,
    sheets: Vec<Sheet>,
    names: Vec<Arc<str>>,
    /// The names of page faults in user code and in the kernel.
    fault_names: [Arc<str>; 2],
    running: RunningThreads,
    cpus: BTreeMap<Cpu, PaintedCpu>,
    tasks: HashMap<Tid, PaintedThread>,
    fibers: FiberPainter,
    now: Time,
}

/// The state of a CPU.
#[derive(Debug)]
struct PaintedCpu {
    running: Option<Thread>,
    since: Time,
    interrupts: Vec<(Time, Handler)>,
}

/// The state of a thread.
#[derive(Debug)]
struct PaintedThread {
    thread: Thread,
    state: LaneState,
    since: Time,
}

impl Painter {
    /// Creates a painter of these windows in a trace with these classes, which has the events `recorded`.
    pub fn new(classes: &Classes, recorded: Recorded, windows: impl IntoIterator<Item = Window>) -> Self {
        let sheets: Vec<Sheet> = windows.into_iter().map(Sheet::new).collect();
        Self {
            has_switches: recorded.switches,
            end: sheets.iter().map(|sheet| sheet.window.to).max().unwrap_or(Time::MIN),
            sheets,
            names: classes.iter().map(|(_, class)| class.name.as_str().into()).collect(),
            fault_names: ["page fault", "page fault in the kernel"].map(Arc::from),
            running: RunningThreads::default(),
            cpus: BTreeMap::new(),
            tasks: HashMap::default(),
            fibers: FiberPainter::default(),
            now: Time::MIN,
        }
    }

    /// Returns the lanes after the last item, in the order of the windows.
    pub fn finish(mut self) -> Vec<Lanes> {
        let tids: Vec<Tid> = self.tasks.keys().copied().collect();
        tids.into_iter().for_each(|tid| self.set_state(tid, LaneState::Unknown, self.now));
        for cpu in self.cpus.keys().copied().collect::<Vec<_>>() {
            self.set_running(cpu, None, self.now);
            self.end_interrupts(cpu, 0);
        }
        self.fibers.finish(self.now, &mut self.sheets);
        self.sheets.into_iter().map(|sheet| sheet.finish(self.has_switches)).collect()
    }

    fn event(&mut self, moment: &Moment<'_>) {
        let now = self.now.max(moment.event.time);
        self.now = now;
        if let Some(evidence) = Evidence::of(moment).filter(|_| self.has_switches) {
            if moment.domain == Domain::User {
                self.end_interrupts(evidence.cpu, 0);
            }
            if let Some(switch) = self.running.observe(evidence, now) {
                self.correct(&switch, moment.system);
            }
        }
        match (moment.domain, moment.tid) {
            (Domain::User, Some(tid)) => {
                let Some(name) = self.names.get(moment.event.class.index()) else { return };
                for sheet in self.sheets.iter_mut().filter(|sheet| sheet.has(now)) {
                    // A thread that hits a tracepoint has a lane, even if its states are not recorded.
                    sheet.lane(&Thread::of(moment.system, tid));
                    sheet.mark(now, tid, name, Domain::User);
                }
                self.fibers.take(moment, now, &mut self.sheets);
            }
            _ => moment.kernel.into_iter().for_each(|kernel| self.learn(kernel, moment)),
        }
    }

    fn learn(&mut self, kernel: Kernel<'_>, moment: &Moment<'_>) {
        let (now, system) = (self.now, moment.system);
        match kernel {
            Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. } => self.wake(tid, moment),
            Kernel::Gone { tid } => {
                self.set_state(tid, LaneState::Unknown, now);
                self.tasks.remove(&tid);
            }
            Kernel::Switch { prev, state, next } => {
                let Some(cpu) = moment.cpu else { return };
                self.running.switch(cpu, next.tid, now);
                self.end_interrupts(cpu, 0);
                // A thread that was found by its id has its name from now on.
                let running = &mut self.processor(cpu).running;
                running.iter_mut().for_each(|thread| *thread = Thread::of(system, thread.tid));
                self.set_running(cpu, Some(Thread::of(system, next.tid)), now);
                self.task(prev.tid, system);
                self.task(next.tid, system);
                let left = match state {
                    TaskState::Runnable => LaneState::Runnable,
                    state => LaneState::Asleep(state),
                };
                self.set_state(prev.tid, left, now);
                self.set_state(next.tid, LaneState::Running(cpu.0), now);
            }
            Kernel::Enter(interrupt) => {
                let processor = moment.cpu.map(|cpu| self.processor(cpu));
                let Some(processor) = processor.filter(|cpu| cpu.interrupts.len() < DEPTH_MAX) else {
                    return;
                };
                let depth = processor.interrupts.len() as u32;
                processor.interrupts.push((now, handler(&interrupt, depth)));
            }
            Kernel::Fault { user, .. } => {
                let Some(tid) = moment.tid else { return };
                let name = if user { &self.fault_names[0] } else { &self.fault_names[1] };
                for sheet in self.sheets.iter_mut().filter(|sheet| sheet.has(now)) {
                    sheet.mark(now, tid, name, Domain::Kernel);
                }
            }
            Kernel::Exit(interrupt) => {
                let Some(cpu) = moment.cpu else { return };
                // The exit of a device's interrupt has no name.
                let is_it = |(_, entered): &(Time, Handler)| match interrupt {
                    Interrupt::Irq(number, _) => entered.name.starts_with(&format!("irq {number} ")),
                    _ => entered.name == handler(&interrupt, 0).name,
                };
                if let Some(depth) = self.processor(cpu).interrupts.iter().rposition(is_it) {
                    self.end_interrupts(cpu, depth);
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, tid: Tid, moment: &Moment<'_>) {
        let now = self.now;
        if matches!(self.task(tid, moment.system), Some(LaneState::Running(_) | LaneState::Runnable) | None) {
            return;
        }
        self.set_state(tid, LaneState::Runnable, now);
        let cpu = moment.cpu;
        let in_interrupt =
            cpu.and_then(|cpu| self.cpus.get(&cpu)).is_some_and(|cpu| !cpu.interrupts.is_empty());
        let by = moment.tid.filter(|by| !in_interrupt && *by != Tid(0));
        for sheet in self.sheets.iter_mut().filter(|sheet| sheet.has(now)) {
            sheet.wake_up(WakeUp { at: now, tid, cpu: cpu.map(|cpu| cpu.0), by });
        }
    }

    /// Applies a switch that was not recorded.
    fn correct(&mut self, switch: &UnrecordedSwitch, system: &System) {
        let &UnrecordedSwitch { cpu, tid, believed, seen, .. } = switch;
        if let Some(believed) = believed {
            self.set_running(cpu, None, seen);
            let has_it = |task: &PaintedThread| task.state == LaneState::Running(cpu.0);
            if self.tasks.get(&believed).is_some_and(has_it) {
                self.set_state(believed, LaneState::Unknown, seen);
            }
        }
        for &(other, seen) in &switch.left {
            self.set_running(other, None, seen);
            self.set_state(tid, LaneState::Unknown, seen);
        }
        let now = self.now;
        self.set_running(cpu, Some(Thread::of(system, tid)), now);
        self.task(tid, system);
        self.set_state(tid, LaneState::Running(cpu.0), now);
    }

    fn lose(&mut self, loss: &Loss) {
        self.running.lose(loss);
        let is_programs = loss.pid.is_some();
        let hole = Hole { from: loss.from, to: loss.to, cpu: loss.cpu.map(|cpu| cpu.0), is_programs };
        self.sheets.iter_mut().for_each(|sheet| sheet.hole(hole));
        if let Some(pid) = loss.pid {
            self.fibers.lose(pid, loss.from, &mut self.sheets);
            return;
        }
        let is_lost = |cpu: &Cpu| loss.cpu.is_none_or(|lost| lost == *cpu);
        let lost: Vec<Cpu> = self.cpus.keys().copied().filter(is_lost).collect();
        for cpu in lost {
            self.end_interrupts(cpu, 0);
            if let Some(thread) = self.processor(cpu).running.clone() {
                self.set_state(thread.tid, LaneState::Unknown, loss.from);
            }
            self.set_running(cpu, None, loss.from);
        }
        // A thread that waits may have run meanwhile.
        let waiting =
            |(tid, task): (&Tid, &PaintedThread)| (task.state == LaneState::Runnable).then_some(*tid);
        let waiting: Vec<Tid> = self.tasks.iter().filter_map(waiting).collect();
        waiting.into_iter().for_each(|tid| self.set_state(tid, LaneState::Unknown, loss.from));
    }

    fn processor(&mut self, cpu: Cpu) -> &mut PaintedCpu {
        let now = self.now;
        self.cpus.entry(cpu).or_insert_with(|| PaintedCpu {
            running: None,
            since: now,
            interrupts: Vec::new(),
        })
    }

    /// Updates the name of a thread, and returns its state; `None` for the idle thread.
    fn task(&mut self, tid: Tid, system: &System) -> Option<LaneState> {
        if tid == Tid(0) {
            return None;
        }
        let (thread, now) = (Thread::of(system, tid), self.now);
        let new = || PaintedThread { thread: thread.clone(), state: LaneState::Unknown, since: now };
        let task = self.tasks.entry(tid).or_insert_with(new);
        task.thread = thread;
        Some(task.state)
    }

    /// Paints the time of a CPU since its last change, and sets the thread that has it from `at` on.
    fn set_running(&mut self, cpu: Cpu, thread: Option<Thread>, at: Time) {
        let processor = self.processor(cpu);
        let at = at.max(processor.since);
        let since = std::mem::replace(&mut processor.since, at);
        let before = std::mem::replace(&mut processor.running, thread);
        self.sheets.iter_mut().for_each(|sheet| sheet.run(cpu, (since, at), before.as_ref()));
    }

    /// Paints the time of a thread since its last change, and sets its state from `at` on.
    fn set_state(&mut self, tid: Tid, state: LaneState, at: Time) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let at = at.max(task.since);
        let since = std::mem::replace(&mut task.since, at);
        let before = std::mem::replace(&mut task.state, state);
        self.sheets.iter_mut().for_each(|sheet| sheet.state(&task.thread, (since, at), before));
    }

    /// Paints the interrupts of a CPU from this depth on, which end now.
    fn end_interrupts(&mut self, cpu: Cpu, depth: usize) {
        let now = self.now;
        let processor = self.processor(cpu);
        if processor.interrupts.len() <= depth {
            return;
        }
        for (since, handler) in processor.interrupts.split_off(depth) {
            self.sheets.iter_mut().for_each(|sheet| sheet.interrupt(cpu, (since, now), &handler));
        }
    }
}

impl Consumer for Painter {
    fn take(&mut self, item: &Item<'_>) {
        // The first item behind the last window still ends what was going on in it.
        if self.sheets.is_empty() || self.now > self.end {
            return;
        }
        match item {
            Item::Event(moment) => self.event(moment),
            Item::Loss(loss, _) => self.lose(loss),
            Item::Disorder(_) => {}
        }
    }

    fn reads_fields(&self, _: ClassId) -> bool {
        false
    }

    fn needs_lead(&self) -> bool {
        true
    }
}

fn handler(interrupt: &Interrupt<'_>, depth: u32) -> Handler {
    let name = match Cause::of_interrupt(interrupt) {
        Cause::Irq { number, name } => format!("irq {number} {name}").into(),
        cause => cause.name().unwrap_or_default().into(),
    };
    Handler { name, depth, is_softirq: matches!(interrupt, Interrupt::Softirq(_)) }
}
