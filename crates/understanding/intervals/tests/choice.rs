//! Tests of the intervals that are chosen where the user names none.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_intervals::*;
use sordino_timeline::Consumer;
use support::{HOG, NPT, Script, V};

fn census(script: &Script) -> Result<(IntervalRule, Choice), Vec<Other>> {
    let mut census = Census::new(&script.classes);
    script.play(|item| census.take(item));
    census.choose()
}

/// Returns the chosen rule, the reason, and the others, in text form.
fn choice(script: &Script) -> (String, Why, Vec<(String, u64)>) {
    let (rule, Choice { why, others }) = census(script).unwrap();
    let others = others.iter().map(|other| (other.rule.to_string(), other.intervals)).collect();
    (rule.to_string(), why, others)
}

/// Adds `count` hits of each of these events by one thread, each `step` after the one before.
fn hits(script: &mut Script, count: i64, step: i64, names: &[&str]) {
    for cycle in 0..count {
        for (place, name) in (0..).zip(names) {
            script.at(cycle * step + place).cpu(1).user(name, NPT, &[]);
        }
    }
}

#[test]
fn a_regular_loop_goes_before_a_burst_that_is_hit_more_often() {
    let mut script = Script::of_programs();
    for cycle in 0..50 {
        script.at(cycle * 1_000_000).cpu(1).user("motor:period", NPT, &[]);
        for axis in 1..6 {
            script.at(cycle * 1_000_000 + axis * 100).cpu(1).user("motor:axis", NPT, &[]);
        }
    }
    let (rule, why, others) = choice(&script);
    assert_eq!((&*rule, why), ("motor:period", Why::Regular));
    assert_eq!(others, [("motor:axis".to_owned(), 249)]);
}

#[test]
fn names_that_belong_together_are_a_pair_of_one_thread() {
    let mut script = Script::of_programs();
    hits(&mut script, 20, 1000, &["work:step_begin", "work:step_end", "other:end"]);
    let (rule, why, others) = choice(&script);
    assert_eq!((&*rule, why), ("work:step_begin..work:step_end", Why::Pair));
    assert_eq!(others, [("other:end".to_owned(), 19)]);
}

#[test]
fn a_pair_across_threads_is_paired_by_a_field_that_both_have() {
    let mut script = Script::of_programs();
    for item in 0..9_u64 {
        let at = 1000 * item.cast_signed();
        script.at(at).cpu(0).user("queue:put", NPT, &[("name", V::U(0)), ("item", V::U(item))]);
        script.at(at + 100).cpu(1).user("queue:get", HOG, &[("item", V::U(item)), ("left", V::U(0))]);
    }
    let (rule, why, _) = choice(&script);
    assert_eq!((&*rule, why), ("queue:put@item..queue:get@item", Why::Pair));
}

#[test]
fn requests_of_one_thread_that_overlap_are_paired_by_the_field_that_tells_them_apart() {
    let mut script = Script::of_programs();
    let fields = |id: u64| [("length", V::U(64)), ("id", V::U(id)), ("$ctx.vtid", V::U(10))];
    for id in 0..20_u64 {
        let at = 1000 * id.cast_signed();
        script.at(at).cpu(0).user("net:request", NPT, &fields(id));
        // Two requests overlap: this one ends after the next has begun.
        script.at(at + 1100).cpu(0).user("net:answer", NPT, &fields(id));
    }
    let (rule, why, _) = choice(&script);
    assert_eq!((&*rule, why), ("net:request@id..net:answer@id", Why::Pair));
}

#[test]
fn fields_that_tell_nothing_apart_leave_the_pair_to_the_thread() {
    let mut script = Script::of_programs();
    for cycle in 0..20 {
        for (place, thread) in (0..).zip([NPT, HOG]) {
            let fields = [("length", V::U(64)), ("step", V::U(cycle))];
            script.at(1000 * cycle.cast_signed() + place).cpu(0).user("work:begin", thread, &fields);
            script.at(1000 * cycle.cast_signed() + 500 + place).cpu(0).user("work:end", thread, &fields);
        }
    }
    assert_eq!(choice(&script).0, "work:begin..work:end");
}

#[test]
fn names_alone_are_no_pair_where_nothing_tells_which_belong_together() {
    let mut script = Script::of_programs();
    for cycle in 0..20 {
        script.at(1000 * cycle).cpu(0).user("queue:put", NPT, &[("length", V::U(7)), ("$ctx.vpid", V::U(1))]);
        script.at(1000 * cycle + 10).cpu(0).user(
            "queue:put",
            NPT,
            &[("length", V::U(7)), ("$ctx.vpid", V::U(1))],
        );
        for at in [20, 30] {
            script.at(1000 * cycle + at).cpu(1).user("queue:get", HOG, &[("$ctx.vpid", V::U(1))]);
        }
    }
    let (rule, why, others) = choice(&script);
    assert_eq!((&*rule, why), ("queue:get", Why::Frequent));
    assert_eq!(others, [("queue:put".to_owned(), 39)]);
}

#[test]
fn a_pair_that_is_rare_beside_a_loop_is_one_of_the_others() {
    let mut script = Script::of_programs();
    hits(&mut script, 2, 1000, &["log:open", "log:close"]);
    for cycle in 10..40 {
        script.at(cycle * 1000).cpu(1).user("motor:period", NPT, &[]);
    }
    let (rule, why, others) = choice(&script);
    assert_eq!((&*rule, why), ("motor:period", Why::Regular));
    assert_eq!(others, [("log:open..log:close".to_owned(), 2)]);
}

#[test]
fn without_rhythm_the_most_frequent_event_of_one_thread_is_chosen_and_equals_go_by_name() {
    let mut script = Script::of_programs();
    hits(&mut script, 3, 1000, &["b:one", "a:one"]);
    assert_eq!(choice(&script), ("a:one".to_owned(), Why::Frequent, vec![("b:one".to_owned(), 2)]));
}

#[test]
fn nothing_is_chosen_of_events_that_make_no_interval() {
    let mut script = Script::of_programs();
    script.at(0).cpu(1).user("motor:starts", NPT, &[]);
    script.at(1).cpu(1).user("sordino:context", NPT, &[]);
    script.at(2).cpu(1).user("sordino:context", NPT, &[]);
    assert_eq!(census(&script), Err(Vec::new()));
}

#[test]
fn the_kernels_pairs_are_named_where_there_is_nothing_else() {
    let mut script = Script::new();
    for time in [10, 20, 30] {
        script.at(time).cpu(1).switch(HOG, 0, NPT).irq(7, "eth0");
        script.at(time + 5).irq_exit(7);
    }
    let others = census(&script).unwrap_err();
    let names: Vec<_> = others.iter().map(|other| (other.rule.to_string(), other.intervals)).collect();
    assert_eq!(names, [("irq_handler_entry..irq_handler_exit".to_owned(), 3)]);
}
