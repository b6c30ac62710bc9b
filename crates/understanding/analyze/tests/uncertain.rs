//! Tests of weaker statements, where a trace does not prove a throttled thread, a signal's sender, a handler's end, a
//! fault or a chain.

mod support;

use support::{
    HOG, IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V, WAITING, explain_longest,
    inversions, loops, parts,
};

const LOW: Task = Task(40, "low", 120);
const OTHER: Task = Task(42, "other", 120);
/// Real-time threads with priorities below npt's and above.
const MIDDLE: Task = Task(21, "middle", 50);
const HOLDER: Task = Task(20, "holder", 119);
const SECOND: Task = Task(22, "second", 1);
const DEADLINE: Task = Task(50, "dl", -1);

/// Creates loops of 100 ns of a thread on CPU 1 up to 1000.
fn loops_of(own: Task) -> Script {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, own);
    for time in (100..=1000).step_by(100) {
        script.at(time).cpu(1).user("a:b", own, &[]);
    }
    script
}

/// Returns the parts of the longest interval, longest first.
fn causes_of(script: &Script) -> Vec<String> {
    parts(&explain_longest(script, "a:b").0)
}

/// Lets npt continue at 5000 and end its loop at 5050.
fn goes_on(script: &mut Script, cpu: u32, after: Task) -> Vec<String> {
    script.at(5000).cpu(cpu).switch(after, SLEEPING, NPT).at(5050).user("a:b", NPT, &[]);
    causes_of(script)
}

/// A thread of `SCHED_DEADLINE` waits for its next period by `sched_yield`.
#[test]
fn a_deadline_thread_that_yields_has_not_used_its_runtime_up() {
    let own = Task(10, "npt", -1);
    let mut script = loops_of(own);
    script.at(1010).by(own).syscall(24).at(1020).switch(own, 0, IDLE);
    script.at(9000).by(IDLE).switch(IDLE, 0, own).at(9010).by(own).syscall_exit(24).at(9050).user(
        "a:b",
        own,
        &[],
    );
    assert_eq!(causes_of(&script)[0], "blocked S in sched_yield 7980 1");
}

#[test]
fn a_choice_proves_nothing_of_a_thread_that_may_stand_in_another_queue() {
    // Pushed to CPU 2: the move is not recorded, or is among the lost records of the pulling CPU.
    let pushed = |script: &mut Script, lost: bool| {
        script.at(900).cpu(2).switch(IDLE, 0, HOG).at(1010).cpu(1).switch(NPT, RUNNABLE, DEADLINE);
        if lost {
            script.at(1020).cpu(2).lose_kernel(1080, 10);
        }
        script.at(1100).cpu(1).switch(DEADLINE, SLEEPING, IDLE);
        goes_on(script, 2, HOG)
    };
    assert_eq!(pushed(&mut loops("a:b"), true)[0], "preempted idle 3900 1");
    let mut unrecorded = Script::of_programs();
    unrecorded.at(0).cpu(1).switch(IDLE, 0, NPT).at(900).user("a:b", NPT, &[]).at(1000).user("a:b", NPT, &[]);
    assert_eq!(pushed(&mut unrecorded, false)[0], "preempted idle 3900 1");
}

/// If a switch is missing, the thread may have had the CPU and slept: also outside of a visible system call (a stop, a
/// fault on the way back).
#[test]
fn a_thread_that_may_have_slept_unseen_is_not_throttled() {
    let mut missing = loops("a:b");
    missing.at(1010).by(NPT).switch(NPT, RUNNABLE, HOG).at(1500).by(LOW).irq(5, "e").irq_exit(5);
    missing.at(1600).by(LOW).switch(LOW, SLEEPING, IDLE);
    assert!(!goes_on(&mut missing, 1, IDLE).iter().any(|part| part.contains("throttled")));
}

