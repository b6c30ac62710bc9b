//! Tests of each cause that can take a thread's time.

mod support;

use sordino_analyze::*;
use sordino_event::{Nanos, Pid, Tid};
use sordino_intervals::*;
use sordino_timeline::Priority;
use support::{
    HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, V, WAITING, explain,
    explain_longest, inversions, loops, name, parts,
};

/// Returns the explanation of the longest `npt:loop`.
fn longest(script: &Script) -> Explanation {
    let findings = explain(script, "npt:loop", ExplainOptions::default());
    for explanation in &findings.intervals {
        let sum: Nanos = explanation.parts.iter().map(|part| part.time).sum();
        assert_eq!(sum, explanation.length, "{explanation:?}");
    }
    findings.intervals.into_iter().next().unwrap()
}

/// Ends the loop by its next event.
fn end(script: &mut Script, time: i64) -> &mut Script {
    script.at(time).cpu(1).user("npt:loop", NPT, &[])
}

#[test]
fn time_that_no_event_explains_is_own_as_long_as_normal() {
    let mut script = loops("npt:loop");
    end(&mut script, 5000);
    assert_eq!(parts(&longest(&script)), ["unexplained 3900 1", "own 100"]);
}

#[test]
fn a_preemption_is_named_and_net_of_the_interrupts_in_it() {
    let mut script = loops("npt:loop");
    script.at(1040).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(2000).irq(36, "virtio0");
    script.at(2100).irq_exit(36);
    script.at(2100).softirq(3);
    script.at(2130).irq(36, "virtio0");
    script.at(2150).irq_exit(36);
    script.at(2200).softirq_exit(3);
    script.at(5000).switch(HOG, SLEEPING, NPT);
    end(&mut script, 5060);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        ["preempted hog 3760 1", "irq 36 virtio0 120 2", "own 100", "NET_RX 80 1"]
    );
    let preempted = &explanation.parts[0];
    // One run of hog is one occurrence, even with interrupts.
    assert_eq!((preempted.count, preempted.longest), (1, Nanos(3760)));
    assert_eq!(explanation.parts[1].longest, Nanos(100));
    assert_eq!(
        explanation.main,
        Some(Main { part: 0, excess: Some(Nanos(3760)), others: 0, others_time: Nanos(0) })
    );
    assert!(inversions(&explanation).is_empty());
}

#[test]
fn several_threads_that_preempt_are_told_apart_and_main_together() {
    let other = Task(124, "other", 3);
    let mut script = loops("npt:loop");
    script.at(1050).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(1250).switch(HOG, RUNNABLE, other);
    script.at(1350).switch(other, RUNNABLE, HOG);
    script.at(1450).switch(HOG, SLEEPING, NPT);
    script.at(1450).irq(1, "x");
    script.at(1700).irq_exit(1);
    end(&mut script, 1750);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        ["preempted hog 300 2", "irq 1 x 250 1", "own 100", "preempted other 100 1"]
    );
    assert_eq!(
        explanation.main,
        Some(Main { part: 0, excess: Some(Nanos(300)), others: 1, others_time: Nanos(100) })
    );
}

#[test]
fn interrupts_nest_and_each_gets_its_own_time() {
    let mut script = loops("npt:loop");
    script.at(1010).cpu(1).vector("local_timer");
    script.at(1020).timer(0xffff_8000_0000_0010);
    script.at(1060).timer_exit();
    script.at(1070).vector_exit("local_timer");
    script.at(1070).softirq(1);
    script.at(1080).vector("reschedule");
    script.at(1100).nmi(0x10, 8);
    script.at(1100).vector_exit("reschedule");
    script.at(1200).softirq_exit(1);
    end(&mut script, 1300);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        [
            "TIMER 110 1",
            "own 100",
            "local_timer 60 1",
            "reschedule 12 1",
            "unexplained 10 1",
            "nmi 0x0000000000000010 8 1"
        ]
    );
    let inside: Vec<_> = explanation.parts[2].inside.iter().map(|i| (&*i.function, i.time.0)).collect();
    assert_eq!(inside, [("0xffff800000000010", 40)]);
}

#[test]
fn an_nmi_is_placed_before_its_event_and_no_farther_than_the_event_before() {
    let mut script = loops("npt:loop");
    script.at(1100).cpu(1).irq(1, "x");
    script.at(1150).nmi(1, 1000);
    script.at(1200).irq_exit(1);
    script.at(1400).nmi(1, 30);
    end(&mut script, 1500);
    assert_eq!(
        parts(&longest(&script)),
        ["unexplained 270 1", "own 100", "nmi 0x0000000000000001 80 2", "irq 1 x 50 1"]
    );
}

#[test]
fn own_system_calls_are_named_and_net() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).syscall(1);
    script.at(1100).irq(7, "eth0");
    script.at(1150).irq_exit(7);
    script.at(1300).syscall_exit(1);
    script.at(1350).syscall(999_999);
    script.at(1400).syscall_exit(999_999);
    end(&mut script, 1430);
    assert_eq!(
        parts(&longest(&script)),
        ["call write 230 1", "own 100", "call syscall 999999 50 1", "irq 7 eth0 50 1"]
    );
}

