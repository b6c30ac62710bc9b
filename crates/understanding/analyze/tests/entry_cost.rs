//! Tests of the charge for entering and leaving interrupts, where its cost is known.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, NPT, RUNNABLE, Script, V, explain};

/// Creates loops of 100 ns on CPU 1, and as many with an interrupt of 10 ns that takes 30 with its entry and exit.
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

/// Returns the kinds of the parts of the longest interval, with their times, those of entries, and the longest
/// occurrences.
fn longest(script: &Script, event: &str) -> Vec<(&'static str, i64, i64, i64)> {
    let findings = explain(script, event, ExplainOptions { longest: 1, ..ExplainOptions::default() });
    let parts = findings.intervals[0].parts.iter();
    parts.map(|part| (part.cause.entry().kind, part.time.0, part.entry.0, part.longest.0)).collect()
}

/// Adds three interrupts, and 400 ns that nothing explains.
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
    // Of 90 + 500: own code 100, events of interrupts 30, their entries 60.
    assert_eq!(
        longest(&script, "npt:loop"),
        [("unexplained", 400, 0, 400), ("own", 100, 0, 100), ("irq", 90, 60, 30)]
    );
}

#[test]
fn what_is_unexplained_bounds_the_charge() {
    let (mut script, now) = interrupted("npt:loop", 9);
    // Two interrupts within 130 ns: the cost of both leaves 30 too little for own code.
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
    // Other code takes any time, and nothing was measured.
    let (mut script, now) = interrupted("a:b", 9);
    storm(&mut script, "a:b", now);
    assert!(longest(&script, "a:b").iter().all(|(kind, _, entry, _)| *kind != "unexplained" && *entry == 0));
}

/// Adds the gaps of the recorder's loop on CPU 1, of 25 ns each with an interrupt of 10; `inside` adds other events to
/// each.
fn measured(script: &mut Script, gaps: i64, inside: impl Fn(&mut Script, i64)) -> i64 {
    for gap in 0..gaps {
        let now = 100 * gap;
        script.at(now + 30).vector("local_timer").at(now + 40).vector_exit("local_timer");
        inside(script, now + 41);
        let fields = [("cpu", V::U(1)), ("time_ns", V::U(25))];
        script.at(now + 50).no_cpu().kernel("sordino_statedump_interrupted", &fields);
        script.cpu(1);
    }
    100 * gaps
}

/// Adds loops of 100 ns of other code, the longest of which has three interrupts of 10 ns and a system call of 50.
fn other_code(script: &mut Script, mut now: i64) {
    for _ in 0..20 {
        now += 100;
        script.at(now).user("a:b", NPT, &[]);
    }
    storm(script, "a:b", now);
}

fn recorder() -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).by(NPT).switch(IDLE, 0, NPT);
    script
}

#[test]
fn what_the_recorder_measured_is_charged_to_own_code() {
    let mut script = recorder();
    let now = measured(&mut script, 9, |_, _| {});
    other_code(&mut script, now);
    assert_eq!(longest(&script, "a:b"), [("own", 515, 0, 515), ("irq", 75, 45, 25)]);
}

/// A message costs 5 and a timer 15 ns.
#[test]
fn timers_and_messages_are_charged_with_their_own_costs() {
    let mut script = recorder();
    let mut now = measured(&mut script, 9, |_, _| {});
    for _ in 0..9 {
        script.at(now + 30).vector("call_function").at(now + 40).vector_exit("call_function");
        script
            .at(now + 43)
            .no_cpu()
            .kernel("sordino_statedump_interrupted", &[("cpu", V::U(1)), ("time_ns", V::U(15))]);
        script.cpu(1);
        now += 100;
    }
    let charged = |name: &str| {
        let mut script = script.clone();
        script.at(now).user("a:b", NPT, &[]);
        script.at(now + 50).vector(name).at(now + 60).vector_exit(name).at(now + 100).user("a:b", NPT, &[]);
        longest(&script, "a:b").iter().find(|part| part.0 == "vector").copied()
    };
    assert_eq!(charged("local_timer"), Some(("vector", 25, 15, 25)));
    assert_eq!(charged("call_function"), Some(("vector", 15, 5, 15)));
    assert_eq!(charged("reschedule"), Some(("vector", 15, 5, 15)));
}

#[test]
fn a_measurement_of_more_than_one_interrupt_or_of_another_thread_counts_for_nothing() {
    let charged = |inside: fn(&mut Script, i64)| {
        let mut script = recorder();
        let now = measured(&mut script, 9, inside);
        other_code(&mut script, now);
        longest(&script, "a:b").iter().any(|(_, _, entry, _)| *entry > 0)
    };
    assert!(!charged(|script, now| {
        script.at(now).irq(5, "eth0").at(now + 1).irq_exit(5);
    }));
    assert!(!charged(|script, now| {
        script.at(now).switch(NPT, RUNNABLE, HOG).at(now + 1).switch(HOG, RUNNABLE, NPT);
    }));
    assert!(charged(|_, _| {}), "one interrupt");
    // A softirq has events of its own.
    assert!(charged(|script, now| {
        script.at(now).softirq(1).at(now + 1).softirq_exit(1);
    }));
}

