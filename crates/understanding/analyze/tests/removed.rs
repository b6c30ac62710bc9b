//! Tests of traces that lack some events without reporting it: wrong explanations lie between the records around the
//! missing ones.

mod support;

use proptest::prelude::*;
use sordino_analyze::{ExplainOptions, Findings};
use std::ops::Range;
use support::machine::{SimulatedMachine, explained};
use support::{NPT, ScriptEvent, ScriptThread, explain};

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventSubject {
    Switch,
    WakeUp,
    Interrupt,
    Call,
    Fault,
    Signal,
    /// An NMI, or an event of the program.
    Other,
}

fn kind(name: &str) -> EventSubject {
    match name {
        "sched_switch" => EventSubject::Switch,
        "sched_waking" | "sched_wakeup" | "sched_migrate_task" => EventSubject::WakeUp,
        "sys_enter" | "sys_exit" => EventSubject::Call,
        "signal_deliver" => EventSubject::Signal,
        name if name.starts_with("x86_exceptions_") => EventSubject::Fault,
        name if name.starts_with("irq_") || name.starts_with("x86_irq_vectors_") => EventSubject::Interrupt,
        _ => EventSubject::Other,
    }
}

/// An event of the trace, and true if it was removed.
type RemovableEvent = (ScriptEvent, bool);

/// The number of the call that ends a handler.
const SIGRETURN: i64 = 15;

fn is_return(record: &ScriptEvent) -> bool {
    record.name == "sys_enter" && record.first == Some(SIGRETURN)
}

/// Returns the time from which on the handlers are known again after event `number`, a signal or a handler's end that
/// is removed: after a signal, the time at which the thread leaves its last handler. One without an end goes on.
fn handlers_known(all: &[RemovableEvent], number: usize) -> Option<i64> {
    let depth = |rows: &[RemovableEvent]| {
        let of = |(record, _): &RemovableEvent| {
            i64::from(record.name == "signal_deliver") - i64::from(is_return(record))
        };
        rows.iter().map(of).sum::<i64>()
    };
    let is_signal = all[number].0.name == "signal_deliver";
    let ends = (number + 1..all.len()).filter(|end| is_return(&all[*end].0) && depth(&all[..=*end]) == 0);
    ends.into_iter()
        .map(|end| &all[end])
        .find(|(_, is_removed)| is_signal && !is_removed)
        .map(|row| row.0.time)
}

/// Returns the time that may be explained wrongly when event `number` is removed: from the last record before it about
/// the same subject to the next such record.
fn uncertain(all: &[RemovableEvent], number: usize) -> Range<i64> {
    let (before, rest) = all.split_at(number);
    let Some(((lost, _), after)) = rest.split_first() else { return 0..0 };
    let what = kind(&lost.name);
    // Where a thread comes and leaves, or leaves and is woken, both without a record, no record shows it before it has
    // a CPU again.
    let next = after.iter().find(|(record, _)| record.names_thread && record.name != "nmi_handler");
    let more_is_gone = lost.names_thread && next.is_some_and(|(_, is_removed)| *is_removed);
    let bears = |record: &ScriptEvent| {
        let same_cpu = record.cpu == lost.cpu;
        let other = kind(&record.name);
        match what {
            // An NMI may come between the record of a switch and the switch.
            _ if record.name == "nmi_handler" => false,
            EventSubject::Switch if more_is_gone => record.names_thread && other == EventSubject::Switch,
            EventSubject::Switch => same_cpu,
            // A thread that is moved may still sleep.
            EventSubject::WakeUp => record.names_thread && record.name != "sched_migrate_task",
            // A thread may be switched away inside a softirq (PREEMPT_RT), and is inside when it comes back. The order
            // within the same nanosecond is unknown.
            EventSubject::Interrupt if !same_cpu || record.time <= lost.time => false,
            EventSubject::Interrupt => {
                other == EventSubject::Call
                    || other == EventSubject::Switch && !lost.name.starts_with("irq_softirq")
            }
            // Faults of user code and signals come outside of calls.
            EventSubject::Call | EventSubject::Fault | EventSubject::Signal => {
                record.names_thread
                    && matches!(other, EventSubject::Call | EventSubject::Fault | EventSubject::Signal)
            }
            EventSubject::Other => false,
        }
    };
    let kept = |(record, is_removed): &RemovableEvent| (!is_removed && bears(record)).then_some(record.time);
    let end = all.last().map_or(0, |(last, _)| last.time);
    let from = before.iter().rev().find_map(kept).unwrap_or(0);
    let to = if what == EventSubject::Signal || is_return(lost) {
        handlers_known(all, number)
    } else {
        after.iter().find_map(kept)
    };
    from..to.unwrap_or(end)
}