#[test]
fn page_faults_are_told_apart_by_the_error_code_and_the_size_of_the_page() {
    let mut script = loops("npt:loop");
    let missing = |script: &mut Script, at| {
        script.at(at).cpu(1).by(NPT).fault_of(true, 6);
    };
    missing(&mut script, 1010);
    script.at(1020).allocation(0);
    script.at(1050).user("npt:other", NPT, &[]);
    script.at(1060).by(NPT).fault_of(true, 7);
    script.at(1100).user("npt:other", NPT, &[]);
    missing(&mut script, 1110);
    script.at(1120).allocation(9);
    script.at(1200).user("npt:other", NPT, &[]);
    // A page that an interrupt or a call allocates does not belong to the fault.
    missing(&mut script, 1210);
    script.at(1215).irq(7, "eth0");
    script.at(1220).allocation(9);
    script.at(1225).irq_exit(7);
    script.at(1240).syscall(0);
    script.at(1245).allocation(9);
    script.at(1250).syscall_exit(0);
    end(&mut script, 1300);
    assert_eq!(
        parts(&longest(&script)),
        [
            "own 90",
            "huge fault 90 1",
            "fault 60 2",
            "write-protected fault 40 1",
            "call read 10 1",
            "irq 7 eth0 10 1"
        ]
    );
}

#[test]
fn a_page_fault_lasts_until_the_thread_is_seen_in_user_code() {
    let mut script = loops("npt:loop");
    script.at(1050).cpu(1).fault(true);
    script.at(1100).irq(7, "eth0");
    script.at(1150).irq_exit(7);
    script.at(1200).cpu(1).user("npt:other", NPT, &[]);
    script.at(1230).fault(true);
    script.at(1330).syscall(0);
    // Inside a call a fault is only counted.
    script.at(1340).fault(false);
    script.at(1380).syscall_exit(0);
    end(&mut script, 1400);
    assert_eq!(parts(&longest(&script)), ["fault 200 3", "own 100", "call read 50 1", "irq 7 eth0 50 1"]);
}

#[test]
fn a_sleep_is_explained_by_its_call_and_its_waker() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).syscall(230);
    script.at(1030).switch(NPT, SLEEPING, IDLE);
    script.at(3000).vector("local_timer");
    script.at(3010).timer(0x77);
    script.at(3020).waking(NPT, 1);
    script.at(3025).woken(NPT, 1);
    script.at(3030).timer_exit();
    script.at(3040).vector_exit("local_timer");
    script.at(3070).switch(IDLE, 0, NPT);
    script.at(3080).syscall_exit(230);
    end(&mut script, 3120);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        [
            "blocked S in clock_nanosleep 1990 1",
            "own 60",
            "queued idle in clock_nanosleep 30 1",
            "call clock_nanosleep 20 1",
            "local_timer 20 1",
        ]
    );
    let [woken] = &explanation.parts[0].wakers[..] else { panic!("{:?}", explanation.parts[0].wakers) };
    let Waker::Interrupt { cause, .. } = &woken.by else { panic!("{woken:?}") };
    assert_eq!((name(cause), woken.count), ("local_timer".to_owned(), 1));
    assert!(inversions(&explanation).is_empty());
}

#[test]
fn a_futex_that_wakes_the_recorder_is_sordinos_own_call() {
    const WAKE: u64 = 1;
    let mut script = loops("npt:loop");
    script.wake_ups = vec![(Pid(9), 0x5000), (Pid(NPT.0), 0x6000)];
    script.at(1010).futex(0x6000, WAKE);
    script.at(1110).syscall_exit(202);
    // Another word, another process's word, and another operation on the same word are the program's own.
    for (number, call) in (0..).zip([(0x7000, WAKE), (0x5000, WAKE), (0x6000, 7)]) {
        script.at(1200 + 20 * number).futex(call.0, call.1);
        script.at(1210 + 20 * number).syscall_exit(202);
    }
    end(&mut script, 1300);
    assert_eq!(
        parts(&longest(&script)),
        ["own 100", "recorder wake-up 100 1", "unexplained 70 1", "call futex 30 3"]
    );
}

#[test]
fn the_recorders_threads_are_known_by_number_as_long_as_they_live() {
    let recorder = |ends: bool| {
        let mut script = loops("npt:loop");
        script.at(1000).kernel("sordino_statedump_recorder", &[("tid", V::I(HOG.0.into()))]);
        if ends {
            script.at(1010).cpu(0).kernel("sched_process_free", &[("tid", V::I(HOG.0.into()))]);
        }
        script.at(1040).cpu(1).switch(NPT, RUNNABLE, HOG);
        script.at(2200).switch(HOG, SLEEPING, NPT);
        end(&mut script, 2260);
        let causes = longest(&script).parts.into_iter().map(|part| part.cause);
        let behind = causes.filter_map(|cause| match cause {
            Cause::Waiting { behind, .. } => behind,
            _ => None,
        });
        behind.map(|thread| (thread.tid.0, thread.is_recorder)).collect::<Vec<_>>()
    };
    assert_eq!(recorder(false), [(HOG.0, true)]);
    // Another thread has the id of one that has ended.
    assert_eq!(recorder(true), [(HOG.0, false)]);
}

#[test]
fn a_thread_that_wakes_another_is_named() {
    let mut script = loops("npt:loop");
    script.at(500).cpu(0).switch(IDLE, 0, KWORKER);
    script.at(1030).cpu(1).switch(NPT, WAITING, IDLE);
    script.at(1500).cpu(0).waking(NPT, 1);
    script.at(1510).cpu(1).switch(IDLE, 0, NPT);
    end(&mut script, 1600);
    let explanation = longest(&script);
    let Waker::Thread { thread } = &explanation.parts[0].wakers[0].by else { panic!("{explanation:?}") };
    assert_eq!((thread.tid.0, thread.comm.as_deref()), (77, Some("kworker/1:2")));
}

