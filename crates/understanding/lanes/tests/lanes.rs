//! Tests of the lanes that a picture is drawn from.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_event::{Domain, Pid, Tid, Time};
use sordino_lanes::{FiberActivity, LaneSpan, LaneState, Lanes, Painter, Window};
use sordino_timeline::{Consumer, FiberId, Recorded};
use support::{HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread};

fn lanes(script: &Script, from: i64, to: i64) -> Lanes {
    let window = Window { from: Time(from), to: Time(to), tid: Tid(NPT.0), fiber: None };
    let mut painter =
        Painter::new(&script.classes, Recorded { switches: true, ..Recorded::default() }, [window]);
    script.play(|item| painter.take(item));
    painter.finish().remove(0)
}

/// Returns the threads on a CPU: `100 200 npt`, `?` for an unknown one.
fn runs(lanes: &Lanes, cpu: u32) -> Vec<String> {
    let lane = lanes.cpus.iter().find(|lane| lane.cpu == cpu).unwrap();
    let name = |span: &LaneSpan<Option<sordino_analyze::Thread>>| {
        span.activity
            .as_ref()
            .map_or("?".to_owned(), |thread| thread.comm.as_deref().unwrap_or("-").to_owned())
    };
    lane.runs.iter().map(|span| format!("{} {} {}", span.from.0, span.to.0, name(span))).collect()
}

fn states(lanes: &Lanes, thread: ScriptThread) -> Vec<(i64, i64, LaneState)> {
    let lane = lanes.threads.iter().find(|lane| lane.thread.tid.0 == thread.0).unwrap();
    lane.states.iter().map(|span| (span.from.0, span.to.0, span.activity)).collect()
}

#[test]
fn a_preemption_has_its_threads_interrupts_and_wake_up() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    script.at(150).user("npt:loop", NPT, &[]);
    script.at(200).irq(36, "virtio0");
    script.at(210).softirq(3);
    script.at(220).waking(HOG, 1);
    script.at(230).softirq_exit(3);
    script.at(240).irq_exit(36);
    script.at(250).switch(NPT, RUNNABLE, HOG);
    script.at(400).switch(HOG, SLEEPING, NPT);
    script.at(500).user("npt:loop", NPT, &[]);
    let lanes = lanes(&script, 120, 500);
    assert_eq!(runs(&lanes, 1), ["120 250 npt", "250 400 hog", "400 500 npt"]);
    let handlers: Vec<_> = lanes.cpus[0]
        .interrupts
        .iter()
        .map(|span| (span.from.0, span.to.0, &*span.activity.name, span.activity.depth))
        .collect();
    assert_eq!(handlers, [(200, 240, "irq 36 virtio0", 0), (210, 230, "NET_RX", 1)]);
    let own = [
        (120, 250, LaneState::Running(1)),
        (250, 400, LaneState::Runnable),
        (400, 500, LaneState::Running(1)),
    ];
    assert_eq!(states(&lanes, NPT), own);
    assert_eq!(lanes.threads[0].thread.tid, Tid(NPT.0));
    assert_eq!(lanes.threads[0].ran.0, 230);
    assert_eq!((lanes.wake_ups.len(), lanes.wake_ups[0].at.0, lanes.wake_ups[0].by), (1, 220, None));
    assert_eq!(lanes.marks.iter().map(|mark| mark.at.0).collect::<Vec<_>>(), [150, 500]);
}

#[test]
fn page_faults_are_marks_of_their_thread_and_a_thread_that_only_waits_has_no_lane() {
    let mut script = Script::new();
    script.at(100).cpu(1).by(NPT).switch(IDLE, 0, NPT);
    script.at(150).by(NPT).fault(true);
    script.at(250).by(NPT).fault(true);
    script.at(300).by(NPT).fault(false);
    script.at(310).by(NPT).waking(HOG, 1);
    script.at(500).by(NPT).user("npt:loop", NPT, &[]);
    let lanes = lanes(&script, 100, 500);
    let faults = lanes.marks.iter().filter(|mark| mark.domain == Domain::Kernel);
    let faults: Vec<_> = faults.map(|mark| (mark.at.0, mark.tid.0, &*mark.name, mark.count)).collect();
    let expected = [
        (150, NPT.0, "page fault", 1),
        (250, NPT.0, "page fault", 1),
        (300, NPT.0, "page fault in the kernel", 1),
    ];
    assert_eq!(faults, expected);
    assert_eq!(lanes.threads.iter().map(|lane| lane.thread.tid.0).collect::<Vec<_>>(), [NPT.0]);
    assert_eq!((lanes.hidden_threads, lanes.waiting_threads), (0, 1));
}