#[test]
fn a_choice_at_the_time_of_the_wake_up_or_the_boost_may_have_come_first() {
    let mut woken = loops("a:b");
    woken.at(1010).switch(NPT, SLEEPING, LOW);
    woken.at(1100).cpu(0).waking(NPT, 1).woken(NPT, 1).cpu(1).switch(LOW, RUNNABLE, OTHER);
    assert_eq!(goes_on(&mut woken, 1, OTHER)[0], "queued other 3900 1");
    let own = Task(10, "npt", 120);
    let mut boosted = loops_of(own);
    boosted.at(1010).by(own).switch(own, RUNNABLE, LOW);
    let boost = [("comm", V::T("npt")), ("pid", V::I(10)), ("oldprio", V::I(120)), ("newprio", V::I(4))];
    boosted.at(1050).cpu(0).by(HOG).kernel("sched_pi_setprio", &boost);
    boosted.cpu(1).by(LOW).switch(LOW, RUNNABLE, OTHER);
    boosted.at(5000).by(OTHER).switch(OTHER, RUNNABLE, own).at(5050).user("a:b", own, &[]);
    assert_eq!(causes_of(&boosted)[0], "preempted other 3950 1");
}

/// Calls that set priorities leave no event, but the wake-up has the new priority.
#[test]
fn a_choice_proves_nothing_of_a_thread_whose_priority_may_be_another() {
    let now = Task(10, "npt", 120);
    let mut asleep = loops("a:b");
    asleep.at(1010).switch(NPT, SLEEPING, LOW).at(1100).cpu(0).waking(now, 1).cpu(1).woken(now, 1);
    asleep.at(1200).switch(LOW, RUNNABLE, OTHER).at(5000).switch(OTHER, RUNNABLE, now).at(5050).user(
        "a:b",
        now,
        &[],
    );
    assert_eq!(causes_of(&asleep)[0], "queued other 3800 1");
    let sets = |call: i64| {
        let mut queued = loops("a:b");
        queued
            .at(1010)
            .switch(NPT, RUNNABLE, HOG)
            .at(1050)
            .cpu(0)
            .by(LOW)
            .syscall(call)
            .at(1060)
            .syscall_exit(call);
        queued.at(1200).cpu(1).by(HOG).switch(HOG, SLEEPING, OTHER);
        queued.at(5000).by(OTHER).switch(OTHER, RUNNABLE, now).at(5050).user("a:b", now, &[]);
        causes_of(&queued)[0].clone()
    };
    assert_eq!([144, 142, 314, 141].map(sets), ["preempted other 3800 1"; 4]);
    assert_eq!(sets(39), "throttled RealTime 3800 1");
}

#[test]
fn a_limit_that_was_proven_may_be_over_with_the_next_choice() {
    let own = Task(10, "npt", 120);
    for other in [OTHER, HOG] {
        let mut quota = loops_of(own);
        quota.at(1010).switch(own, RUNNABLE, IDLE).at(1100).switch(IDLE, 0, other);
        quota.at(5000).switch(other, RUNNABLE, own).at(5050).user("a:b", own, &[]);
        let expected = [format!("preempted {} 3900 1", other.1), "throttled ControlGroup 90 1".into()];
        assert_eq!(causes_of(&quota)[..2], expected);
    }
    let mut moved = loops("a:b");
    moved
        .at(900)
        .cpu(2)
        .switch(IDLE, 0, HOG)
        .at(1010)
        .cpu(1)
        .switch(NPT, RUNNABLE, LOW)
        .at(1100)
        .cpu(0)
        .migrate(NPT, 1, 2);
    assert_eq!(goes_on(&mut moved, 2, HOG)[..2], ["preempted hog 3900 1", "throttled RealTime 90 1"]);
    let mut seen = loops("a:b");
    seen.at(900).cpu(2).switch(IDLE, 0, HOG).at(905).switch(HOG, SLEEPING, IDLE).cpu(1);
    seen.at(1010)
        .by(NPT)
        .switch(NPT, RUNNABLE, LOW)
        .at(1020)
        .by(HOG)
        .irq(5, "e")
        .irq_exit(5)
        .at(4990)
        .irq(5, "e")
        .irq_exit(5);
    assert_eq!(goes_on(&mut seen, 1, HOG)[0], "preempted hog 3980 1");
    let mut lowered = loops("a:b");
    lowered.at(1010).by(NPT).switch(NPT, RUNNABLE, LOW).at(1020).cpu(0).by(HOG);
    let boost = [("comm", V::T("npt")), ("pid", V::I(10)), ("oldprio", V::I(4)), ("newprio", V::I(120))];
    lowered.kernel("sched_pi_setprio", &boost);
    assert_eq!(goes_on(&mut lowered, 1, LOW)[0], "preempted low 3980 1");
}

