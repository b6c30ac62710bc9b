//! Rows of fibers: names that come late, numbers that several fibers have, and the time for which fibers run.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_event::{Pid, Time};
use sordino_query::{FiberLives, Measure, Per, Query, StatisticsTable};
use sordino_timeline::{Consumer, FiberId, Vocabulary};
use std::collections::BTreeMap;
use support::{HOG, IDLE, RUNNABLE, SLEEPING, Script, ScriptThread};

const A: ScriptThread = ScriptThread(11, "pool", 120);
const B: ScriptThread = ScriptThread(12, "pool", 120);
const PID: i32 = 10;

/// Fiber 7 waits before it is named, and ends; another one has its number. Fiber 8 is named from the start.
fn script() -> Script {
    let mut script = Script::of_programs();
    script.of(PID).at(0).fiber_enter(A).fiber_new(A, 7, "").fiber_new(A, 8, "eight");
    script.at(10).fiber_switch(A, 0, 7, 5).at(11).fiber_rename(A, 7, "seven");
    script.at(20).fiber_switch(A, 7, 8, 1).at(25).fiber_switch(A, 8, 7, 4).fiber_end(A, 8);
    script.at(30).fiber_switch(A, 7, 0, 4).fiber_end(A, 7);
    script
}

/// Plays another fiber with number 7, which is called `name`.
fn again(script: &mut Script, name: &'static str) {
    script.at(40).fiber_new(A, 7, name).at(42).fiber_switch(A, 0, 7, 5);
    script.at(50).fiber_switch(A, 7, 0, 4).fiber_end(A, 7);
}

fn by_fiber(script: &Script, measure: Measure) -> StatisticsTable {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query =
        Query::new(&script.classes, recorded, measure, &[Per::Fiber]).expect("all events are there");
    script.play(|item| query.take(item));
    query.finish()
}

/// Returns the number of waits of each row.
fn rows(script: &Script) -> BTreeMap<String, u64> {
    let rows = by_fiber(script, Measure::FiberWaits).rows.into_iter();
    rows.map(|row| (row.labels[0].to_string(), row.summary.count)).collect()
}

fn counts<const N: usize>(rows: [(&str, u64); N]) -> BTreeMap<String, u64> {
    rows.into_iter().map(|(label, count)| (label.to_owned(), count)).collect()
}

#[test]
fn a_row_has_the_name_that_its_fiber_got_after_its_first_wait() {
    assert_eq!(rows(&script()), counts([("seven/7", 2), ("eight/8", 1)]));
}

#[test]
fn a_row_of_fibers_that_share_a_number_has_the_name_of_none() {
    let mut script = script();
    again(&mut script, "other");
    assert_eq!(rows(&script), counts([("fiber 7", 3), ("eight/8", 1)]));
}

#[test]
fn a_name_that_is_lost_with_its_records_is_no_label() {
    let mut script = script();
    script.at(35).lose_user(A, 36, 1);
    again(&mut script, "");
    assert_eq!(rows(&script), counts([("fiber 7", 3), ("eight/8", 1)]));
}

#[test]
fn a_fiber_has_its_name_for_its_whole_life_and_no_longer() {
    let mut script = script();
    again(&mut script, "other");
    let lives = |name| {
        let mut lives = FiberLives::of(name);
        script.play(|item| lives.take(item));
        lives.finish()
    };
    let fiber = FiberId { pid: Pid(PID), number: 7 };
    let (seven, other) = (lives("seven"), lives("other"));
    for (at, is_seven) in [(0, true), (10, true), (25, true), (42, false)] {
        assert_eq!(seven.contains(fiber, Time(at)), is_seven, "at {at}");
        assert_eq!(other.contains(fiber, Time(at)), !is_seven, "at {at}");
    }
    assert!(!seven.contains(FiberId { number: 8, ..fiber }, Time(10)));
    assert!(!seven.contains(FiberId { pid: Pid(PID + 1), ..fiber }, Time(10)));
}

/// Fibers 1 and 2 on two threads; a hog preempts the first.
fn two_levels() -> Script {
    let mut script = Script::new();
    script
        .of(PID)
        .at(0)
        .cpu(0)
        .switch(IDLE, 0, A)
        .fiber_enter(A)
        .fiber_new(A, 1, "one")
        .fiber_new(A, 2, "two");
    script.at(10).fiber_switch(A, 0, 1, 5).at(30).switch(A, RUNNABLE, HOG).at(50).switch(HOG, SLEEPING, A);
    script.at(60).fiber_switch(A, 1, 2, 1).at(70).switch(A, SLEEPING, IDLE);
    script.at(80).cpu(1).switch(IDLE, 0, B).fiber_enter(B).at(90).fiber_switch(B, 0, 1, 5);
    script.at(100).fiber_switch(B, 1, 0, 1).at(110).switch(B, SLEEPING, IDLE);
    script.at(120).cpu(0).switch(IDLE, 0, A).at(130).fiber_switch(A, 2, 1, 1);
    script
}

/// Returns the total time and the number of stretches of each row.
fn times(table: &StatisticsTable) -> BTreeMap<String, (i64, u64)> {
    let rows = table.rows.iter();
    rows.map(|row| (row.labels[0].to_string(), (row.summary.total.0, row.summary.count))).collect()
}

#[test]
fn a_fiber_is_active_while_its_thread_has_a_cpu() {
    let mut script = two_levels();
    script.at(140).user("app:end", A, &[]);
    let expected = |rows: [(&str, (i64, u64)); 3]| rows.map(|(label, row)| (label.to_owned(), row)).into();
    let table = by_fiber(&script, Measure::Active);
    assert_eq!(times(&table), expected([("?", (50, 4)), ("one/1", (50, 4)), ("two/2", (20, 2))]));
    assert_eq!((table.apart.broken, table.apart.cut), (0, 0));
    // The end cuts the last one.
    let table = by_fiber(&script, Measure::Slices);
    assert_eq!(times(&table), expected([("?", (50, 4)), ("one/1", (40, 3)), ("two/2", (20, 2))]));
    assert_eq!((table.apart.broken, table.apart.cut), (0, 1));
}

#[test]
fn a_fiber_that_may_have_left_within_a_loss_is_not_active() {
    let mut script = two_levels();
    script.at(135).lose_user(A, 136, 1).at(140).fiber_switch(A, 1, 2, 1).at(150).switch(A, SLEEPING, IDLE);
    let table = by_fiber(&script, Measure::Active);
    assert_eq!((times(&table)["one/1"], times(&table)["two/2"]), ((40, 3), (30, 3)));
    assert_eq!(table.apart.broken, 1);
}