#[test]
fn a_waker_by_the_same_futex_held_the_lock_and_what_it_did_meanwhile_is_told() {
    const LOCK_PI: u64 = 6;
    const UNLOCK_PI: u64 = 7;
    const WAIT_PRIVATE: u64 = 128;
    const WAKE_PRIVATE: u64 = 129;
    const LOW: Task = Task(90, "low", 89);
    const MEDIUM: Task = Task(91, "medium", 79);
    // The thread npt sleeps from 1030 on; the low thread runs, waits behind the medium one, sleeps, runs and wakes npt.
    let sleep = |(wait, word): (u64, u64), (wake, other): (u64, u64)| {
        let mut script = loops("npt:loop");
        script.at(1020).futex(word, wait);
        script.at(1030).switch(NPT, SLEEPING, LOW);
        script.at(1100).switch(LOW, RUNNABLE, MEDIUM);
        script.at(1300).switch(MEDIUM, SLEEPING, LOW);
        script.at(1350).switch(LOW, SLEEPING, IDLE);
        script.at(1360).switch(IDLE, 0, LOW);
        script.at(1390).futex(other, wake);
        script.at(1400).waking(NPT, 1);
        script.at(1400).switch(LOW, RUNNABLE, NPT);
        end(&mut script, 1450);
        let explanation = longest(&script);
        assert_eq!(parts(&explanation)[0], "blocked S in futex 370 1");
        explanation.parts[0].wakers[0].clone()
    };
    let thread_of = |task: Task| Thread {
        tid: Tid(task.0),
        comm: Some(task.1.into()),
        priority: Some(Priority(task.2)),
        is_recorder: false,
    };
    let woken = sleep((WAIT_PRIVATE, 64), (WAKE_PRIVATE, 64));
    let waited = vec![Behind { thread: Some(thread_of(MEDIUM)), time: Nanos(200) }];
    let chain = vec![Link {
        level: 1,
        thread: thread_of(LOW),
        ran: Nanos(160),
        slept: Nanos(10),
        throttled: Nanos(0),
        stopped: Nanos(0),
        waited,
    }];
    let by = Waker::Thread { thread: thread_of(LOW) };
    assert_eq!(woken, Woken { by, lock: Some(Lock::Inferred), count: 1, time: Nanos(370), chain });
    assert_eq!(sleep((LOCK_PI, 64), (UNLOCK_PI, 64)).lock, Some(Lock::Held));
    for (wait, wake) in [((WAIT_PRIVATE, 64), (WAKE_PRIVATE, 72)), ((WAIT_PRIVATE, 64), (UNLOCK_PI, 64))] {
        assert_eq!(sleep(wait, wake).lock, None);
    }
    // The value of a semaphore, and a barrier that wakes all waiters.
    let of = |expected: u64, woken: u64| {
        let mut script = loops("npt:loop");
        script.at(1020).futex_of(64, WAIT_PRIVATE, expected);
        script.at(1030).switch(NPT, SLEEPING, LOW);
        script.at(1390).futex_of(64, WAKE_PRIVATE, woken);
        script.at(1400).waking(NPT, 1).switch(LOW, RUNNABLE, NPT);
        end(&mut script, 1450);
        longest(&script).parts[0].wakers[0].lock
    };
    assert_eq!(
        [of(2, 1), of(0, 1), of(2, 0x7fff_ffff), of(0xffff_ffff, 1)],
        [Some(Lock::Inferred), None, None, None]
    );
}

#[test]
fn without_the_interrupts_recorded_no_thread_is_blamed_for_a_wake_up() {
    let mut script = Script::of_programs();
    script.at(0).cpu(1).switch(IDLE, 0, NPT).cpu(0).switch(IDLE, 0, KWORKER);
    script.at(10).cpu(1).user("npt:loop", NPT, &[]);
    script.at(20).switch(NPT, SLEEPING, IDLE);
    script.at(30).cpu(0).waking(NPT, 1);
    script.at(40).cpu(1).switch(IDLE, 0, NPT);
    end(&mut script, 50);
    let explanation = longest(&script);
    let sleep = explanation.parts.iter().find(|part| matches!(part.cause, Cause::Blocked { .. })).unwrap();
    assert_eq!(
        sleep.wakers,
        [Woken { by: Waker::Unknown, lock: None, count: 1, time: Nanos(10), chain: Vec::new() }]
    );
}

#[test]
fn after_a_wake_up_the_thread_waits_behind_whoever_has_the_cpu() {
    let mut script = loops("npt:loop");
    script.at(1030).cpu(1).switch(NPT, SLEEPING, HOG);
    script.at(1500).cpu(0).waking(NPT, 1);
    script.at(1700).cpu(1).switch(HOG, SLEEPING, NPT);
    end(&mut script, 1750);
    assert_eq!(parts(&longest(&script)), ["blocked S 470 1", "queued hog 200 1", "own 80"]);
}

#[test]
fn a_cpu_of_which_nothing_is_known_is_not_called_idle() {
    let mut script = loops("npt:loop");
    script.at(1030).cpu(1).switch(NPT, SLEEPING, IDLE);
    script.at(1500).cpu(0).waking(NPT, 1);
    script.at(1500).migrate(NPT, 1, 3);
    script.at(1700).cpu(3).switch(IDLE, 0, NPT);
    script.at(1750).cpu(3).user("npt:loop", NPT, &[]);
    let explanation = longest(&script);
    assert_eq!(parts(&explanation), ["blocked S 470 1", "queued ? 200 1", "own 80"]);
    assert_eq!((explanation.migrations.len(), explanation.migrations_count), (1, 1));
    assert_eq!((explanation.migrations[0].from, explanation.migrations[0].to), (1, 3));
}

