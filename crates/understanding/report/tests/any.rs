//! Properties of the text of any findings: it stays within its width and its lines.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use sordino_analyze::*;
use sordino_event::{Cpu, LossCause, Nanos, Pid, Tid, Time};
use sordino_intervals::*;
use sordino_report::{FindingsFormat, TimeFormat, write_findings, write_findings_json};
use sordino_timeline::kernel::FaultReason;
use sordino_timeline::{Priority, TaskState};
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

/// Names with characters that could break a line, a terminal or a column.
fn name() -> impl Strategy<Value = Arc<str>> {
    let nasty = "[\u{0}-\u{9f}\u{a0}\u{301}\u{200d}\u{202e}\u{2028}\u{fe0f}日☺👩a-z /]{0,40}";
    prop_oneof![nasty, "[a-z_]{0,300}", "\\PC{0,20}"].prop_map(Arc::from)
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), 0..1_000_000_000_i64].prop_map(Time)
}

fn span() -> impl Strategy<Value = Nanos> {
    prop_oneof![any::<i64>(), Just(i64::MIN), Just(i64::MAX), 0..1_000_000_000_i64].prop_map(Nanos)
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, any::<u64>()]
}

fn cpu() -> impl Strategy<Value = Option<Cpu>> {
    option::of(any::<u32>().prop_map(Cpu))
}

fn pid() -> impl Strategy<Value = Option<Pid>> {
    option::of(any::<i32>().prop_map(Pid))
}

fn thread() -> impl Strategy<Value = Thread> {
    let tid = prop_oneof![Just(0), any::<i32>()].prop_map(Tid);
    let priority = option::of(prop_oneof![-1..140, any::<i32>()].prop_map(Priority));
    (tid, option::of(name()), priority).prop_map(|(tid, comm, priority)| Thread {
        tid,
        comm,
        priority,
        is_recorder: false,
    })
}

fn cause() -> impl Strategy<Value = Cause> {
    let state = prop::sample::select(b"RSDTtPIX".as_slice());
    let state = state.prop_map(|letter| TaskState::from_label(&[letter]).unwrap());
    let limit = prop::sample::select(vec![Limit::ControlGroup, Limit::RealTime, Limit::Deadline]);
    let after = prop_oneof![Just(After::Preemption), Just(After::WakeUp)];
    prop_oneof![
        Just(Cause::Own),
        Just(Cause::Unexplained),
        Just(Cause::OwnOrUnrecorded { missing: [Missing::Vectors].into() }),
        (fault_reason(), any::<bool>()).prop_map(|(reason, huge)| Cause::PageFault { reason, huge }),
        Just(Cause::RecorderWakeUp),
        Just(Cause::FiberUnmounted),
        option::of(fiber()).prop_map(|behind| Cause::FiberWait { behind }),
        option::of(name()).prop_map(|on| Cause::FiberBlocked { on }),
        Just(Cause::Unknown),
        Just(Cause::Unrecorded { events: Unrecorded::Kernel }),
        Just(Cause::Unrecorded { events: Unrecorded::Switches }),
        name().prop_map(|call| Cause::Syscall { call }),
        (any::<i64>(), name()).prop_map(|(number, name)| Cause::Irq { number, name }),
        name().prop_map(|name| Cause::Vector { name }),
        (any::<i64>(), name()).prop_map(|(number, name)| Cause::Softirq { number, name }),
        name().prop_map(|handler| Cause::Nmi { handler }),
        (after, option::of(thread()), option::of(name()))
            .prop_map(|(after, behind, syscall)| Cause::Waiting { after, behind, syscall }),
        (limit, option::of(name())).prop_map(|(limit, syscall)| Cause::Throttled { limit, syscall }),
        (state, option::of(name()), any::<bool>())
            .prop_map(|(state, syscall, in_page_fault)| Cause::Blocked { state, syscall, in_page_fault }),
        (any::<bool>(), option::of(thread()))
            .prop_map(|(in_slack, behind)| Cause::LateTimer { in_slack, behind }),
        (name(), thread()).prop_map(|(signal, thread)| {
            Cause::SignalHandler { signal, sender: Waker::Thread { thread } }
        }),
    ]
}

fn fiber() -> impl Strategy<Value = FiberName> {
    (any::<u64>(), option::of(name()), any::<bool>()).prop_map(|(number, name, is_doubtful)| FiberName {
        number,
        name,
        is_doubtful,
    })
}

fn fault_reason() -> impl Strategy<Value = Option<FaultReason>> {
    prop::sample::select(vec![None, Some(FaultReason::Missing), Some(FaultReason::WriteProtected)])
}

