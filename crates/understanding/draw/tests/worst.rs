//! The largest page: as many intervals, lanes, marks, arrows, losses and letters as a recording can have.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use sordino_analyze::{ExplainOptions, Explainer};
use sordino_draw::{ReportPage, page};
use sordino_event::{Nanos, Pid, Tid, Time};
use sordino_intervals::{Interval, SurveyBuilder};
use sordino_lanes::{Lanes, Painter, Window};
use sordino_report::{FindingsFormat, FindingsText, TimeFormat};
use sordino_timeline::{Consumer, Vocabulary};
use support::{IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread, V};

/// Intervals on a page, the CPUs and the threads of the machine, and the rounds of its work, each of so many
/// nanoseconds.
const INTERVALS: i64 = 20;
const CPUS: u32 = 40;
const THREADS: i32 = 60;
const FIBERS: u64 = 30;
const ROUNDS: i64 = 80;
const ROUND: i64 = 100_000;
/// The maximum size of a page.
const LARGEST: usize = 2_000_000;

/// A name that lives as long as the tests.
fn name(text: &str, number: impl std::fmt::Display) -> &'static str {
    Box::leak(format!("{text}{number}").into_boxed_str())
}

/// Returns a trace in which every CPU is busy with threads and nested interrupts, npt's thread executes fibers, all hit
/// tracepoints, and records are lost. All names begin with `text`.
fn trace(text: &str) -> Script {
    let threads: Vec<ScriptThread> =
        (0..THREADS).map(|number| ScriptThread(100 + number, name(text, number), 120)).collect();
    let (irq, event) = (name(text, "irq"), name(text, ":event"));
    let mut script = Script::new();
    script.at(10).cpu(0).by(NPT).switch(IDLE, 0, NPT).fiber_enter(NPT);
    (1..=FIBERS).for_each(|fiber| _ = script.fiber_new(NPT, fiber, name(text, fiber)));
    let mut running = vec![IDLE; CPUS as usize];
    running[0] = NPT;
    let mut on = 0;
    for round in 0..ROUNDS {
        let begin = 1000 + round * ROUND;
        for cpu in 0..CPUS {
            // Interrupts with time between them.
            let at = begin + i64::from(cpu) * 7;
            let has = running[cpu as usize];
            script.cpu(cpu).by(has).at(at).irq(36, irq).at(at + 900).softirq(3).at(at + 1000);
            script.vector("local_timer").at(at + 2000).vector_exit("local_timer");
            script.at(at + 2500).softirq_exit(3).at(at + 3000).irq_exit(36);
            let next = match cpu {
                0 => NPT,
                _ => threads[(round as usize * 7 + cpu as usize) % threads.len()],
            };
            script.at(at + 5000).waking(next, cpu.into());
            if cpu > 0 {
                script.at(at + 6000).switch(has, [RUNNABLE, SLEEPING][round as usize % 2], next);
                script.at(at + 7000).by(next).user(event, next, &[("n", V::U(1))]);
                running[cpu as usize] = next;
            }
        }
        let next = 1 + round as u64 % FIBERS;
        script.cpu(0).by(NPT).at(begin + 20_000).fiber_wake(NPT, next, on);
        script.at(begin + 30_000).fiber_switch(NPT, on, next, 3);
        script.at(begin + 40_000).user(event, NPT, &[("n", V::U(1))]).fault(true);
        script.cpu(1).at(begin + 90_000).lose_kernel(begin + 90_500, 1);
        on = next;
    }
    script
}