/// Returns the time that these stretches cover together.
fn together(mut stretches: Vec<Range<i64>>) -> i64 {
    stretches.sort_unstable_by_key(|stretch| stretch.start);
    let mut end = 0;
    let added = |stretch: Range<i64>| {
        let new = (stretch.end - stretch.start.max(end)).max(0);
        end = end.max(stretch.end);
        new
    };
    stretches.into_iter().map(added).sum()
}

/// Explains the machine's actions from a trace that lacks some of the events of these kinds.
fn check(
    actions: &[(usize, u8, u8, i64)],
    removed: &[bool],
    kinds: &[EventSubject],
) -> Result<(), TestCaseError> {
    /// The number of first events that are kept: they place the threads when the interval begins.
    const FIRST: usize = 3;
    let mut machine = SimulatedMachine::run(actions);
    machine.resume();
    machine.end();
    let mut all: Vec<RemovableEvent> = Vec::new();
    let left = machine.script.without(NPT, |record| {
        let is_its = kinds.contains(&kind(&record.name)) && all.len() >= FIRST;
        let is_removed = is_its && removed[all.len() % removed.len()];
        all.push((record, is_removed));
        is_removed
    });
    let lost = (0..all.len()).filter(|number| all[*number].1);
    let uncertain = together(lost.map(|number| uncertain(&all, number)).collect());
    let findings = explain(&left, "mark:begin@id..mark:end@id", ExplainOptions::default());
    judge(&machine, &findings, uncertain, &all)
}

/// Compares the explanation with the truth: in the uncertain time alone it may be wrong.
fn judge(
    machine: &SimulatedMachine,
    findings: &Findings,
    uncertain: i64,
    all: &[RemovableEvent],
) -> Result<(), TestCaseError> {
    let explained_parts = explained(findings);
    for (cause, time) in &explained_parts {
        // A limit that kept it from the CPU is a stronger statement than that another thread, or none, had the CPU.
        let stronger = cause.split_once(" in ").filter(|_| cause.starts_with("behind"));
        let stronger = stronger.map(|(_, call)| format!("throttled in {call}"));
        let truth = [Some(cause), stronger.as_ref()].into_iter().flatten();
        let truth: i64 = truth.filter_map(|cause| machine.truth.get(cause)).sum();
        let is_weak = cause == "Unknown" || cause.starts_with("behind -1");
        let lines = || all.iter().map(|row| format!("\n{row:?}")).collect::<String>();
        prop_assert!(
            is_weak || *time <= truth + uncertain,
            "{cause}: {time}, in truth {truth}, uncertain {uncertain}: {explained_parts:?}, in truth {:?}{}",
            machine.truth,
            lines()
        );
    }
    Ok(())
}

/// Returns the machine after these actions, at the end of the interval, with the events of its trace.
fn ended(actions: &[(usize, u8, u8, i64)]) -> (SimulatedMachine, Vec<RemovableEvent>) {
    let mut machine = SimulatedMachine::run(actions);
    machine.resume();
    machine.end();
    let mut all: Vec<RemovableEvent> = Vec::new();
    machine.script.without(NPT, |record| {
        all.push((record, false));
        false
    });
    (machine, all)
}

