//! Fibers in the super-trace: their threads, and records that contradict each other.

mod support;

use sordino_event::{Class, Classes, Domain, Event, Pid, Step, Tid, Time, Value};
use sordino_timeline::{
    FiberId, FiberState, Item, Mounted, MountedStretches, ReadySince, SuperTrace, System, TaskState,
    ThreadState,
};
use std::convert::Infallible;
use support::{HOG, IDLE, RUNNABLE, SLEEPING, Script, ScriptThread, V};

const A: ScriptThread = ScriptThread(21, "worker", 120);
const B: ScriptThread = ScriptThread(22, "worker", 120);
const PID: i32 = 20;

const YIELDED: u64 = 1;
const BLOCKED: u64 = 3;
const ENDED: u64 = 4;
const RESUMED: u64 = 5;

fn fiber(number: u64) -> FiberId {
    FiberId { pid: Pid(PID), number }
}

/// Returns the fiber of each event: its number, `-` outside of a scheduler, `0` in one, `?` if it is unknown.
fn fibers(script: &Script) -> Vec<String> {
    let mut all = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            all.push(match moment.fiber {
                Mounted::Outside => "-".to_owned(),
                Mounted::Scheduler => "0".to_owned(),
                Mounted::Fiber(fiber) => fiber.to_string(),
                Mounted::Unknown => "?".to_owned(),
            });
        }
    });
    all
}

/// Returns the contradictions at their times, as users read them.
fn contradictions(script: &Script) -> Vec<String> {
    let mut all = Vec::new();
    script.play(|item| {
        if let Item::Event(moment) = item {
            let text = moment.contradiction().map(|found| format!("{} {}", found.time.0, found.what));
            all.extend(text);
        }
    });
    all
}

fn at_the_end(script: &Script, look: impl FnOnce(&System)) {
    let (mut items, mut seen) = (0, 0);
    script.play(|_| items += 1);
    let mut look = Some(look);
    script.play(|item| {
        seen += 1;
        if let (true, Item::Event(moment)) = (seen == items, item) {
            look.take().into_iter().for_each(|look| look(moment.system));
        }
    });
    assert!(look.is_none(), "the last item is an event");
}

fn script() -> Script {
    let mut script = Script::new();
    script.of(PID);
    script
}

/// The second figure of Danjean, Namyst and Wacrenier (2005): a fiber that changes threads and CPUs.
#[test]
fn a_fiber_is_followed_from_thread_to_thread_and_from_cpu_to_cpu() {
    let mut script = script();
    script.at(1).cpu(1).switch(IDLE, 0, A).fiber_enter(A);
    script.at(2).cpu(0).switch(IDLE, 0, B).fiber_enter(B);
    script.at(3).fiber_new(B, 15, "work/15").fiber_new(B, 6, "").fiber_new(B, 7, "").fiber_new(B, 8, "");
    script.at(4).fiber_switch(B, 0, 6, RESUMED);
    script.at(5).cpu(1).fiber_switch(A, 0, 7, RESUMED);
    script.at(6).fiber_switch(A, 7, 15, YIELDED);
    script.at(7).fiber_switch(A, 15, 8, YIELDED);
    script.at(8).cpu(0).fiber_switch(B, 6, 15, YIELDED);
    script.at(9).switch(B, RUNNABLE, HOG);
    script.at(10).cpu(2).switch(IDLE, 0, B);
    script.at(11).syscall(1);
    script.at(12).fiber_switch(B, 15, 7, YIELDED);
    let expected = ["-", "0", "-", "0", "0", "0", "0", "0", "0", "0", "7", "15", "6", "15", "-", "15", "15"];
    assert_eq!(fibers(&script), expected);
    at_the_end(&script, |system| {
        assert_eq!(system.fibers().mounted(Pid(PID), Tid(B.0)), Mounted::Fiber(fiber(7)));
        let yielded = FiberState::Ready { since: ReadySince::Yielded };
        assert_eq!(*system.fibers().state(fiber(15)), yielded);
        assert_eq!(system.fibers().name(fiber(15)).map(|name| &**name), Some("work/15"));
        assert_eq!(system.fibers().contradictions().count(), 0);
    });
}

