//! Tests of the wakers of threads, and of their activities meanwhile.

mod support;

use sordino_analyze::*;
use support::{
    HOG, IDLE, KWORKER, NPT, RUNNABLE, SLEEPING, Script, ScriptThread as Task, explain_longest, loops,
};

/// The kernel's state of a thread that a signal has stopped.
const STOPPED: i64 = 4;

/// Creates loops of npt on CPU 1, the last of which begins at 1000; npt sleeps from 1040 on, and has its CPU again
/// at 2000.
fn asleep(meanwhile: impl FnOnce(&mut Script)) -> Script {
    let mut script = loops("a:b");
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    meanwhile(&mut script);
    script.at(2000).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    script
}

/// Returns the first waker of npt in its longest interval.
fn woken(script: &Script) -> Woken {
    let explanation = explain_longest(script, "a:b").0;
    let mut wakers = explanation.parts.into_iter().flat_map(|part| part.wakers);
    wakers.next().unwrap()
}

/// A timer wakes a thread that is about to sleep and has not left its CPU. The switch that gave it the CPU is not
/// recorded.
#[test]
fn a_waker_that_was_woken_while_it_had_its_cpu_ran_on() {
    let script = asleep(|script| {
        script.at(1100).cpu(0).by(HOG).irq(5, "eth0").irq_exit(5);
        script.at(1200).by(HOG).vector("local_timer").waking(HOG, 0).woken(HOG, 0).vector_exit("local_timer");
        script.at(2000).by(HOG).waking(NPT, 1);
    });
    let [Link { thread, ran, slept, waited, .. }] = &woken(&script).chain[..] else { panic!() };
    assert_eq!((thread.tid.0, ran.0, slept.0, waited.len()), (HOG.0, 900, 0, 0));
}

#[test]
fn what_a_thread_sends_over_the_loopback_device_is_from_that_thread() {
    let script = asleep(|script| {
        script.at(1100).cpu(0).by(IDLE).switch(IDLE, RUNNABLE, HOG);
        script.at(1990).by(HOG).syscall(44).softirq_raise(3).softirq(3);
        script.at(2000).waking(NPT, 1).softirq_exit(3);
    });
    let woken = woken(&script);
    let Waker::Thread { thread } = &woken.by else { panic!("{woken:?}") };
    assert_eq!((thread.tid.0, woken.chain[0].ran.0), (HOG.0, 900));
}

/// Returns true if the softirq that wakes npt is reported as an interrupt.
fn is_an_interrupt(raised: impl FnOnce(&mut Script) -> &mut Script) -> bool {
    let script = asleep(|script| {
        script.at(1100).cpu(0).by(IDLE).switch(IDLE, RUNNABLE, HOG);
        script.at(1900).by(HOG).syscall(44);
        raised(script);
        script.at(2000).waking(NPT, 1);
    });
    matches!(woken(&script).by, Waker::Interrupt { .. })
}

#[test]
fn a_packet_that_may_be_from_outside_is_nobody_s() {
    assert!(is_an_interrupt(|script| script.softirq(3)), "nobody knows who raised it");
    assert!(is_an_interrupt(|script| script.irq(5, "eth0").softirq_raise(3).irq_exit(5).softirq(3)));
    assert!(
        is_an_interrupt(|script| script
            .softirq_raise(3)
            .irq(5, "eth0")
            .softirq_raise(3)
            .irq_exit(5)
            .softirq(3)),
        "both raised it"
    );
    assert!(
        is_an_interrupt(|script| script
            .softirq_raise(3)
            .switch(HOG, RUNNABLE, KWORKER)
            .by(KWORKER)
            .softirq(3)),
        "another thread's CPU runs it"
    );
    assert!(
        is_an_interrupt(|script| script
            .irq(5, "eth0")
            .softirq_raise(3)
            .irq_exit(5)
            .switch(HOG, RUNNABLE, KWORKER)
            .switch(KWORKER, RUNNABLE, HOG)
            .syscall(44)
            .softirq_raise(3)
            .softirq(3)),
        "it was pending before the switch"
    );
    assert!(
        is_an_interrupt(|script| script.syscall_exit(44).softirq_raise(3).softirq(3)),
        "user code raises nothing"
    );
    assert!(is_an_interrupt(|script| script.softirq_raise(1).softirq(1)), "a timer is nobody's packet");
}

