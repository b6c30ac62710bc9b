//! Explanations against a machine that is simulated tick by tick, and against events that make no sense.

mod support;

use proptest::prelude::*;
use sordino_analyze::*;
use sordino_event::Nanos;
use std::collections::BTreeMap;
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, Thread as Task, V, explain};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// What npt does in one tick, as the simulation knows it.
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

/// Two CPUs, npt, hog and a worker; acts as told and writes down both the events and the truth.
struct Machine {
    script: Script,
    now: i64,
    running: [Task; 2],
    interrupts: [Vec<(bool, i64)>; 2],
    npt: Schedule,
    npt_cpu: usize,
    /// Since when npt stands in the queue of its CPU for certain, and whether it is throttled.
    queued: Option<i64>,
    is_throttled: bool,
    call: Option<i64>,
    truth: BTreeMap<String, i64>,
}

impl Machine {
    fn new() -> Self {
        let mut script = Script::new();
        script.at(0).cpu(1).switch(IDLE, 0, HOG);
        script.cpu(0).switch(IDLE, 0, NPT).user("mark:begin", NPT, &[("id", V::I(1))]);
        let running = [NPT, HOG];
        let (npt, npt_cpu, call) = (Schedule::Running, 0, None);
        let interrupts = [Vec::new(), Vec::new()];
        let (queued, is_throttled, truth) = (None, false, BTreeMap::new());
        Self { script, now: 0, running, interrupts, npt, npt_cpu, queued, is_throttled, call, truth }
    }

    fn truth(&self) -> String {
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
        *self.truth.entry(self.truth()).or_default() += ticks;
        self.now += ticks;
    }

