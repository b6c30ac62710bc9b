//! The texts of findings. They are in `golden/`, for a reader who takes the place of the user.

#[path = "../../analyze/tests/support/mod.rs"]
mod support;

use sordino_analyze::{ExplainOptions, Findings};
use sordino_event::{Nanos, Time};
use sordino_report::{FindingsFormat, TimeFormat, headline, write_findings, write_findings_json};
use support::{HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread, WAITING, explain};

const MICRO: i64 = 1000;

const LOW: ScriptThread = ScriptThread(30, "low", 120);
const MID: ScriptThread = ScriptThread(31, "mid", 50);

fn one() -> ExplainOptions {
    ExplainOptions { longest: 1, ..ExplainOptions::default() }
}

/// Loops of 100 us on CPU 1 up to 1 ms, where one begins that the test continues.
fn loops(mut script: Script) -> Script {
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    for time in (100..=1000).step_by(100) {
        script.at(time * MICRO).cpu(1).user("npt:loop", NPT, &[]);
    }
    script
}

fn text(findings: &Findings, format: FindingsFormat) -> String {
    let mut out = Vec::new();
    write_findings(findings, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const NARROW: FindingsFormat = FindingsFormat { time: TimeFormat::Since(Time(0)), color: false, width: 80 };
const WIDE: FindingsFormat =
    FindingsFormat { time: TimeFormat::Date { offset_s: 0 }, color: false, width: 120 };

/// Asserts that the text of the findings is that of `golden/NAME.txt`.
macro_rules! assert_golden {
    ($name:literal, $findings:expr, $format:expr) => {
        let actual = text(&$findings, $format);
        assert!(actual == include_str!(concat!("golden/", $name, ".txt")), "{}:\n{actual}", $name);
    };
}

fn preempted() -> Script {
    let mut script = loops(Script::new());
    script.at(1040 * MICRO).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(2000 * MICRO).irq(36, "virtio0-input.0");
    script.at(2012 * MICRO).irq_exit(36).softirq(3);
    script.at(2015 * MICRO).irq(36, "virtio0-input.0");
    script.at(2019 * MICRO).irq_exit(36);
    script.at(2055 * MICRO).softirq_exit(3);
    script.at(5000 * MICRO).switch(HOG, SLEEPING, NPT);
    script.at(5010 * MICRO).vector("local_timer").timer(0xffff_ffff_8112_3450);
    script.at(5013 * MICRO).timer_exit();
    script.at(5014 * MICRO).vector_exit("local_timer");
    script.at(5060 * MICRO).cpu(1).user("npt:loop", NPT, &[]);
    script.at(5460 * MICRO).cpu(1).user("npt:loop", NPT, &[]);
    script
}

#[test]
fn a_preemption_with_interrupts_in_it() {
    assert_golden!(
        "preemption",
        explain(&preempted(), "npt:loop", ExplainOptions { longest: 2, ..ExplainOptions::default() }),
        NARROW
    );
    assert_golden!("preemption_wide", explain(&preempted(), "npt:loop", one()), WIDE);
}

/// A sleep in `futex` until `low` wakes the thread, which waits itself behind `mid`; then another CPU.
fn held_up() -> Script {
    let mut script = loops(Script::new());
    script.at(1010 * MICRO).cpu(1).syscall(202);
    script.at(1020 * MICRO).switch(NPT, SLEEPING, LOW);
    script.at(1200 * MICRO).switch(LOW, RUNNABLE, MID);
    script.at(4200 * MICRO).switch(MID, SLEEPING, LOW);
    script.at(4300 * MICRO).waking(NPT, 1);
    script.at(4301 * MICRO).migrate(NPT, 1, 2);
    script.at(4305 * MICRO).cpu(2).switch(IDLE, 0, NPT);
    script.at(4310 * MICRO).syscall_exit(202);
    script.at(4400 * MICRO).cpu(2).user("npt:loop", NPT, &[]);
    script
}

#[test]
fn an_inversion_of_priorities_and_a_migration() {
    assert_golden!("inversion", explain(&held_up(), "npt:loop", one()), NARROW);
}

#[test]
fn a_thread_of_lower_priority_that_runs_while_the_thread_is_in_a_call() {
    let mut script = loops(Script::new());
    script.at(1010 * MICRO).cpu(1).syscall(1);
    script.at(1020 * MICRO).switch(NPT, WAITING, KWORKER).work(0xffff_ffff_8155_0000);
    script.at(1800 * MICRO).work_exit().waking(NPT, 1);
    script.at(1810 * MICRO).switch(KWORKER, SLEEPING, NPT).syscall_exit(1);
    script.at(1850 * MICRO).user("npt:loop", NPT, &[]);
    assert_golden!("inversion_in_call", explain(&script, "npt:loop", one()), NARROW);
}

/// The fair server lets an ordinary thread run in spite of a real-time one.
#[test]
fn an_ordinary_thread_that_preempts_a_real_time_one() {
    let mut script = loops(Script::new());
    let names =
        [("address", support::V::U(0xffff_ffff_8112_3450)), ("name", support::V::T("hrtimer_wakeup"))];
    script.at(1000 * MICRO).cpu(1).kernel("sordino_statedump_symbol", &names);
    script.at(1010 * MICRO).vector("local_timer").timer(0xffff_ffff_8112_3450);
    script.at(1013 * MICRO).timer_exit();
    script.at(1014 * MICRO).vector_exit("local_timer");
    script.at(1020 * MICRO).switch(NPT, RUNNABLE, LOW);
    script.at(2020 * MICRO).switch(LOW, RUNNABLE, NPT);
    script.at(2030 * MICRO).user("npt:loop", NPT, &[]);
    let theft = [
        ("cpu", support::V::U(1)),
        ("time_ns", support::V::U(10_000_000)),
        ("window_ns", support::V::U(100_000_000)),
    ];
    script.at(50_000 * MICRO).kernel("sordino_steal", &theft);
    assert_golden!("fair_server", explain(&script, "npt:loop", one()), NARROW);
}

/// The measurement of cyclictest: a timer's interrupt wakes the thread, which waits for its CPU. Then a busy thread
/// that is throttled.
#[test]
fn a_wake_up_from_a_timer_and_a_throttled_thread() {
    let mut script = loops(Script::new());
    script.at(1010 * MICRO).cpu(1).syscall(230);
    script.at(1020 * MICRO).switch(NPT, SLEEPING, IDLE);
    script.at(1900 * MICRO).vector("local_timer").timer(0xffff_ffff_8112_3450);
    script.at(1902 * MICRO).waking(NPT, 1).timer_exit();
    script.at(1904 * MICRO).vector_exit("local_timer");
    script.at(1990 * MICRO).switch(IDLE, 0, NPT).syscall_exit(230);
    script.at(1991 * MICRO).fault(true);
    script.at(1993 * MICRO).nmi(0xffff_ffff_8100_7ff0, 1200);
    script.at(2000 * MICRO).user("npt:loop", NPT, &[]);
    script.at(2030 * MICRO).switch(NPT, RUNNABLE, IDLE);
    script.at(52_000 * MICRO).switch(IDLE, 0, NPT);
    script.at(52_070 * MICRO).user("npt:loop", NPT, &[]);
    let two = ExplainOptions { longest: 2, ..ExplainOptions::default() };
    assert_golden!("wake_up", explain(&script, "npt:loop", two), NARROW);
}

/// Records of the kernel are missing within an interval, and of the program between two ends.
fn lost() -> Script {
    let mut script = loops(Script::new());
    script.at(1100 * MICRO).cpu(1).lose_kernel(1400 * MICRO, 12);
    script.at(1500 * MICRO).vector("local_timer");
    script.at(1507 * MICRO).vector_exit("local_timer");
    script.at(1700 * MICRO).user("npt:loop", NPT, &[]);
    script.at(1710 * MICRO).lose_user(NPT, 1750 * MICRO, 3);
    script.at(1900 * MICRO).cpu(1).user("npt:loop", NPT, &[]);
    script
}

#[test]
fn lost_records() {
    assert_golden!("lost", explain(&lost(), "npt:loop", one()), NARROW);
}

#[test]
fn a_trace_of_programs_alone() {
    let mut script = Script::of_programs();
    for time in [100, 200, 300, 950, 1050] {
        script.at(time * MICRO).cpu(1).user("npt:loop", NPT, &[]);
    }
    assert_golden!("programs_alone", explain(&script, "npt:loop", ExplainOptions::default()), NARROW);
}

#[test]
fn what_is_too_much_to_show_is_added_up() {
    let mut script = loops(Script::new());
    for other in 0..20 {
        let thread = ScriptThread(200 + other, "worker", 3);
        let at = 1040 + 100 * i64::from(other);
        script.at(at * MICRO).cpu(1).switch(NPT, RUNNABLE, thread);
        script.at((at + 90) * MICRO).switch(thread, SLEEPING, NPT);
    }
    script.at(3050 * MICRO).user("npt:loop", NPT, &[]);
    let text = text(&explain(&script, "npt:loop", one()), NARROW);
    assert!(
        text.contains("#1  2.05 ms: preempted 90.0 us by worker/200 (RT 96), and 1.71 ms by 19 others\n"),
        "{text}"
    );
    // In the first table, 14 of the 20 preemptions have a line. In the second one 19 have, and the last one does, too.
    assert!(text.contains("     540 us   26.3%                  6 more causes\n"), "{text}");
    assert_eq!((text.matches("worker/219").count(), text.matches("more causes").count()), (1, 1), "{text}");
}

#[test]
fn nothing_to_explain() {
    let mut script = Script::new();
    script.at(100).cpu(1).user("a:begin", NPT, &[]).user("a:begin", NPT, &[]);
    script.at(100).cpu(1).user("a:end", HOG, &[]);
    assert_golden!("no_intervals", explain(&script, "a:begin..a:end", ExplainOptions::default()), NARROW);
    let limit = ExplainOptions { limit: Some(Nanos(1_000_000)), ..ExplainOptions::default() };
    assert_golden!("none_over_limit", explain(&loops(Script::new()), "npt:loop", limit), NARROW);
}

#[test]
fn a_headline_is_one_plain_sentence() {
    let findings = explain(&preempted(), "npt:loop", one());
    assert_eq!(headline(&findings.intervals[0]), "preempted 3.91 ms by hog/123 (RT 96)");
}

#[test]
fn colours_stand_for_headlines_inversions_and_losses_and_never_alone() {
    let color = FindingsFormat { color: true, ..NARROW };
    let held_up = text(&explain(&held_up(), "npt:loop", one()), color);
    assert!(held_up.contains("\n\x1b[1m#1  3.40 ms: "), "{held_up}");
    assert!(held_up.contains("\n\x1b[31m    priority inversion for 3.00 ms: "), "{held_up}");
    let lost = text(&explain(&lost(), "npt:loop", one()), color);
    assert!(lost.contains("\n\x1b[33m    incomplete: 12 records of the kernel lost on cpu1"), "{lost}");
}

#[test]
fn json_is_one_line_of_the_findings() {
    let findings = explain(&preempted(), "npt:loop", one());
    let mut out = Vec::new();
    write_findings_json(&findings, &mut out).unwrap();
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(out.last(), Some(&b'\n'));
    let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(read["schema"], "sordino-findings");
    assert_eq!(read["intervals"][0]["length_ns"], 4_060_000);
}
