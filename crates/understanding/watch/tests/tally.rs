//! The figures of traces with a known truth, read as a whole or in stretches.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_event::{Nanos, Time};
use sordino_query::{Measure, Query, SpanCondition};
use sordino_timeline::{Consumer, Item, Vocabulary};
use sordino_watch::{Figures, SortKey, StretchTime, Tally};
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script};

const SECOND: i64 = 1_000_000_000;

fn tallied(script: &Script, condition: Option<&str>, every: i64) -> (Tally, Figures) {
    let condition = condition.map(|text| {
        let expression = sordino_filter::condition::Expression::parse(text).expect("a condition");
        SpanCondition::new(&expression, &script.classes, sordino_query::Facts::default())
    });
    let mut tally = Tally::default();
    let recorded = Vocabulary::new(&script.classes).recorded();
    tally.begin_part(&script.classes, recorded);
    let time = StretchTime { elapsed: Nanos(every), covered: Nanos(every) };
    let mut end = every;
    script.play(|item| {
        while matches!(item, Item::Event(moment) if moment.event.time.0 >= end) {
            tally.end_stretch(Time(end), time);
            tally.begin_part(&script.classes, recorded);
            end += every;
        }
        tally.take(item, condition.as_ref());
    });
    tally.end_stretch(Time(end), time);
    let figures = Figures::of(&mut tally, SortKey::Worst);
    (tally, figures)
}

/// One wait of npt for a CPU that the hog has, and a shorter one.
fn planted() -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(NPT, SLEEPING, HOG);
    script.at(SECOND / 4).cpu(1).waking(NPT, 1);
    script.at(SECOND / 4 + 3_000_000).cpu(1).switch(HOG, RUNNABLE, NPT);
    script.at(SECOND / 4 + 4_000_000).user("motor:period", NPT, &[]);
    script.at(SECOND / 2).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(SECOND / 2 + 1000).cpu(1).irq(36, "eth0");
    script.at(SECOND / 2 + 6000).cpu(1).waking(NPT, 1);
    script.at(SECOND / 2 + 11_000).cpu(1).irq_exit(36);
    script.at(SECOND / 2 + 12_000).cpu(1).switch(IDLE, 0, NPT);
    script.at(SECOND * 3 / 4).cpu(1).switch(NPT, SLEEPING, IDLE);
    script
}

#[test]
fn a_planted_wait_is_the_worst_and_names_the_thread_that_had_the_cpu() {
    let (_, figures) = tallied(&planted(), None, SECOND);
    let npt = figures.threads.iter().find(|thread| thread.tid == NPT.0).expect("npt waited");
    let worst = npt.worst.as_ref().expect("a worst wait");
    assert_eq!((npt.count, worst.length_ns, worst.at_ns, worst.cpu), (2, 3_000_000, SECOND / 4, Some(1)));
    assert_eq!((&*worst.cause, worst.before.as_deref()), ("hog/123 and others 100%", Some("hog/123")));
    assert_eq!(npt.label, "npt/10");
    let handler = &figures.interrupts[0];
    assert_eq!((&*handler.name, handler.max_ns, handler.per_s), ("36 eth0", 10_000, 1.0));
    let waits: u64 = figures.histogram.iter().map(|bar| bar.count).sum();
    assert_eq!((waits, figures.histogram.last().map(|bar| bar.below)), (2, Some(Nanos(1 << 22))));
    // Busy: the hog from 0 to the wait's end, npt to one half and from there to three quarters.
    let busy = figures.cpus[0].busy_share.expect("it is known");
    assert!((busy - 0.75).abs() < 0.001, "{busy}");
}

#[test]
fn a_condition_limits_events_and_waits_but_not_the_machine() {
    let (_, all) = tallied(&planted(), None, SECOND);
    let (_, some) = tallied(&planted(), Some("$comm == \"motor*\""), SECOND);
    assert!(some.threads.is_empty() && some.events_total == 0, "{some:?}");
    assert_eq!((some.cpus[0].busy_share, &some.interrupts), (all.cpus[0].busy_share, &all.interrupts));
}

