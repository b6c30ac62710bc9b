//! Calls of functions: their own time, and call stacks that lose their exits, their records or their thread.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_event::Nanos;
use sordino_query::{Apart, Measure, Query, StatisticsTable};
use sordino_timeline::{Consumer, Vocabulary};
use std::collections::BTreeMap;
use support::{IDLE, Script, ScriptThread, V};

const A: ScriptThread = ScriptThread(11, "pool", 120);
const B: ScriptThread = ScriptThread(12, "pool", 120);
const PID: i32 = 10;
/// State in which a thread leaves its CPU for good.
const DEAD: i64 = 0x20;

/// Number, total length and parts of the calls of each function, by the function's address.
type TotalsByAddress = BTreeMap<u64, (u64, i64, [i64; 4])>;

fn script() -> Script {
    let mut script = Script::of_programs();
    script.of(PID);
    script
}

/// Adds the entry of a function that is called at `call_site`.
fn enter(script: &mut Script, at: i64, thread: ScriptThread, function: u64) {
    let fields = [("function", V::U(function)), ("call_site", V::U(0))];
    script.at(at).user("sordino_function:entry", thread, &fields);
}

fn exit(script: &mut Script, at: i64, thread: ScriptThread, function: u64) {
    let fields = [("function", V::U(function)), ("call_site", V::U(0))];
    script.at(at).user("sordino_function:exit", thread, &fields);
}

fn table(script: &Script) -> StatisticsTable {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query = Query::new(&script.classes, recorded, Measure::Calls, &[]).expect("all events are there");
    script.play(|item| query.take(item));
    query.finish()
}

fn rows(table: &StatisticsTable) -> TotalsByAddress {
    let rows = table.rows.iter().map(|row| {
        let function = u64::from_str_radix(row.labels[0].trim_start_matches("0x"), 16).unwrap();
        let parts: Vec<i64> = row.parts.iter().map(|part| part.time.0).collect();
        assert_eq!(parts.iter().sum::<i64>(), row.summary.total.0, "{row:?}");
        (function, (row.summary.count, row.summary.total.0, parts.try_into().unwrap()))
    });
    rows.collect()
}

fn apart(broken: u64, cut: u64) -> Apart {
    Apart { broken, cut }
}

#[test]
fn a_call_consists_of_its_own_time_and_of_the_calls_in_it() {
    let mut script = script();
    for (at, function) in [(0, 1), (10, 2), (15, 2)] {
        enter(&mut script, at, A, function);
    }
    for (at, function) in [(17, 2), (20, 2), (50, 1)] {
        exit(&mut script, at, A, function);
    }
    let table = table(&script);
    assert_eq!(table.apart, apart(0, 0));
    assert_eq!(
        rows(&table),
        TotalsByAddress::from([(1, (1, 50, [40, 10, 0, 0])), (2, (2, 12, [10, 2, 0, 0]))])
    );
}

#[test]
fn a_call_that_has_no_exit_is_unknown_and_so_is_its_time_in_the_one_around_it() {
    let mut script = script();
    for (at, function) in [(0, 1), (10, 2), (20, 3)] {
        enter(&mut script, at, A, function);
    }
    // A longjmp from 3 to 1; then an exit that nothing entered.
    exit(&mut script, 30, A, 1);
    exit(&mut script, 40, A, 9);
    enter(&mut script, 50, A, 4);
    let table = table(&script);
    assert_eq!(table.apart, apart(3, 1));
    assert_eq!(rows(&table), TotalsByAddress::from([(1, (1, 30, [10, 0, 0, 20]))]));
}

#[test]
fn a_call_stack_goes_with_its_fiber_from_thread_to_thread() {
    let mut script = script();
    script.at(0).fiber_enter(A).fiber_enter(B).fiber_new(A, 1, "one").fiber_new(A, 2, "two");
    enter(&mut script, 1, A, 100);
    script.at(2).fiber_switch(A, 0, 1, 5);
    enter(&mut script, 5, A, 200);
    script.at(10).fiber_switch(A, 1, 2, 1);
    enter(&mut script, 12, A, 200);
    script.at(20).fiber_switch(B, 0, 1, 5);
    exit(&mut script, 25, B, 200);
    script.at(26).fiber_switch(B, 1, 0, 4);
    exit(&mut script, 30, A, 200);
    script.at(40).fiber_switch(A, 2, 0, 4);
    exit(&mut script, 50, A, 100);
    let table = table(&script);
    assert_eq!(table.apart, apart(0, 0));
    let both = (2, 20 + 18, [10 + 18, 0, 10, 0]);
    assert_eq!(rows(&table), TotalsByAddress::from([(100, (1, 49, [11, 0, 38, 0])), (200, both)]));
}