#[test]
fn a_thread_that_is_moved_while_it_waits_is_explained_by_its_new_cpu() {
    let mut script = loops("npt:loop");
    script.at(500).cpu(2).switch(IDLE, 0, KWORKER);
    script.at(1050).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(1100).cpu(2).irq(4, "on its old CPU it would not matter");
    script.at(1200).cpu(0).migrate(NPT, 1, 2);
    script.at(1300).cpu(1).irq(5, "not its CPU any more");
    script.at(1400).cpu(2).irq_exit(4);
    script.at(1500).cpu(2).switch(KWORKER, RUNNABLE, NPT);
    script.at(1550).cpu(2).user("npt:loop", NPT, &[]);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        [
            "irq 4 on its old CPU it would not matter 200 1",
            "preempted hog 150 1",
            "own 100",
            "preempted kworker/1:2 100 1"
        ]
    );
    assert_eq!(inversions(&explanation), ["runnable kworker/1:2 100"]);
}

/// The papers' finding: npt notifies the consumer of a full sub-buffer by a write that should not block. It is
/// scheduled out, and a worker of the kernel with a lower priority runs.
#[test]
fn a_kworker_that_runs_while_npt_is_inside_write_is_an_inversion() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).syscall(1);
    script.at(1040).switch(NPT, WAITING, KWORKER);
    script.at(1050).work(0xffff_8000_0000_abcd);
    script.at(1900).waking(NPT, 1);
    script.at(1950).work_exit();
    script.at(2000).switch(KWORKER, SLEEPING, NPT);
    script.at(2040).syscall_exit(1);
    end(&mut script, 2060);
    let explanation = longest(&script);
    assert_eq!(
        parts(&explanation),
        ["blocked D in write 860 1", "queued kworker/1:2 in write 100 1", "call write 60 1", "own 40"]
    );
    assert_eq!(inversions(&explanation), ["in write kworker/1:2 860", "runnable kworker/1:2 100"]);
    let inside = &explanation.parts[1].inside;
    assert_eq!((&*inside[0].function, inside[0].time), ("0xffff80000000abcd", Nanos(50)));
}

/// The worker completes the thread's own read from a disk (`pread64`).
#[test]
fn a_kworker_that_runs_while_npt_reads_a_file_is_no_inversion() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).syscall(17);
    script.at(1040).switch(NPT, WAITING, KWORKER);
    script.at(1999).waking(NPT, 1);
    script.at(2000).switch(KWORKER, SLEEPING, NPT);
    script.at(2040).syscall_exit(17);
    end(&mut script, 2060);
    assert!(inversions(&longest(&script)).is_empty());
}

#[test]
fn an_inversion_matters_from_a_twentieth_of_the_excess_on() {
    for (time, expected) in [(94, 0), (95, 1)] {
        let mut script = loops("npt:loop");
        script.at(1040).cpu(1).switch(NPT, RUNNABLE, HOG);
        script.at(2940).switch(HOG, SLEEPING, Task(6, "lower", NPT.2 + 1));
        script.at(2940 + time).switch(Task(6, "lower", NPT.2 + 1), RUNNABLE, NPT);
        end(&mut script, 3100);
        let explanation = longest(&script);
        assert_eq!(explanation.main.as_ref().unwrap().excess, Some(Nanos(1900)));
        assert_eq!(inversions(&explanation).len(), expected, "{time}");
    }
}

#[test]
fn who_runs_while_a_thread_sleeps_on_purpose_is_no_inversion() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).syscall(35);
    script.at(1040).switch(NPT, SLEEPING, KWORKER);
    script.at(2000).switch(KWORKER, RUNNABLE, NPT);
    end(&mut script, 2060);
    assert!(inversions(&longest(&script)).is_empty());
}

#[test]
fn threads_of_equal_or_higher_priority_and_shares_of_nice_threads_are_no_inversion() {
    let [equal, lower] = [Task(5, "equal", NPT.2), Task(6, "lower", NPT.2 + 1)];
    // A running ordinary thread proves that real-time threads are throttled.
    let cases = [
        (NPT, HOG, 0),
        (NPT, equal, 0),
        (NPT, lower, 1),
        (NPT, KWORKER, 0),
        (Task(10, "nice", 100), KWORKER, 0),
    ];
    for (own, other, expected) in cases {
        let mut script = Script::new();
        script.at(0).cpu(1).switch(IDLE, 0, own);
        script.at(10).user("npt:loop", own, &[]);
        script.at(20).switch(own, RUNNABLE, other);
        script.at(80).switch(other, RUNNABLE, own);
        script.at(90).user("npt:loop", own, &[]);
        assert_eq!(inversions(&longest(&script)).len(), expected, "{own:?} {other:?}");
    }
}

/// The classic inversion: low holds a lock that npt waits for, and cannot run because middle has its CPU.
#[test]
fn a_waker_of_lower_priority_that_was_preempted_itself_is_an_inversion() {
    let low = Task(20, "low", 119);
    let middle = Task(21, "middle", 50);
    let mut script = loops("npt:loop");
    script.at(900).cpu(0).switch(IDLE, 0, low);
    script.at(1010).cpu(1).syscall(202);
    script.at(1020).switch(NPT, SLEEPING, IDLE);
    script.at(1100).cpu(0).switch(low, RUNNABLE, middle);
    script.at(4000).switch(middle, SLEEPING, low);
    script.at(4100).waking(NPT, 1);
    script.at(4110).cpu(1).switch(IDLE, 0, NPT);
    end(&mut script, 4200);
    assert_eq!(inversions(&longest(&script)), ["held up behind middle low 2900"]);
}