fn waker() -> impl Strategy<Value = Waker> {
    prop_oneof![
        Just(Waker::Unknown),
        (fiber(), thread()).prop_map(|(fiber, thread)| Waker::Fiber { fiber, thread }),
        thread().prop_map(|thread| Waker::Thread { thread }),
        (cause(), cpu()).prop_map(|(cause, cpu)| Waker::Interrupt { cause: Box::new(cause), cpu }),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let inside = (name(), span()).prop_map(|(function, time)| Inside { function, time });
    let behind = (option::of(thread()), span()).prop_map(|(thread, time)| Behind { thread, time }).boxed();
    let beside = vec(behind.clone(), 0..8);
    let times = (span(), span(), span(), span());
    let link = (1..5u32, thread(), times, vec(behind, 0..5)).prop_map(
        |(level, thread, (ran, slept, throttled, stopped), waited)| Link {
            level,
            thread,
            ran,
            slept,
            throttled,
            stopped,
            waited,
        },
    );
    let lock = option::of(prop_oneof![Just(Lock::Held), Just(Lock::Inferred)]);
    let woken = (waker(), lock, count(), span(), vec(link, 0..8))
        .prop_map(|(by, lock, count, time, chain)| Woken { by, lock, count, time, chain });
    (cause(), [span(), span(), span()], count(), time(), vec(inside, 0..8), beside, vec(woken, 0..8))
        .prop_map(|(cause, [time, usual, longest], count, longest_at, inside, beside, wakers)| Part {
            certainty: cause.entry().certainty,
            may_be_stolen: false,
            longest_at,
            cause,
            time,
            usual,
            entry: usual.min(time),
            count,
            longest,
            inside,
            quota: None,
            senders: Vec::new(),
            files: Vec::new(),
            beside,
            wakers,
        })
}

fn lost() -> impl Strategy<Value = LossSum> {
    use LossCause::*;
    let cause = prop::sample::select(vec![RingFull, TooLarge, KernelOverrun, Discarded, Unfinished, Corrupt]);
    (cpu(), pid(), cause, count(), count(), time(), time()).prop_map(
        |(cpu, pid, cause, count, uncounted, from, to)| LossSum {
            cpu,
            pid,
            cause,
            count,
            uncounted,
            from,
            to,
        },
    )
}

fn inversion() -> impl Strategy<Value = Inversion> {
    let how = prop_oneof![
        Just(Inverted::Runnable),
        name().prop_map(|call| Inverted::InSyscall { call }),
        thread().prop_map(|behind| Inverted::HeldUp { behind }),
    ];
    (how, thread(), span()).prop_map(|(how, by, time)| Inversion { how, by, time })
}

fn explanation() -> impl Strategy<Value = Explanation> {
    let interval = (time(), time(), any::<i32>().prop_map(Tid), pid(), cpu(), cpu()).prop_map(
        |(begin, end, tid, pid, begin_cpu, end_cpu)| Interval {
            begin,
            end,
            tid,
            pid,
            begin_cpu,
            end_cpu,
            fiber: pid.map(|pid| sordino_timeline::FiberId { pid, number: 7 }),
            overhead: Nanos::ZERO,
        },
    );
    let main = (0..20_usize, option::of(span()), any::<usize>(), span());
    let main = option::of(main.prop_map(|(part, excess, others, others_time)| Main {
        part,
        excess,
        others,
        others_time,
    }));
    let migration =
        (time(), any::<u32>(), any::<u32>()).prop_map(|(at, from, to)| Migration { at, from, to });
    let stolen = (any::<u32>(), span(), time(), time()).prop_map(|(cpu, time, from, to)| Stolen {
        cpu,
        time,
        from,
        to,
    });
    let missing = (vec(lost(), 0..8), vec(stolen, 0..8));
    let details = (vec(inversion(), 0..8), vec(migration, 0..4), count(), missing);
    (interval, thread(), span(), vec(part(), 0..20), main, details).prop_map(
        |(
            interval,
            thread,
            length,
            parts,
            main,
            (inversions, migrations, migrations_count, (lost, stolen)),
        )| {
            Explanation {
                stages: Vec::new(),
                fiber: interval.fiber.map(|fiber| FiberName {
                    number: fiber.number,
                    name: thread.comm.clone(),
                    is_doubtful: false,
                }),
                interval,
                thread,
                length,
                begin_fields: EventFields::new(),
                end_fields: EventFields::new(),
                parts,
                main,
                inversions,
                migrations,
                migrations_count,
                lost,
                stolen,
            }
        },
    )
}

fn ranked() -> impl Strategy<Value = Ranked> {
    (cause(), [span(), span(), span()], count(), count(), time()).prop_map(
        |(cause, [time, excess, longest], count, intervals, longest_at)| Ranked {
            cause,
            time,
            excess,
            count,
            intervals,
            longest,
            longest_at,
        },
    )
}

fn statistics() -> impl Strategy<Value = Statistics> {
    (count(), span(), span(), span(), span(), span())
        .prop_map(|(count, min, median, p99, p99_9, max)| Statistics { count, min, median, p99, p99_9, max })
}

fn choice() -> impl Strategy<Value = Choice> {
    let why = prop::sample::select(&[Why::Npt, Why::Pair, Why::Regular, Why::Frequent]);
    let point = || {
        let key = prop_oneof![Just(Key::Thread), name().prop_map(|field| Key::Field(field.to_string()))];
        (name(), key).prop_map(|(event, key)| Point { event: event.to_string(), key })
    };
    let other = (point(), point(), count())
        .prop_map(|(begin, end, intervals)| Other { rule: IntervalRule { begin, end }, intervals });
    (why, vec(other, 0..4)).prop_map(|(why, others)| Choice { why, others })
}

fn findings() -> impl Strategy<Value = Findings> {
    use Missing::*;
    let missing = [Switches, Wakeups, Irqs, Softirqs, Vectors, Syscalls, Faults, Nmis];
    let unpaired =
        (count(), count(), count(), count()).prop_map(|(begins, ends, without_key, without_thread)| {
            Unpaired { begins, ends, without_key, without_thread }
        });
    let broken = (count(), span()).prop_map(|(count, longest)| Broken { count, longest });
    let missing = prop::sample::subsequence(missing.to_vec(), 0..=8);
    let switches = (any::<u32>(), count()).prop_map(|(cpu, count)| MissingSwitches { cpu, count });
    let gaps = (unpaired, broken, vec(lost(), 0..25), count(), (vec(switches, 0..4), missing));
    let ranking = (span(), count(), any::<bool>(), vec(ranked(), 0..25));
    (name(), statistics(), ranking, vec(explanation(), 0..4), gaps, option::of(choice())).prop_map(
        |(
            rule,
            statistics,
            (limit, ranked, more, ranking),
            intervals,
            (unpaired, broken, lost, disorders, (missing_switches, missing)),
            choice,
        )| {
            Findings {
                schema: "sordino-findings",
                version: SCHEMA_VERSION,
                rule: rule.to_string(),
                choice,
                statistics,
                limit,
                ranked,
                more,
                intervals,
                ranking,
                unpaired,
                broken,
                lost,
                disorders,
                contradictions: Vec::new(),
                missing_switches,
                missing,
            }
        },
    )
}

fn time_format() -> impl Strategy<Value = TimeFormat> {
    prop_oneof![
        Just(TimeFormat::Seconds),
        time().prop_map(TimeFormat::Since),
        any::<i32>().prop_map(|offset_s| TimeFormat::Clock { offset_s }),
        any::<i32>().prop_map(|offset_s| TimeFormat::Date { offset_s }),
    ]
}

fn text(findings: &Findings, format: FindingsFormat) -> String {
    let mut out = Vec::new();
    write_findings(findings, format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the text without the codes that a page may use.
fn without_colors(text: &str) -> String {
    ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[33m"]
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(code, ""))
}

proptest! {
    #[test]
    fn no_line_is_too_wide_or_holds_a_control_character(
        findings in findings(),
        time in time_format(),
        width in prop_oneof![60..=120_usize, any::<usize>()],
    ) {
        let plain = text(&findings, FindingsFormat { time, color: false, width });
        for line in plain.lines() {
            // Numbers as absurd as these take more room than a narrow page has.
            prop_assert!(line.width() <= width.clamp(72, 120), "{line:?}");
            prop_assert!(!line.contains(char::is_control), "{line:?}");
            prop_assert!(!line.contains(['\u{2028}', '\u{202e}', '\u{a0}']), "{line:?}");
        }
        let colored = text(&findings, FindingsFormat { time, color: true, width });
        prop_assert_eq!(without_colors(&colored), plain);
    }

    #[test]
    fn json_is_a_line_that_can_be_read(findings in findings()) {
        let mut out = Vec::new();
        write_findings_json(&findings, &mut out).unwrap();
        prop_assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(out.len() - 1));
        let read: serde_json::Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(read["intervals"].as_array().map(Vec::len), Some(findings.intervals.len()));
    }
}
