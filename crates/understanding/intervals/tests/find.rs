//! Tests of the intervals that a rule finds.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_event::Nanos;
use sordino_intervals::{Broken, Finder, Survey, Unpaired};
use sordino_timeline::Consumer;
use std::collections::HashMap;
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread, V};

/// Returns the intervals of `rule`.
fn survey(script: &Script, rule: &str) -> Survey {
    let mut finder = Finder::new(&script.classes, rule.parse().unwrap()).unwrap();
    script.play(|item| finder.take(item));
    finder.finish()
}

/// Returns `tid begin..end` in the order of the begins.
fn intervals(survey: &Survey) -> Vec<String> {
    let mut intervals = survey.longest.clone();
    intervals.sort();
    intervals.iter().map(|found| format!("{} {}..{}", found.tid, found.begin.0, found.end.0)).collect()
}

#[test]
fn a_chain_is_kept_for_each_thread() {
    let mut script = Script::of_programs();
    for (time, thread) in [(1, NPT), (2, HOG), (4, NPT), (8, HOG), (16, NPT)] {
        script.at(time).cpu(0).user("t:e", thread, &[]);
    }
    let survey = survey(&script, "t:e");
    assert_eq!(intervals(&survey), ["10 1..4", "123 2..8", "10 4..16"]);
    assert_eq!((survey.unpaired, survey.statistics.count), (Unpaired::default(), 3));
    assert_eq!((survey.statistics.min, survey.statistics.max), (Nanos(3), Nanos(12)));
}

#[test]
fn a_switch_ends_the_interval_of_the_thread_that_comes_and_others_can_be_left_out() {
    let mut script = Script::new();
    script.at(1).cpu(0).switch(IDLE, 0, HOG);
    script.at(2).waking(NPT, 0);
    script.at(5).switch(HOG, SLEEPING, NPT);
    script.at(6).waking(HOG, 0);
    script.at(9).switch(NPT, SLEEPING, HOG);
    let rule = "sched_waking@tid..sched_switch@next_tid";
    assert_eq!(intervals(&survey(&script, rule)), ["10 2..5", "123 6..9"]);
    let mut finder = Finder::new(&script.classes, rule.parse().unwrap()).unwrap();
    finder =
        finder.only(Box::new(|moment, tid| moment.system.comm(tid).is_some_and(|comm| &**comm == "hog")));
    script.play(|item| finder.take(item));
    assert_eq!(intervals(&finder.finish()), ["123 6..9"]);
}

#[test]
fn begins_and_ends_without_a_partner_are_counted() {
    let mut script = Script::of_programs();
    let begins = |time| (time, "t:begin");
    let ends = |time| (time, "t:end");
    for (time, name) in [ends(1), begins(2), begins(3), ends(5), ends(6), begins(9)] {
        script.at(time).cpu(0).user(name, NPT, &[]);
    }
    let survey = survey(&script, "t:begin..t:end");
    assert_eq!(intervals(&survey), ["10 3..5"]);
    assert_eq!(survey.unpaired, Unpaired { begins: 2, ends: 2, ..Unpaired::default() });
}

#[test]
fn a_field_pairs_across_threads() {
    let mut script = Script::of_programs();
    let mut event = |time, name, thread, id| {
        script.at(time).cpu(0).user(name, thread, &[("id", id)]);
    };
    event(1, "net:in", NPT, V::I(7));
    event(2, "net:in", NPT, V::U(8));
    event(3, "net:in", NPT, V::T("seven"));
    event(4, "net:out", HOG, V::U(7));
    event(6, "net:out", HOG, V::T("seven"));
    event(9, "net:out", NPT, V::I(8));
    let survey = survey(&script, "net:in@id..net:out@id");
    assert_eq!(intervals(&survey), ["123 1..4", "10 2..9", "123 3..6"]);
}

#[test]
fn the_cpu_pairs_what_happens_on_it() {
    let mut script = Script::new();
    script.at(0).cpu(0).switch(IDLE, 0, NPT).cpu(1).switch(IDLE, 0, HOG);
    script.at(1).cpu(0).irq(5, "x");
    script.at(2).cpu(1).irq(6, "y");
    script.at(4).cpu(0).irq_exit(5);
    script.at(8).cpu(1).irq_exit(6);
    let survey = survey(&script, "irq_handler_entry@$cpu..irq_handler_exit@$cpu");
    assert_eq!(intervals(&survey), ["10 1..4", "123 2..8"]);
}

