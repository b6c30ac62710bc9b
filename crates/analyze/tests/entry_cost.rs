//! Interrupts are charged with what it takes to enter and leave them, where that can be told.

mod support;

use sordino_analyze::*;
use support::{IDLE, NPT, Script, explain};

/// Loops of 100 ns on CPU 1, and as many with an interrupt of 10 ns that takes 30 with its entry and exit.
fn interrupted(event: &str, count: i64) -> (Script, i64) {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    let mut now = 0;
    for _ in 0..20 {
        now += 100;
        script.at(now).user(event, NPT, &[]);
    }
    for _ in 0..count {
        script.at(now + 50).vector("local_timer").at(now + 60).vector_exit("local_timer");
        now += 130;
        script.at(now).user(event, NPT, &[]);
    }
    (script, now)
}

/// The kinds of the parts of the longest interval, with their times, those of entries, and the longest occurrences.
fn longest(script: &Script, event: &str) -> Vec<(&'static str, i64, i64, i64)> {
    let findings = explain(script, event, Options { longest: 1, ..Options::default() });
    let parts = findings.intervals[0].parts.iter();
    parts.map(|part| (part.cause.entry().kind, part.time.0, part.entry.0, part.longest.0)).collect()
}

/// Three interrupts, and 400 ns that nothing explains.
fn storm(script: &mut Script, event: &str, mut now: i64) {
    for _ in 0..3 {
        script.at(now + 10).irq(5, "eth0").at(now + 20).irq_exit(5);
        now += 30;
    }
    script.at(now + 500).user(event, NPT, &[]);
}

#[test]
fn an_interrupt_is_charged_with_its_entry_and_the_rest_stays_unexplained() {
    let (mut script, now) = interrupted("npt:loop", 9);
    storm(&mut script, "npt:loop", now);
    // 90 + 500: own code 100, events of interrupts 30, their entries 60.
    assert_eq!(
        longest(&script, "npt:loop"),
        [("unexplained", 400, 0, 400), ("own", 100, 0, 100), ("irq", 90, 60, 30)]
    );
}

#[test]
fn what_is_unexplained_bounds_the_charge() {
    let (mut script, now) = interrupted("npt:loop", 9);
    // Two interrupts within 130 ns: 30 of own code are missing to the cost of both.
    script.at(now + 10).irq(5, "eth0").at(now + 30).irq_exit(5);
    script.at(now + 40).irq(5, "eth0").at(now + 60).irq_exit(5);
    script.at(now + 150).user("npt:loop", NPT, &[]);
    assert_eq!(longest(&script, "npt:loop"), [("own", 100, 0, 100), ("irq", 50, 10, 25)]);
}

#[test]
fn where_the_cost_is_not_known_nothing_is_charged() {
    let (mut script, now) = interrupted("npt:loop", 2);
    storm(&mut script, "npt:loop", now);
    let parts = longest(&script, "npt:loop");
    assert!(
        parts.contains(&("unexplained", 460, 0, 460)) && parts.contains(&("irq", 30, 0, 10)),
        "{parts:?}"
    );
    // Other code takes as long as it likes.
    let (mut script, now) = interrupted("a:b", 9);
    storm(&mut script, "a:b", now);
    assert!(longest(&script, "a:b").iter().all(|(kind, _, entry, _)| *kind != "unexplained" && *entry == 0));
}