#[test]
fn rates_and_the_histogram_leave_the_window_and_the_worst_wait_stays() {
    let mut script = planted();
    script.at(15 * SECOND).cpu(1).irq(36, "eth0");
    let (mut tally, figures) = tallied(&script, None, SECOND);
    assert!(figures.histogram.is_empty());
    assert_eq!(figures.window_ns, 10 * SECOND);
    assert!((figures.events_per_s - 0.1).abs() < 1e-9, "{}", figures.events_per_s);
    assert_eq!(figures.threads[0].worst.as_ref().map(|worst| worst.length_ns), Some(3_000_000));
    tally.clear();
    let cleared = Figures::of(&mut tally, SortKey::Worst);
    assert_eq!((cleared.events_total, cleared.threads.len()), (0, 0));
}

#[test]
fn losses_are_counted_by_cause_and_what_they_cut_is_counted_apart() {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(NPT, SLEEPING, HOG);
    script.at(100).cpu(1).waking(NPT, 1);
    script.at(200).cpu(1).lose_kernel(300, 17);
    script.at(400).cpu(1).switch(HOG, RUNNABLE, NPT);
    let (_, figures) = tallied(&script, None, SECOND);
    assert_eq!((figures.losses.count, figures.losses.uncounted), (17, 0));
    assert_eq!(figures.losses.by_cause["kernel buffer overrun"], 17);
    assert!(figures.threads.is_empty() && figures.waits_unknown > 0, "{figures:?}");
}

#[test]
fn a_part_that_is_left_out_is_no_loss_and_no_wait_reaches_over_it() {
    let mut tally = Tally::default();
    let mut script = planted();
    script.at(SECOND).cpu(1).waking(NPT, 1);
    tally.begin_part(&script.classes, Vocabulary::new(&script.classes).recorded());
    script.play(|item| tally.take(item, None));
    tally.skip(Time(SECOND), Time(2 * SECOND));
    tally.end_stretch(Time(2 * SECOND), StretchTime { elapsed: Nanos(2 * SECOND), covered: Nanos(SECOND) });
    let mut rest = Script::new();
    rest.at(2 * SECOND).cpu(1).switch(IDLE, 0, NPT);
    rest.play(|item| tally.take(item, None));
    let figures = Figures::of(&mut tally, SortKey::Worst);
    assert_eq!((figures.losses.count, figures.read_share), (0, 0.5));
    assert_eq!(figures.threads[0].count, 2);
}

/// Steps of two threads that share a CPU: the time until the next step, and its kind.
fn machine(steps: &[(i64, u8)]) -> Script {
    let mut script = Script::new();
    let (mut now, mut running) = (0, IDLE);
    for (after, kind) in steps {
        now += after;
        script.at(now).cpu(0);
        let next = [IDLE, NPT, HOG][usize::from(kind / 2 % 3)];
        match kind % 2 {
            0 if next != running => {
                let state = if kind % 4 == 0 { SLEEPING } else { RUNNABLE };
                script.switch(running, if running == IDLE { 0 } else { state }, next);
                running = next;
            }
            0 => _ = script.user("motor:period", NPT, &[]),
            _ if next != IDLE && next != running => _ = script.waking(next, 0),
            _ => {}
        }
    }
    script
}

proptest! {
    #[test]
    fn stretches_change_nothing_and_the_waits_are_those_of_a_query(
        steps in prop::collection::vec((1_i64..1_000_000, any::<u8>()), 1..200), every in 1_000_000_i64..50_000_000,
    ) {
        let script = machine(&steps);
        let (_, cut) = tallied(&script, None, every);
        let (_, whole) = tallied(&script, None, i64::MAX / 4);
        prop_assert_eq!(cut.events_total, whole.events_total);
        prop_assert_eq!(&cut.waits_unknown, &whole.waits_unknown);
        let waits = |figures: &Figures| figures.threads.iter().map(|thread| {
            (thread.tid, thread.count, thread.median_ns, thread.p99_ns, thread.worst.clone())
        }).collect::<Vec<_>>();
        prop_assert_eq!(waits(&cut), waits(&whole));
        let recorded = Vocabulary::new(&script.classes).recorded();
        let mut query = Query::new(&script.classes, recorded, Measure::Latency, &[]).unwrap();
        script.play(|item| query.take(item));
        let table = query.finish();
        let counted: u64 = table.rows.iter().map(|row| row.summary.count).sum();
        prop_assert_eq!(whole.threads.iter().map(|thread| thread.count).sum::<u64>(), counted);
        let longest = table.rows.iter().map(|row| row.summary.max.0).max();
        let worst = whole.threads.first().and_then(|thread| thread.worst.as_ref()).map(|worst| worst.length_ns);
        prop_assert_eq!(worst, longest);
    }
}