    fn act(&mut self, cpu: usize, action: u8, choice: u8) {
        self.script.at(self.now).cpu(cpu as u32);
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
            // The hog ranks above npt, the idle thread and the worker below.
            // At the same nanosecond the choice may have come before the wake-up.
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

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn a_simulated_machine_is_explained_to_the_nanosecond(
        actions in proptest::collection::vec((0usize..2, 0u8..10, 0u8..8, 0i64..5), 0..80)
    ) {
        let mut machine = Machine::new();
        for (cpu, action, choice, ticks) in actions {
            machine.act(cpu, action, choice);
            machine.tick(ticks);
        }
        machine.tick(1);
        let mut script = machine.script;
        script.at(machine.now).no_cpu().user("mark:end", NPT, &[("id", V::I(1))]);
        let findings = explain(&script, "mark:begin@id..mark:end@id", Options::default());
        let explanation = &findings.intervals[0];
        prop_assert_eq!(explanation.length, Nanos(machine.now));
        let mut explained = BTreeMap::<String, i64>::new();
        for part in &explanation.parts {
            *explained.entry(name(&part.cause)).or_default() += part.time.0;
        }
        machine.truth.retain(|_, time| *time > 0);
        prop_assert_eq!(explained, machine.truth);
    }
}

/// Writes the event of this number with these values, whether or not it makes sense.
fn nonsense(script: &mut Script, number: u8, thread: Task, other: Task, value: i64) {
    match number {
        0..=3 => script.switch(thread, value, other),
        4 => script.waking(thread, value),
        5 => script.woken(thread, value),
        6 => script.migrate(thread, value, value / 2),
        7 => script.irq(value, "irq"),
        8 => script.irq_exit(value),
        9 => script.softirq(value.cast_unsigned()),
        10 => script.softirq_exit(value.cast_unsigned()),
        11 => script.vector("local_timer"),
        12 => script.vector_exit("local_timer"),
        13 => script.nmi(value.cast_unsigned(), value),
        14 => script.fault(value % 2 == 0),
        15 => script.syscall(value),
        16 => script.syscall_exit(value),
        17 => script.timer(value.cast_unsigned()),
        18 => script.timer_exit(),
        19 => script.work(value.cast_unsigned()),
        20 => script.work_exit(),
        21 => script.lose_kernel(value, value.unsigned_abs()),
        22 => script.lose_user(thread, value, 1),
        23 => script.kernel("sched_process_free", &[("tid", V::I(thread.0.into()))]),
        24 => script.kernel("sched_pi_setprio", &[("tid", V::I(thread.0.into())), ("newprio", V::I(value))]),
        25 => script.user("mark:begin", thread, &[("id", V::I(value % 2))]),
        26 => script.user("mark:end", thread, &[("id", V::I(value % 2))]),
        28 => script.signal(value % 70, thread),
        29 => script.delivered(value % 70, value.cast_unsigned()),
        30 => {
            script.futex_of(value.cast_unsigned() % 4, value.cast_unsigned() % 16, value.cast_unsigned() % 4)
        }
        31 => script.timer_start(value.cast_unsigned() % 4, [value, value / 2]),
        32 => script.timer_of(value.cast_unsigned() % 4, value),
        _ => script.user("npt:loop", thread, &[]),
    };
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn whatever_the_events_say_the_parts_add_up(
        entries in proptest::collection::vec(
            (0u8..38, 0i64..30, proptest::option::of(0u32..3), 0usize..4, 0usize..4,
             prop_oneof![0i64..8, 0i64..1500, any::<i64>()]),
            0..120),
        disordered in any::<bool>(),
        extreme in any::<bool>(),
    ) {
        let mut script = Script::new();
        script.disordered = disordered;
        let threads = [IDLE, NPT, HOG, KWORKER];
        // The classes have to be there.
        script.at(0).no_cpu();
        for number in [8, 23, 24, 25, 26, 27] {
            nonsense(&mut script, number, NPT, HOG, 1);
        }
        let mut now = if extreme { i64::MIN } else { 0 };
        for (number, step, cpu, thread, other, value) in entries {
            now = if extreme && value % 64 == 63 { value } else { now.saturating_add(step) };
            script.at(now);
            match cpu {
                Some(cpu) => script.cpu(cpu),
                None => script.no_cpu(),
            };
            // Sooner or later, each record names a thread, whether or not it can have that CPU.
            if value % 5 == 0 {
                script.by(threads[other]);
            }
            nonsense(&mut script, number, threads[thread], threads[other], value);
        }
        for rule in ["npt:loop", "mark:begin..mark:end", "mark:begin@id..mark:end@id", "sched_waking@tid..npt:loop",
                     "irq_handler_entry@$cpu..irq_handler_exit@$cpu"] {
            let findings = explain(&script, rule, Options { longest: 50, ..Options::default() });
            for explanation in &findings.intervals {
                let mut sum = 0i128;
                for part in &explanation.parts {
                    prop_assert!(part.time >= Nanos::ZERO && part.longest <= part.time, "{part:?}");
                    prop_assert!(part.inside.iter().all(|inside| inside.time <= part.time), "{part:?}");
                    sum += i128::from(part.time.0);
                    for woken in &part.wakers {
                        let waited = |link: &Link| link.waited.iter().map(|behind| i128::from(behind.time.0)).sum::<i128>();
                        let of = |link: &Link| i128::from(link.ran.0) + i128::from(link.slept.0) + waited(link);
                        let chain: i128 = woken.chain.iter().map(of).sum();
                        prop_assert!(chain <= i128::from(woken.time.0) && woken.time <= part.time, "{part:?}");
                    }
                }
                let Interval { begin, end, .. } = explanation.interval;
                // Spans of more than 292 years saturate.
                if end.0.checked_sub(begin.0).is_some() {
                    prop_assert_eq!(sum, i128::from(explanation.length.0), "{}: {:?}", rule, explanation);
                }
            }
            let count = findings.statistics.count;
            prop_assert!(findings.ranked <= count && findings.intervals.len() as u64 == count.min(50));
        }
    }
}