#[test]
fn what_was_interrupted_bounds_what_is_charged() {
    let mut script = recorder();
    let mut now = measured(&mut script, 9, |_, _| {});
    for _ in 0..20 {
        now += 100;
        script.at(now).user("a:b", NPT, &[]);
    }
    // Each interrupt follows directly upon the one before: there is no time in between.
    script.at(now).irq(5, "eth0").at(now + 100).irq_exit(5).irq(5, "eth0").at(now + 200).irq_exit(5);
    script.at(now + 201).user("a:b", NPT, &[]);
    let parts = longest(&script, "a:b");
    assert_eq!(parts.iter().map(|(_, time, ..)| time).sum::<i64>(), 201, "{parts:?}");
    assert!(parts.iter().all(|(_, _, entry, _)| *entry <= 1), "{parts:?}");
}

#[test]
fn the_longest_occurrence_is_charged_once() {
    let mut script = recorder();
    let mut now = measured(&mut script, 9, |_, _| {});
    for _ in 0..20 {
        now += 100;
        script.at(now).user("a:b", NPT, &[]);
    }
    for call in 0..3 {
        script.at(now + 30).syscall(call).at(now + 60).irq(5, "eth0").at(now + 70).irq_exit(5);
        now += 100;
        script.at(now).syscall_exit(call);
    }
    script.at(now + 10).user("a:b", NPT, &[]);
    let parts = longest(&script, "a:b");
    assert!(parts.contains(&("irq", 75, 45, 25)), "{parts:?}");
}

/// The number of interrupts is not known where there were more than are remembered.
#[test]
fn a_measurement_with_many_softirqs_counts_for_nothing() {
    let mut script = recorder();
    let many = |script: &mut Script, now: i64| {
        for number in 0..8 {
            script.at(now).softirq(number).softirq_exit(number);
        }
    };
    let now = measured(&mut script, 9, many);
    other_code(&mut script, now);
    assert!(longest(&script, "a:b").iter().all(|(_, _, entry, _)| *entry == 0));
}

/// Explains an interval of this length with ten interrupts of 10 ns, each charged with 15, among intervals of 1000 ns
/// of own code. Returns the times of own code and of the interrupts, the estimated part of that, the longest interrupt,
/// and the cause that explains the interval.
fn among_interrupts(length: i64) -> ([i64; 4], &'static str) {
    let mut script = recorder();
    let mut now = measured(&mut script, 9, |_, _| {});
    script.at(now).user("a:b", NPT, &[]);
    for _ in 0..20 {
        now += 1000;
        script.at(now).user("a:b", NPT, &[]);
    }
    for number in 0..10 {
        let at = now + 100 * number;
        script.at(at + 50).irq(5, "eth0").at(at + 60).irq_exit(5);
    }
    script.at(now + length).user("a:b", NPT, &[]);
    let findings = explain(&script, "a:b", ExplainOptions::default());
    let interval = &findings.intervals[0];
    assert_eq!(interval.length.0, length);
    let of = |kind: &str| interval.parts.iter().find(|part| part.cause.entry().kind == kind).unwrap();
    let (own, irq) = (of("own"), of("irq"));
    let ranked =
        |part: &Part| findings.ranking.iter().find(|ranked| ranked.cause == part.cause).unwrap().time;
    assert_eq!([ranked(own), ranked(irq)], [own.time, irq.time], "{:?}", findings.ranking);
    let main = interval.parts[interval.main.as_ref().unwrap().part].cause.entry().kind;
    ([own.time.0, irq.time.0, irq.entry.0, irq.longest.0], main)
}

#[test]
fn own_code_that_always_takes_the_same_shows_the_cost_of_interrupts() {
    assert_eq!(among_interrupts(1000 + 10 * 35), ([1000, 350, 250, 35], "irq"));
    assert_eq!(among_interrupts(1000 + 10 * 20), ([1000, 200, 100, 20], "irq"));
    // Interrupts do not take less than half of the measured cost.
    assert_eq!(among_interrupts(1000 + 10 * 16), ([910, 250, 150, 25], "irq"));
}

/// More than a quarter is more work, which remains own code; but interrupts may have taken up to 300 of it.
#[test]
fn own_code_is_not_the_cause_where_interrupts_may_be() {
    assert_eq!(among_interrupts(1000 + 250 + 300), ([1300, 250, 150, 25], "irq"));
    assert_eq!(among_interrupts(1000 + 250 + 540), ([1540, 250, 150, 25], "irq"));
    assert_eq!(among_interrupts(1000 + 250 + 560), ([1560, 250, 150, 25], "own"));
}
