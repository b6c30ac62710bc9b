//! Intervals of fibers, compared with a machine that is simulated tick by tick, and the third figure of Danjean, Namyst
//! and Wacrenier (2005).

mod support;

use proptest::prelude::*;
use sordino_analyze::*;
use sordino_event::Nanos;
use sordino_intervals::*;
use sordino_timeline::Consumer;
use std::collections::BTreeMap;
use support::{HOG, IDLE, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V, explain, explain_longest};

const A: Task = Task(21, "pool", 120);
const B: Task = Task(22, "pool", 120);
const PID: i32 = 20;

/// Returns a short name of a cause, as the simulation has it.
fn name(cause: &Cause) -> String {
    match cause {
        Cause::Own => "own".into(),
        Cause::Irq { number, .. } => format!("irq {number}"),
        Cause::Waiting { behind, .. } => format!("behind {}", behind.as_ref().map_or(-1, |by| by.tid.0)),
        Cause::Blocked { .. } => "asleep".into(),
        Cause::FiberWait { behind: Some(fiber) } => format!("fiber {}", fiber.number),
        Cause::FiberWait { behind: None } => "scheduler".into(),
        Cause::FiberBlocked { .. } => "blocked".into(),
        Cause::FiberUnmounted => "unmounted".into(),
        other => format!("{other:?}"),
    }
}