#[test]
fn a_mounted_fiber_stands_still_with_its_thread() {
    let mut script = script();
    script.at(1).cpu(0).switch(IDLE, 0, A).fiber_enter(A).fiber_new(A, 1, "").fiber_switch(A, 0, 1, RESUMED);
    let state = |script: &Script, expected| {
        at_the_end(script, |system| {
            assert_eq!(*system.fibers().state(fiber(1)), FiberState::Mounted { tid: Tid(A.0) });
            assert_eq!(system.thread_state(Tid(A.0)), expected);
        });
    };
    script.at(2).switch(A, RUNNABLE, HOG);
    state(&script, ThreadState::Preempted { by: Tid(HOG.0) });
    script.at(3).switch(HOG, RUNNABLE, A).at(4).switch(A, SLEEPING, HOG);
    state(&script, ThreadState::Blocked { state: TaskState::Interruptible });
    script.at(5).waking(A, 0);
    state(&script, ThreadState::Woken { by: Some(Tid(HOG.0)) });
}

#[test]
fn a_recording_of_programs_alone_has_their_fibers() {
    let mut script = Script::of_programs();
    script.of(PID).at(1).fiber_enter(A).fiber_new(A, 1, "daemon").fiber_switch(A, 0, 1, RESUMED);
    script.at(2).user("app:work", A, &[]).user("app:work", B, &[]);
    script.at(3).fiber_switch(A, 1, 0, BLOCKED).fiber_wake(B, 1, 0).fiber_leave(A).user("app:work", A, &[]);
    assert_eq!(fibers(&script), ["0", "0", "0", "1", "-", "1", "-", "0", "-"]);
    at_the_end(&script, |system| {
        let woken = FiberState::Ready { since: ReadySince::Woken { by: None } };
        assert_eq!(*system.fibers().state(fiber(1)), woken);
        assert_eq!(system.thread_state(Tid(A.0)), ThreadState::Unknown);
    });
}

#[test]
fn a_recording_without_fibers_has_none() {
    let mut script = Script::new();
    script.at(1).cpu(0).switch(IDLE, 0, A).user("app:work", A, &[]).lose_user(A, 2, 1).at(3).user(
        "app:work",
        A,
        &[],
    );
    assert_eq!(fibers(&script), ["-", "-", "-"]);
}

#[test]
fn a_loss_leaves_the_fiber_unknown_until_a_switch_shows_it() {
    let mut script = script();
    script.at(1).cpu(0).fiber_enter(A).fiber_new(A, 1, "one").fiber_switch(A, 0, 1, RESUMED);
    script.at(2).lose_user(A, 5, 3);
    script.at(3).cpu(1).user("app:work", A, &[]).at(4).fiber_switch(A, 1, 2, YIELDED).user(
        "app:work",
        A,
        &[],
    );
    script.at(6).user("app:work", A, &[]).user("app:work", B, &[]);
    script.at(7).fiber_switch(A, 2, 1, YIELDED).at(8).user("app:work", A, &[]);
    assert_eq!(fibers(&script)[3..], ["?", "1", "?", "?", "?", "2", "1"]);
    assert_eq!(contradictions(&script), [""; 0]);
    at_the_end(&script, |system| {
        let fibers = system.fibers();
        assert!(fibers.name(fiber(1)).is_some() && !fibers.is_name_certain(fiber(1)));
    });
}

#[test]
fn a_loss_of_another_program_changes_nothing() {
    let mut script = script();
    script.at(1).fiber_enter(A).fiber_new(A, 1, "").fiber_switch(A, 0, 1, RESUMED);
    script.of(99).at(2).lose_user(B, 5, 3).of(PID).at(3).user("app:work", A, &[]);
    assert_eq!(fibers(&script)[3..], ["1"]);
}

#[test]
fn a_stretch_on_a_thread_is_known_unless_records_of_its_program_are_lost() {
    let mut script = script();
    script.at(1).cpu(0).fiber_switch(A, 0, 1, RESUMED).fiber_switch(B, 0, 3, RESUMED);
    script.at(2).fiber_switch(A, 1, 2, YIELDED);
    script.at(3).lose_kernel(4, 1).of(99).lose_user(HOG, 4, 1).of(PID);
    script.at(5).fiber_switch(A, 2, 1, YIELDED);
    script.at(6).lose_user(A, 7, 3);
    // The fibers of both threads may have changed.
    script.at(8).fiber_switch(A, 1, 2, YIELDED).fiber_switch(B, 3, 4, YIELDED);
    script.at(9).fiber_switch(A, 2, 0, BLOCKED).fiber_switch(B, 4, 0, BLOCKED);
    let (mut stretches, mut found) = (MountedStretches::default(), Vec::new());
    script.play(|item| {
        found.extend(stretches.take(item).map(|found| (found.fiber, found.tid.0, found.from.0, found.to.0)));
    });
    let expected = [(1, A, 1, 2), (2, A, 2, 5), (2, A, 8, 9), (4, B, 8, 9)];
    assert_eq!(found, expected.map(|(number, thread, from, to)| (fiber(number), thread.0, from, to)));
}

