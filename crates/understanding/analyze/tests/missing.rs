//! Tests of switches that the kernel did not record, and of the evidence in its other records.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, V, explain_longest, loops};

/// Returns the certainty of the longest wait in the longest loop.
fn certainty(script: &Script) -> Certainty {
    let (explanation, _) = explain_longest(script, "npt:loop");
    let is_wait = |part: &&Part| matches!(part.cause, Cause::Waiting { .. });
    explanation.parts.iter().find(is_wait).unwrap().certainty
}

#[test]
fn a_wait_is_known_by_its_switches_and_inferred_where_one_is_missing() {
    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    hog(&mut script, 1600);
    assert_eq!(certainty(&script), Certainty::Inferred);

    let mut script = asleep();
    script.at(1500).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(3000).cpu(1).by(HOG).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("npt:loop", NPT, &[]);
    assert_eq!(certainty(&script), Certainty::Known);
}

/// Creates loops of 100 ns on CPU 1 up to 1000, where one begins whose thread sleeps from 1040 on: by its last record,
/// the CPU idles.
fn asleep() -> Script {
    let mut script = loops("npt:loop");
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script
}

/// Returns the threads behind which the thread waited in its longest loop, with the times, and the missing switches.
fn waits(script: &Script) -> (Vec<(String, i64)>, Vec<MissingSwitches>) {
    let (explanation, findings) = explain_longest(script, "npt:loop");
    let behind = |part: &Part| match &part.cause {
        Cause::Waiting { behind: Some(thread), .. } => Some((thread.tid.0.to_string(), part.time.0)),
        Cause::Waiting { behind: None, .. } => Some(("?".to_owned(), part.time.0)),
        _ => None,
    };
    (explanation.parts.iter().filter_map(behind).collect(), findings.missing_switches)
}

fn one_missing() -> Vec<MissingSwitches> {
    vec![MissingSwitches { cpu: 1, count: 1 }]
}

/// Lets the hog have the CPU, as its own record shows at `seen`, until 3000, when it leaves.
fn hog(script: &mut Script, seen: i64) {
    script.at(seen).cpu(1).by(HOG).irq(5, "eth0");
    script.at(seen).irq_exit(5);
    script.at(3000).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("npt:loop", NPT, &[]);
}

#[test]
fn a_thread_that_was_seen_on_the_cpu_is_who_had_it() {
    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    hog(&mut script, 1600);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 1000)], one_missing()));
}

/// The recorder's own records are about the machine, and no evidence of an idle CPU.
#[test]
fn a_sleep_is_known_by_its_own_switch_where_one_of_others_is_missing() {
    let mut script = loops("npt:loop");
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, HOG);
    script.at(1600).by(KWORKER).irq(5, "eth0");
    script.at(1600).irq_exit(5);
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(2000).cpu(1).by(KWORKER).switch(KWORKER, RUNNABLE, NPT);
    script.at(2050).user("npt:loop", NPT, &[]);
    let (explanation, findings) = explain_longest(&script, "npt:loop");
    assert_eq!(findings.missing_switches, one_missing());
    let sleep = &explanation.parts[0];
    assert_eq!((sleep.cause.entry().kind, sleep.certainty), ("blocked", Certainty::Known));
}

#[test]
fn a_record_about_the_machine_shows_no_thread_on_a_cpu() {
    let mut script = asleep();
    script.at(1600).cpu(1).by(HOG).irq(5, "eth0");
    script.at(1600).irq_exit(5);
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(2500).no_cpu().by(IDLE).kernel("sordino_steal", &[("cpu", V::U(0))]);
    script.at(3000).cpu(1).by(HOG).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("npt:loop", NPT, &[]);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 1000)], one_missing()));
}

#[test]
fn a_switch_is_placed_behind_the_last_record_of_the_cpu() {
    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    hog(&mut script, 2900);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 1000)], one_missing()));

    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(2200).cpu(1).by(IDLE).irq(5, "eth0");
    script.at(2200).irq_exit(5);
    hog(&mut script, 2900);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 800), ("0".to_owned(), 200)], one_missing()));
}

/// A thread that once left without a record may have left again, and is not blamed.
#[test]
fn who_leaves_without_a_record_is_not_blamed_again() {
    let mut script = asleep();
    // The hog leaves, and only the idle thread's record shows it.
    script.at(1100).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(1200).by(IDLE).irq(5, "eth0");
    script.at(1200).irq_exit(5);
    script.at(1300).switch(IDLE, RUNNABLE, HOG);
    script.at(2000).cpu(0).waking(NPT, 1);
    script.at(3000).cpu(1).by(HOG).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("npt:loop", NPT, &[]);
    assert_eq!(waits(&script), (vec![("?".to_owned(), 1000)], one_missing()));
}

#[test]
fn who_leaves_the_cpu_had_it() {
    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(3000).cpu(1).by(HOG).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("npt:loop", NPT, &[]);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 1000)], one_missing()));
}

#[test]
fn a_thread_that_was_woken_and_then_seen_did_not_wait() {
    let mut script = asleep();
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(3000).cpu(1).by(NPT).irq(5, "eth0");
    script.at(3000).irq_exit(5);
    script.at(3050).user("npt:loop", NPT, &[]);
    assert_eq!(waits(&script), (Vec::new(), one_missing()));
}

#[test]
fn nothing_is_missing_where_each_switch_is_recorded() {
    let mut script = asleep();
    script.at(1500).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(2000).cpu(0).waking(NPT, 1);
    hog(&mut script, 1600);
    assert_eq!(waits(&script), (vec![("123".to_owned(), 1000)], Vec::new()));
}

/// A sleeper that a record shows on its CPU, without a wake-up or a switch, runs: what interrupts it then is named.
#[test]
fn an_interrupt_of_a_thread_that_came_without_a_record_is_named() {
    let mut script = asleep();
    // The entry is by the thread, which therefore has the CPU.
    script.at(1500).cpu(1).by(NPT).irq(5, "eth0");
    script.at(1600).irq_exit(5);
    script.at(1700).irq(7, "disk");
    script.at(2400).irq_exit(7);
    script.at(2500).user("npt:loop", NPT, &[]);
    let (explanation, findings) = explain_longest(&script, "npt:loop");
    let interrupts: Vec<_> = explanation
        .parts
        .iter()
        .filter(|part| matches!(part.cause, Cause::Irq { .. }))
        .map(|part| part.time.0)
        .collect();
    assert_eq!((interrupts, findings.missing_switches), (vec![700, 100], one_missing()));
}
