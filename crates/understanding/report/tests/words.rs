//! The words for every cause, and for every gap of a trace. The texts are in `golden/`.

use sordino_analyze::*;
use sordino_event::{Cpu, LossCause, Nanos, Pid, Tid, Time};
use sordino_intervals::*;
use sordino_report::{FindingsFormat, TimeFormat, headline, write_findings};
use sordino_timeline::kernel::FaultReason;
use sordino_timeline::{Priority, TaskState};

const FORMAT: FindingsFormat = FindingsFormat { time: TimeFormat::Since(Time(0)), color: false, width: 100 };

fn text(findings: &Findings) -> String {
    let mut out = Vec::new();
    write_findings(findings, FORMAT, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn thread(tid: i32, comm: &str, priority: i32) -> Thread {
    Thread { tid: Tid(tid), comm: Some(comm.into()), priority: Some(Priority(priority)), is_recorder: false }
}

fn fiber() -> FiberName {
    FiberName { number: 8, name: Some("work/6".into()), is_doubtful: false }
}

fn waiting(after: After, behind: Option<Thread>, syscall: Option<&str>) -> Cause {
    Cause::Waiting { after, behind, syscall: syscall.map(Into::into) }
}

fn blocked(state: TaskState, syscall: Option<&str>) -> Cause {
    Cause::Blocked { state, syscall: syscall.map(Into::into), in_page_fault: false }
}

fn fault(reason: Option<FaultReason>, huge: bool) -> Cause {
    Cause::PageFault { reason, huge }
}

fn throttled(limit: Limit) -> Cause {
    Cause::Throttled { limit, syscall: None }
}

fn all_causes() -> Vec<Cause> {
    use After::{Preemption, WakeUp};
    let (hog, idle) = (thread(5, "hog", 4), thread(0, "idle", 120));
    vec![
        waiting(Preemption, Some(hog.clone()), Some("read")),
        waiting(Preemption, Some(idle.clone()), None),
        waiting(Preemption, None, None),
        waiting(WakeUp, Some(hog.clone()), None),
        waiting(WakeUp, Some(idle), None),
        waiting(WakeUp, None, None),
        throttled(Limit::ControlGroup),
        throttled(Limit::RealTime),
        throttled(Limit::Deadline),
        Cause::Blocked { state: TaskState::Uninterruptible, syscall: None, in_page_fault: true },
        Cause::SignalHandler { signal: "SIGUSR1".into(), sender: Waker::Thread { thread: hog } },
        Cause::SignalHandler { signal: "signal 40".into(), sender: Waker::Unknown },
        blocked(TaskState::Interruptible, Some("futex")),
        blocked(TaskState::Uninterruptible, None),
        Cause::LateTimer { in_slack: true, behind: None },
        Cause::LateTimer { in_slack: false, behind: Some(thread(5, "hog", 4)) },
        Cause::LateTimer { in_slack: false, behind: Some(thread(0, "idle", 120)) },
        Cause::Irq { number: 36, name: "eth0".into() },
        Cause::Vector { name: "local_timer".into() },
        Cause::Softirq { number: 1, name: "TIMER".into() },
        Cause::Softirq { number: 12, name: "softirq 12".into() },
        Cause::Nmi { handler: "perf_event_nmi_handler".into() },
        Cause::Syscall { call: "write".into() },
        Cause::RecorderWakeUp,
        fault(None, false),
        fault(Some(FaultReason::Missing), true),
        fault(Some(FaultReason::WriteProtected), false),
        fault(Some(FaultReason::WriteProtected), true),
        Cause::FiberWait { behind: Some(fiber()) },
        Cause::FiberWait { behind: None },
        Cause::FiberBlocked { on: Some("a lock".into()) },
        Cause::FiberUnmounted,
        Cause::Unexplained,
        Cause::OwnOrUnrecorded { missing: [Missing::Syscalls, Missing::Irqs, Missing::Softirqs].into() },
        Cause::Unknown,
        Cause::Unrecorded { events: Unrecorded::Kernel },
        Cause::Unrecorded { events: Unrecorded::Switches },
    ]
}

/// Returns an explanation whose parts took 1 us each.
fn explanation(causes: Vec<Cause>, main: Option<Main>) -> Explanation {
    let part = |cause: Cause| Part {
        certainty: cause.entry().certainty,
        may_be_stolen: false,
        cause,
        time: Nanos(1000),
        usual: Nanos(0),
        entry: Nanos(0),
        count: 1,
        longest: Nanos(1000),
        longest_at: Time(500),
        inside: Vec::new(),
        quota: None,
        files: Vec::new(),
        senders: Vec::new(),
        beside: Vec::new(),
        wakers: Vec::new(),
    };
    let length = 1000 * causes.len() as i64;
    Explanation {
        interval: Interval {
            begin: Time(500),
            end: Time(500 + length),
            tid: Tid(10),
            pid: Some(Pid(9)),
            begin_cpu: None,
            end_cpu: Some(Cpu(1)),
            fiber: None,
            overhead: Nanos::ZERO,
        },
        thread: thread(10, "npt", 120),
        fiber: None,
        length: Nanos(length),
        begin_fields: EventFields::new(),
        end_fields: EventFields::new(),
        parts: causes.into_iter().map(part).collect(),
        main,
        inversions: Vec::new(),
        migrations: Vec::new(),
        stages: Vec::new(),
        migrations_count: 0,
        lost: Vec::new(),
        stolen: Vec::new(),
    }
}

/// Returns the first part as the main one, with `others` like it.
fn main(others: usize) -> Main {
    Main { part: 0, excess: None, others, others_time: Nanos(20_000 * others as i64) }
}

/// Returns an explanation whose first part took this time.
fn taking(nanos: i64, causes: Vec<Cause>, main: Main) -> Explanation {
    let mut explanation = explanation(causes, Some(main));
    explanation.parts[0].time = Nanos(nanos);
    explanation
}

fn findings(intervals: Vec<Explanation>) -> Findings {
    Findings {
        schema: "sordino-findings",
        version: SCHEMA_VERSION,
        rule: "npt:loop".into(),
        choice: None,
        statistics: Statistics::default(),
        limit: Nanos(100),
        ranked: 0,
        more: false,
        intervals,
        ranking: Vec::new(),
        unpaired: Unpaired::default(),
        broken: Broken::default(),
        lost: Vec::new(),
        disorders: 0,
        contradictions: Vec::new(),
        missing_switches: Vec::new(),
        missing: Vec::new(),
    }
}

fn lost(cause: LossCause, count: u64, uncounted: u64) -> LossSum {
    LossSum { cpu: None, pid: Some(Pid(9)), cause, count, uncounted, from: Time(0), to: Time(7) }
}

/// Compares `docs/causes.md` with the table: it has to have each kind of cause with its certainty and the groups of
/// events that it needs, and a headline of the golden ones for it.
#[test]
fn the_document_of_causes_says_what_the_table_does() {
    let document = include_str!("../../../../docs/causes.md");
    for entry in TABLE {
        let certainty = format!("{:?}", entry.certainty).to_lowercase();
        let needs: Vec<String> = entry.needs.iter().map(|need| format!("{need:?}").to_lowercase()).collect();
        let row = format!("| `{}` | {certainty} | {} |", entry.kind, needs.join(", "));
        assert!(document.contains(&row), "{row}");
    }
    let rows = document.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `kind`"));
    assert_eq!(rows.count(), TABLE.len());
    for cause in all_causes().into_iter().chain([Cause::Own]) {
        let kind = serde_json::to_value(&cause).unwrap()["kind"].clone();
        assert_eq!(kind, cause.entry().kind);
    }
    let golden = include_str!("golden/causes.txt");
    let examples: Vec<&str> =
        document.lines().filter_map(|line| line.strip_prefix("- *")?.strip_suffix('*')).collect();
    assert!(examples.len() > TABLE.len());
    for example in examples {
        assert!(golden.lines().any(|line| line == example), "{example}");
    }
}

#[test]
fn every_cause_has_a_headline_and_a_row() {
    let mut all = String::new();
    for cause in all_causes().into_iter().chain([Cause::Own]) {
        for others in 0..2 {
            all += &headline(&taking(4_900_000, vec![cause.clone()], main(others)));
            all += "\n";
        }
    }
    let of_group = Cause::Throttled { limit: Limit::ControlGroup, syscall: None };
    let preempted = waiting(After::Preemption, Some(thread(5, "hog", 4)), None);
    let of_real_time = Cause::Throttled { limit: Limit::RealTime, syscall: None };
    for cause in [of_group, of_real_time, preempted] {
        let mut limited = taking(4_900_000, vec![cause], main(0));
        let (runtime, period) = (Nanos(20_000_000), Nanos(50_000_000));
        limited.parts[0].quota = Some(Quota { group: Some("/dist".into()), runtime, period });
        all += &headline(&limited);
        all += "\n";
    }
    let unrecorded = Cause::OwnOrUnrecorded { missing: [Missing::Irqs].into() };
    for cause in [Cause::Own, unrecorded, Cause::Unexplained] {
        let mut stolen = taking(4_900_000, vec![cause], main(0));
        stolen.parts[0].may_be_stolen = true;
        all += &headline(&stolen);
        all += "\n";
    }
    let mut own = all_causes();
    own.push(Cause::Own);
    // An interval has room for sixteen causes.
    let explanations = own.chunks(9).map(|causes| explanation(causes.to_vec(), None)).collect();
    all += &text(&findings(explanations));
    assert!(all == include_str!("golden/causes.txt"), "{all}");
}

#[test]
fn what_is_usual_is_told_where_it_is_much() {
    let sleep = || vec![blocked(TaskState::Interruptible, Some("clock_nanosleep"))];
    let phrased = |cause: Vec<Cause>, usual, excess: Option<i64>| {
        let mut explanation = taking(7_000_000, cause, Main { excess: excess.map(Nanos), ..main(0) });
        explanation.parts[0].usual = Nanos(usual);
        (headline(&explanation), text(&findings(vec![explanation])))
    };
    let (headline, text) = phrased(sleep(), 5_000_000, Some(2_000_000));
    assert_eq!(headline, "asleep for 7.00 ms in clock_nanosleep, 2.00 ms longer than usual");
    assert!(text.contains("asleep in clock_nanosleep, usually 5.00 ms"), "{text}");
    assert_eq!(
        phrased(sleep(), 5_000_000, None).0,
        "asleep for 7.00 ms in clock_nanosleep (usually 5.00 ms)"
    );
    assert_eq!(phrased(sleep(), 100, Some(6_999_900)).0, "asleep for 7.00 ms in clock_nanosleep");
    let own = phrased(vec![Cause::Own], 5_190_000, Some(1_810_000)).0;
    assert_eq!(own, "its own code took 1.81 ms longer than usual");
    assert_eq!(phrased(vec![Cause::Own], 0, None).0, "its own code took 7.00 ms");
}

#[test]
fn an_interrupt_of_another_cpu_has_its_sender() {
    let mut explanation = taking(4_900_000, vec![Cause::Vector { name: "call_function".into() }], main(0));
    let sent = |function: Option<&str>, count| {
        let by = Waker::Thread { thread: thread(5, "hog", 4) };
        vec![Sender { by, function: function.map(Into::into), count }]
    };
    explanation.parts[0].count = 7;
    explanation.parts[0].senders = sent(Some("flush"), 4);
    assert_eq!(
        headline(&explanation),
        "interrupted 4.90 ms by interrupt call_function, sent by hog/5 (RT 95) for flush"
    );
    let row = text(&findings(vec![explanation.clone()]));
    assert!(row.contains("sent 4 times by hog/5 (RT 95) for flush"), "{row}");
    // The sender of half of them is unknown.
    explanation.parts[0].senders = sent(None, 3);
    assert_eq!(headline(&explanation), "interrupted 4.90 ms by interrupt call_function");
}

#[test]
fn the_recorder_is_called_sordinos() {
    let by = Thread { is_recorder: true, ..thread(30, "sordino-collect", 120) };
    let explanation = taking(1_200_000, vec![waiting(After::Preemption, Some(by), None)], main(0));
    assert_eq!(headline(&explanation), "preempted 1.20 ms by sordino's recorder sordino-collect/30 (nice 0)");
}

#[test]
fn a_lock_is_told_with_what_its_holder_did() {
    let low = thread(30, "low", 89);
    let sleep = |lock, count| {
        let sleep = vec![blocked(TaskState::Interruptible, Some("futex"))];
        let mut explanation = taking(4_900_000, sleep, main(0));
        let behind = Behind { thread: Some(thread(31, "medium", 79)), time: Nanos(900_000) };
        let (ran, slept, waited) = (Nanos(4_000_000), Nanos(0), vec![behind]);
        let chain = vec![Link {
            level: 1,
            thread: low.clone(),
            ran,
            slept,
            throttled: Nanos(0),
            stopped: Nanos(0),
            waited,
        }];
        let by = Waker::Thread { thread: low.clone() };
        explanation.parts[0].wakers = vec![Woken { by, lock, count, time: Nanos(4_900_000), chain }];
        explanation
    };
    let phrased = |lock, count| {
        let text = text(&findings(vec![sleep(lock, count)]));
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace('\u{a0}', " ")
    };
    let did = "meanwhile it ran 4.00 ms, waited 900 us for a CPU behind medium/31 (RT 20)";
    let inferred = phrased(Some(Lock::Inferred), 1);
    assert!(
        inferred.contains("blocked 4.90 ms on a futex (a lock?) that low/30 (RT 10) released"),
        "{inferred}"
    );
    assert!(
        inferred.contains(&format!("if that is a lock, this thread held it (inferred); {did}")),
        "{inferred}"
    );
    let held = phrased(Some(Lock::Held), 2);
    assert!(held.contains("blocked 4.90 ms on a lock held by low/30 (RT 10)"), "{held}");
    assert!(held.contains(&format!("woken 2 times by low/30 (RT 10), which held the lock; {did}")), "{held}");
    let other = phrased(None, 1);
    assert!(
        other.contains("asleep for 4.90 ms in futex, woken by low/30 (RT 10), which ran 4.00 ms"),
        "{other}"
    );
    assert!(!other.contains("lock"), "{other}");
}

#[test]
fn of_a_request_the_longest_stage_is_named_with_its_thread() {
    let stage = |from: &str, to: &str, length| Stage {
        from: from.into(),
        to: to.into(),
        explanation: Explanation {
            length: Nanos(length),
            ..taking(length, vec![blocked(TaskState::Interruptible, Some("read"))], main(0))
        },
    };
    let mut explanation = taking(5_000_000, vec![blocked(TaskState::Interruptible, Some("futex"))], main(0));
    explanation.stages =
        vec![stage("net:request", "net:take", 1_000_000), stage("net:take", "net:answer", 4_000_000)];
    let text = headline(&explanation);
    assert!(text.starts_with("4.00 ms of it from net:take to net:answer, in "), "{text}");
    assert!(text.ends_with("in read"), "{text}");
}

#[test]
fn a_chain_of_wake_ups_is_told_to_where_most_of_the_time_went() {
    let [last, first, hog] = [(30, "last", 39), (31, "first", 39), (32, "hog", 29)]
        .map(|(tid, comm, prio)| thread(tid, comm, prio));
    let link = |level, thread: &Thread, ran, waited| Link {
        level,
        thread: thread.clone(),
        ran: Nanos(ran),
        slept: Nanos(0),
        throttled: Nanos(0),
        stopped: Nanos(0),
        waited,
    };
    let behind = |time| vec![Behind { thread: Some(hog.clone()), time: Nanos(time) }];
    let phrased = |chain| {
        let mut explanation =
            taking(5_000_000, vec![blocked(TaskState::Interruptible, Some("read"))], main(0));
        let by = Waker::Thread { thread: last.clone() };
        explanation.parts[0].wakers = vec![Woken { by, lock: None, count: 1, time: Nanos(5_000_000), chain }];
        headline(&explanation)
    };
    let sleep = "asleep for 5.00 ms in read, woken by last/30 (RT 60)";
    let stopped = |link: Link| Link { stopped: Nanos(4_000_000), ..link };
    assert_eq!(
        phrased(vec![stopped(link(1, &last, 1_000_000, vec![]))]),
        format!("{sleep}, which was stopped for 4.00 ms")
    );
    let throttled = |link: Link| Link { throttled: Nanos(3_000_000), ..link };
    assert_eq!(
        phrased(vec![throttled(link(1, &last, 1_000_000, vec![]))]),
        format!("{sleep}, which was throttled for 3.00 ms")
    );
    assert_eq!(
        phrased(vec![link(1, &last, 1_000_000, vec![]), stopped(link(2, &first, 0, vec![]))]),
        format!("{sleep}, after first/31 (RT 60) had been stopped for 4.00 ms")
    );
    assert_eq!(
        phrased(vec![link(1, &last, 1_000_000, vec![]), link(2, &first, 100_000, behind(3_900_000))]),
        format!("{sleep}, after first/31 (RT 60) had waited 3.90 ms behind hog/32 (RT 70)")
    );
    assert_eq!(
        phrased(vec![link(1, &last, 500_000, behind(4_500_000))]),
        format!("{sleep}, which waited 4.50 ms behind hog/32 (RT 70)")
    );
    assert_eq!(
        phrased(vec![link(1, &last, 500_000, vec![]), link(2, &first, 4_500_000, vec![])]),
        format!("{sleep}, after first/31 (RT 60) had run 4.50 ms")
    );
    // No thread of the chain had half of the time.
    assert_eq!(
        phrased(vec![link(1, &last, 2_000_000, vec![]), link(2, &first, 2_000_000, behind(1_000_000))]),
        sleep
    );
}

#[test]
fn whatever_a_trace_lacks_is_told() {
    let mut gone = explanation(vec![Cause::Unknown], Some(main(0)));
    gone.migrations =
        vec![Migration { at: Time(600), from: 1, to: 0 }, Migration { at: Time(700), from: 0, to: 3 }];
    gone.migrations_count = 7;
    let low = thread(30, "low", 120);
    let inversion = |how, nanos| Inversion { how, by: low.clone(), time: Nanos(nanos) };
    gone.inversions = vec![inversion(Inverted::HeldUp { behind: thread(31, "mid", 50) }, 499)];
    gone.inversions.extend(vec![inversion(Inverted::Runnable, 1); 6]);
    let ranked = Ranked {
        cause: Cause::Unknown,
        time: Nanos(3000),
        excess: Nanos(0),
        count: 3,
        intervals: 2,
        longest: Nanos(2000),
        // Another interval begins at the same time.
        longest_at: gone.interval.begin,
    };
    let findings = Findings {
        statistics: Statistics { count: 1, ..Statistics::default() },
        ranked: 100_000,
        more: true,
        ranking: vec![ranked],
        unpaired: Unpaired { begins: 1, ends: 2, without_key: 1, without_thread: 2 },
        broken: Broken { count: 2, longest: Nanos(5) },
        lost: vec![
            lost(LossCause::Unfinished, 0, 1),
            lost(LossCause::Corrupt, 5, 2),
            lost(LossCause::TooLarge, 1, 0),
        ],
        disorders: 1,
        missing_switches: vec![MissingSwitches { cpu: 0, count: 1 }, MissingSwitches { cpu: 1, count: 212 }],
        missing: vec![Missing::Wakeups, Missing::Nmis],
        ..findings(vec![gone])
    };
    let text = text(&findings);
    assert!(text == include_str!("golden/gaps.txt"), "{text}");
}

#[test]
fn an_inversion_is_in_the_headline_if_it_took_half_of_the_time() {
    let mut explanation =
        explanation(vec![waiting(After::WakeUp, Some(thread(30, "low", 120)), None)], Some(main(0)));
    for (nanos, named) in [(499, false), (500, true)] {
        let by = thread(30, "low", 120);
        explanation.inversions = vec![Inversion { how: Inverted::Runnable, by, time: Nanos(nanos) }];
        let text = headline(&explanation);
        assert_eq!(text.ends_with("; priority inversion by low/30 (nice 0)"), named, "{text}");
    }
}

#[test]
fn why_there_are_no_intervals_is_told() {
    let unpaired = |begins, ends, without_key, without_thread| Findings {
        rule: "a:b..a:e".into(),
        unpaired: Unpaired { begins, ends, without_key, without_thread },
        ..findings(Vec::new())
    };
    let broken = Findings { broken: Broken { count: 1, longest: Nanos(1) }, ..unpaired(1, 1, 1, 1) };
    let cases = [
        (broken, "a:b..a:e: no intervals, records are lost between the ends of all pairs"),
        (unpaired(1, 1, 1, 1), "a:b..a:e: no intervals, the threads of all pairs are unknown"),
        (
            unpaired(1, 1, 1, 0),
            "a:b..a:e: no intervals, the events lack the thread, CPU or field that would pair them",
        ),
        (unpaired(1, 1, 0, 0), "a:b..a:e: no intervals, no end belongs to a begin before it"),
        (unpaired(1, 0, 0, 0), "a:b..a:e: no intervals, the event that ends them did not occur"),
        (unpaired(0, 1, 0, 0), "a:b..a:e: no intervals, the event that begins them did not occur"),
        (unpaired(0, 0, 0, 0), "a:b..a:e: no intervals, neither of the events occurred"),
        (findings(Vec::new()), "npt:loop: no intervals, the event did not occur twice in the same thread"),
    ];
    for (findings, expected) in cases {
        assert_eq!(text(&findings).lines().next(), Some(expected));
    }
}

#[test]
fn what_was_chosen_comes_with_the_options_that_choose_others() {
    let other = |rule: &str, intervals| Other { rule: rule.parse().unwrap(), intervals };
    let others = vec![other("net:request@id..net:answer@id", 20), other("motor:command", 9)];
    let chosen = |why, others| Findings { choice: Some(Choice { why, others }), ..findings(Vec::new()) };
    let regular = text(&chosen(Why::Regular, others));
    let regular = regular.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        regular.contains("regular intervals; others, with how many intervals they have: --begin net:request --end net:answer --by id (20), --event motor:command (9)."),
        "{regular}"
    );
    assert!(text(&chosen(Why::Pair, Vec::new())).contains("belong together; the recording has no others"));
    assert!(!text(&chosen(Why::Npt, Vec::new())).contains("Chosen"), "npt's loop is what everybody expects");
}
