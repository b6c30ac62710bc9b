//! Tests of usual times: an interval is explained by the part that took longer than usual, and not by the one that
//! takes most of each.

mod support;

use sordino_analyze::*;
use sordino_event::Nanos;
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, explain};

const RULE: &str = "motor:period";
/// The number of `clock_nanosleep`.
const SLEEP: i64 = 230;

/// A thread that sleeps 900 of 1000 ns in each period, and its present time.
struct PeriodicThread {
    script: Script,
    now: i64,
}

impl PeriodicThread {
    fn new() -> Self {
        let mut script = Script::new();
        script.at(0).cpu(1).switch(IDLE, 0, NPT);
        let mut periods = Self { script, now: 0 };
        (0..20).for_each(|_| periods.period(0, 900, 0));
        periods
    }

    /// Adds a period with additional own code, then a sleep, then time behind another thread.
    fn period(&mut self, own: i64, sleep: i64, behind: i64) {
        let Self { script, now } = self;
        script.at(*now).cpu(1).user(RULE, NPT, &[]);
        let asleep = *now + 90 + own;
        script.at(asleep).syscall(SLEEP);
        script.at(asleep).switch(NPT, SLEEPING, if behind > 0 { HOG } else { IDLE });
        script.at(asleep + sleep).vector("local_timer");
        script.at(asleep + sleep).waking(NPT, 1);
        script.at(asleep + sleep).vector_exit("local_timer");
        let awake = asleep + sleep + behind;
        script.at(awake).switch(if behind > 0 { HOG } else { IDLE }, RUNNABLE, NPT);
        script.at(awake).syscall_exit(SLEEP);
        *now = awake + 10;
    }

    fn explain(mut self, options: ExplainOptions) -> Findings {
        self.script.at(self.now).cpu(1).user(RULE, NPT, &[]);
        explain(&self.script, RULE, options)
    }
}

/// Returns the part by which an interval is explained: its cause, its time, its usual time, and the excess.
fn main(explanation: &Explanation) -> (&Cause, i64, i64, Option<i64>) {
    let main = explanation.main.as_ref().unwrap();
    let Part { cause, time, usual, .. } = &explanation.parts[main.part];
    (cause, time.0, usual.0, main.excess.map(|excess| excess.0))
}

#[test]
fn the_sleep_of_each_period_explains_none() {
    let mut periods = PeriodicThread::new();
    periods.period(300, 900, 0);
    periods.period(0, 900, 700);
    periods.period(0, 1500, 0);
    let findings = periods.explain(ExplainOptions { longest: 3, ..ExplainOptions::default() });
    let [behind, sleep, own] = &findings.intervals[..] else { panic!("{findings:?}") };
    let (cause, time, usual, excess) = main(behind);
    assert!(
        matches!(cause, Cause::Waiting { behind: Some(thread), .. } if thread.tid.0 == HOG.0),
        "{cause:?}"
    );
    assert_eq!((time, usual, excess), (700, 0, Some(700)));
    let (cause, time, usual, excess) = main(sleep);
    assert!(matches!(cause, Cause::Blocked { .. }), "{cause:?}");
    assert_eq!((time, usual, excess), (1500, 900, Some(600)));
    assert_eq!(main(own), (&Cause::Own, 400, 100, Some(300)));
}

#[test]
fn all_that_is_unusual_is_ranked_by_its_excess() {
    let mut periods = PeriodicThread::new();
    periods.period(300, 900, 0);
    periods.period(0, 900, 700);
    // None of them is twice as long as the others.
    let findings = periods.explain(ExplainOptions::default());
    assert_eq!((findings.ranked, findings.limit), (2, Nanos(1020)));
    let ranking: Vec<_> = findings.ranking.iter().map(|ranked| (ranked.excess.0, ranked.time.0)).collect();
    assert_eq!(ranking, [(700, 700), (300, 500), (0, 1800)]);
    assert_eq!(findings.ranking[1].cause, Cause::Own);
}

#[test]
fn an_interval_like_the_others_is_explained_by_what_takes_most() {
    let findings = PeriodicThread::new().explain(ExplainOptions { longest: 1, ..ExplainOptions::default() });
    let (cause, time, usual, excess) = main(&findings.intervals[0]);
    assert!(matches!(cause, Cause::Blocked { .. }), "{cause:?}");
    assert_eq!((time, usual, excess), (900, 900, None));
}