/// A limit is proved by the scheduler's choice of another thread while the thread stood in the queue.
#[test]
fn a_thread_that_a_limit_keeps_from_its_cpu_is_throttled() {
    const DEADLINE: i32 = -1;
    let [low, stopper] = [Task(40, "low", 120), Task(41, "migration/1", 0)];
    let nice = |priority| Task(NPT.0, NPT.1, priority);
    let cases = [
        (nice(120), IDLE, "throttled ControlGroup 49970 1"),
        (NPT, IDLE, "throttled RealTime 49970 1"),
        (NPT, low, "throttled RealTime 49970 1"),
        (nice(DEADLINE), IDLE, "throttled Deadline 49970 1"),
        (nice(DEADLINE), HOG, "throttled Deadline 49970 1"),
        (nice(DEADLINE), stopper, "preempted migration/1 49970 1"),
        (nice(120), low, "preempted low 49970 1"),
    ];
    for (own, other, expected) in cases {
        let mut script = Script::new();
        script.at(0).cpu(1).switch(IDLE, 0, own);
        for time in (100..=1000).step_by(100) {
            script.at(time).user("npt:loop", own, &[]);
        }
        script.at(1030).switch(own, RUNNABLE, other);
        script.at(51_000).switch(other, 0, own);
        script.at(51_070).user("npt:loop", own, &[]);
        let explanation = longest(&script);
        assert_eq!(parts(&explanation), [expected, "own 100"]);
        assert!(inversions(&explanation).is_empty());
    }
}

/// A woken thread waits behind the thread that has the CPU, until the scheduler chooses that one, and again when
/// real-time threads have it.
#[test]
fn a_thread_is_throttled_from_the_choice_on_that_shows_it() {
    let [low, other] = [Task(40, "low", 120), Task(42, "other", 120)];
    let causes_of = |is_queued: bool, moves: bool| {
        let mut script = loops("a:b");
        script.at(1010).switch(NPT, SLEEPING, low);
        script.at(1100).cpu(0).waking(NPT, 1);
        if is_queued {
            script.at(1110).cpu(1).woken(NPT, 1);
        }
        if moves {
            script.at(1120).cpu(0).migrate(NPT, 2, 1);
        }
        script.at(1200).cpu(1).switch(low, RUNNABLE, other);
        script.at(1500).switch(other, RUNNABLE, HOG);
        script.at(1600).switch(HOG, SLEEPING, NPT).at(1710).user("a:b", NPT, &[]);
        parts(&explain_longest(&script, "a:b").0)
    };
    let sure =
        ["throttled RealTime 300 1", "own 120", "preempted hog 100 1", "queued low 100 1", "blocked S 90 1"];
    assert_eq!(causes_of(true, false), sure);
    // The thread may have entered the queue after the choice.
    let unsure = ["queued other 300 1", "own 120", "queued low 100 1", "queued hog 100 1", "blocked S 90 1"];
    assert_eq!(causes_of(false, false), unsure);
    assert_eq!(causes_of(true, true), unsure);
}

#[test]
fn a_signal_handler_is_named_with_its_sender_until_it_returns() {
    const RT_SIGRETURN: i64 = 15;
    const WRITE: i64 = 1;
    let mut script = loops("npt:loop");
    script.at(900).cpu(0).switch(IDLE, 0, HOG);
    script.at(1020).by(HOG).signal(10, NPT);
    script.at(1030).cpu(1).by(NPT).delivered(10, 0x4000);
    script.at(1050).syscall(WRITE).at(1060).syscall_exit(WRITE);
    // Another signal interrupts the handler.
    script.at(1100).vector("local_timer").signal(40, NPT);
    script.at(1110).vector_exit("local_timer").delivered(40, 0x4000);
    script.at(1150).syscall(RT_SIGRETURN).at(1151).syscall_exit(-1);
    script.at(1250).syscall(RT_SIGRETURN).at(1252).syscall_exit(-1);
    // This signal has no handler.
    script.at(1260).delivered(17, 0);
    end(&mut script, 1300);
    let expected = [
        "SIGUSR1 of 123 159 1",
        "own 78",
        "signal 40 40 1",
        "call write 10 1",
        "local_timer 10 1",
        "call rt_sigreturn 3 2",
    ];
    assert_eq!(parts(&longest(&script)), expected);
}

/// A handler that was left by a jump is over when its signal comes again.
#[test]
fn a_handler_that_never_returns_does_not_nest() {
    let mut script = loops("a:b");
    script.cpu(1).by(NPT);
    for time in [1010, 1020, 1030] {
        script.at(time).delivered(14, 0x4000);
    }
    script.at(1040).syscall(15).at(1041).syscall_exit(-1);
    script.at(1150).user("a:b", NPT, &[]);
    let expected = ["own 119", "SIGALRM 30 3", "call rt_sigreturn 1 1"];
    assert_eq!(parts(&explain_longest(&script, "a:b").0), expected);
}

/// Without recorded system calls, the end of a handler is not known.
#[test]
fn a_handler_without_an_end_is_own_code() {
    let mut script = Script::of_programs();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    script.at(10).user("a:b", NPT, &[]);
    script.at(20).by(NPT).delivered(10, 0x4000);
    script.at(50).user("a:b", NPT, &[]);
    let (explanation, findings) = explain_longest(&script, "a:b");
    let Cause::OwnOrUnrecorded { missing } = &explanation.parts[0].cause else { panic!("{explanation:?}") };
    assert!(missing.contains(&Missing::Syscalls) && !missing.contains(&Missing::Signals), "{missing:?}");
    assert!(missing.iter().all(|kind| findings.missing.contains(kind)));
}

