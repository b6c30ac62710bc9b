//! Measures without the time that recording took.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_event::{EventCosts, Nanos};
use sordino_query::{Measure, Query, StatisticsTable};
use sordino_timeline::{Consumer, Vocabulary};
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script};

/// Npt wakes up on CPU 1 at 1000, waits for hog until 1500, calls `read` from 2000 to 2600, sleeps from 3000 to 4000
/// and runs to the end at 9000. Both hit tracepoints meanwhile.
fn script(costs: Option<EventCosts>) -> Script {
    let mut script = Script::new();
    script.costs = costs;
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    script.at(500).switch(NPT, SLEEPING, HOG);
    script.at(1000).waking(NPT, 1);
    script.at(1200).user("hog:step", HOG, &[]);
    script.at(1500).switch(HOG, RUNNABLE, NPT);
    script.at(2000).syscall(0);
    script.at(2300).user("npt:step", NPT, &[]);
    script.at(2600).syscall_exit(0);
    script.at(3000).switch(NPT, SLEEPING, HOG);
    script.at(4000).waking(NPT, 1);
    script.at(4000).switch(HOG, RUNNABLE, NPT);
    script.at(6000).user("npt:step", NPT, &[]);
    script.at(9000).user("npt:step", NPT, &[]);
    script
}

fn table(measure: Measure, costs: Option<EventCosts>) -> StatisticsTable {
    let script = script(costs);
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query = Query::new(&script.classes, recorded, measure, &[]).expect("all events are there");
    script.play(|item| query.take(item));
    let table = query.finish();
    for row in table.rows.iter().filter(|row| !row.parts.is_empty()) {
        assert_eq!(row.parts.iter().map(|part| part.time).sum::<Nanos>(), row.summary.total, "{row:?}");
    }
    table
}

/// Returns npt's total time, or that of its only row, with the overhead of all rows.
fn measured(measure: Measure, costs: Option<EventCosts>) -> (i64, i64) {
    let table = table(measure, costs);
    let row = table.rows.iter().find(|row| row.labels[0].starts_with("npt")).or(table.rows.first());
    (row.unwrap().summary.total.0, table.overhead.0)
}

/// The costs of events: 10 ns of a program's, 20 ns of one of the kernel.
const COSTS: EventCosts = EventCosts { user: Some(10_000), kernel: Some(20_000) };

#[test]
fn a_measure_subtracts_the_events_of_its_spans() {
    let cases = [
        // The call's entry and a tracepoint.
        (Measure::Syscalls, (600, 0), (570, 30)),
        // The wake-up and a tracepoint of hog's; the second wake-up has both events at one time.
        (Measure::Latency, (500, 0), (470, 30)),
        // Two events of the call, one tracepoint; of hog's slices, the wake-up and a tracepoint.
        (Measure::Slices, (2000, 0), (1950, 80)),
        // A sleeping thread records nothing.
        (Measure::Sleep, (1500, 0), (1500, 0)),
    ];
    for (measure, with, without) in cases {
        assert_eq!(measured(measure.clone(), None), with, "{measure:?}");
        let (total, overhead) = measured(measure.clone(), Some(COSTS));
        assert_eq!((total, overhead), without, "{measure:?}");
    }
}

#[test]
fn a_thread_that_runs_to_the_end_pays_for_its_events_too() {
    let (with, without) = (measured(Measure::Active, None), measured(Measure::Active, Some(COSTS)));
    // 50 ns as above, and the tracepoint at 6000; the cost of the one at 9000 is behind the end.
    assert_eq!(with.0 - without.0, 50 + 10);
}

#[test]
fn a_part_in_which_nothing_is_recorded_bears_what_the_others_cannot() {
    let mut script = Script::new();
    script.costs = Some(COSTS);
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    script.at(500).switch(NPT, SLEEPING, IDLE);
    script.at(1000).waking(NPT, 1);
    script.at(1100).irq(36, "virtio0");
    script.at(1150).irq_exit(36);
    script.at(2000).switch(IDLE, RUNNABLE, NPT);
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query =
        Query::new(&script.classes, recorded, Measure::Latency, &[]).expect("all events are there");
    script.play(|item| query.take(item));
    let table = query.finish();
    let parts: Vec<_> = table.rows[0].parts.iter().map(|part| (part.name, part.time.0)).collect();
    // Three events cost 60 ns, and the interrupt took 50.
    assert_eq!(parts, [("interrupts", 0), ("other threads", 0), ("idle and switch", 940), ("unknown", 0)]);
}
