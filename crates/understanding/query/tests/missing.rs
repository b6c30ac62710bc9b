//! Switches that were not recorded: other records show them.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_event::Nanos;
use sordino_query::{Measure, PathOf, Query, StatisticsTable};
use sordino_timeline::{Consumer, Vocabulary};
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script};

fn measured(script: &Script, measure: Measure) -> StatisticsTable {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query = Query::new(&script.classes, recorded, measure, &[]).expect("all events are there");
    script.play(|item| query.take(item));
    query.finish()
}

#[test]
fn runs_that_an_unrecorded_switch_begins_or_ends_are_apart() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    script.at(200).user("npt:loop", NPT, &[]);
    // The switch from npt to the hog is missing.
    script.at(300).cpu(1).switch(HOG, SLEEPING, IDLE);
    script.at(400).cpu(1).switch(IDLE, 0, HOG);
    script.at(450).cpu(1).switch(HOG, SLEEPING, IDLE);
    let table = measured(&script, Measure::Slices);
    let all = table.all.expect("one slice is whole");
    assert_eq!((all.count, all.total, table.apart.broken), (1, Nanos(50), 2));
}

#[test]
fn a_wait_that_an_unrecorded_switch_ends_is_apart() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(NPT, RUNNABLE, HOG);
    // The switch back to npt is missing.
    script.at(300).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(400).cpu(1).switch(HOG, RUNNABLE, NPT);
    let table = measured(&script, Measure::Preemption);
    let waits: Vec<_> = table.rows.iter().map(|row| (row.summary.count, row.summary.total)).collect();
    assert_eq!((waits, table.apart.broken), (vec![(1, Nanos(100))], 1));
}

/// The totals of the rows of a table by their last key.
fn totals(table: &StatisticsTable) -> Vec<(String, Nanos)> {
    let total = |row: &sordino_query::StatisticsRow| {
        (row.labels.last().expect("a key").to_string(), row.summary.total)
    };
    table.rows.iter().map(total).collect()
}

/// The thread did not run for the time in which it may have slept.
#[test]
fn a_path_does_not_run_on_where_the_switch_to_sleep_is_missing() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    // The switch from npt to the hog is missing.
    script.at(300).cpu(1).switch(HOG, SLEEPING, IDLE);
    script.at(400).cpu(1).switch(IDLE, 0, NPT);
    script.at(450).cpu(1).switch(NPT, SLEEPING, IDLE);
    let table = measured(&script, Measure::Path(PathOf::Threads));
    assert_eq!(totals(&table), [("runs".to_owned(), Nanos(50))]);
    assert!(table.apart.broken > 0, "{:?}", table.apart);
}

/// Nothing but the start of the thread is missing where the CPU was idle: it ran since the CPU's last record.
#[test]
fn a_path_runs_since_an_idle_cpus_last_record_where_the_switch_to_it_is_missing() {
    let mut script = Script::new();
    script.at(50).cpu(1).switch(IDLE, 0, NPT);
    script.at(100).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(200).cpu(1).waking(NPT, 1);
    script.at(260).user("npt:loop", NPT, &[]);
    script.at(300).cpu(1).switch(NPT, SLEEPING, IDLE);
    let table = measured(&script, Measure::Path(PathOf::Threads));
    let runs = totals(&table).into_iter().find(|(name, _)| name == "runs");
    assert_eq!(runs, Some(("runs".to_owned(), Nanos(50 + 100))), "{:?}", table.apart);
}

/// Two jobs are not joined to one that ends too late.
#[test]
fn jobs_are_not_joined_where_the_switch_to_sleep_between_them_is_missing() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    script.at(110).user("npt:loop", NPT, &[]);
    // The switch from npt to the hog is missing.
    script.at(300).cpu(1).switch(HOG, SLEEPING, IDLE);
    // It may have slept or not: this is the begin of a job, or a part of the one before.
    script.at(400).cpu(1).switch(IDLE, 0, NPT);
    script.at(420).user("npt:loop", NPT, &[]);
    script.at(450).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(500).cpu(1).switch(IDLE, 0, NPT);
    script.at(520).user("npt:loop", NPT, &[]);
    script.at(560).cpu(1).switch(NPT, SLEEPING, IDLE);
    let table = measured(&script, Measure::Jobs("npt:loop".to_owned()));
    let all = table.all.expect("the third job is whole");
    assert_eq!((all.count, all.total, table.apart.broken), (1, Nanos(40), 2));
}

/// A thread that is woken on an idle CPU, whose start is missing: its wait ends where it was woken.
#[test]
fn a_wait_for_a_lock_ends_with_the_wake_up_where_the_switch_from_idle_is_missing() {
    let mut script = Script::new();
    script.at(50).cpu(1).switch(IDLE, 0, NPT);
    script.at(60).cpu(1).by(NPT).futex(0x1000, 0);
    script.at(100).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(200).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(260).cpu(1).by(NPT).syscall_exit(202);
    let table = measured(&script, Measure::Locks);
    let parts: Vec<_> = table.rows[0].parts.iter().map(|part| part.time.0).collect();
    assert_eq!(parts, [100, 0, 40 + 60], "{:?}", table.apart);
}

/// A thread that lost its CPU without a record may have slept in its call.
#[test]
fn a_wait_for_a_lock_is_apart_where_a_switch_within_it_is_missing() {
    let mut script = Script::new();
    script.at(50).cpu(1).switch(IDLE, 0, NPT);
    script.at(60).cpu(1).by(NPT).futex(0x1000, 0);
    // The switch from npt to the hog is missing.
    script.at(300).cpu(1).switch(HOG, SLEEPING, NPT);
    script.at(350).cpu(1).by(NPT).syscall_exit(202);
    let table = measured(&script, Measure::Locks);
    assert_eq!((table.rows.len(), table.apart.broken), (0, 1));
}

#[test]
fn a_reaction_has_no_wait_where_the_switch_from_idle_is_missing() {
    let mut script = Script::new();
    script.at(50).cpu(1).switch(IDLE, 0, NPT);
    script.at(100).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(150).cpu(1).by(IDLE).irq(7, "nic");
    script.at(170).cpu(1).by(IDLE).waking(NPT, 1);
    script.at(180).cpu(1).by(IDLE).irq_exit(7);
    script.at(260).user("npt:loop", NPT, &[]);
    script.at(300).cpu(1).switch(NPT, SLEEPING, IDLE);
    let table = measured(&script, Measure::Reactivity);
    let parts: Vec<_> = table.rows.iter().flat_map(|row| row.parts.iter().map(|part| part.time.0)).collect();
    assert_eq!(parts, [20, 0, 10, 80, 0], "{:?}", table.apart);
}