/// The timer's own clock differs from the trace's.
#[test]
fn a_timer_that_comes_late_is_told_from_the_sleep() {
    let causes_of = |due: [i64; 2], clock: i64| {
        let mut script = loops("a:b");
        script.at(1010).by(NPT).syscall(230).timer_start(0xffff_8880, due);
        script.at(1020).switch(NPT, SLEEPING, HOG);
        script.at(1900).by(HOG).vector("local_timer").timer_of(0xffff_8880, clock);
        script.at(1902).waking(NPT, 1).timer_exit().vector_exit("local_timer");
        script.at(1910).switch(HOG, RUNNABLE, NPT);
        script.at(1920).by(NPT).syscall_exit(230).user("a:b", NPT, &[]);
        parts(&explain_longest(&script, "a:b").0)
    };
    let rest = ["call clock_nanosleep 20 1", "own 10", "queued hog in clock_nanosleep 8 1"];
    let with = |parts: &[&str]| parts.iter().chain(&rest).map(|part| part.to_string()).collect::<Vec<_>>();
    assert_eq!(
        causes_of([5_000, 5_300], 5_700),
        with(&["late by hog 402 1", "in its slack 300 1", "blocked S in clock_nanosleep 180 1"])
    );
    let punctual = causes_of([5_000, 5_000], 5_000);
    assert_eq!(
        (&*punctual[0], &**punctual.last().unwrap()),
        ("blocked S in clock_nanosleep 880 1", "late by hog 2 1")
    );
    // The timer was started before the thread slept, for another purpose.
    assert_eq!(causes_of([3_000, 3_000], 5_700)[0], "blocked S in clock_nanosleep 882 1");
}

#[test]
fn a_sleep_between_a_fault_and_the_next_system_call_is_the_faults() {
    let causes_of = |with_syscalls: bool, state: i64| {
        let mut script = if with_syscalls { Script::new() } else { Script::of_programs() };
        script.at(0).cpu(1).switch(IDLE, 0, NPT);
        for time in (100..=1000).step_by(100) {
            script.at(time).user("npt:loop", NPT, &[]);
        }
        script.at(1010).by(NPT).fault(true);
        script.at(1020).switch(NPT, state, IDLE);
        script.at(1900).by(IDLE).irq(5, "disk").waking(NPT, 1).irq_exit(5);
        script.at(1910).switch(IDLE, 0, NPT);
        end(&mut script, 1950);
        parts(&longest(&script))[0].clone()
    };
    assert_eq!(causes_of(true, WAITING), "blocked in a fault 880 1");
    // A signal stopped the thread.
    assert_eq!(causes_of(true, 4), "blocked T 880 1");
    // The thread may have slept in a call that is not recorded.
    assert_eq!(causes_of(false, WAITING), "blocked D 880 1");
}

/// The sentence "asleep in read; woken by stageB, which waited behind stagehog", over three stages, each in a thread of
/// its own.
#[test]
fn a_sleep_is_followed_through_its_wakers() {
    let stages: [Task; 3] = [Task(31, "first", 39), Task(32, "second", 39), Task(33, "third", 39)];
    let [first, second, third] = stages;
    let mut script = loops("npt:loop");
    script.at(1000).cpu(0).switch(IDLE, 0, first);
    script.at(1010).cpu(1).by(NPT).syscall(0).switch(NPT, SLEEPING, IDLE);
    // The first runs, waits behind the hog, and wakes the second, which wakes the third, which wakes npt.
    script.at(1100).cpu(0).switch(first, RUNNABLE, HOG);
    script.at(1600).switch(HOG, SLEEPING, first);
    script.at(1700).by(first).waking(second, 0).switch(first, SLEEPING, second);
    script.at(1750).by(second).waking(third, 0);
    script.at(1760).switch(second, SLEEPING, third);
    script.at(1800).by(third).waking(NPT, 1);
    script.at(1800).cpu(1).switch(IDLE, 0, NPT);
    script.at(1810).by(NPT).syscall_exit(0);
    end(&mut script, 1820);
    let explanation = longest(&script);
    assert_eq!(parts(&explanation)[0], "blocked S in read 790 1");
    let woken = &explanation.parts[0].wakers[0];
    let link = |link: &Link| {
        let waited: Vec<_> =
            link.waited.iter().map(|wait| (wait.thread.as_ref().unwrap().tid.0, wait.time.0)).collect();
        (link.level, link.thread.tid.0, link.ran.0, link.slept.0, waited)
    };
    let chain: Vec<_> = woken.chain.iter().map(link).collect();
    let (third, second) = ((1, third.0, 40, 0, vec![(second.0, 10)]), (2, second.0, 50, 0, vec![]));
    assert_eq!(chain, [third, second, (3, first.0, 190, 0, vec![(HOG.0, 500)])]);
}

#[test]
fn softirqs_that_are_preempted_on_a_real_time_kernel_go_on_later() {
    let mut script = loops("npt:loop");
    script.at(1050).cpu(1).softirq(3);
    script.at(1100).switch(NPT, RUNNABLE, HOG);
    script.at(1300).switch(HOG, SLEEPING, NPT);
    script.at(1350).softirq_exit(3);
    end(&mut script, 1400);
    let explanation = longest(&script);
    assert_eq!(parts(&explanation), ["preempted hog 200 1", "own 100", "NET_RX 100 1"]);
    assert_eq!(explanation.parts[2].longest, Nanos(100));
}

#[test]
fn an_interrupt_whose_entry_was_not_seen_is_not_made_up() {
    let mut script = Script::new();
    script.at(5).cpu(1).irq_exit(3);
    script.at(6).cpu(1).softirq_exit(3);
    script.at(10).cpu(1).user("npt:loop", NPT, &[]);
    script.at(15).cpu(1).irq_exit(3);
    end(&mut script, 20);
    assert_eq!(parts(&longest(&script)), ["own 10"]);
}