/// There are two periodic threads: the slow one's sleep explains nothing.
#[test]
fn what_is_usual_is_another_thing_for_each_thread() {
    let mut script = Script::new();
    let slow = Task(11, "slow", 4);
    for number in 0..200 {
        script.at(number * 1000).cpu(0).user(RULE, NPT, &[]);
    }
    script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, slow);
    for number in 0..20 {
        let begin = number * 10_000;
        let late = if number == 10 { 700 } else { 0 };
        script.at(begin).cpu(1).user(RULE, slow, &[]);
        script.at(begin + 90).cpu(1).by(slow).syscall(SLEEP).switch(
            slow,
            SLEEPING,
            if late > 0 { HOG } else { IDLE },
        );
        script.at(begin + 9000).cpu(0).by(NPT).waking(slow, 1);
        script
            .at(begin + 9000 + late)
            .cpu(1)
            .by(if late > 0 { HOG } else { IDLE })
            .switch(if late > 0 { HOG } else { IDLE }, RUNNABLE, slow)
            .by(slow)
            .syscall_exit(SLEEP);
    }
    script.at(200_000).cpu(1).user(RULE, slow, &[]);
    let findings = explain(&script, RULE, ExplainOptions { longest: 1, ..ExplainOptions::default() });
    let explanation = &findings.intervals[0];
    assert!(
        main(explanation).3.is_none(),
        "an ordinary interval of slow: {:?} ranked {}",
        main(explanation),
        findings.ranked
    );
}

/// Each period waits 100 behind another thread; the one whose own code took 90 longer is explained by that.
#[test]
fn a_usual_wait_behind_another_thread_each_time_explains_none() {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    let mut now = 0;
    for number in 0..30 {
        let own = if number == 20 { 90 } else { 0 };
        let other = Task(1000 + number, "kworker/u", 120);
        script.at(now).cpu(1).user(RULE, NPT, &[]);
        script.at(now + 400 + own).by(NPT).switch(NPT, RUNNABLE, other);
        script.at(now + 500 + own).by(other).switch(other, SLEEPING, NPT);
        now += 1000 + own;
    }
    script.at(now).cpu(1).user(RULE, NPT, &[]);
    let findings = explain(&script, RULE, ExplainOptions { longest: 1, ..ExplainOptions::default() });
    assert_eq!(main(&findings.intervals[0]).0, &Cause::Own, "{:?}", main(&findings.intervals[0]));
}

/// The parts of one cause share its usual time.
#[test]
fn what_is_usual_is_shared_by_the_parts_of_one_cause() {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    let mut now = 0;
    for number in 0..30 {
        let own = if number == 20 { 30 } else { 0 };
        script.at(now).cpu(1).user(RULE, NPT, &[]);
        script.at(now + 400 + own).by(NPT).switch(NPT, RUNNABLE, HOG);
        script.at(now + 460 + own).by(HOG).switch(HOG, SLEEPING, NPT);
        script.at(now + 500 + own).by(NPT).syscall(0).switch(NPT, RUNNABLE, HOG);
        script.at(now + 540 + own).by(HOG).switch(HOG, SLEEPING, NPT).by(NPT).syscall_exit(0);
        now += 1000 + own;
    }
    script.at(now).cpu(1).user(RULE, NPT, &[]);
    let findings = explain(&script, RULE, ExplainOptions { longest: 1, ..ExplainOptions::default() });
    assert_eq!(main(&findings.intervals[0]).0, &Cause::Own, "{:?}", main(&findings.intervals[0]));
}

#[test]
fn of_intervals_that_are_alike_the_longest_few_are_ranked() {
    let mut script = Script::new();
    for number in 0..5000 {
        script.at(number * 100).cpu(1).user(RULE, NPT, &[]);
    }
    let findings = explain(&script, RULE, ExplainOptions::default());
    assert!(findings.ranked <= 1001, "{} over {:?}", findings.ranked, findings.limit);
}

/// An interval is 1 ns longer than all the others.
#[test]
fn a_thousandth_is_no_difference() {
    let mut periods = PeriodicThread::new();
    periods.period(1, 900, 0);
    let findings = periods.explain(ExplainOptions { longest: 1, ..ExplainOptions::default() });
    assert!(main(&findings.intervals[0]).3.is_none(), "{:?}", main(&findings.intervals[0]));
}

/// There are one longer and one shorter sleep: the longer one is excess.
#[test]
fn a_shorter_sleep_does_not_make_up_for_a_longer_one() {
    let mut periods = PeriodicThread::new();
    periods.period(0, 1500, 0);
    periods.period(900, 300, 0);
    let findings = periods.explain(ExplainOptions::default());
    let blocked =
        findings.ranking.iter().find(|ranked| matches!(ranked.cause, Cause::Blocked { .. })).unwrap();
    assert!(blocked.excess.0 >= 600, "{blocked:?}");
}