/// A waker that was preempted for the idle thread stood in its CPU's queue, and a limit kept it there; behind another
/// thread, this is not known.
#[test]
fn a_waker_that_was_throttled_was_throttled() {
    let chain = |next: support::ScriptThread| {
        let script = asleep(|script| {
            script.at(1100).cpu(0).by(HOG).switch(HOG, RUNNABLE, next);
            if next == IDLE {
                script.at(1700).by(IDLE).switch(IDLE, RUNNABLE, KWORKER);
            }
            script.at(1900).by(KWORKER).switch(KWORKER, SLEEPING, HOG);
            script.at(2000).by(HOG).waking(NPT, 1);
        });
        let [Link { thread, ran, throttled, waited, .. }] = &woken(&script).chain[..] else {
            panic!("{:?}", woken(&script))
        };
        assert_eq!((thread.tid.0, ran.0), (HOG.0, 100));
        (throttled.0, waited.iter().map(|wait| wait.time.0).sum::<i64>())
    };
    assert_eq!(chain(IDLE), (600, 200));
    assert_eq!(chain(KWORKER), (0, 800));
}

/// A thread that was throttled before and after the turn of another one was throttled meanwhile. After the last idle
/// time, the limit may be over.
#[test]
fn a_waker_stays_throttled_during_others_short_turns() {
    let chain = |moves: bool| {
        let script = asleep(|script| {
            script.at(1100).cpu(0).by(HOG).switch(HOG, RUNNABLE, IDLE);
            script.at(1300).by(IDLE).switch(IDLE, RUNNABLE, KWORKER);
            script.at(1350).by(KWORKER).switch(KWORKER, SLEEPING, IDLE);
            if moves {
                script.at(1400).by(IDLE).migrate(HOG, 0, 2);
            }
            script.at(1800).cpu(0).by(IDLE).switch(IDLE, RUNNABLE, KWORKER);
            script.at(1900).by(KWORKER).switch(KWORKER, SLEEPING, HOG);
            script.at(2000).by(HOG).waking(NPT, 1);
        });
        let link = woken(&script).chain.into_iter().find(|link| link.thread.tid.0 == HOG.0).unwrap();
        (link.throttled.0, link.waited.iter().map(|wait| wait.time.0).sum::<i64>())
    };
    assert_eq!(chain(false), (700, 100));
    assert_eq!(chain(true).0, 300);
}

/// If a switch is missing, the waker may have had the CPU and have slept.
#[test]
fn a_waker_that_may_have_slept_unseen_was_not_throttled() {
    let script = asleep(|script| {
        script.at(1100).cpu(0).by(HOG).switch(HOG, RUNNABLE, IDLE);
        script.at(1300).by(IDLE).switch(IDLE, RUNNABLE, KWORKER);
        let other = Task(40, "other", 120);
        script.at(1350).by(other).irq(5, "eth0").irq_exit(5).switch(other, SLEEPING, IDLE);
        script.at(1800).by(IDLE).switch(IDLE, RUNNABLE, HOG);
        script.at(2000).by(HOG).waking(NPT, 1);
    });
    let link = woken(&script).chain.into_iter().find(|link| link.thread.tid.0 == HOG.0).unwrap();
    assert_eq!(link.throttled.0, 200);
}

/// A thread that continues a stopped thread did not work for it before.
#[test]
fn a_waker_that_was_stopped_was_stopped() {
    let script = asleep(|script| {
        script.at(1100).cpu(0).by(HOG).switch(HOG, STOPPED, KWORKER);
        script.at(1900).by(KWORKER).waking(HOG, 0).woken(HOG, 0).switch(KWORKER, SLEEPING, HOG);
        script.at(2000).by(HOG).waking(NPT, 1);
    });
    let [Link { thread, ran, slept, stopped, .. }] = &woken(&script).chain[..] else {
        panic!("{:?}", woken(&script))
    };
    assert_eq!((thread.tid.0, ran.0, slept.0, stopped.0), (HOG.0, 100, 0, 800));
}

#[test]
fn a_thread_that_was_stopped_itself_waited_for_nobody_s_work() {
    let mut script = loops("a:b");
    script.at(900).cpu(0).by(IDLE).switch(IDLE, RUNNABLE, HOG);
    script.at(1040).cpu(1).by(NPT).switch(NPT, STOPPED, IDLE);
    script.at(2000).cpu(0).by(HOG).waking(NPT, 1).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    assert!(woken(&script).chain.is_empty());
}

/// An interrupt that is not recorded may have come on top of the thread.
#[test]
fn without_interrupts_a_packet_is_nobody_s() {
    let mut script = Script::of_programs();
    script.at(0).cpu(1).by(IDLE).switch(IDLE, 0, NPT).cpu(0).switch(IDLE, 0, HOG);
    for time in (100..=1000).step_by(100) {
        script.at(time).cpu(1).user("a:b", NPT, &[]);
    }
    script.at(1040).cpu(1).by(NPT).switch(NPT, SLEEPING, IDLE);
    script.at(1990).cpu(0).by(HOG).syscall(44).softirq_raise(3).softirq(3).waking(NPT, 1);
    script.at(2000).cpu(1).by(IDLE).switch(IDLE, RUNNABLE, NPT);
    script.at(2050).user("a:b", NPT, &[]);
    assert!(matches!(woken(&script).by, Waker::Interrupt { .. }));
}