#[test]
fn of_many_cpus_those_of_the_own_thread_and_the_busiest_have_lanes() {
    let mut script = Script::new();
    script.at(100).cpu(39).switch(IDLE, 0, NPT);
    // Each CPU has its thread for longer than the one before.
    for cpu in 0..30 {
        let thread = ScriptThread(200 + cpu as i32, "other", 120);
        script.at(110).cpu(cpu).switch(IDLE, 0, thread);
        script.at(120 + i64::from(cpu)).cpu(cpu).switch(thread, SLEEPING, IDLE);
    }
    script.at(500).cpu(39).user("npt:loop", NPT, &[]);
    let lanes = lanes(&script, 100, 500);
    let shown: Vec<u32> = lanes.cpus.iter().map(|lane| lane.cpu).collect();
    assert_eq!(shown, (15..30).chain([39]).collect::<Vec<_>>());
    assert_eq!(lanes.hidden_cpus, 15);
}

/// Returns the activities of a fiber of npt's process, in words.
fn activities(lanes: &Lanes, number: u64) -> Vec<String> {
    let id = FiberId { pid: Pid(NPT.0), number };
    let lane = lanes.fibers.iter().find(|lane| lane.fiber == id).unwrap();
    let words = |activity: &FiberActivity| match activity {
        FiberActivity::Unknown => "?".to_owned(),
        FiberActivity::On { tid, state } => format!("on {tid} {state:?}"),
        FiberActivity::Ready => "ready".to_owned(),
        FiberActivity::Off { on } => format!("off {}", on.as_deref().unwrap_or("-")),
    };
    lane.states
        .iter()
        .map(|span| format!("{} {} {}", span.from.0, span.to.0, words(&span.activity)))
        .collect()
}

#[test]
fn a_fiber_has_a_lane_with_the_states_of_the_thread_that_it_is_on() {
    const BLOCKED: u64 = 3;
    let mut script = Script::new();
    script.at(50).cpu(1).by(NPT).switch(IDLE, 0, NPT);
    script.at(60).fiber_enter(NPT);
    script.at(70).fiber_new(NPT, 1, "work");
    script.at(80).fiber_new(NPT, 2, "other");
    script.at(100).fiber_switch(NPT, 0, 1, 5);
    script.at(200).switch(NPT, RUNNABLE, HOG);
    script.at(300).by(HOG).switch(HOG, SLEEPING, NPT);
    script.at(400).by(NPT).fiber_switch(NPT, 1, 2, BLOCKED);
    script.at(450).fiber_wake(NPT, 1, 2);
    script.at(500).fiber_switch(NPT, 2, 1, BLOCKED);
    script.at(600).lose_user(NPT, 700, 3);
    script.at(800).user("npt:loop", NPT, &[]);
    let lanes = lanes(&script, 0, 800);
    let work = [
        "70 100 ready",
        "100 200 on 10 Running(1)",
        "200 300 on 10 Runnable",
        "300 400 on 10 Running(1)",
        "400 450 off a lock",
        "450 500 ready",
        "500 600 on 10 Running(1)",
        "600 800 ?",
    ];
    assert_eq!(activities(&lanes, 1), work);
    assert_eq!(activities(&lanes, 2)[1], "400 500 on 10 Running(1)");
    assert_eq!(lanes.fibers[0].name.as_deref(), Some("work"));
    let wake_ups: Vec<_> =
        lanes.fiber_wake_ups.iter().map(|wake_up| (wake_up.at.0, wake_up.fiber.number)).collect();
    assert_eq!(wake_ups, [(450, 1)]);
}