fn parts(explanation: &Explanation) -> BTreeMap<String, i64> {
    let mut parts = BTreeMap::new();
    for part in &explanation.parts {
        *parts.entry(name(&part.cause)).or_default() += part.time.0;
    }
    parts
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SchedulingState {
    Running,
    Preempted,
    Asleep,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum MountState {
    Mounted(usize),
    Ready(usize),
    Blocked,
    Unmounted,
}

/// Two threads of a program, each on a CPU of its own, with three fibers; a hog that preempts them.
struct FiberMachine {
    script: Script,
    now: i64,
    threads: [SchedulingState; 2],
    irqs: [bool; 2],
    /// The fiber of each thread, 0 for its scheduler.
    mounted: [u64; 2],
    /// The state of fibers 1 to 3, and the thread that each was on last.
    fibers: [MountState; 3],
    last: [usize; 3],
    truth: BTreeMap<String, i64>,
}

impl FiberMachine {
    fn new() -> Self {
        let mut script = Script::new();
        script.of(PID).at(0);
        for (cpu, thread) in [(0, A), (1, B)] {
            script.cpu(cpu).switch(IDLE, 0, thread).fiber_enter(thread);
        }
        script.cpu(0).fiber_new(A, 1, "").fiber_new(A, 2, "").fiber_new(A, 3, "").fiber_switch(A, 0, 1, 5);
        script.user("app:begin", A, &[]);
        Self {
            script,
            now: 0,
            threads: [SchedulingState::Running; 2],
            irqs: [false; 2],
            mounted: [1, 0],
            fibers: [MountState::Mounted(0), MountState::Ready(0), MountState::Ready(0)],
            last: [0; 3],
            truth: BTreeMap::new(),
        }
    }

    /// Returns the cause that takes the time of fiber 1.
    fn present(&self) -> String {
        let (thread, is_mounted) = match self.fibers[0] {
            MountState::Mounted(thread) => (thread, true),
            MountState::Ready(thread) => (thread, false),
            MountState::Blocked => return "blocked".into(),
            MountState::Unmounted => return "unmounted".into(),
        };
        let ahead = match self.mounted[thread] {
            0 => "scheduler".to_owned(),
            fiber => format!("fiber {fiber}"),
        };
        match self.threads[thread] {
            SchedulingState::Asleep if is_mounted => "asleep".into(),
            SchedulingState::Asleep => ahead,
            _ if self.irqs[thread] => "irq 5".into(),
            SchedulingState::Preempted => format!("behind {}", HOG.0),
            SchedulingState::Running if is_mounted => "own".into(),
            SchedulingState::Running => ahead,
        }
    }

    fn tick(&mut self, ticks: i64) {
        *self.truth.entry(self.present()).or_default() += ticks;
        self.now += ticks;
    }

    /// Acts on a CPU and its thread.
    fn act(&mut self, cpu: usize, action: u8, choice: u64) {
        let thread = [A, B][cpu];
        self.script.at(self.now).cpu(cpu as u32);
        match (action, self.threads[cpu]) {
            (0, _) => {
                self.irqs[cpu] ^= true;
                let _ = if self.irqs[cpu] { self.script.irq(5, "nic") } else { self.script.irq_exit(5) };
            }
            _ if self.irqs[cpu] => {}
            (1, SchedulingState::Running) => {
                self.threads[cpu] = if choice.is_multiple_of(2) {
                    SchedulingState::Preempted
                } else {
                    SchedulingState::Asleep
                };
                let state = if choice.is_multiple_of(2) { RUNNABLE } else { SLEEPING };
                self.script.switch(thread, state, HOG);
            }
            (1 | 2, SchedulingState::Preempted) => self.resume(cpu),
            (1, SchedulingState::Asleep) => {
                self.threads[cpu] = SchedulingState::Preempted;
                self.script.waking(thread, cpu as i64);
            }
            (3.., SchedulingState::Running) => self.change(cpu, action, choice),
            _ => {}
        }
    }

    fn resume(&mut self, cpu: usize) {
        self.threads[cpu] = SchedulingState::Running;
        self.script.switch(HOG, RUNNABLE, [A, B][cpu]);
    }

    /// Lets the running thread switch fibers, or wake one.
    fn change(&mut self, cpu: usize, action: u8, choice: u64) {
        let thread = [A, B][cpu];
        let (from, number) = (self.mounted[cpu], choice % 4);
        let of = |number: u64| number as usize - 1;
        if action == 3 {
            if number > 0 && matches!(self.fibers[of(number)], MountState::Blocked | MountState::Unmounted) {
                self.fibers[of(number)] = MountState::Ready(self.last[of(number)]);
                self.script.fiber_wake(thread, number, from);
            }
            return;
        }
        let to =
            if number > 0 && matches!(self.fibers[of(number)], MountState::Mounted(_)) { 0 } else { number };
        let why = choice / 4 % 4;
        if from > 0 {
            self.fibers[of(from)] = match why {
                0 => MountState::Unmounted,
                1 | 2 => MountState::Ready(cpu),
                _ => MountState::Blocked,
            };
            self.last[of(from)] = cpu;
        }
        if to > 0 {
            self.fibers[of(to)] = MountState::Mounted(cpu);
        }
        self.mounted[cpu] = to;
        self.script.fiber_switch(thread, from, to, why);
    }

    /// Ends the interval in fiber 1, on one of the threads.
    fn end(&mut self, cpu: usize) {
        self.tick(1);
        let cpu = if let MountState::Mounted(thread) = self.fibers[0] { thread } else { cpu };
        self.script.at(self.now).cpu(cpu as u32);
        if std::mem::take(&mut self.irqs[cpu]) {
            self.script.irq_exit(5);
        }
        if self.threads[cpu] != SchedulingState::Running {
            self.resume(cpu);
        }
        self.tick(1);
        self.script.at(self.now);
        if !matches!(self.fibers[0], MountState::Mounted(_)) {
            self.script.fiber_switch([A, B][cpu], self.mounted[cpu], 1, 1);
            self.fibers[0] = MountState::Mounted(cpu);
        }
        self.tick(1);
        self.script.at(self.now).user("app:end", [A, B][cpu], &[]);
        self.truth.retain(|_, time| *time > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_interval_of_a_fiber_is_explained_to_the_nanosecond(
        actions in proptest::collection::vec((0usize..2, 0u8..8, 0u64..16, 0i64..5), 0..80),
        last in 0usize..2,
    ) {
        let mut machine = FiberMachine::new();
        for (cpu, action, choice, ticks) in actions {
            machine.act(cpu, action, choice);
            machine.tick(ticks);
        }
        machine.end(last);
        let findings = explain(&machine.script, "app:begin..app:end", ExplainOptions::default());
        prop_assert_eq!(findings.intervals.len(), 1);
        let longest = &findings.intervals[0];
        prop_assert_eq!(longest.fiber.as_ref().map(|fiber| fiber.number), Some(1));
        prop_assert_eq!(longest.length, Nanos(machine.now));
        prop_assert_eq!(parts(longest), machine.truth);
    }
}

/// Twenty fibers that compute and one that polls a socket, on one thread. The message comes just after the poll.
fn daemon(switches: u64) -> Script {
    let mut script = Script::new();
    script.of(PID).at(0).cpu(0).switch(IDLE, 0, A).fiber_enter(A).fiber_new(A, 1, "daemon");
    for fiber in 2..=21 {
        script.fiber_new(A, fiber, "work");
    }
    script.fiber_switch(A, 0, 1, 5);
    let (mut now, mut fiber) = (10, 1);
    for switch in 0..switches {
        script.at(now).user("net:poll", A, &[]);
        script.at(now + 5).cpu(1).of(99).user("net:sent", HOG, &[("id", V::U(switch))]).of(PID).cpu(0);
        now += 10;
        for next in (2..=21).chain([1]) {
            script.at(now).fiber_switch(A, fiber, next, if fiber == 1 { 1 } else { 2 });
            (fiber, now) = (next, now + if next == 1 { 3 } else { 1000 });
        }
        script.at(now).user("net:received", A, &[("id", V::U(switch))]);
        now += 10;
    }
    script
}

#[test]
fn a_daemon_that_polls_and_yields_waits_for_the_fibers_that_work() {
    let script = daemon(8);
    let findings = explain(&script, "net:sent@id..net:received@id", ExplainOptions::default());
    assert_eq!(findings.intervals.len(), 8);
    for interval in &findings.intervals {
        assert_eq!(interval.fiber.as_ref().and_then(|fiber| fiber.name.as_deref()), Some("daemon"));
        let main = interval.main.as_ref().unwrap();
        let cause = &interval.parts[main.part].cause;
        assert!(matches!(cause, Cause::FiberWait { behind: Some(_) }), "{interval:?}");
        let waits = interval.parts.iter().filter(|part| matches!(part.cause, Cause::FiberWait { .. }));
        assert_eq!(waits.map(|part| part.time.0).sum::<i64>(), 20_000);
        assert_eq!(interval.length, Nanos(20_008));
    }
    assert!(findings.contradictions.is_empty());
}

#[test]
fn ends_in_one_fiber_belong_together_whatever_threads_it_has() {
    let mut script = Script::new();
    script.of(PID).at(0).cpu(0).switch(IDLE, 0, A).fiber_enter(A);
    script.cpu(1).switch(IDLE, 0, B).fiber_enter(B).fiber_new(B, 1, "one").fiber_new(B, 2, "two");
    script.at(10).cpu(0).fiber_switch(A, 0, 1, 5).user("app:begin", A, &[]);
    script.at(20).fiber_switch(A, 1, 2, 1).user("app:begin", A, &[]);
    script.at(30).cpu(1).fiber_switch(B, 0, 1, 5).user("app:end", B, &[]);
    script.at(50).cpu(0).user("app:end", A, &[]);
    let (longest, findings) = explain_longest(&script, "app:begin..app:end");
    assert_eq!(findings.statistics.count, 2);
    assert_eq!((longest.fiber.unwrap().number, longest.length), (2, Nanos(30)));
    assert_eq!(findings.statistics.min, Nanos(20));
    // Without a rule, the same pair is found.
    let mut census = Census::new(&script.classes);
    script.play(|item| census.take(item));
    assert_eq!(census.choose().unwrap().0.to_string(), "app:begin..app:end");
}

#[test]
fn the_fiber_that_wakes_another_is_named() {
    let mut script = Script::new();
    script.of(PID).at(0).cpu(0).switch(IDLE, 0, A).fiber_enter(A);
    script.fiber_new(A, 1, "one").fiber_new(A, 2, "two").fiber_switch(A, 0, 1, 5);
    script.at(10).user("app:begin", A, &[]).at(20).fiber_switch(A, 1, 2, 3);
    script.at(70).fiber_wake(A, 1, 2).at(80).fiber_switch(A, 2, 1, 1).at(90).user("app:end", A, &[]);
    let (longest, _) = explain_longest(&script, "app:begin..app:end");
    let blocked = longest.parts.iter().find(|part| matches!(part.cause, Cause::FiberBlocked { .. })).unwrap();
    assert_eq!((blocked.time, blocked.cause.on()), (Nanos(50), Some("a lock")));
    let Some(Waker::Fiber { fiber, .. }) = blocked.waker() else { panic!("{blocked:?}") };
    assert_eq!(fiber.name.as_deref(), Some("two"));
}

/// Boost's fibers get their names from their own code.
#[test]
fn a_fiber_that_is_named_while_another_waits_for_it_is_one_cause() {
    let mut script = Script::new();
    script.of(PID).at(0).cpu(0).switch(IDLE, 0, A).fiber_enter(A);
    script.fiber_new(A, 1, "one").fiber_new(A, 2, "").fiber_switch(A, 0, 1, 5);
    script.at(10).user("app:begin", A, &[]).at(20).fiber_switch(A, 1, 2, 1);
    script.at(50).fiber_rename(A, 2, "two").at(80).fiber_switch(A, 2, 1, 1).at(90).user("app:end", A, &[]);
    let (longest, _) = explain_longest(&script, "app:begin..app:end");
    let waits: Vec<_> =
        longest.parts.iter().filter(|part| matches!(part.cause, Cause::FiberWait { .. })).collect();
    let [wait] = waits[..] else { panic!("{waits:?}") };
    assert_eq!((wait.time, wait.count, wait.longest), (Nanos(60), 1, Nanos(60)));
    let two = FiberName { number: 2, name: Some("two".into()), is_doubtful: false };
    assert_eq!(wait.cause, Cause::FiberWait { behind: Some(two) });
}

#[test]
fn where_a_programs_records_are_missing_its_fiber_is_unknown() {
    let mut script = Script::new();
    script
        .of(PID)
        .at(0)
        .cpu(0)
        .switch(IDLE, 0, A)
        .fiber_enter(A)
        .fiber_new(A, 1, "")
        .fiber_switch(A, 0, 1, 5);
    script.at(10).user("net:begin", A, &[("id", V::I(1))]);
    script.of(99).at(20).lose_user(HOG, 30, 2).of(PID);
    script.at(40).user("net:end", A, &[("id", V::I(1))]);
    let (whole, _) = explain_longest(&script, "net:begin@id..net:end@id");
    assert_eq!(parts(&whole), BTreeMap::from([("own".to_owned(), 30)]), "another program's loss");
    script.at(50).user("net:begin", A, &[("id", V::I(2))]);
    script.cpu(1).at(60).lose_user(A, 70, 2).cpu(0);
    script.at(80).fiber_switch(A, 1, 1, 1).at(150).user("net:end", A, &[("id", V::I(2))]);
    let (broken, _) = explain_longest(&script, "net:begin@id..net:end@id");
    assert_eq!(parts(&broken), BTreeMap::from([("own".to_owned(), 80), ("Unknown".to_owned(), 20)]));
}