#[test]
fn each_contradiction_is_named_with_its_place_and_leaves_no_wrong_state() {
    let base = || {
        let mut script = script();
        script.at(1).cpu(0).switch(IDLE, 0, A).fiber_enter(A).fiber_new(A, 1, "").fiber_new(A, 2, "");
        script.at(2).fiber_switch(A, 0, 1, RESUMED);
        script.at(3);
        script
    };
    let check = |add: fn(&mut Script) -> &mut Script, expected: &str, state: [Mounted; 2]| {
        let mut script = base();
        add(&mut script);
        assert_eq!(contradictions(&script), [expected], "{expected}");
        script.at(9).cpu(1).user("app:work", B, &[]);
        at_the_end(&script, |system| {
            let mounted = [A, B].map(|thread| system.fibers().mounted(Pid(PID), Tid(thread.0)));
            assert_eq!(mounted, state, "{expected}");
            assert_eq!(system.fibers().contradictions().map(|(count, _)| count).sum::<u64>(), 1);
        });
    };
    let [one, two, seven] = [1, 2, 7].map(|number| Mounted::Fiber(fiber(number)));
    let (outside, unknown) = (Mounted::Outside, Mounted::Unknown);
    check(
        |script| script.fiber_switch(A, 1, 7, YIELDED),
        "3 no record made fiber 7, known from here on",
        [seven, outside],
    );
    check(
        |script| script.fiber_switch(B, 0, 1, RESUMED),
        "3 fiber 1 is here, but has not left thread 21",
        [unknown, one],
    );
    check(
        |script| script.fiber_switch(A, 2, 0, YIELDED),
        "3 fiber 2 leaves, but fiber 1 was on the thread",
        [Mounted::Scheduler, outside],
    );
    check(
        |script| script.fiber_switch(A, 0, 2, RESUMED),
        "3 no fiber leaves, but fiber 1 was on the thread",
        [two, outside],
    );
    check(
        |script| script.fiber_enter(B).fiber_switch(B, 2, 0, YIELDED),
        "3 fiber 2 leaves, but no fiber was on the thread",
        [one, Mounted::Scheduler],
    );
    check(
        |script| script.fiber_switch(B, 2, 0, YIELDED),
        "3 fiber 2 leaves, but no fiber was on the thread",
        [one, Mounted::Scheduler],
    );
    check(
        |script| script.fiber_switch(B, 1, 0, YIELDED),
        "3 fiber 1 is here, but has not left thread 21",
        [unknown, Mounted::Scheduler],
    );
    check(
        |script| script.fiber_switch(B, 7, 0, YIELDED),
        "3 no record made fiber 7, known from here on",
        [one, Mounted::Scheduler],
    );
    check(
        |script| script.fiber_new(B, 1, "again"),
        "3 fiber 1 is made again, but has not ended",
        [unknown, outside],
    );
    check(
        |script| script.fiber_leave(A),
        "3 the thread leaves its scheduler, but fiber 1 was on it",
        [outside, outside],
    );
    check(
        |script| script.fiber_enter(A),
        "3 the thread enters a scheduler, but fiber 1 was on it",
        [Mounted::Scheduler, outside],
    );
    check(
        |script| script.switch(A, 0x10, IDLE),
        "3 the thread ended, but fiber 1 was on it",
        [outside, outside],
    );
    check(
        |script| script.fiber_wake(A, 0, 1),
        "3 an event of sordino_fiber lacks a field, or calls a fiber 0",
        [one, outside],
    );
    check(
        |script| script.user("sordino_fiber:rename", A, &[("name", V::T("x"))]),
        "3 an event of sordino_fiber lacks a field, or calls a fiber 0",
        [one, outside],
    );
}

#[test]
fn a_number_is_free_again_after_the_end() {
    let mut script = script();
    script.at(1).fiber_enter(A).fiber_new(A, 1, "first").fiber_switch(A, 0, 1, RESUMED).fiber_end(A, 1);
    script.at(2).user("app:work", A, &[]).fiber_switch(A, 1, 0, ENDED).fiber_end(A, 1);
    script.at(3).fiber_new(A, 1, "second").at(4).fiber_switch(A, 0, 1, RESUMED);
    assert_eq!(fibers(&script), ["0", "0", "0", "1", "1", "1", "0", "0", "0"]);
    assert_eq!(contradictions(&script), [""; 0]);
    at_the_end(&script, |system| {
        assert_eq!(system.fibers().name(fiber(1)).map(|name| &**name), Some("second"));
    });
}

