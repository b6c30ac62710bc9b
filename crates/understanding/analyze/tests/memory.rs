//! The memory of an explanation does not grow with the number of intervals.

#[path = "../../../../testdata/allocations.rs"]
mod allocations;
mod support;

use allocations::peak_of;
use sordino_analyze::{ExplainOptions, Explainer};
use sordino_intervals::Finder;
use sordino_timeline::Consumer;
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, V};

/// The number of intervals in a round, and the length of a round in nanoseconds.
const INTERVALS: i64 = 100;
const ROUND: i64 = 100_000;

/// Creates loops of different lengths, one in ten of which is interrupted, preempted, signalled, has a page fault, or
/// sleeps on a futex or for a timer.
fn loops() -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, NPT);
    let mut now = 0;
    for number in 0..INTERVALS {
        script.at(now + 1).cpu(1).by(NPT);
        match number {
            10 => _ = script.vector("local_timer").at(now + 20).vector_exit("local_timer"),
            20 => _ = script.switch(NPT, RUNNABLE, HOG).at(now + 40).switch(HOG, SLEEPING, NPT),
            30 => {
                script.futex_of(1, 128, 2).switch(NPT, SLEEPING, IDLE);
                script.at(now + 50).cpu(0).by(HOG).futex_of(1, 129, 1).waking(NPT, 1);
                script.at(now + 60).cpu(1).by(IDLE).switch(IDLE, 0, NPT);
            }
            40 => {
                script.timer_start(7, [now, now]).switch(NPT, SLEEPING, IDLE);
                script.at(now + 50).by(IDLE).vector("local_timer").timer_of(7, now + 50).waking(NPT, 1);
                script.vector_exit("local_timer").switch(IDLE, 0, NPT);
            }
            50 => _ = script.signal(10, NPT).delivered(10, 1),
            60 => _ = script.fault(true),
            _ => {}
        }
        now += 100 + 37 * (number % 11);
        script.at(now).cpu(1).by(NPT).user("motor:period", NPT, &[]);
    }
    script.at(ROUND - 1).switch(NPT, SLEEPING, IDLE);
    script
}

/// Creates requests that npt begins and the hog ends, with a step in between.
fn requests() -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, NPT);
    for number in 0..INTERVALS {
        let (now, id) = (number * 900, [("id", V::I(number))]);
        script.at(now).user("net:request", NPT, &id).at(now + 100).user("net:step", HOG, &id);
        script.at(now + 300 + number).user("net:answer", HOG, &id);
    }
    script.at(ROUND - 1).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script
}

/// Returns the number of intervals of a rule in this many rounds, and the most bytes that were allocated at once.
fn peak(script: &Script, rule: &str, rounds: i64) -> (u64, isize) {
    peak_of(|| {
        let mut finder = Finder::new(&script.classes, rule.parse().unwrap()).unwrap();
        script.play_rounds(rounds, ROUND, |item| finder.take(item));
        let recorded = sordino_timeline::Vocabulary::new(&script.classes).recorded();
        let mut explainer = Explainer::new(finder.finish(), recorded, ExplainOptions::default());
        script.play_rounds(rounds, ROUND, |item| explainer.take(item));
        explainer.finish().statistics.count
    })
}

/// Asserts that a recording several times as long takes the same memory. The longest 100,000 intervals are kept, so the
/// shorter one has more.
fn assert_bounded(script: &Script, rule: &str, times: i64) {
    let (short, long) = (peak(script, rule, 1_050), peak(script, rule, 1_050 * times));
    let are_so_many = short.0 > 100_000 && long.0 * 10 > short.0 * (10 * times.cast_unsigned() - 1);
    assert!(are_so_many, "{rule}: {} and {} intervals", short.0, long.0);
    assert!(long.1 < short.1 + short.1 / 50, "{rule}: {} and {} bytes", short.1, long.1);
}

#[test]
fn ten_times_the_intervals_take_the_same_memory() {
    assert_bounded(&loops(), "motor:period", 10);
}

#[test]
fn twice_the_requests_take_the_same_memory() {
    assert_bounded(&requests(), "net:request@id..net:answer@id", 2);
}