#[test]
fn an_interrupt_whose_exit_was_not_seen_ends_when_the_thread_runs() {
    let mut script = loops("npt:loop");
    script.at(1010).cpu(1).irq(3, "x");
    script.at(1050).user("npt:other", NPT, &[]);
    script.at(1100).softirq(1);
    script.at(1150).syscall(0);
    script.at(1160).syscall_exit(0);
    script.at(1200).irq(4, "y");
    script.at(1300).switch(NPT, RUNNABLE, HOG);
    script.at(1400).switch(HOG, RUNNABLE, NPT);
    end(&mut script, 1500);
    assert_eq!(
        parts(&longest(&script)),
        [
            "own 100",
            "unexplained 100 1",
            "irq 4 y 100 1",
            "preempted hog 100 1",
            "TIMER 50 1",
            "irq 3 x 40 1",
            "call read 10 1"
        ]
    );
}

#[test]
fn where_kernel_records_are_missing_the_time_is_unknown_and_the_loss_is_told() {
    let mut script = loops("npt:loop");
    script.at(1020).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(1100).lose_kernel(1700, 12);
    script.at(1100).cpu(0).lose_kernel(1200, 3);
    script.at(1750).cpu(1).switch(HOG, SLEEPING, NPT);
    end(&mut script, 1800);
    let explanation = longest(&script);
    assert_eq!(parts(&explanation), ["unknown 650 1", "preempted hog 80 1", "own 70"]);
    let lost: Vec<_> = explanation.lost.iter().map(|lost| (lost.cpu.map(|cpu| cpu.0), lost.count)).collect();
    assert_eq!(lost, [(Some(0), 3), (Some(1), 12)]);
}

#[test]
fn losses_before_and_after_do_not_matter() {
    let mut script = loops("npt:loop");
    script.at(900).cpu(1).lose_kernel(1000, 12);
    end(&mut script, 1500).lose_kernel(1600, 4);
    end(&mut script, 1700);
    let findings = explain(&script, "npt:loop", ExplainOptions::default());
    assert!(findings.intervals[0].lost.is_empty());
    let [lost] = &findings.lost[..] else { panic!("{:?}", findings.lost) };
    assert_eq!((lost.count, lost.from.0, lost.to.0), (16, 900, 1600));
}

#[test]
fn a_trace_of_programs_alone_explains_nothing_and_says_what_is_missing() {
    let mut script = Script::of_programs();
    for time in [0, 100, 200, 300, 5000] {
        script.at(time).cpu(1).user("npt:loop", NPT, &[]);
    }
    let findings = explain(&script, "npt:loop", ExplainOptions::default());
    assert_eq!(parts(&findings.intervals[0]), ["no kernel 4700 1"]);
    let main = findings.intervals[0].main.as_ref().unwrap();
    assert_eq!((main.part, main.excess), (0, None));
    assert_eq!(findings.missing.len(), 10);
    assert!(explain(&loops("npt:loop"), "npt:loop", ExplainOptions::default()).missing.is_empty());
}

#[test]
fn an_interval_may_cross_threads_and_is_the_time_of_the_one_that_ends_it() {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    script.at(10).switch(NPT, SLEEPING, HOG);
    script.at(100).cpu(0).waking(NPT, 1);
    script.at(400).cpu(1).switch(HOG, RUNNABLE, NPT);
    script.at(450).user("npt:loop", NPT, &[]);
    let findings = explain(&script, "sched_waking@tid..npt:loop", ExplainOptions::default());
    assert_eq!(findings.intervals.len(), 1);
    let explanation = &findings.intervals[0];
    assert_eq!((explanation.length, explanation.thread.tid.0), (Nanos(350), 10));
    assert_eq!(parts(explanation), ["queued hog 300 1", "own 50"]);
}

#[test]
fn the_ranking_adds_up_what_took_the_time_in_all_long_intervals() {
    let mut script = loops("npt:loop");
    let mut time = 1000;
    for round in 1..=3 {
        script.at(time + 40).cpu(1).switch(NPT, RUNNABLE, HOG);
        script.at(time + 40 + 1000 * round).switch(HOG, SLEEPING, NPT);
        script.at(time + 50 + 1000 * round).irq(9, "disk");
        script.at(time + 60 + 1000 * round).irq_exit(9);
        time += 100 + 1000 * round;
        end(&mut script, time);
    }
    let findings = explain(&script, "npt:loop", ExplainOptions { longest: 1, ..ExplainOptions::default() });
    assert_eq!(
        (findings.intervals.len(), findings.ranked, findings.limit, findings.more),
        (1, 3, Nanos(100), false)
    );
    let ranking: Vec<_> = findings
        .ranking
        .iter()
        .map(|r| (name(&r.cause), r.time.0, r.count, r.intervals, r.longest.0, r.longest_at.0))
        .collect();
    assert_eq!(
        ranking,
        [("preempted hog".to_owned(), 6000, 3, 3, 3000, 4200), ("irq 9 disk".to_owned(), 30, 3, 3, 10, 1000)]
    );
}

#[test]
fn a_limit_keeps_shorter_intervals_out() {
    let mut script = loops("npt:loop");
    end(&mut script, 1500);
    end(&mut script, 3000);
    let over = |limit| {
        let findings = explain(
            &script,
            "npt:loop",
            ExplainOptions { limit: Some(Nanos(limit)), ..ExplainOptions::default() },
        );
        (findings.intervals.len() as u64, findings.ranked)
    };
    assert_eq!([over(99), over(100), over(500), over(1500)], [(10, 11), (2, 2), (1, 1), (0, 0)]);
}

