//! Tests of records that contradict the believed state: a weaker statement is made, and never a wrong cause.

mod support;

use sordino_analyze::*;
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, ScriptThread as Task, explain_longest, loops};

/// Returns the time of the causes that `is_counted` selects.
fn time_of(explanation: &Explanation, is_counted: impl Fn(&Cause) -> bool) -> i64 {
    explanation.parts.iter().filter(|part| is_counted(&part.cause)).map(|part| part.time.0).sum()
}

/// Returns the time that the thread waited behind another one.
fn behind(explanation: &Explanation, thread: Task) -> i64 {
    let is_behind = |cause: &Cause| matches!(cause, Cause::Waiting { behind: Some(other), .. } if other.tid.0 == thread.0);
    time_of(explanation, is_behind)
}

/// Returns the links of the chain that ended the thread's sleep: the thread, the time that it ran, and all of its time.
fn chain(explanation: &Explanation) -> Vec<(i32, i64, i64)> {
    let wakers = explanation.parts.iter().flat_map(|part| &part.wakers);
    let of = |link: &Link| {
        let waited: i64 = link.waited.iter().map(|behind| behind.time.0).sum();
        (link.thread.tid.0, link.ran.0, link.ran.0 + link.slept.0 + waited)
    };
    wakers.flat_map(|woken| woken.chain.iter().map(of)).collect()
}

/// A recorded preemption must not be erased when the switch back is missing.
#[test]
fn a_preemption_is_no_own_code_where_the_switch_back_is_missing() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG);
    script.at(3000).by(NPT).irq(5, "eth0");
    script.at(3000).irq_exit(5);
    script.at(3050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert!(time_of(&explanation, |cause| *cause == Cause::Own) <= 100, "{:?}", explanation.parts);
}

/// A recorded culprit must not be replaced by the next thread that a record shows.
#[test]
fn who_is_seen_last_is_not_blamed_for_the_time_of_another() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG);
    script.at(3000).by(KWORKER).irq(5, "eth0");
    script.at(3000).irq_exit(5);
    script.at(3010).by(KWORKER).switch(KWORKER, SLEEPING, NPT);
    script.at(3050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert!(behind(&explanation, KWORKER) <= 10, "{:?}", explanation.parts);
}

/// A record shows NPT on another CPU than it waits for.
#[test]
fn a_thread_that_is_seen_on_another_cpu_does_not_wait_for_this_one() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG);
    script.at(1100).cpu(0).by(NPT).irq(5, "eth0");
    script.at(1100).irq_exit(5);
    script.at(2900).cpu(0).by(NPT).irq(5, "eth0");
    script.at(2900).irq_exit(5);
    script.at(3050).cpu(0).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert!(behind(&explanation, HOG) <= 60, "{:?}", explanation.parts);
}

/// A thread that a record shows on another CPU does not have this one any more.
#[test]
fn who_is_seen_on_another_cpu_does_not_keep_this_one() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG);
    script.at(1100).cpu(0).by(HOG).irq(5, "eth0");
    script.at(1100).irq_exit(5);
    script.at(3000).cpu(0).by(HOG).irq(5, "eth0");
    script.at(3000).irq_exit(5);
    script.at(3050).cpu(1).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert!(behind(&explanation, HOG) <= 60, "{:?}", explanation.parts);
}

/// A softirq of a thread that left without a record does not belong to the next thread.
#[test]
fn a_softirq_stays_with_the_thread_that_left() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG);
    script.at(1100).by(HOG).softirq(3);
    script.at(1200).by(KWORKER).irq(5, "eth0");
    script.at(1200).irq_exit(5); // HOG -> KWORKER is missing
    script.at(3000).by(KWORKER).switch(KWORKER, SLEEPING, NPT);
    script.at(3050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert!(
        time_of(&explanation, |cause| matches!(cause, Cause::Softirq { .. })) <= 100,
        "{:?}",
        explanation.parts
    );
}

/// The waker's activities add up to no more than the sleep.
#[test]
fn what_a_waker_did_is_no_more_than_the_sleep() {
    let mut script = loops("a:b");
    script.at(900).cpu(0).by(HOG).switch(HOG, SLEEPING, IDLE);
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(1500).cpu(1).by(IDLE).waking(HOG, 0); // HOG waits for cpu0 from 1500 at the earliest
    script.at(2000).cpu(0).by(HOG).waking(NPT, 1); // IDLE -> HOG is missing; seen(cpu0) = 900
    script.at(2000).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    let [(tid, ran, sum)] = chain(&explanation)[..] else { panic!("{explanation:?}") };
    assert!(tid == HOG.0 && sum <= 960 && ran <= 500, "{explanation:?}");
}

/// A waker that left its CPU without a record did not run meanwhile.
#[test]
fn a_waker_that_left_without_a_record_did_not_run_meanwhile() {
    let mut script = loops("a:b");
    script.at(900).cpu(0).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(1100).cpu(0).by(KWORKER).irq(5, "e");
    script.at(1100).irq_exit(5);
    script.at(1900).cpu(0).by(KWORKER).irq(5, "e");
    script.at(1900).irq_exit(5);
    script.at(2000).cpu(0).by(HOG).waking(NPT, 1);
    script.at(2000).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    let ran: i64 = chain(&explanation).iter().map(|(_, ran, _)| ran).sum();
    assert!(ran <= 200, "{explanation:?}");
}

/// Beyond the limit of remembered threads, no thread is certain to run.
#[test]
fn where_too_many_leave_without_a_record_nobody_is_certain() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    for other in 0..1100 {
        script.at(1040).by(Task(5000 + other, "x", 120)).irq(5, "e").irq_exit(5);
    }
    script.at(1050).by(HOG).irq(5, "e").irq_exit(5);
    script.at(1060).by(IDLE).irq(5, "e").irq_exit(5); // the hog leaves without a record
    script.at(1070).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(2000).cpu(0).by(IDLE).waking(NPT, 1);
    script.at(3000).cpu(1).by(HOG).switch(HOG, RUNNABLE, NPT);
    script.at(3050).user("a:b", NPT, &[]);
    let explanation = explain_longest(&script, "a:b").0;
    assert_eq!(behind(&explanation, HOG), 0, "{:?}", explanation.parts);
}

/// An NMI between the record of a switch and the switch itself names the thread that leaves.
#[test]
fn an_nmi_between_the_record_of_a_switch_and_the_switch_is_no_evidence() {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(1042).by(NPT).nmi(1, 1);
    script.at(2000).by(IDLE).waking(NPT, 1);
    script.at(2000).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    let (explanation, findings) = explain_longest(&script, "a:b");
    assert!(
        time_of(&explanation, |cause| matches!(cause, Cause::Blocked { .. })) >= 950,
        "{:?} {:?}",
        explanation.parts,
        findings.missing_switches
    );
}
