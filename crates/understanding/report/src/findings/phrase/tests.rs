//! Every phrase of the table is reached, and its placeholders have values.

use super::*;
use crate::styled_text::TIE;
use sordino_analyze::{
    After, Behind, Certainty, Device, FiberName, File, Limit, Lock, Missing, Phrase, Phrases, ReadFile,
    Sender, TABLE, Thread, Unrecorded, Waker, Woken,
};
use sordino_event::{Nanos, Tid, Time};
use sordino_timeline::kernel::FaultReason;
use sordino_timeline::{Priority, TaskState};
use std::collections::HashSet;

fn hog() -> Thread {
    Thread { tid: Tid(5), comm: Some("hog".into()), priority: Some(Priority(4)), is_recorder: false }
}

fn by_hog() -> Waker {
    Waker::Thread { thread: hog() }
}

fn part(cause: Cause) -> Part {
    Part {
        cause,
        time: Nanos(1000),
        usual: Nanos(0),
        entry: Nanos(0),
        count: 1,
        longest: Nanos(1000),
        longest_at: Time(500),
        certainty: Certainty::Known,
        may_be_stolen: false,
        inside: Vec::new(),
        quota: None,
        beside: Vec::new(),
        senders: Vec::new(),
        files: Vec::new(),
        wakers: Vec::new(),
    }
}

fn causes() -> Vec<Cause> {
    let idle = Thread { tid: Tid(0), comm: None, priority: None, is_recorder: false };
    let mut causes = vec![
        Cause::Own,
        Cause::OwnOrUnrecorded { missing: [Missing::Syscalls, Missing::Irqs, Missing::Softirqs].into() },
        Cause::Unexplained,
        Cause::Syscall { call: "write".into() },
        Cause::RecorderWakeUp,
        Cause::SignalHandler { signal: "SIGUSR1".into(), sender: by_hog() },
        Cause::PageFault { reason: None, huge: false },
        Cause::PageFault { reason: Some(FaultReason::Missing), huge: true },
        Cause::PageFault { reason: Some(FaultReason::WriteProtected), huge: false },
        Cause::PageFault { reason: Some(FaultReason::WriteProtected), huge: true },
        Cause::Irq { number: 36, name: "eth0".into() },
        Cause::Vector { name: "local_timer".into() },
        Cause::Softirq { number: 1, name: "TIMER".into() },
        Cause::Softirq { number: 12, name: "softirq 12".into() },
        Cause::Nmi { handler: "perf".into() },
        Cause::LateTimer { in_slack: true, behind: None },
        Cause::FiberWait {
            behind: Some(FiberName { number: 8, name: Some("work".into()), is_doubtful: false }),
        },
        Cause::FiberWait { behind: None },
        Cause::FiberBlocked { on: None },
        Cause::FiberUnmounted,
        Cause::Unknown,
        Cause::Unrecorded { events: Unrecorded::Kernel },
        Cause::Unrecorded { events: Unrecorded::Switches },
    ];
    for behind in [None, Some(hog()), Some(idle)] {
        causes.push(Cause::LateTimer { in_slack: false, behind: behind.clone() });
        for after in [After::Preemption, After::WakeUp] {
            causes.push(Cause::Waiting { after, behind: behind.clone(), syscall: Some("read".into()) });
        }
    }
    for limit in [Limit::ControlGroup, Limit::RealTime, Limit::Deadline] {
        causes.push(Cause::Throttled { limit, syscall: None });
    }
    for in_page_fault in [false, true] {
        let state = TaskState::Uninterruptible;
        causes.push(Cause::Blocked { state, syscall: Some("futex".into()), in_page_fault });
    }
    causes
}

/// The part with more and more evidence.
fn evidence(part: Part) -> Vec<Part> {
    let woken = |by, lock| Woken { by, lock, count: 1, time: part.time, chain: Vec::new() };
    let with_wakers = |wakers| Part { wakers, ..part.clone() };
    let (runtime, period) = (Nanos(20_000_000), Nanos(50_000_000));
    let quota = |group: Option<&str>| Some(Quota { group: group.map(Into::into), runtime, period });
    let beside = vec![Behind { thread: Some(hog()), time: Nanos(500) }];
    let file = File { device: Device(254, 0), inode: 7 };
    let files = vec![ReadFile { file, by: Some(hog()), time: Nanos(500) }];
    let senders = vec![Sender { by: by_hog(), function: Some("flush".into()), count: 1 }];
    vec![
        part.clone(),
        with_wakers(vec![woken(by_hog(), None)]),
        with_wakers(vec![woken(by_hog(), Some(Lock::Held))]),
        with_wakers(vec![woken(by_hog(), Some(Lock::Inferred))]),
        with_wakers(vec![woken(Waker::Unknown, Some(Lock::Held))]),
        Part { quota: quota(None), ..part.clone() },
        Part { quota: quota(Some("/dist")), beside, ..part.clone() },
        Part { files, wakers: vec![woken(by_hog(), None)], ..part.clone() },
        Part { senders, ..part.clone() },
        Part { may_be_stolen: true, ..part.clone() },
    ]
}