/// Explains the machine's actions from a trace in which some switches of a CPU have changed places with the next ones.
fn check_swapped(actions: &[(usize, u8, u8, i64)], swapped: &[bool]) -> Result<(), TestCaseError> {
    const FIRST: usize = 3;
    let (machine, mut all) = ended(actions);
    let (trace, pairs) = machine.script.swapped(|number| number >= FIRST && swapped[number % swapped.len()]);
    for (one, other) in &pairs {
        (all[*one].1, all[*other].1) = (true, true);
    }
    let uncertain = |&(one, other): &(usize, usize)| {
        // A sleep that comes after its wake-up goes on as if there were none.
        let touched =
            (one..=other).filter(|&n| n == one || n == other || kind(&all[n].0.name) == EventSubject::WakeUp);
        let touched: Vec<_> = touched.map(|number| uncertain(&all, number)).collect();
        let from = touched.iter().map(|time| time.start).min();
        let to = touched.iter().map(|time| time.end).max();
        from.unwrap_or(0)..to.unwrap_or(0)
    };
    let uncertain = together(pairs.iter().map(uncertain).collect());
    let findings = explain(&trace, "mark:begin@id..mark:end@id", ExplainOptions::default());
    judge(&machine, &findings, uncertain, &all)
}

/// A thread and a CPU that no other record knows.
const GHOST: (ScriptThread, u32) = (ScriptThread(999, "ghost", 120), 7);

/// Explains the machine's actions from a trace in which a thread that does not exist wakes the explained one now and
/// then.
fn check_ghosts(actions: &[(usize, u8, u8, i64)], wakes: &[bool]) -> Result<(), TestCaseError> {
    let (machine, mut all) = ended(actions);
    // At the same time the ghost would come last.
    let last = |number: usize| all.get(number + 1).is_none_or(|(next, _)| next.time > all[number].0.time);
    let behind: Vec<usize> =
        (4..all.len()).filter(|number| wakes[number % wakes.len()] && last(*number)).collect();
    let mut trace = machine.script.clone();
    for number in behind.into_iter().rev() {
        let record = &all[number].0;
        let Some(cpu) = record.cpu else { continue };
        trace.at(record.time).cpu(GHOST.1).by(GHOST.0).waking(NPT, cpu.into());
        let ghost =
            ScriptEvent { name: "sched_waking".into(), names_thread: true, first: None, ..record.clone() };
        all.insert(number + 1, (ghost, true));
    }
    let ghosts = (0..all.len()).filter(|number| all[*number].1);
    let uncertain = ghosts.map(|number| uncertain(&all, number)).collect();
    let findings = explain(&trace, "mark:begin@id..mark:end@id", ExplainOptions::default());
    judge(&machine, &findings, together(uncertain), &all)
}

fn some_actions() -> impl Strategy<Value = Vec<(usize, u8, u8, i64)>> {
    proptest::collection::vec((0usize..2, 0u8..14, 0u8..8, 0i64..5), 0..80)
}

fn few() -> impl Strategy<Value = Vec<bool>> {
    proptest::collection::vec(proptest::bool::weighted(0.05), 80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn missing_switches(actions in some_actions(), removed in few()) {
        check(&actions, &removed, &[EventSubject::Switch])?;
    }

    #[test]
    fn switches_in_the_wrong_order(actions in some_actions(), swapped in few()) {
        check_swapped(&actions, &swapped)?;
    }

    #[test]
    fn wakers_that_do_not_exist(actions in some_actions(), wakes in few()) {
        check_ghosts(&actions, &wakes)?;
    }

    #[test]
    fn missing_wake_ups_and_moves(actions in some_actions(), removed in few()) {
        check(&actions, &removed, &[EventSubject::WakeUp])?;
    }

    #[test]
    fn missing_interrupts(actions in some_actions(), removed in few()) {
        check(&actions, &removed, &[EventSubject::Interrupt])?;
    }

    #[test]
    fn missing_system_calls(actions in some_actions(), removed in few()) {
        check(&actions, &removed, &[EventSubject::Call])?;
    }

    #[test]
    fn missing_faults_and_signals(actions in some_actions(), removed in few()) {
        check(&actions, &removed, &[EventSubject::Fault, EventSubject::Signal])?;
    }

    #[test]
    fn missing_events_of_all_kinds(actions in some_actions(), removed in few()) {
        use EventSubject::{Call, Fault, Interrupt, Signal, Switch, WakeUp};
        check(&actions, &removed, &[Switch, WakeUp, Interrupt, Call, Fault, Signal])?;
    }
}