/// Returns the page of a trace with so many names and facts, and the lanes that it is drawn from.
fn largest(text: &str) -> (String, Vec<Lanes>) {
    let script = trace(text);
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut survey = SurveyBuilder::new(&text.repeat(1000));
    for number in 0..INTERVALS {
        let (begin, end) = (Time(2000 + number), Time(ROUNDS * ROUND - number));
        let (tid, pid) = (Tid(NPT.0), Some(Pid(NPT.0)));
        survey.add(Interval {
            begin,
            end,
            tid,
            pid,
            begin_cpu: None,
            end_cpu: None,
            fiber: None,
            overhead: Nanos::ZERO,
        });
    }
    let survey = survey.finish();
    let distribution = survey.distribution.clone();
    let windows: Vec<Window> = survey.longest.iter().map(Window::around).collect();
    let mut painter = Painter::new(&script.classes, recorded, windows);
    let options = ExplainOptions { longest: INTERVALS as usize, ..ExplainOptions::default() };
    let mut explainer = Explainer::new(survey, recorded, options);
    script.play(|item| {
        painter.take(item);
        explainer.take(item);
    });
    let (findings, lanes) = (explainer.finish(), painter.finish());
    let format = FindingsFormat { time: TimeFormat::Since(Time(0)), color: false, width: 140 };
    let long = || text.repeat(10_000);
    let html = page(&ReportPage {
        recording: &long(),
        findings: &findings,
        text: &FindingsText::of(&findings, format),
        distribution: &distribution,
        lanes: &lanes,
        begin: Time(0),
        tables: &[("First", long()), ("Second", long())],
        facts: &(0..10).map(|number| (format!("fact {number}"), long())).collect::<Vec<_>>(),
        settings: &[("setting", Some(&*long())); 40],
    });
    (html, lanes)
}

/// Checks that a page is small enough, and that each of its pictures has a note about the data that it lacks.
#[track_caller]
fn is_small_and_says_what_is_thinned(html: &str, lanes: &[Lanes]) {
    assert!(html.len() < LARGEST, "{} bytes", html.len());
    assert_eq!(lanes.len() as i64, INTERVALS);
    let stretches: usize = lanes[0].cpus.iter().map(|lane| lane.runs.len() + lane.interrupts.len()).sum();
    assert!(
        stretches > 3000 && lanes[0].lost.len() > 50 && lanes[0].marks.len() > 300,
        "it is no large page"
    );
    let pictures: Vec<&str> = html.split("<svg class=\"timeline\"").skip(1).collect();
    for picture in &pictures {
        let note = picture.split("<text class=\"note\"").nth(1).unwrap().split("</text>").next().unwrap();
        for part in [
            "24 more CPUs without a lane",
            "more threads without a lane",
            "18 more fibers without a lane",
            "more stretches, arrows and marks left out",
            "grey: several short stretches, joined",
        ] {
            assert!(note.contains(part), "'{part}': {note}");
        }
    }
    let without = INTERVALS - pictures.len() as i64;
    let is_counted = html.contains(&format!("{without} intervals without a picture"));
    assert_eq!(is_counted, without > 0, "{without} have none");
    // Every interval has its words, and each fact, setting and table says how much of it is cut.
    assert_eq!(html.matches("<section id=\"peak").count() as i64, INTERVALS);
    assert!(html.matches(" more letters)").count() >= 10 + 40 + 2, "a text is cut and does not say so");
}

#[test]
fn the_largest_page_has_a_picture_of_each_interval() {
    let (html, lanes) = largest("work/");
    is_small_and_says_what_is_thinned(&html, &lanes);
    assert_eq!(html.matches("<svg class=\"timeline\"").count() as i64, INTERVALS);
}

#[test]
fn the_largest_page_of_hostile_names_is_no_larger() {
    let (html, lanes) = largest("<script>\"'&\u{202e}\u{1b}]0;\u{200b}界");
    is_small_and_says_what_is_thinned(&html, &lanes);
    assert!(html.contains("<svg class=\"timeline\""), "no picture is left");
    let is_harmless = |c: char| c == '\n' || c == '\t' || sordino_event::text::is_printable(c);
    assert!(html.chars().all(is_harmless), "a letter is obeyed");
    assert_eq!(html.matches("<script>").count(), 1, "a name is markup");
}