#[test]
fn each_window_has_all_that_goes_on_at_its_ends() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    script.at(250).switch(NPT, RUNNABLE, HOG);
    script.at(400).switch(HOG, SLEEPING, NPT);
    script.at(900).switch(NPT, SLEEPING, IDLE);
    let window = |from, to| Window { from: Time(from), to: Time(to), tid: Tid(NPT.0), fiber: None };
    let recorded = Recorded { switches: true, ..Recorded::default() };
    let mut painter = Painter::new(&script.classes, recorded, [window(200, 300), window(350, 500)]);
    script.play(|item| painter.take(item));
    let lanes = painter.finish();
    assert_eq!(runs(&lanes[0], 1), ["200 250 npt", "250 300 hog"]);
    assert_eq!(runs(&lanes[1], 1), ["350 400 hog", "400 500 npt"]);
}

#[test]
fn a_switch_that_was_not_recorded_leaves_a_stretch_that_is_unknown() {
    let mut script = Script::new();
    script.at(100).cpu(1).by(IDLE).switch(IDLE, 0, IDLE);
    script.at(200).by(NPT).syscall(0);
    script.at(300).by(NPT).switch(NPT, SLEEPING, IDLE);
    let lanes = lanes(&script, 100, 300);
    assert_eq!(runs(&lanes, 1), ["100 200 ?", "200 300 npt"]);
}

#[test]
fn lost_records_are_a_hole_and_nothing_is_known_after_them() {
    let mut script = Script::new();
    script.at(100).cpu(1).switch(IDLE, 0, NPT);
    script.at(200).lose_kernel(300, 5);
    script.at(400).switch(HOG, SLEEPING, NPT);
    script.at(500).switch(NPT, SLEEPING, IDLE);
    let lanes = lanes(&script, 100, 500);
    assert_eq!((lanes.lost.len(), lanes.lost[0].from.0, lanes.lost[0].to.0), (1, 200, 300));
    assert_eq!(runs(&lanes, 1)[0], "100 200 npt");
    assert!(runs(&lanes, 1)[1].ends_with(" ?"));
    assert_eq!(states(&lanes, NPT)[1].2, LaneState::Unknown);
}

/// Checks that the spans of a lane follow each other.
fn follow<T>(spans: &[LaneSpan<T>]) -> bool {
    spans.is_sorted_by(|one, next| one.to <= next.from) && spans.iter().all(|span| span.from < span.to)
}

proptest! {
    #[test]
    fn a_thread_that_runs_has_a_cpu_and_no_lane_overlaps_itself(
        steps in proptest::collection::vec((0_u32..3, 0_usize..5, any::<bool>(), 1_i64..50), 1..120),
    ) {
        let threads = [IDLE, NPT, HOG, ScriptThread(20, "a", 120), ScriptThread(21, "b", 120)];
        let mut running = [IDLE; 3];
        let mut script = Script::new();
        let mut time = 0;
        for (cpu, next, sleeps, step) in steps {
            time += step;
            let next = threads[next];
            let prev = running[cpu as usize];
            if next == prev || next != IDLE && running.contains(&next) {
                continue;
            }
            script.at(time).cpu(cpu).switch(prev, if sleeps { SLEEPING } else { RUNNABLE }, next);
            running[cpu as usize] = next;
        }
        let lanes = lanes(&script, 0, time + 10);
        for lane in &lanes.cpus {
            prop_assert!(follow(&lane.runs));
        }
        for lane in &lanes.threads {
            prop_assert!(follow(&lane.states));
            for span in &lane.states {
                let LaneState::Running(cpu) = span.activity else { continue };
                let has_it = |run: &LaneSpan<Option<sordino_analyze::Thread>>| {
                    run.activity.as_ref().is_some_and(|thread| thread.tid == lane.thread.tid)
                        && run.from == span.from && run.to == span.to
                };
                let cpu = lanes.cpus.iter().find(|lane| lane.cpu == cpu);
                prop_assert!(cpu.is_some_and(|cpu| cpu.runs.iter().any(has_it)), "{span:?}");
            }
        }
    }
}