/// Adds a handler that runs from `from` to 5000.
fn handled(script: &mut Script, from: i64, signal: i64) -> Vec<String> {
    script.at(from).cpu(1).by(NPT).delivered(signal, 0x4000);
    script.at(5000).syscall(15).at(5001).syscall_exit(15).at(5050).user("a:b", NPT, &[]);
    causes_of(script)
}

#[test]
fn a_signal_that_a_fault_raises_is_no_page_fault() {
    let mut script = loops("a:b");
    script.at(1010).by(NPT).fault(true).at(1012).signal(11, NPT);
    assert_eq!(handled(&mut script, 1015, 11)[..2], ["SIGSEGV of 10 3985 1", "own 59"]);
    // The signal has no handler: the process dies, and its memory is written out.
    for (signal, handler, state) in [(11, 0, WAITING), (10, 0x4000, SLEEPING)] {
        let mut script = loops("a:b");
        script
            .at(1010)
            .by(NPT)
            .fault(true)
            .at(1012)
            .delivered(signal, handler)
            .at(1020)
            .switch(NPT, state, IDLE);
        script.at(4000).by(IDLE).irq(5, "disk").waking(NPT, 1).irq_exit(5);
        assert!(!goes_on(&mut script, 1, IDLE).iter().any(|part| part.contains("in a fault")));
    }
    // The thread is in a call that began before the trace.
    let mut script = Script::new();
    script.at(5).cpu(1).user("a:b", NPT, &[]).at(10).by(IDLE).switch(IDLE, 0, NPT);
    script.at(20).by(NPT).fault(false).at(30).switch(NPT, SLEEPING, IDLE);
    script.at(4000).by(IDLE).irq(5, "e").waking(NPT, 1).irq_exit(5);
    assert_eq!(goes_on(&mut script, 1, IDLE)[0], "blocked S 3970 1");
}

