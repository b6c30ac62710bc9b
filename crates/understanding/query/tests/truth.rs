//! Measures, compared with a machine that is simulated tick by tick: what each thread and each CPU does in each tick is
//! known.

mod machine;

use machine::{
    ActivityStretch, CPUS, MachineEvent, THREADS, TICK, ThreadActivity, actions, actions_and_loss, measured,
    simulate, stretches,
};
use proptest::prelude::*;
use sordino_event::{Nanos, Time};
use sordino_query::{DurationStatistics, Durations, Measure, StatisticsTable};
use std::collections::BTreeMap;

fn statistics(stretches: impl Iterator<Item = (usize, i64, i64)>) -> BTreeMap<String, DurationStatistics> {
    let mut all: BTreeMap<String, Durations> = BTreeMap::new();
    let mut sorted: Vec<_> = stretches.collect();
    // The first of several longest ones is the one that ended first.
    sorted.sort_by_key(|(_, _, to)| *to);
    for (thread, from, to) in sorted {
        all.entry((thread + 1).to_string()).or_default().add(Nanos((to - from) * TICK), Time(from * TICK));
    }
    all.into_iter().filter_map(|(name, mut all)| Some((name, all.summary()?))).collect()
}

fn rows(table: &StatisticsTable) -> BTreeMap<String, DurationStatistics> {
    table.rows.iter().map(|row| (row.labels[0].to_string(), row.summary.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn each_measure_of_the_schedule_equals_what_the_machine_did(actions in actions()) {
        let history = simulate(&actions);
        let stretches = stretches(&history);
        let of = |is_selected: fn(&ActivityStretch) -> bool| {
            let its = stretches.iter().filter(|stretch| is_selected(stretch));
            statistics(its.map(|stretch| (stretch.thread, stretch.from, stretch.to)))
        };
        let runs = of(|stretch| matches!(stretch.does, ThreadActivity::Runs(_)));
        prop_assert_eq!(rows(&measured(&history, Measure::Slices, None)), runs);
        let latencies =
            of(|stretch| matches!(stretch.does, ThreadActivity::Waits(_, true)) && stretch.slept.is_some());
        let table = measured(&history, Measure::Latency, None);
        prop_assert_eq!(rows(&table), latencies);
        let waits = of(|stretch| matches!(stretch.does, ThreadActivity::Waits(_, false)));
        prop_assert_eq!(rows(&measured(&history, Measure::Preemption, None)), waits);
        let sleeps = of(|stretch| stretch.does == ThreadActivity::Sleeps);
        prop_assert_eq!(rows(&measured(&history, Measure::Sleep, None)), sleeps);
        for row in &table.rows {
            let parts: Vec<i64> = row.parts.iter().map(|part| part.time.0 / TICK).collect();
            prop_assert_eq!(row.parts.iter().map(|part| part.time.0).sum::<i64>(), row.summary.total.0);
            let its = stretches.iter().filter(|stretch| {
                matches!(stretch.does, ThreadActivity::Waits(_, true))
                    && stretch.slept.is_some()
                    && *row.labels[0] == *(stretch.thread + 1).to_string()
            });
            let known = its.fold([0; 4], |sum, ActivityStretch { parts, .. }| {
                [sum[0] + parts[0], sum[1] + parts[1], sum[2] + parts[2], 0]
            });
            prop_assert_eq!(parts, known);
        }
    }

    #[test]
    fn system_calls_and_interrupts_equal_what_the_machine_did(actions in actions()) {
        let history = simulate(&actions);
        let mut calls = Durations::default();
        let mut irqs = Durations::default();
        let (mut called, mut entered) = ([None; THREADS + 1], [None; CPUS]);
        for (at, cpu, record) in &history.records {
            let (begin, into, enters) = match record {
                MachineEvent::Syscall { tid, enters } => (&mut called[*tid as usize], &mut calls, *enters),
                // A switch ends no handler here, as none happens within one.
                MachineEvent::Irq { enters } => (&mut entered[*cpu], &mut irqs, *enters),
                _ => continue,
            };
            match (enters, begin.take()) {
                (true, _) => *begin = Some(*at),
                (false, Some(from)) => into.add(Nanos((at - from) * TICK), Time(from * TICK)),
                (false, None) => {}
            }
        }
        prop_assert_eq!(measured(&history, Measure::Syscalls, None).all, calls.summary());
        prop_assert_eq!(measured(&history, Measure::Irqs, None).all, irqs.summary());
    }

    #[test]
    fn spans_that_touch_a_loss_are_in_no_statistics_and_all_others_are(
        (actions, lost) in actions_and_loss(),
    ) {
        let history = simulate(&actions);
        prop_assume!(history.loses(lost));
        let (lost_cpu, from, to) = lost;
        let (stretches, lost) = (stretches(&history), Some(lost));
        let runs = stretches.iter().filter(|stretch| match stretch.does {
            ThreadActivity::Runs(cpu) => cpu != lost_cpu || stretch.to < from || stretch.from > to,
            _ => false,
        });
        let runs = statistics(runs.map(|stretch| (stretch.thread, stretch.from, stretch.to)));
        prop_assert_eq!(rows(&measured(&history, Measure::Slices, lost)), runs);
        let latencies = stretches.iter().filter(|stretch| {
            let is_whole = stretch.to < from || stretch.slept.is_some_and(|slept| slept > to);
            matches!(stretch.does, ThreadActivity::Waits(_, true)) && stretch.slept.is_some() && is_whole
        });
        let latencies = statistics(latencies.map(|stretch| (stretch.thread, stretch.from, stretch.to)));
        prop_assert_eq!(rows(&measured(&history, Measure::Latency, lost)), latencies);
    }
}