#[test]
fn what_has_no_key_or_no_thread_is_counted() {
    let mut script = Script::new();
    // The running thread of these CPUs is unknown, or the idle one.
    script.at(1).cpu(0).irq(5, "x");
    script.at(2).cpu(0).irq_exit(5);
    script.at(3).cpu(1).switch(HOG, RUNNABLE, IDLE);
    script.at(4).cpu(1).irq(5, "x");
    script.at(5).cpu(1).irq_exit(5);
    let by_cpu = survey(&script, "irq_handler_entry@$cpu..irq_handler_exit@$cpu");
    assert_eq!(by_cpu.unpaired, Unpaired { without_thread: 2, ..Unpaired::default() });
    let by_thread = survey(&script, "irq_handler_entry..irq_handler_exit");
    assert_eq!(by_thread.unpaired, Unpaired { without_key: 2, without_thread: 1, ..Unpaired::default() });
}

#[test]
fn pairs_that_span_lost_records_of_their_program_are_set_apart() {
    let lossy = |cpu, thread: ScriptThread| {
        let mut script = Script::of_programs();
        script.at(10).cpu(1).user("t:e", NPT, &[]);
        script.at(20).cpu(cpu).lose_user(thread, 30, 4);
        script.at(40).cpu(1).user("t:e", NPT, &[]);
        script.at(50).cpu(1).user("t:e", NPT, &[]);
        let survey = survey(&script, "t:e");
        (intervals(&survey).len(), survey.broken)
    };
    assert_eq!(lossy(1, NPT), (1, Broken { count: 1, longest: Nanos(30) }));
    // The loss is in another program's ring, or in that of another CPU.
    assert_eq!(lossy(1, HOG), (2, Broken::default()));
    assert_eq!(lossy(0, NPT), (2, Broken::default()));
}

#[test]
fn a_loss_that_touches_an_interval_does_not_break_it() {
    let mut script = Script::of_programs();
    script.at(10).cpu(1).user("t:e", NPT, &[]);
    script.at(20).cpu(1).user("t:e", NPT, &[]);
    script.at(20).lose_user(NPT, 30, 4);
    script.at(30).cpu(1).user("t:e", NPT, &[]);
    script.at(40).cpu(1).user("t:e", NPT, &[]);
    let survey = survey(&script, "t:e");
    assert_eq!(intervals(&survey), ["10 10..20", "10 30..40"]);
    assert_eq!(survey.broken.count, 1);
}

#[test]
fn begins_that_never_end_do_not_fill_the_memory() {
    const BEGINS: i64 = (1 << 20) + 10;
    let mut script = Script::of_programs();
    for id in 0..BEGINS {
        script.at(id).cpu(0).user("t:begin", NPT, &[("id", V::I(id))]);
    }
    // The older half is dropped; the others still find their ends.
    for id in [3, BEGINS - 1] {
        script.at(BEGINS).user("t:end", NPT, &[("id", V::I(id))]);
    }
    let survey = survey(&script, "t:begin@id..t:end@id");
    assert_eq!(intervals(&survey), [format!("10 {}..{BEGINS}", BEGINS - 1)]);
    assert_eq!((survey.unpaired.begins, survey.unpaired.ends), (BEGINS.unsigned_abs() - 1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The expected begin of an end is the latest begin of the same key, if no end came in between.
    #[test]
    fn pairing_is_what_a_map_does(events in proptest::collection::vec((0i64..4, any::<bool>(), 0i64..3), 0..60)) {
        let mut script = Script::of_programs();
        for name in ["t:begin", "t:end"] {
            script.at(-1).user(name, NPT, &[("id", V::I(-1))]);
        }
        let (mut time, mut open, mut expected) = (0, HashMap::new(), Vec::new());
        let (mut begins, mut ends) = (0, 0);
        for (step, begin, id) in events {
            time += step;
            if begin {
                begins += u64::from(open.insert(id, time).is_some());
                script.at(time).user("t:begin", NPT, &[("id", V::I(id))]);
            } else {
                match open.remove(&id) {
                    Some(from) => expected.push((from, time)),
                    None => ends += 1,
                }
                script.at(time).user("t:end", NPT, &[("id", V::I(id))]);
            }
        }
        begins += open.len() as u64;
        let survey = survey(&script, "t:begin@id..t:end@id");
        let mut found: Vec<_> = survey.longest.iter().map(|found| (found.begin.0, found.end.0)).collect();
        found.retain(|(begin, _)| *begin >= 0);
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        prop_assert_eq!((survey.unpaired.begins, survey.unpaired.ends), (begins, ends));
    }
}