fn all_phrases() -> Vec<Phrase> {
    let phrases = TABLE
        .iter()
        .flat_map(|entry| entry.cases.iter().map(|(_, phrases)| phrases).chain([&entry.otherwise]));
    let each = |phrases: &Phrases| {
        let detailed = phrases.detailed.iter().map(|(_, phrase)| *phrase);
        [phrases.row, phrases.sentence].into_iter().chain(detailed).collect::<Vec<_>>()
    };
    phrases.flat_map(each).collect()
}

#[test]
fn every_phrase_of_the_table_is_reached_and_lacks_nothing() {
    let main = Main { part: 0, excess: None, others: 1, others_time: Nanos(20_000) };
    let mut reached = HashSet::new();
    for part in causes().into_iter().flat_map(|cause| evidence(part(cause))) {
        let row = (part.cause.row(), cause(&part.cause));
        let sentence = (part.sentence(), sentence(&main, &part));
        for (phrase, filled) in [row, sentence] {
            reached.insert(phrase);
            // A question mark that is not the phrase's own stands for what the cause does not have.
            let own = phrase.iter().map(|word| match word {
                Word::Text(text) => text.matches('?').count(),
                _ => 0,
            });
            assert_eq!(filled.matches('?').count(), own.sum::<usize>(), "{filled}: {phrase:?}");
        }
    }
    let all = all_phrases();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "two phrases are the same");
    for phrase in all {
        assert!(reached.contains(phrase), "{phrase:?}");
    }
}

#[test]
fn a_placeholder_for_what_a_cause_does_not_have_is_a_question_mark() {
    let row =
        fill(&[Word::Text("for "), Word::Time, Word::Text(" behind "), Word::Behind], &Cause::Own, None);
    assert_eq!(row, "for ? behind ?");
}

#[test]
fn a_sentence_tells_the_evidence() {
    let main = Main { part: 0, excess: None, others: 0, others_time: Nanos(0) };
    let phrased = |cause: Cause, count| {
        let all = evidence(Part { count, ..part(cause) });
        all.iter().map(|part| sentence(&main, part).replace(TIE, " ")).collect::<Vec<_>>()
    };
    let blocked = Cause::Blocked { state: TaskState::Uninterruptible, syscall: None, in_page_fault: true };
    let asleep = "blocked (uninterruptible) for 1.00 us in a page fault";
    let by = "hog/5 (RT 95)";
    let sleeps = phrased(blocked, 1);
    assert_eq!(sleeps[0], asleep);
    assert_eq!(sleeps[1], format!("{asleep}, woken by {by}"));
    assert_eq!(sleeps[2], format!("blocked 1.00 us on a lock held by {by}"));
    assert_eq!(sleeps[3], format!("blocked 1.00 us on a futex (a lock?) that {by} released"));
    assert_eq!(sleeps[4], asleep, "nobody is known to have held the lock");
    assert_eq!(sleeps[7], format!("{asleep}, for pages of inode 7 of device 254:0, read by {by}"));

    let throttled = |limit| phrased(Cause::Throttled { limit, syscall: Some("read".into()) }, 1);
    let group = throttled(Limit::ControlGroup);
    let used_up = "its control group is used up (cpu.max)";
    assert_eq!(group[5], format!("throttled 1.00 us in read: the quota of {used_up}"));
    let of_group = "its control group /dist is used up (cpu.max)";
    assert_eq!(
        group[6],
        format!(
            "throttled 1.00 us in read: the quota of 20.0 ms in each 50.0 ms of {of_group}; {by} had its CPU"
        )
    );
    let real_time = throttled(Limit::RealTime);
    let of_group = "its control group /dist is used up (cpu.rt_runtime_us)";
    assert_eq!(
        real_time[6],
        format!(
            "throttled 1.00 us in read: the real-time quota of 20.0 ms in each 50.0 ms of {of_group}; {by} had its CPU"
        )
    );
    assert_eq!(
        real_time[5],
        "throttled 1.00 us in read: real-time threads have used up their share \
         (fair server, or sched_rt_runtime_us: 20.0 ms in each 50.0 ms)"
    );

    let waiting = phrased(Cause::Waiting { after: After::Preemption, behind: Some(hog()), syscall: None }, 1);
    assert_eq!(
        waiting[6],
        format!(
            "preempted 1.00 us by {by}, or throttled: its control group /dist has 20.0 ms in each 50.0 ms (cpu.max)"
        )
    );

    assert_eq!(phrased(Cause::Own, 1)[9], "its own code, or a hypervisor, took 1.00 us");

    let fault = Cause::PageFault { reason: None, huge: true };
    assert_eq!(phrased(fault, 3)[0], "3 page faults for a huge page took at most 1.00 us");
    let ipi = || Cause::Vector { name: "call_function".into() };
    let interrupted = "interrupted 1.00 us by interrupt call_function";
    assert_eq!(phrased(ipi(), 1)[8], format!("{interrupted}, sent by {by} for flush"));
    assert_eq!(phrased(ipi(), 2)[8], interrupted, "another one may have sent half of them");
}
