//! A machine of two CPUs, simulated tick by tick, that produces its events and the true causes of the time.

use super::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V};
use sordino_analyze::{Cause, Findings, Limit};
use std::collections::BTreeMap;

/// Returns the time of each cause in the longest interval, by the names in [`SimulatedMachine::truth`].
pub(crate) fn explained(findings: &Findings) -> BTreeMap<String, i64> {
    let mut explained = BTreeMap::new();
    // A fault that took no time is a part, too.
    for part in findings.intervals[0].parts.iter().filter(|part| part.time.0 > 0) {
        *explained.entry(name(&part.cause)).or_default() += part.time.0;
    }
    explained
}

/// Returns the name of a cause in the simulation.
fn name(cause: &Cause) -> String {
    match cause {
        Cause::Own => "own".into(),
        Cause::Syscall { call } => format!("call {call}"),
        Cause::SignalHandler { signal, .. } => format!("handler of {signal}"),
        Cause::PageFault { .. } => "fault".into(),
        Cause::Irq { number, .. } => format!("irq {number}"),
        Cause::Vector { name } => format!("vector {name}"),
        Cause::Softirq { number, .. } => format!("softirq {number}"),
        Cause::Nmi { .. } => "nmi".into(),
        Cause::Throttled { limit: Limit::RealTime, syscall } => format!("throttled in {syscall:?}"),
        Cause::Waiting { behind, syscall, .. } => {
            format!("behind {} in {syscall:?}", behind.as_ref().map_or(-1, |thread| thread.tid.0))
        }
        Cause::Blocked { in_page_fault: true, .. } => "blocked in a fault".into(),
        Cause::Blocked { syscall, .. } => format!("blocked in {syscall:?}"),
        other => format!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NptState {
    Running,
    Waiting,
    Blocked,
}

/// An interrupt that a CPU handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handled {
    Irq(i64),
    Softirq(i64),
    Vector(&'static str),
}

/// The interrupts that a CPU has by itself; none of them interrupts itself.
const VECTORS: [&str; 9] = [
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "thermal_apic",
    "error_apic",
    "threshold_apic",
    "spurious_apic",
];

/// The signals for which npt has handlers: numbers, and their names.
const SIGNALS: [(i64, &str); 2] = [(10, "SIGUSR1"), (12, "SIGUSR2")];

/// The system calls of npt: `read`, `write`, and the end of a handler.
const CALLS: [(i64, &str); 3] = [(0, "read"), (1, "write"), (15, "rt_sigreturn")];

/// The simulated machine: two CPUs, npt, hog and a worker. It acts as requested and records both the events and the
/// truth.
pub(crate) struct SimulatedMachine {
    pub(crate) script: Script,
    pub(crate) now: i64,
    running: [Task; 2],
    interrupts: [Vec<Handled>; 2],
    npt: NptState,
    npt_cpu: usize,
    /// The time since which npt certainly stands in the queue of its CPU; and true if it is throttled.
    queued: Option<i64>,
    is_throttled: bool,
    /// The system call that npt is in, by its place in [`CALLS`].
    call: Option<usize>,
    /// True from a page fault of npt to the next event that shows npt elsewhere.
    is_in_fault: bool,
    /// The signals whose handlers npt is in, the innermost last, by their places in [`SIGNALS`].
    handlers: Vec<usize>,
    /// The time of each activity of npt, and of each thing that it waited for.
    pub(crate) truth: BTreeMap<String, i64>,
}

impl SimulatedMachine {
    fn new() -> Self {
        let mut script = Script::new();
        script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, HOG);
        script.cpu(0).switch(IDLE, 0, NPT).user("mark:begin", NPT, &[("id", V::I(1))]);
        let running = [NPT, HOG];
        let (npt, npt_cpu, call) = (NptState::Running, 0, None);
        let interrupts = [Vec::new(), Vec::new()];
        let (queued, is_throttled, truth) = (None, false, BTreeMap::new());
        let (is_in_fault, handlers) = (false, Vec::new());
        Self {
            script,
            now: 0,
            running,
            interrupts,
            npt,
            npt_cpu,
            queued,
            is_throttled,
            call,
            is_in_fault,
            handlers,
            truth,
        }
    }

    /// Runs a machine from a begin of npt's on. An action is a CPU, a kind, a choice, and the ticks that pass after it.
    pub(crate) fn run(actions: &[(usize, u8, u8, i64)]) -> Self {
        let mut machine = Self::new();
        for &(cpu, action, choice, ticks) in actions {
            machine.act(cpu, action, choice);
            machine.tick(ticks);
        }
        machine.tick(1);
        machine
    }

    /// Gives npt a CPU on which nothing else happens then.
    pub(crate) fn resume(&mut self) {
        (0..2).for_each(|cpu| {
            while !self.interrupts[cpu].is_empty() {
                self.act(cpu, 2, 0)
            }
        });
        self.act(self.npt_cpu, 7, self.npt_cpu as u8);
        self.act(self.npt_cpu, 4, 3);
        self.tick(1);
    }

    /// Ends npt's interval, even if npt has no CPU.
    pub(crate) fn end(&mut self) {
        self.script.at(self.now).no_cpu().user("mark:end", NPT, &[("id", V::I(1))]);
        self.truth.retain(|_, time| *time > 0);
    }

    fn present(&self) -> String {
        let call = self.call.map(|call| CALLS[call].1);
        if self.npt == NptState::Blocked {
            return if self.is_in_fault {
                "blocked in a fault".into()
            } else {
                format!("blocked in {call:?}")
            };
        }
        match (self.interrupts[self.npt_cpu].last(), self.npt) {
            (Some(Handled::Softirq(number)), _) => format!("softirq {number}"),
            (Some(Handled::Irq(number)), _) => format!("irq {number}"),
            (Some(Handled::Vector(name)), _) => format!("vector {name}"),
            (None, NptState::Waiting) if self.is_throttled => format!("throttled in {call:?}"),
            (None, NptState::Waiting) => format!("behind {} in {call:?}", self.running[self.npt_cpu].0),
            (None, _) => match (call, self.handlers.last()) {
                (Some(call), _) => format!("call {call}"),
                (None, _) if self.is_in_fault => "fault".into(),
                (None, Some(&signal)) => format!("handler of {}", SIGNALS[signal].1),
                (None, None) => "own".into(),
            },
        }
    }

    fn tick(&mut self, ticks: i64) {
        *self.truth.entry(self.present()).or_default() += ticks;
        self.now += ticks;
    }

    fn act(&mut self, cpu: usize, action: u8, choice: u8) {
        self.script.at(self.now).cpu(cpu as u32).by(self.running[cpu]);
        let choice = i64::from(choice);
        let depth = self.interrupts[cpu].len();
        let is_in_npt = depth == 0 && self.running[cpu] == NPT;
        let is_in_user_code = is_in_npt && self.call.is_none();
        match action {
            0 | 1 | 10 if depth < 3 => {
                let number = choice % 3 + 3 * depth as i64;
                self.interrupts[cpu].push(match action {
                    0 => Handled::Irq(number),
                    1 => Handled::Softirq(number),
                    _ => Handled::Vector(VECTORS[number as usize]),
                });
                match self.interrupts[cpu][depth] {
                    Handled::Irq(number) => self.script.irq(number, "irq"),
                    Handled::Softirq(number) => self.script.softirq(number as u64),
                    Handled::Vector(name) => self.script.vector(name),
                };
            }
            2 | 3 => match self.interrupts[cpu].pop() {
                Some(Handled::Irq(number)) => drop(self.script.irq_exit(number)),
                Some(Handled::Softirq(number)) => drop(self.script.softirq_exit(number as u64)),
                Some(Handled::Vector(name)) => drop(self.script.vector_exit(name)),
                None => {}
            },
            4 | 5 if depth == 0 => self.switch(cpu, choice),
            6 if is_in_npt => match self.call.take() {
                Some(call) => drop(self.script.syscall_exit(CALLS[call].0)),
                None => self.enter(choice as usize % 2),
            },
            11 if is_in_user_code => {
                self.script.fault(true);
                self.is_in_fault = true;
            }
            12 if is_in_user_code => {
                let signal = choice as usize % 2;
                if !self.handlers.contains(&signal) {
                    self.script.delivered(SIGNALS[signal].0, 4096);
                    self.handlers.push(signal);
                    self.is_in_fault = false;
                }
            }
            13 if is_in_user_code && self.handlers.pop().is_some() => self.enter(2),
            7 if self.npt == NptState::Blocked => {
                self.script.waking(NPT, self.npt_cpu as i64);
                self.npt = NptState::Waiting;
                self.is_throttled = false;
                self.migrate(choice as usize % 2);
                self.script.woken(NPT, self.npt_cpu as i64);
                self.queued = Some(self.now);
            }
            8 if self.npt == NptState::Waiting => self.migrate(choice as usize % 2),
            9 => {
                let takes = choice % 4;
                if self.npt_cpu == cpu && self.npt != NptState::Blocked {
                    *self.truth.entry("nmi".into()).or_default() += takes;
                    self.now += takes;
                } else {
                    self.tick(takes);
                }
                self.script.at(self.now).nmi(1, takes);
            }
            _ => {}
        }
    }

    fn enter(&mut self, call: usize) {
        self.script.syscall(CALLS[call].0);
        (self.call, self.is_in_fault) = (Some(call), false);
    }

    fn switch(&mut self, cpu: usize, choice: i64) {
        let prev = self.running[cpu];
        let next = [IDLE, HOG, KWORKER, NPT][choice as usize % 4];
        let npt_may = self.npt == NptState::Waiting && self.npt_cpu == cpu;
        if next == prev || (next == NPT && !npt_may) || (next != IDLE && self.running[1 - cpu] == next) {
            return;
        }
        let sleeps = choice & 4 != 0 && prev != IDLE;
        self.script.switch(prev, if sleeps { SLEEPING } else { RUNNABLE }, next);
        if prev == NPT {
            self.npt = if sleeps { NptState::Blocked } else { NptState::Waiting };
            (self.queued, self.is_throttled) = (Some(self.now), false);
        }
        if self.npt == NptState::Waiting && self.npt_cpu == cpu {
            // The hog ranks above npt, the idle thread and the worker below. At the same nanosecond the choice may have
            // come before the wake-up.
            let is_sure = prev == NPT || self.queued.is_some_and(|since| since < self.now);
            self.is_throttled = next != HOG && (self.is_throttled || is_sure);
        }
        if next == NPT {
            self.npt = NptState::Running;
        }
        self.running[cpu] = next;
    }

    fn migrate(&mut self, to: usize) {
        if to != self.npt_cpu {
            self.script.migrate(NPT, self.npt_cpu as i64, to as i64);
            self.npt_cpu = to;
            (self.queued, self.is_throttled) = (None, false);
        }
    }
}
