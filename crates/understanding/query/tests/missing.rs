//! Switches that were not recorded: other records show them.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_event::Nanos;
use sordino_query::{Measure, Query, StatisticsTable};
use sordino_timeline::Vocabulary;
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