/// Adds a signal that a thread on CPU 0 sends at this time.
fn send(script: &mut Script, at: i64, sender: Task, signal: i64, more: &[(&'static str, V)]) {
    let fields = [&[("sig", V::I(signal)), ("pid", V::I(NPT.0.into()))], more].concat();
    // The class is another one, with perf's name.
    let name = if more.is_empty() { "signal_generate" } else { "signal:signal_generate" };
    script.at(at).cpu(0).by(sender).kernel(name, &fields);
}

#[test]
fn a_signal_that_was_taken_without_a_delivery_does_not_name_its_sender_later() {
    let result = |result| [("result", V::I(result))];
    let causes_of = |first: Option<i64>, second: Option<i64>| {
        let mut script = loops("a:b");
        send(&mut script, 900, HOG, 10, first.map(result).as_ref().map_or(&[], |more| more));
        send(&mut script, 1010, LOW, 10, second.map(result).as_ref().map_or(&[], |more| more));
        handled(&mut script, 1030, 10)[0].clone()
    };
    assert_eq!(causes_of(None, None), "SIGUSR1 3970 1");
    assert_eq!(causes_of(Some(0), Some(0)), "SIGUSR1 of 40 3970 1");
    assert_eq!(causes_of(Some(0), Some(2)), "SIGUSR1 of 123 3970 1");
    assert_eq!(causes_of(Some(1), Some(0)), "SIGUSR1 of 40 3970 1");
}

#[test]
fn real_time_signals_come_as_often_as_they_were_sent_and_in_order() {
    let mut script = loops("a:b");
    send(&mut script, 900, HOG, 40, &[]);
    send(&mut script, 910, LOW, 40, &[]);
    script.at(1010).cpu(1).by(NPT).delivered(40, 0x4000).at(1011).syscall(15).at(1012).syscall_exit(15);
    send(&mut script, 1013, OTHER, 40, &[]);
    assert_eq!(handled(&mut script, 1030, 40)[0], "signal 40 of 40 3970 1");
}

/// A signal to the first thread alone is not the one that a worker gets.
#[test]
fn a_process_gets_other_signals_than_its_first_thread() {
    const FIRST: Task = Task(11, "first", 4);
    let mut script = loops("a:b");
    let born =
        [("child_tid", V::I(NPT.0.into())), ("child_comm", V::T("npt")), ("child_pid", V::I(FIRST.0.into()))];
    script.at(1000).cpu(3).by(FIRST).kernel("sched_process_fork", &born);
    for (at, sender, group) in [(1001, HOG, 0), (1020, LOW, 1)] {
        let fields =
            [("sig", V::I(10)), ("pid", V::I(FIRST.0.into())), ("group", V::I(group)), ("result", V::I(0))];
        script.at(at).cpu(0).by(sender).kernel("signal:signal_generate", &fields);
    }
    assert_eq!(handled(&mut script, 1030, 10)[0], "SIGUSR1 of 40 3970 1");
}

#[test]
fn a_handler_is_over_where_its_end_may_be_missing() {
    let has_handler = |script: &mut Script| {
        script.at(5050).cpu(1).user("a:b", NPT, &[]);
        causes_of(script)
            .into_iter()
            .any(|part| part.starts_with("SIG") && !part.ends_with(" 10 1") && !part.ends_with(" 30 1"))
    };
    let mut asleep = loops("a:b");
    asleep.at(1010).by(NPT).delivered(10, 0x4000).at(1020).syscall(35).switch(NPT, SLEEPING, IDLE);
    asleep.at(1100).lose_kernel(1200, 100).at(1300).by(IDLE).switch(IDLE, 0, NPT).by(NPT).syscall_exit(35);
    assert!(!has_handler(&mut asleep));
    let mut elsewhere = loops("a:b");
    elsewhere.at(1010).by(NPT).delivered(10, 0x4000).at(1015).cpu(2).lose_kernel(1200, 100);
    elsewhere.at(1020).cpu(1).by(NPT).switch(NPT, RUNNABLE, HOG).at(1300).by(HOG).switch(HOG, SLEEPING, NPT);
    assert!(!has_handler(&mut elsewhere));
    let mut another = loops("a:b");
    another.at(1010).by(NPT).delivered(1, 0x4000).at(1020).syscall(59).at(1030);
    another
        .kernel("sched_process_exec", &[("filename", V::T("x")), ("pid", V::I(10)), ("old_pid", V::I(10))]);
    another.at(1040).syscall_exit(59);
    assert!(!has_handler(&mut another));
    let mut reused = loops("a:b");
    reused.at(1010).by(NPT).delivered(15, 0x4000).at(1020).syscall(60).switch(NPT, 0x20, IDLE);
    reused.at(1100).by(IDLE).kernel("sched_process_free", &[("comm", V::T("npt")), ("pid", V::I(10))]);
    reused.at(1210).switch(IDLE, 0, NPT).by(NPT).syscall_exit(56);
    assert!(!has_handler(&mut reused));
}

/// Creates a sleep of npt until the lock's holder, which waits from 1100 to 4000 as `wait` adds, wakes it.
fn held_up(wait: impl Fn(&mut Script)) -> Vec<String> {
    let mut script = loops("a:b");
    script.at(900).cpu(0).switch(IDLE, 0, HOLDER).cpu(2).switch(IDLE, 0, HOG);
    script.at(1010).cpu(1).by(NPT).syscall(202).at(1020).switch(NPT, SLEEPING, IDLE);
    wait(&mut script);
    script.at(4100).by(HOLDER).waking(NPT, 1).at(4110).cpu(1).by(IDLE).switch(IDLE, 0, NPT).at(4200).user(
        "a:b",
        NPT,
        &[],
    );
    inversions(&explain_longest(&script, "a:b").0)
}

#[test]
fn who_holds_a_waker_up_is_who_has_its_cpu_and_as_long_as_that() {
    let behind_one = |script: &mut Script| {
        script
            .at(1100)
            .cpu(0)
            .by(HOLDER)
            .switch(HOLDER, RUNNABLE, MIDDLE)
            .at(4000)
            .by(MIDDLE)
            .switch(MIDDLE, SLEEPING, HOLDER);
    };
    assert_eq!(held_up(behind_one), ["held up behind middle holder 2900"]);
    let behind_another_soon = |script: &mut Script| {
        script
            .at(1100)
            .cpu(0)
            .by(HOLDER)
            .switch(HOLDER, RUNNABLE, MIDDLE)
            .at(1110)
            .by(MIDDLE)
            .switch(MIDDLE, RUNNABLE, SECOND);
        script.at(4000).by(SECOND).switch(SECOND, SLEEPING, HOLDER);
    };
    let moved = |script: &mut Script| {
        script
            .at(1100)
            .cpu(0)
            .by(HOLDER)
            .switch(HOLDER, RUNNABLE, MIDDLE)
            .at(1110)
            .by(MIDDLE)
            .migrate(HOLDER, 0, 2);
        script.at(4000).cpu(2).by(HOG).switch(HOG, SLEEPING, HOLDER);
    };
    let in_a_gap = |script: &mut Script| {
        script
            .at(1030)
            .cpu(2)
            .lose_kernel(3900, 100)
            .at(1100)
            .cpu(0)
            .by(HOLDER)
            .switch(HOLDER, RUNNABLE, MIDDLE);
        script
            .at(1110)
            .by(MIDDLE)
            .migrate(HOLDER, 0, 2)
            .at(4000)
            .cpu(2)
            .by(HOG)
            .switch(HOG, SLEEPING, HOLDER);
    };
    let woken_elsewhere = |script: &mut Script| {
        script
            .at(1050)
            .cpu(0)
            .by(HOLDER)
            .switch(HOLDER, SLEEPING, MIDDLE)
            .at(1100)
            .cpu(1)
            .by(IDLE)
            .irq(5, "e");
        script
            .waking(HOLDER, 0)
            .woken(HOLDER, 2)
            .irq_exit(5)
            .at(4000)
            .cpu(2)
            .by(HOG)
            .switch(HOG, SLEEPING, HOLDER);
    };
    for wait in [behind_another_soon, moved, in_a_gap, woken_elsewhere] {
        assert_eq!(held_up(wait), [""; 0]);
    }
}

/// A softirq, which is not recorded, may have come on top of the thread and be the waker.
#[test]
fn without_softirqs_recorded_nobody_is_the_waker() {
    let mut script = Script::of_programs();
    script
        .at(0)
        .cpu(1)
        .switch(IDLE, 0, NPT)
        .waking(NPT, 0)
        .irq(0, "")
        .irq_exit(0)
        .vector("local_timer")
        .vector_exit("local_timer");
    for time in [100, 200] {
        script.at(time).cpu(1).user("a:b", NPT, &[]);
    }
    script.at(205).cpu(0).by(IDLE).switch(IDLE, 0, HOG).at(210).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(4980).cpu(0).by(HOG).irq(5, "eth0").at(4985).irq_exit(5).at(4990).waking(NPT, 1);
    script.at(5000).cpu(1).by(IDLE).switch(IDLE, 0, NPT).at(5050).user("a:b", NPT, &[]);
    let sleep = &explain_longest(&script, "a:b").0.parts[0];
    assert!(sleep.wakers.iter().all(|woken| woken.chain.is_empty()), "{sleep:?}");
}