#[test]
fn equal_times_add_nothing_and_the_order_of_events_decides() {
    let mut script = loops("npt:loop");
    script.at(1000).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(1000).user("npt:other", NPT, &[]);
    script.at(1500).switch(HOG, RUNNABLE, NPT);
    script.at(1500).user("npt:loop", NPT, &[]);
    assert_eq!(parts(&longest(&script)), ["preempted hog 500 1"]);
}

#[test]
fn a_thread_that_was_seen_to_leave_and_then_runs_must_have_come_back() {
    let mut script = loops("npt:loop");
    script.at(1100).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(1300).user("npt:other", NPT, &[]);
    end(&mut script, 1400);
    assert_eq!(parts(&longest(&script)), ["preempted hog 200 1", "own 100", "unexplained 100 1"]);
}

#[test]
fn a_thread_whose_leaving_was_not_seen_is_unknown_from_then_on() {
    let mut script = loops("npt:loop");
    script.at(1100).cpu(1).switch(HOG, RUNNABLE, KWORKER);
    script.at(1200).switch(KWORKER, RUNNABLE, NPT);
    end(&mut script, 1250);
    // The time between 1000 and 1100 at which it left is not known.
    assert_eq!(parts(&longest(&script)), ["unknown 200 1", "own 50"]);
}

#[test]
fn what_the_hypervisor_took_about_that_time_of_its_cpu_is_told() {
    use support::V;
    let mut script = loops("npt:loop");
    end(&mut script, 9000);
    for (time, cpu, window) in [(9500, 1, 1000), (9600, 0, 1000), (9700, 1, 600)] {
        let fields = [("cpu", V::U(cpu)), ("time_ns", V::U(300)), ("window_ns", V::U(window))];
        script.at(time).kernel("sordino_steal", &fields);
    }
    let Explanation { stolen, parts, .. } = longest(&script);
    let may_be: Vec<_> = parts.iter().map(|part| (part.cause.entry().kind, part.may_be_stolen)).collect();
    assert_eq!(may_be, [("unexplained", true), ("own", false)], "npt's usual time is its own");
    let (from, to) = (sordino_event::Time(8500), sordino_event::Time(9500));
    assert_eq!(stolen, [Stolen { cpu: 1, time: Nanos(300), from, to }]);
}

#[test]
fn own_code_may_have_been_a_hypervisors_where_that_took_time() {
    for (cpu, may_be) in [(0, false), (1, true)] {
        let mut script = loops("motor:period");
        script.at(9000).cpu(1).user("motor:period", NPT, &[]);
        let fields = [("cpu", V::U(cpu)), ("time_ns", V::U(300)), ("window_ns", V::U(1000))];
        script.at(9500).kernel("sordino_steal", &fields);
        let (explanation, _) = explain_longest(&script, "motor:period");
        let [own] = &explanation.parts[..] else { panic!("{explanation:?}") };
        assert_eq!((own.cause.entry().kind, own.may_be_stolen), ("own", may_be));
    }
}

#[test]
fn findings_are_serialized_with_their_version_and_plain_numbers() {
    let mut script = loops("npt:loop");
    script.at(1040).cpu(1).switch(NPT, RUNNABLE, HOG);
    script.at(5000).switch(HOG, SLEEPING, NPT);
    end(&mut script, 5060);
    let json = serde_json::to_value(explain(&script, "npt:loop", ExplainOptions::default())).unwrap();
    assert_eq!((&json["schema"], &json["version"]), (&"sordino-findings".into(), &2.into()));
    let part = &json["intervals"][0]["parts"][0];
    assert_eq!(part["time_ns"], 3960);
    assert_eq!(
        part["cause"],
        serde_json::json!({
            "kind": "waiting", "after": "preemption", "syscall": null,
            "behind": {"tid": 123, "comm": "hog", "priority": 3},
        })
    );
    assert_eq!(json["intervals"][0]["begin_ns"], 1000);
    assert_eq!(json["intervals"][0]["begin_fields"], serde_json::json!({}));
    assert_eq!(json["statistics"]["median_ns"], 100);
}

#[test]
fn fields_that_name_nothing_are_refused() {
    let script = loops("npt:loop");
    let refused = |rule: &str| Finder::new(&script.classes, rule.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(refused("npt:lop"), "the trace has no event called `npt:lop`");
    assert_eq!(refused("npt:loop..x"), "the trace has no event called `x`");
    assert_eq!(refused("npt:loop@id..npt:loop"), "the event `npt:loop` has no field called `id`");
}

#[test]
fn an_interval_has_the_fields_of_the_events_at_its_ends() {
    let mut script = Script::new();
    script.at(0).cpu(1).switch(IDLE, 0, NPT);
    script.at(10).cpu(1).user("net:request", NPT, &[("id", V::I(7)), ("name", V::T("a"))]);
    script.at(20).cpu(0).user("net:request", HOG, &[("id", V::I(8)), ("name", V::T("b"))]);
    script.at(90).cpu(1).user("net:answer", NPT, &[("id", V::I(7)), ("bytes", V::U(u64::MAX))]);
    let findings = explain(&script, "net:request@id..net:answer@id", ExplainOptions::default());
    let json = serde_json::to_value(&findings.intervals[0]).unwrap();
    assert_eq!(json["begin_fields"], serde_json::json!({ "id": 7, "name": "a" }));
    assert_eq!(json["end_fields"], serde_json::json!({ "id": 7, "bytes": u64::MAX }));
}
