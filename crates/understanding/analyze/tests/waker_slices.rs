//! Tests of a waker that waited for a CPU: it did so behind each thread that had the CPU meanwhile.

mod support;

use support::{
    HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V, explain_longest,
};

const LOW: Task = Task(41, "low", 90);
const MEDIUM: Task = Task(42, "medium", 80);
const THIRD: Task = Task(44, "third", 85);

fn sorted<const N: usize>(mut expected: [(Option<i32>, i64); N]) -> Vec<(Option<i32>, i64)> {
    expected.sort_unstable();
    expected.to_vec()
}

/// Creates a sleep of npt that `low` is to end; `meanwhile` keeps `low` from cpu0 from 1100 to 1900.
fn waited_behind(meanwhile: impl Fn(&mut Script)) -> Vec<(Option<i32>, i64)> {
    waited_in(Script::new(), meanwhile)
}

/// Does the same in a trace that begins with `script`.
fn waited_in(mut script: Script, meanwhile: impl Fn(&mut Script)) -> Vec<(Option<i32>, i64)> {
    script.at(900).cpu(0).by(IDLE).switch(IDLE, 0, LOW);
    script.at(900).cpu(1).by(IDLE).switch(IDLE, 0, NPT).user("a:b", NPT, &[]);
    script.at(1000).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(1100).cpu(0).by(LOW).switch(LOW, RUNNABLE, HOG);
    meanwhile(&mut script);
    script.at(2000).cpu(0).by(LOW).waking(NPT, 1);
    script.at(2000).cpu(1).by(IDLE).switch(IDLE, 0, NPT);
    script.at(2050).by(NPT).user("a:b", NPT, &[("id", V::I(1))]);
    let explanation = explain_longest(&script, "a:b").0;
    let links = explanation.parts.iter().flat_map(|part| &part.wakers).flat_map(|woken| &woken.chain);
    let mut waited: Vec<_> = links
        .flat_map(|link| &link.waited)
        .map(|wait| (wait.thread.as_ref().map(|thread| thread.tid.0), wait.time.0))
        .collect();
    waited.sort_unstable();
    waited
}

#[test]
fn each_thread_that_had_the_cpu_is_named() {
    let waited = waited_behind(|script| {
        script.at(1300).cpu(0).by(HOG).switch(HOG, SLEEPING, MEDIUM);
        script.at(1700).by(MEDIUM).switch(MEDIUM, RUNNABLE, HOG);
        script.at(1900).by(HOG).switch(HOG, SLEEPING, LOW);
    });
    assert_eq!(waited, sorted([(Some(HOG.0), 400), (Some(MEDIUM.0), 400)]));
}

#[test]
fn where_a_switch_is_missing_nobody_is_named_until_the_next_record() {
    let waited = waited_behind(|script| {
        script.at(1300).cpu(0).by(HOG).irq(5, "e");
        script.at(1300).irq_exit(5);
        // The hog's switch to the worker is missing.
        script.at(1500).by(KWORKER).irq(5, "e");
        script.at(1500).irq_exit(5);
        script.at(1900).by(KWORKER).switch(KWORKER, SLEEPING, LOW);
    });
    assert_eq!(waited, sorted([(None, 200), (Some(HOG.0), 200), (Some(KWORKER.0), 400)]));
}

/// The thread may have come before or after others.
#[test]
fn who_is_seen_on_an_idle_cpu_had_it_from_then_on() {
    let waited = waited_behind(|script| {
        script.at(1200).cpu(0).by(HOG).switch(HOG, SLEEPING, IDLE);
        // Switches to others, and from them to the worker, are missing.
        script.at(1800).by(KWORKER).irq(5, "e").irq_exit(5);
        script.at(1900).by(KWORKER).switch(KWORKER, SLEEPING, LOW);
    });
    assert_eq!(waited, sorted([(None, 600), (Some(HOG.0), 100), (Some(KWORKER.0), 100)]));
}

/// The scheduler prefers the waker to these threads: a limit kept it, or it was in no queue. While its CPU was idle, it
/// was throttled, and not waiting.
#[test]
fn no_waker_waits_behind_a_lower_class() {
    let ordinary = Task(43, "ordinary", 120);
    let waited = waited_behind(|script| {
        script.at(1300).cpu(0).by(HOG).switch(HOG, SLEEPING, ordinary);
        script.at(1700).by(ordinary).switch(ordinary, RUNNABLE, IDLE);
        script.at(1900).by(IDLE).switch(IDLE, RUNNABLE, LOW);
    });
    assert_eq!(waited, sorted([(None, 400), (Some(HOG.0), 200)]));
}

#[test]
fn a_waker_that_moves_waits_behind_who_has_its_new_cpu() {
    let waited = waited_behind(|script| {
        script.at(1050).cpu(2).by(IDLE).switch(IDLE, 0, MEDIUM);
        script.at(1300).cpu(0).by(HOG).migrate(LOW, 0, 2);
        script.at(1800).cpu(2).by(MEDIUM).switch(MEDIUM, SLEEPING, THIRD);
        script.at(1850).cpu(2).by(THIRD).migrate(LOW, 2, 0);
        script.at(1900).cpu(0).by(HOG).switch(HOG, SLEEPING, LOW);
    });
    assert_eq!(waited, sorted([(Some(HOG.0), 250), (Some(MEDIUM.0), 500), (Some(THIRD.0), 50)]));
}

#[test]
fn where_moves_are_not_recorded_only_the_first_is_certain() {
    let mut script = Script::of_programs();
    script.at(0).cpu(3).by(IDLE).irq(5, "e").irq_exit(5).softirq(1).softirq_exit(1);
    script.vector("local_timer").vector_exit("local_timer");
    let waited = waited_in(script, |script| {
        script.at(1300).cpu(0).by(HOG).switch(HOG, SLEEPING, THIRD);
        script.at(1900).by(THIRD).switch(THIRD, SLEEPING, LOW);
    });
    assert_eq!(waited, sorted([(None, 600), (Some(HOG.0), 200)]));
}
