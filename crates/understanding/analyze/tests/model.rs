//! Tests of explanations against a machine that is simulated tick by tick, and against invalid events.

mod support;

use proptest::prelude::*;
use sordino_analyze::*;
use sordino_event::{EventCosts, Nanos};
use sordino_intervals::Interval;
use support::machine::{SimulatedMachine, explained};
use support::{HOG, IDLE, KWORKER, NPT, Script, ScriptThread as Task, V, explain};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn a_simulated_machine_is_explained_to_the_nanosecond(
        actions in proptest::collection::vec((0usize..2, 0u8..14, 0u8..8, 0i64..5), 0..80)
    ) {
        let mut machine = SimulatedMachine::run(&actions);
        machine.end();
        let findings = explain(&machine.script, "mark:begin@id..mark:end@id", ExplainOptions::default());
        prop_assert_eq!(findings.intervals[0].length, Nanos(machine.now));
        prop_assert_eq!(explained(&findings), machine.truth);
    }
}

/// Adds the event of this number with these values, valid or not.
fn nonsense(script: &mut Script, number: u8, thread: Task, other: Task, value: i64) {
    match number {
        0..=3 => script.switch(thread, value, other),
        4 => script.waking(thread, value),
        5 => script.woken(thread, value),
        6 => script.migrate(thread, value, value / 2),
        7 => script.irq(value, "irq"),
        8 => script.irq_exit(value),
        9 => script.softirq(value.cast_unsigned()),
        10 => script.softirq_exit(value.cast_unsigned()),
        11 => script.vector("local_timer"),
        12 => script.vector_exit("local_timer"),
        13 => script.nmi(value.cast_unsigned(), value),
        14 => script.fault(value % 2 == 0),
        15 => script.syscall(value),
        16 => script.syscall_exit(value),
        17 => script.timer(value.cast_unsigned()),
        18 => script.timer_exit(),
        19 => script.work(value.cast_unsigned()),
        20 => script.work_exit(),
        21 => script.lose_kernel(value, value.unsigned_abs()),
        22 => script.lose_user(thread, value, 1),
        23 => script.kernel("sched_process_free", &[("tid", V::I(thread.0.into()))]),
        24 => script.kernel("sched_pi_setprio", &[("tid", V::I(thread.0.into())), ("newprio", V::I(value))]),
        25 => script.user("mark:begin", thread, &[("id", V::I(value % 2))]),
        26 => script.user("mark:end", thread, &[("id", V::I(value % 2))]),
        28 => script.signal(value % 70, thread),
        29 => script.delivered(value % 70, value.cast_unsigned()),
        30 => {
            script.futex_of(value.cast_unsigned() % 4, value.cast_unsigned() % 16, value.cast_unsigned() % 4)
        }
        31 => script.timer_start(value.cast_unsigned() % 4, [value, value / 2]),
        32 => script.timer_of(value.cast_unsigned() % 4, value),
        33 => script.softirq_raise(value.cast_unsigned() % 12),
        34 => {
            let fields = [("cpu", V::I(value % 3)), ("time_ns", V::I(value))];
            script.kernel("sordino_statedump_interrupted", &fields)
        }
        35 | 36 => {
            let name = if number == 35 { "mm_filemap_fault" } else { "mm_filemap_add_to_page_cache" };
            let number = V::U(value.cast_unsigned());
            script
                .kernel(name, &[("s_dev", number), ("i_ino", number), ("index", number), ("order", V::U(2))])
        }
        _ => script.user("npt:loop", thread, &[]),
    };
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn whatever_the_events_say_the_parts_add_up(
        entries in proptest::collection::vec(
            (0u8..42, 0i64..30, proptest::option::of(0u32..3), 0usize..4, 0usize..4,
             prop_oneof![0i64..8, 0i64..1500, any::<i64>()]),
            0..120),
        disordered in any::<bool>(),
        extreme in any::<bool>(),
        costs in proptest::option::of((0u64..100_000, 0u64..100_000)),
    ) {
        let mut script = Script::new();
        script.costs = costs.map(|(user, kernel)| EventCosts { user: Some(user), kernel: Some(kernel) });
        script.disordered = disordered;
        let threads = [IDLE, NPT, HOG, KWORKER];
        // The trace has to declare the classes.
        script.at(0).no_cpu();
        for number in [8, 23, 24, 25, 26, 27] {
            nonsense(&mut script, number, NPT, HOG, 1);
        }
        let mut now = if extreme { i64::MIN } else { 0 };
        for (number, step, cpu, thread, other, value) in entries {
            now = if extreme && value % 64 == 63 { value } else { now.saturating_add(step) };
            script.at(now);
            match cpu {
                Some(cpu) => script.cpu(cpu),
                None => script.no_cpu(),
            };
            // Some records name a thread, which may be unable to have that CPU.
            if value % 5 == 0 {
                script.by(threads[other]);
            }
            nonsense(&mut script, number, threads[thread], threads[other], value);
        }
        for rule in ["npt:loop", "mark:begin..mark:end", "mark:begin@id..mark:end@id", "sched_waking@tid..npt:loop",
                     "irq_handler_entry@$cpu..irq_handler_exit@$cpu"] {
            let findings = explain(&script, rule, ExplainOptions { longest: 50, ..ExplainOptions::default() });
            for explanation in &findings.intervals {
                let mut sum = 0i128;
                for part in &explanation.parts {
                    prop_assert!(part.time >= Nanos::ZERO && part.longest <= part.time, "{part:?}");
                    prop_assert!(part.inside.iter().all(|inside| inside.time <= part.time), "{part:?}");
                    sum += i128::from(part.time.0);
                    for woken in &part.wakers {
                        let waited = |link: &Link| link.waited.iter().map(|behind| i128::from(behind.time.0)).sum::<i128>();
                        let of = |link: &Link| i128::from(link.ran.0) + i128::from(link.slept.0) + i128::from(link.stopped.0) + i128::from(link.throttled.0) + waited(link);
                        let chain: i128 = woken.chain.iter().map(of).sum();
                        prop_assert!(chain <= i128::from(woken.time.0) && woken.time <= part.time, "{part:?}");
                    }
                }
                let Interval { begin, end, .. } = explanation.interval;
                // Spans of more than 292 years saturate.
                if end.0.checked_sub(begin.0).is_some() {
                    prop_assert_eq!(sum, i128::from(explanation.length.0), "{}: {:?}", rule, explanation);
                }
            }
            let count = findings.statistics.count;
            prop_assert!(findings.ranked <= count && findings.intervals.len() as u64 == count.min(50));
        }
    }
}
