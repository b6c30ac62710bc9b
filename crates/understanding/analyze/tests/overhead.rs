//! Explanations without the time that recording took.

mod support;

use sordino_analyze::*;
use sordino_event::{EventCosts, Nanos};
use support::{
    HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread, explain, explain_longest, loops, name, parts,
};

/// The costs of events: 10 ns of a program's, 20 ns of one of the kernel.
const COSTS: EventCosts = EventCosts { user: Some(10_000), kernel: Some(20_000) };

/// Returns the explanation of the interval that begins at 1000, and its overhead.
fn last(script: &mut Script) -> (Explanation, Nanos) {
    script.costs = Some(COSTS);
    let findings = explain(script, "npt:loop", ExplainOptions::default());
    for explanation in &findings.intervals {
        let sum: Nanos = explanation.parts.iter().map(|part| part.time).sum();
        let interval = &explanation.interval;
        assert_eq!(sum, explanation.length, "{explanation:?}");
        assert_eq!(sum + interval.overhead, interval.end - interval.begin, "{explanation:?}");
    }
    assert_eq!(findings.statistics.median, Nanos(90), "each loop has one event");
    let longest = findings.intervals.into_iter().next().unwrap();
    let overhead = longest.interval.overhead;
    (longest, overhead)
}

#[test]
fn each_part_is_shorter_by_the_events_that_were_recorded_in_it() {
    let mut script = loops("npt:loop");
    script.at(2000).cpu(1).irq(36, "virtio0");
    script.at(2100).irq_exit(36);
    script.at(3000).user("motor:step", NPT, &[]);
    script.at(5000).user("npt:loop", NPT, &[]);
    let (explanation, overhead) = last(&mut script);
    assert_eq!(overhead, Nanos(10 + 20 + 20 + 10));
    assert_eq!(parts(&explanation), ["unexplained 3770 1", "own 90", "irq 36 virtio0 80 1"]);
    assert_eq!(explanation.length, Nanos(3940));
}

#[test]
fn events_of_others_do_not_shorten_a_wait_for_them_or_a_sleep() {
    let mut script = loops("npt:loop");
    script.at(1040).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(2000).user("hog:step", HOG, &[]);
    script.at(3000).switch(HOG, RUNNABLE, NPT);
    script.at(3010).switch(NPT, SLEEPING, HOG);
    script.at(3500).user("hog:step", HOG, &[]);
    script.at(4000).waking(NPT, 1);
    script.at(4000).switch(HOG, RUNNABLE, NPT);
    script.at(5000).user("npt:loop", NPT, &[]);
    let (explanation, overhead) = last(&mut script);
    assert_eq!(overhead, Nanos(10), "the begin");
    let time = |of: &str| {
        let part = explanation.parts.iter().find(|part| name(&part.cause).starts_with(of));
        part.map(|part| part.time.0)
    };
    assert_eq!((time("preempted"), time("blocked")), (Some(1960), Some(990)), "{:?}", parts(&explanation));
}

#[test]
fn without_costs_nothing_is_subtracted() {
    let mut script = loops("npt:loop");
    script.at(5000).cpu(1).user("npt:loop", NPT, &[]);
    let findings = explain(&script, "npt:loop", ExplainOptions::default());
    assert!(findings.intervals.iter().all(|explanation| explanation.interval.overhead.is_zero()));
    assert_eq!(findings.intervals[0].length, Nanos(4000));
}

#[test]
fn a_blocked_fiber_keeps_its_time_and_its_waker() {
    const POOL: ScriptThread = ScriptThread(21, "pool", 120);
    let mut script = Script::new();
    script.costs = Some(COSTS);
    script.of(20).at(0).cpu(0).switch(IDLE, 0, POOL).fiber_enter(POOL);
    script.fiber_new(POOL, 1, "").fiber_new(POOL, 2, "").fiber_switch(POOL, 0, 1, 5);
    script.at(100).user("app:begin", POOL, &[]);
    // Blocked on something.
    script.at(200).fiber_switch(POOL, 1, 2, 3);
    script.at(300).user("app:other", POOL, &[]);
    script.at(700).fiber_wake(POOL, 1, 2);
    script.at(700).fiber_switch(POOL, 2, 1, 1);
    script.at(900).user("app:step", POOL, &[]);
    script.at(1000).user("app:end", POOL, &[]);
    let (explanation, _) = explain_longest(&script, "app:begin..app:end");
    assert_eq!(explanation.interval.overhead, Nanos(20), "the begin and the step");
    let blocked = explanation.parts.iter().find(|part| matches!(part.cause, Cause::FiberBlocked { .. }));
    let blocked = blocked.unwrap_or_else(|| panic!("{explanation:?}"));
    assert_eq!(blocked.time, Nanos(500));
    assert_eq!(blocked.wakers.iter().map(|woken| woken.time).collect::<Vec<_>>(), [Nanos(500)]);
}