#[test]
fn calls_around_lost_records_are_unknown_each_once() {
    let mut script = script();
    for (at, function) in [(0, 1), (5, 2)] {
        enter(&mut script, at, A, function);
    }
    script.at(10).lose_user(A, 20, 3);
    // It may be any call of 3, as records of this time are missing.
    enter(&mut script, 15, A, 3);
    exit(&mut script, 25, A, 3);
    exit(&mut script, 30, A, 2);
    enter(&mut script, 40, A, 4);
    exit(&mut script, 45, A, 4);
    exit(&mut script, 50, A, 1);
    exit(&mut script, 60, A, 7);
    let table = table(&script);
    assert_eq!(table.apart, apart(4, 0));
    assert_eq!(rows(&table), TotalsByAddress::from([(4, (1, 5, [5, 0, 0, 0]))]));
}

#[test]
fn a_fiber_with_the_number_of_one_that_ended_has_a_call_stack_of_its_own() {
    let mut script = script();
    script.at(0).fiber_enter(A).fiber_new(A, 1, "one").fiber_switch(A, 0, 1, 5);
    enter(&mut script, 5, A, 200);
    script.at(10).fiber_switch(A, 1, 0, 4).fiber_end(A, 1).fiber_new(A, 1, "again");
    script.at(20).fiber_switch(A, 0, 1, 5);
    enter(&mut script, 25, A, 200);
    exit(&mut script, 27, A, 200);
    exit(&mut script, 30, A, 200);
    let table = table(&script);
    assert_eq!(table.apart, apart(2, 0));
    assert_eq!(rows(&table), TotalsByAddress::from([(200, (1, 2, [2, 0, 0, 0]))]));
}

/// Returns the records that show the end of the thread `A` or of its program, or another one with that number.
fn ends() -> Vec<(&'static str, Vec<(&'static str, V)>)> {
    let (pid, tid, comm) = (V::I(PID.into()), V::I(A.0.into()), ("comm", V::T(A.1)));
    vec![
        ("sordino_context_end", vec![("pid", pid), ("vtid", tid)]),
        ("task_newtask", vec![("pid", tid), comm, ("clone_flags", V::U(0x10000))]),
        ("sched_process_free", vec![comm, ("pid", pid)]),
        ("sched_process_exec", vec![("pid", pid), ("old_pid", pid)]),
    ]
}

#[test]
fn a_thread_with_the_number_of_one_that_ended_has_a_call_stack_of_its_own() {
    let mut scripts: Vec<Script> = (0..=ends().len()).map(|_| script()).collect();
    for (index, script) in scripts.iter_mut().enumerate() {
        enter(script, 1, A, 100);
        enter(script, 2, B, 200);
        script.at(5).cpu(0);
        match ends().get(index) {
            Some((name, fields)) => _ = script.by(B).kernel(name, fields),
            None => _ = script.switch(A, DEAD, IDLE),
        }
        exit(script, 7, B, 200);
        exit(script, 10, A, 100);
        let table = table(script);
        let is_of_thread = index != 2 && index != 3;
        let (broken, known) = if is_of_thread { (2, vec![200]) } else { (4, vec![]) };
        assert_eq!(table.apart, apart(broken, 0), "{:?}", ends().get(index));
        assert_eq!(rows(&table).into_keys().collect::<Vec<_>>(), known, "{:?}", ends().get(index));
    }
}

#[test]
fn the_calls_of_a_fiber_end_with_it_also_on_a_thread_that_ends() {
    let mut script = script();
    script.at(0).fiber_enter(A);
    for fiber in 1..=3 {
        script.at(10 * fiber).fiber_new(A, fiber as u64, "").fiber_switch(A, 0, fiber as u64, 5);
        enter(&mut script, 10 * fiber + 1, A, 200);
        enter(&mut script, 10 * fiber + 2, A, 300);
        match fiber {
            1 => _ = script.at(15).fiber_switch(A, 1, 0, 4),
            2 => {
                // One that records its own end is in its functions until the switch.
                script.at(24).fiber_end(A, 2);
                exit(&mut script, 25, A, 300);
                script.at(26).fiber_switch(A, 2, 0, 1);
            }
            _ => _ = script.at(36).cpu(0).switch(A, DEAD, IDLE),
        }
    }
    let table = table(&script);
    assert_eq!(table.apart, apart(5, 0));
    assert_eq!(rows(&table), TotalsByAddress::from([(300, (1, 3, [3, 0, 0, 0]))]));
}

/// A step of a random program, a nanosecond long: a thread enters or leaves a function, switches to a fiber, or ends
/// its fiber or itself; another thread or fiber has the number from then on.
#[derive(Clone, Copy, Debug)]
enum ProgramStep {
    Enter(u64),
    Exit,
    Switch(u64),
    End,
}