#[test]
fn a_fiber_that_is_older_than_the_records_has_the_state_that_is_shown() {
    const MOUNTED: u64 = 1;
    const READY: u64 = 2;
    const ASLEEP: u64 = 3;
    let mut script = script();
    script.at(1).fiber_enter(A).fiber_enter(B);
    for (number, state) in [(1, MOUNTED), (2, READY), (3, ASLEEP)] {
        let fields = [("fiber", V::U(number)), ("name", V::T("old")), ("state", V::U(state))];
        script.user("sordino_fiber:present", A, &fields);
    }
    script.user("app:work", A, &[]);
    assert_eq!(fibers(&script), ["0", "0", "0", "1", "1", "1"]);
    at_the_end(&script, |system| {
        let state = |number| system.fibers().state(fiber(number)).clone();
        assert_eq!(state(1), FiberState::Mounted { tid: Tid(A.0) });
        // Nothing shows since when it is ready.
        assert_eq!([state(2), state(3)], [FiberState::Unmounted, FiberState::Blocked { on: None }]);
        assert_eq!(system.fibers().name(fiber(3)).map(|name| &**name), Some("old"));
    });
    script.at(2).fiber_wake(A, 3, 1).fiber_switch(A, 1, 3, BLOCKED).fiber_switch(B, 0, 2, RESUMED);
    assert_eq!(contradictions(&script), [""; 0]);
    // Behind the end of its program's records, nothing is known about a fiber and its thread.
    let mut ended = script.clone();
    let fields = [("fiber", V::U(2)), ("name", V::T("")), ("state", V::U(0))];
    ended.at(3).user("sordino_fiber:present", B, &fields);
    assert_eq!(contradictions(&ended), [""; 0]);
    at_the_end(&ended, |system| {
        assert_eq!(*system.fibers().state(fiber(2)), FiberState::Unknown);
        assert_eq!(system.fibers().mounted(Pid(PID), Tid(B.0)), Mounted::Unknown);
        assert_eq!(system.fibers().name(fiber(2)).map(|name| &**name), Some("old"));
    });
    // Thread B has fiber 2, so it can't be ready, and fiber 3 is on thread A, so B can't have it.
    for (number, state, text) in [
        (2, READY, "3 no fiber leaves, but fiber 2 was on the thread"),
        (3, MOUNTED, "3 fiber 3 is here, but has not left thread 21"),
    ] {
        let mut script = script.clone();
        let fields = [("fiber", V::U(number)), ("name", V::T("")), ("state", V::U(state))];
        script.at(3).user("sordino_fiber:present", B, &fields);
        assert_eq!(contradictions(&script), [text]);
    }
}

#[test]
fn a_wake_up_before_the_switch_leaves_the_fiber_ready() {
    let mut script = script();
    script.at(1).fiber_enter(A).fiber_new(A, 1, "").fiber_switch(A, 0, 1, RESUMED);
    script.at(2).fiber_wake(B, 1, 7).at(3).fiber_switch(A, 1, 0, BLOCKED);
    at_the_end(&script, |system| {
        let woken = FiberState::Ready { since: ReadySince::Woken { by: Some(7) } };
        assert_eq!(*system.fibers().state(fiber(1)), woken);
    });
}

#[test]
fn the_fibers_of_a_process_that_has_ended_are_forgotten() {
    let mut script = script();
    script.at(1).cpu(0).switch(IDLE, 0, A).fiber_enter(A).fiber_new(A, 1, "");
    script.at(2).kernel("sched_process_free", &[("tid", V::I(PID.into()))]);
    at_the_end(&script, |system| assert!(system.fibers().is_empty()));
}

#[test]
fn fibers_that_come_and_go_take_the_memory_of_those_alive() {
    const FIBERS: u64 = 200_000;
    let mut classes = Classes::default();
    let new = classes.add(Class::new(Domain::User, "sordino_fiber:new", ["fiber", "name"]));
    let end = classes.add(Class::new(Domain::User, "sordino_fiber:end", ["fiber"]));
    let mut number = 0;
    // Ten fibers are alive at a time.
    let source = move |event: &mut Event| -> Result<Step, Infallible> {
        number += 1;
        let (class, fiber) = if number % 2 == 1 { (new, number / 2 + 10) } else { (end, number / 2) };
        event.begin(Time(number as i64), class);
        (event.pid, event.tid) = (Some(Pid(PID)), Some(Tid(A.0)));
        event.push(Value::unsigned(fiber));
        event.push_text(b"fiber");
        Ok(if number > 2 * FIBERS { Step::End } else { Step::Event })
    };
    let mut trace = SuperTrace::new(&classes, [source]);
    let mut most = 0;
    while let Ok(Some(Item::Event(moment))) = trace.next() {
        most = most.max(moment.system.fibers().len());
    }
    assert_eq!(most, 10);
}
