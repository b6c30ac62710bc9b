//! A machine of two CPUs, simulated tick by tick, that produces its events and the true causes of the time.

use super::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, Thread as Task, V};
use sordino_analyze::{Cause, Findings, Limit};
use std::collections::BTreeMap;

/// Returns the time of each cause in the longest interval, by the names in [`Machine::truth`].
pub(crate) fn explained(findings: &Findings) -> BTreeMap<String, i64> {
    let mut explained = BTreeMap::new();
    for part in &findings.intervals[0].parts {
        *explained.entry(name(&part.cause)).or_default() += part.time.0;
    }
    explained
}

/// Returns the name of a cause in the simulation.
fn name(cause: &Cause) -> String {
    match cause {
        Cause::Own => "own".into(),
        Cause::Syscall { call } => format!("call {call}"),
        Cause::Irq { number, .. } => format!("irq {number}"),
        Cause::Softirq { number, .. } => format!("softirq {number}"),
        Cause::Nmi { .. } => "nmi".into(),
        Cause::Throttled { limit: Limit::RealTime, syscall } => format!("throttled in {syscall:?}"),
        Cause::Waiting { behind, syscall, .. } => {
            format!("behind {} in {syscall:?}", behind.as_ref().map_or(-1, |thread| thread.tid.0))
        }
        Cause::Blocked { syscall, .. } => format!("blocked in {syscall:?}"),
        other => format!("{other:?}"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Schedule {
    Running,
    Waiting,
    Blocked,
}

/// The simulated machine: two CPUs, npt, hog and a worker. It acts as requested and records both the events and the
/// truth.
pub(crate) struct Machine {
    pub(crate) script: Script,
    pub(crate) now: i64,
    running: [Task; 2],
    interrupts: [Vec<(bool, i64)>; 2],
    npt: Schedule,
    npt_cpu: usize,
    /// The time since which npt certainly stands in the queue of its CPU; and true if it is throttled.
    queued: Option<i64>,
    is_throttled: bool,
    call: Option<i64>,
    /// The time of each activity of npt, and of each thing that it waited for.
    pub(crate) truth: BTreeMap<String, i64>,
}

impl Machine {
    fn new() -> Self {
        let mut script = Script::new();
        script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, HOG);
        script.cpu(0).switch(IDLE, 0, NPT).user("mark:begin", NPT, &[("id", V::I(1))]);
        let running = [NPT, HOG];
        let (npt, npt_cpu, call) = (Schedule::Running, 0, None);
        let interrupts = [Vec::new(), Vec::new()];
        let (queued, is_throttled, truth) = (None, false, BTreeMap::new());
        Self { script, now: 0, running, interrupts, npt, npt_cpu, queued, is_throttled, call, truth }
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
        let call = self.call.map(|call| if call == 0 { "read" } else { "write" });
        if self.npt == Schedule::Blocked {
            return format!("blocked in {call:?}");
        }
        match (self.interrupts[self.npt_cpu].last(), self.npt) {
            (Some((true, vec)), _) => format!("softirq {vec}"),
            (Some((false, irq)), _) => format!("irq {irq}"),
            (None, Schedule::Waiting) if self.is_throttled => format!("throttled in {call:?}"),
            (None, Schedule::Waiting) => format!("behind {} in {call:?}", self.running[self.npt_cpu].0),
            (None, _) => call.map_or("own".into(), |call| format!("call {call}")),
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
        match action {
            0 | 1 if depth < 3 => {
                let interrupt = (action == 1, choice % 3 + 3 * depth as i64);
                self.interrupts[cpu].push(interrupt);
                match interrupt {
                    (true, vec) => self.script.softirq(vec as u64),
                    (false, irq) => self.script.irq(irq, "irq"),
                };
            }
            2 | 3 => match self.interrupts[cpu].pop() {
                Some((true, vec)) => drop(self.script.softirq_exit(vec as u64)),
                Some((false, irq)) => drop(self.script.irq_exit(irq)),
                None => {}
            },
            4 | 5 if depth == 0 => self.switch(cpu, choice),
            6 if depth == 0 && self.running[cpu] == NPT => match self.call.take() {
                Some(call) => drop(self.script.syscall_exit(call)),
                None => {
                    self.call = Some(choice % 2);
                    self.script.syscall(choice % 2);
                }
            },
            7 if self.npt == Schedule::Blocked => {
                self.script.waking(NPT, self.npt_cpu as i64);
                self.npt = Schedule::Waiting;
                self.is_throttled = false;
                self.migrate(choice as usize % 2);
                self.script.woken(NPT, self.npt_cpu as i64);
                self.queued = Some(self.now);
            }
            8 if self.npt == Schedule::Waiting => self.migrate(choice as usize % 2),
            9 => {
                let takes = choice % 4;
                if self.npt_cpu == cpu && self.npt != Schedule::Blocked {
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

    fn switch(&mut self, cpu: usize, choice: i64) {
        let prev = self.running[cpu];
        let next = [IDLE, HOG, KWORKER, NPT][choice as usize % 4];
        let npt_may = self.npt == Schedule::Waiting && self.npt_cpu == cpu;
        if next == prev || (next == NPT && !npt_may) || (next != IDLE && self.running[1 - cpu] == next) {
            return;
        }
        let sleeps = choice & 4 != 0 && prev != IDLE;
        self.script.switch(prev, if sleeps { SLEEPING } else { RUNNABLE }, next);
        if prev == NPT {
            self.npt = if sleeps { Schedule::Blocked } else { Schedule::Waiting };
            (self.queued, self.is_throttled) = (Some(self.now), false);
        }
        if self.npt == Schedule::Waiting && self.npt_cpu == cpu {
            // The hog ranks above npt, the idle thread and the worker below. At the same nanosecond the choice may have
            // come before the wake-up.
            let is_sure = prev == NPT || self.queued.is_some_and(|since| since < self.now);
            self.is_throttled = next != HOG && (self.is_throttled || is_sure);
        }
        if next == NPT {
            self.npt = Schedule::Running;
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