/// A program of two threads that execute four fibers, which knows what each function did in each nanosecond.
#[derive(Default)]
struct Simulated {
    /// Fiber of each thread; 0 for its own code.
    fibers: [u64; 2],
    /// Functions of each fiber, then of each thread, with the call's number.
    stacks: BTreeMap<u64, Vec<(u64, usize)>>,
    /// Function, own time, time in calls and time of other fibers of each call; true if it has returned.
    calls: Vec<(u64, [i64; 3], bool)>,
    /// Number of calls that ended with their thread or fiber.
    left: u64,
}

impl Simulated {
    /// Returns the number of the call stack on which a thread is.
    fn stack(&self, thread: usize) -> u64 {
        if self.fibers[thread] == 0 { 100 + thread as u64 } else { self.fibers[thread] }
    }

    /// Counts a nanosecond for each call.
    fn tick(&mut self) {
        let running = [0, 1].map(|thread| self.stack(thread));
        for (stack, calls) in &self.stacks {
            for (depth, (_, call)) in calls.iter().enumerate() {
                let part = match depth + 1 == calls.len() {
                    true if running.contains(stack) => 0,
                    true => 2,
                    false => 1,
                };
                self.calls[*call].1[part] += 1;
            }
        }
    }

    fn act(&mut self, (thread, action): (usize, ProgramStep), at: i64, script: &mut Script) {
        let (stack, traced) = (self.stack(thread), [A, B][thread]);
        match action {
            ProgramStep::Enter(function) => {
                self.stacks.entry(stack).or_default().push((function, self.calls.len()));
                self.calls.push((function, [0; 3], false));
                enter(script, at, traced, function);
            }
            ProgramStep::Exit => {
                if let Some((function, call)) = self.stacks.entry(stack).or_default().pop() {
                    self.calls[call].2 = true;
                    exit(script, at, traced, function);
                }
            }
            ProgramStep::End => {
                self.left += self.stacks.remove(&stack).map_or(0, |calls| calls.len() as u64);
                match std::mem::take(&mut self.fibers[thread]) {
                    0 => _ = script.at(at).cpu(0).switch(traced, DEAD, IDLE),
                    fiber => _ = script.at(at).fiber_switch(traced, fiber, 0, 4).fiber_new(traced, fiber, ""),
                }
            }
            ProgramStep::Switch(fiber) => {
                let from = self.fibers[thread];
                if from != fiber && (fiber == 0 || !self.fibers.contains(&fiber)) {
                    self.fibers[thread] = fiber;
                    script.at(at).fiber_switch(traced, from, fiber, if from == 0 { 5 } else { 1 });
                }
            }
        }
    }

    fn rows(&self) -> TotalsByAddress {
        let mut rows = TotalsByAddress::new();
        for (function, [own, in_calls, other], _) in self.calls.iter().filter(|(.., returned)| *returned) {
            let row = rows.entry(*function).or_default();
            row.0 += 1;
            row.1 += own + in_calls + other;
            [own, in_calls, other].into_iter().zip(&mut row.2).for_each(|(time, sum)| *sum += time);
        }
        rows
    }
}

fn action() -> impl Strategy<Value = (usize, ProgramStep)> {
    let action = prop_oneof![
        3 => (1_u64..6).prop_map(ProgramStep::Enter),
        3 => Just(ProgramStep::Exit),
        2 => (0_u64..5).prop_map(ProgramStep::Switch),
        1 => Just(ProgramStep::End),
    ];
    (0_usize..2, action)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_nanosecond_of_every_call_is_what_a_simulated_program_did(
        actions in prop::collection::vec(action(), 1..200),
    ) {
        let (mut script, mut simulated) = (script(), Simulated::default());
        script.at(0).fiber_enter(A).fiber_enter(B);
        (1..5).for_each(|fiber| _ = script.fiber_new(A, fiber, ""));
        enter(&mut script, 0, A, 99);
        exit(&mut script, 0, A, 99);
        for (at, action) in (1..).zip(actions) {
            simulated.act(action, at, &mut script);
            simulated.tick();
        }
        let table = table(&script);
        let mut expected = simulated.rows();
        expected.insert(99, (1, 0, [0; 4]));
        prop_assert_eq!(rows(&table), expected);
        let open = simulated.calls.iter().filter(|(.., returned)| !returned).count() as u64;
        prop_assert_eq!(table.apart, apart(simulated.left, open - simulated.left));
        prop_assert!(table.rows.iter().all(|row| row.summary.min >= Nanos::ZERO));
    }
}
