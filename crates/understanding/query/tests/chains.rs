//! Critical paths and reactions, compared with a machine that is simulated tick by tick.

mod machine;

use machine::{
    CPUS, MachineEvent, MachineHistory, THREADS, TICK, ThreadActivity, actions, actions_and_loss, measured,
    simulate,
};
use proptest::prelude::*;
use sordino_intervals::IntervalRule;
use sordino_query::{Measure, PathOf, StatisticsTable};
use std::collections::BTreeMap;

/// The total of each link of each thread, in ticks.
type Links = BTreeMap<(usize, String), i64>;

/// Returns the first tick from `from` on in which the thread does not sleep.
fn awake(history: &MachineHistory, thread: usize, from: usize) -> usize {
    (from..history.threads.len())
        .find(|tick| history.threads[*tick][thread] != ThreadActivity::Sleeps)
        .unwrap_or(usize::MAX)
}

/// Returns the first tick in which a thread runs.
fn first_run(history: &MachineHistory, thread: usize) -> usize {
    let runs = |tick: &usize| matches!(history.threads[*tick][thread], ThreadActivity::Runs(_));
    (0..history.threads.len()).find(runs).unwrap_or(usize::MAX)
}

/// Returns the CPU of the record at a tick.
fn cpu_at(history: &MachineHistory, tick: usize) -> usize {
    let at = (tick + CPUS) as i64;
    history.records.iter().find(|(time, ..)| *time == at).expect("a record changes what a thread does").1
}

fn running(history: &MachineHistory, tick: usize, cpu: usize) -> Option<usize> {
    (0..THREADS).find(|thread| history.threads[tick][*thread] == ThreadActivity::Runs(cpu))
}

/// Returns the link of the path of `own` that a thread's tick belongs to.
fn link(history: &MachineHistory, own: usize, thread: usize, tick: usize) -> String {
    let whose = |what: &str| if own == thread { what.to_owned() } else { format!("?/{} {what}", thread + 1) };
    if tick < first_run(history, thread) {
        return whose("is not known");
    }
    match history.threads[tick][thread] {
        ThreadActivity::Runs(_) => whose("runs"),
        ThreadActivity::Waits(..) => whose("waits for a CPU"),
        ThreadActivity::Sleeps => {
            let woken = awake(history, thread, tick);
            let cpu = cpu_at(history, woken);
            match (history.cpus[woken][cpu], running(history, woken, cpu)) {
                (0, _) => "interrupt 7".to_owned(),
                (_, Some(by)) => link(history, own, by, tick),
                (_, None) => whose("sleeps"),
            }
        }
    }
}

/// Returns the links of all threads, each from its first run until it last did something else than before.
fn links(history: &MachineHistory) -> Links {
    let mut all = Links::new();
    let kind = |does: ThreadActivity| match does {
        ThreadActivity::Waits(..) => ThreadActivity::Waits(0, true),
        does => does,
    };
    for thread in 0..THREADS {
        let changes =
            |tick: &usize| kind(history.threads[*tick][thread]) != kind(history.threads[*tick - 1][thread]);
        let last = (1..history.threads.len()).rev().find(changes).unwrap_or(0);
        for tick in first_run(history, thread).min(last)..last {
            *all.entry((thread, link(history, thread, thread, tick))).or_default() += 1;
        }
    }
    all
}

fn rows(table: &StatisticsTable) -> Links {
    let row = |labels: &[std::sync::Arc<str>]| {
        (labels[0].parse::<usize>().expect("a thread") - 1, labels[1].to_string())
    };
    table.rows.iter().map(|all| (row(&all.labels), all.summary.total.0 / TICK)).collect()
}

/// A reaction: the thread, the begin, and the parts in ticks.
type ThreadReaction = (usize, i64, [i64; 3]);

/// Returns the reactions of threads that interrupts woke.
fn reactions(history: &MachineHistory) -> Vec<ThreadReaction> {
    let mut all = Vec::new();
    for thread in 0..THREADS {
        let mut from = first_run(history, thread);
        while let Some(sleep) = (from..history.threads.len())
            .find(|tick| history.threads[*tick][thread] == ThreadActivity::Sleeps)
        {
            let woken = awake(history, thread, sleep);
            let runs = |tick: &usize| matches!(history.threads[*tick][thread], ThreadActivity::Runs(_));
            let Some(run) = (woken..history.threads.len()).find(runs) else { break };
            let acts = |&&(at, cpu, ref record): &&(i64, usize, MachineEvent)| {
                let tick = (at - CPUS as i64) as usize;
                let is_own = tick > run && history.threads[tick - 1][thread] == ThreadActivity::Runs(cpu);
                is_own && history.cpus[tick - 1][cpu] != 0 && !matches!(record, MachineEvent::Irq { .. })
            };
            let cpu = cpu_at(history, woken);
            let enters = |(at, of, record): &&(i64, usize, MachineEvent)| {
                *of == cpu
                    && matches!(record, MachineEvent::Irq { enters: true })
                    && *at < (woken + CPUS) as i64
            };
            let after = |at: i64| at >= CPUS as i64;
            if let (0, Some((act, ..)), Some((entry, ..))) = (
                history.cpus[woken][cpu],
                history.records.iter().filter(|(at, ..)| after(*at)).find(acts),
                history.records.iter().rfind(enters),
            ) {
                let (woken, run) = ((woken + CPUS) as i64, (run + CPUS) as i64);
                all.push((thread, *entry, [woken - entry, run - woken, act - run]));
            }
            from = run;
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_links_of_a_path_are_what_the_threads_on_it_did(actions in actions()) {
        let history = simulate(&actions);
        prop_assert_eq!(rows(&measured(&history, Measure::Path(PathOf::Threads), None)), links(&history));
    }

    #[test]
    fn the_links_of_intervals_are_what_the_threads_on_their_paths_did(actions in actions()) {
        let history = simulate(&actions);
        let mut known = Links::new();
        for thread in 0..THREADS {
            let calls = history.records.iter().filter(|(.., record)| {
                matches!(record, MachineEvent::Syscall { tid, enters: true } if *tid as usize == thread + 1)
            });
            let calls: Vec<usize> = calls.map(|(at, ..)| *at as usize - CPUS).collect();
            for tick in calls.windows(2).flat_map(|two| two[0]..two[1]) {
                *known.entry((thread, link(&history, thread, thread, tick))).or_default() += 1;
            }
        }
        let intervals = PathOf::Intervals(IntervalRule::between("sys_enter"));
        prop_assert_eq!(rows(&measured(&history, Measure::Path(intervals), None)), known);
    }

    #[test]
    fn no_link_of_a_path_has_more_than_its_time_where_records_are_missing(
        (actions, lost) in actions_and_loss(),
    ) {
        let history = simulate(&actions);
        let known = links(&history);
        for (link, total) in rows(&measured(&history, Measure::Path(PathOf::Threads), Some(lost))) {
            let is_gap = link.1.ends_with("sleeps") || link.1.ends_with("is not known");
            prop_assert!(is_gap || total <= known[&link], "{link:?}: {total}");
        }
    }

    #[test]
    fn no_reaction_is_found_that_touches_a_loss(
        (actions, lost) in actions_and_loss(),
    ) {
        let history = simulate(&actions);
        prop_assume!(history.loses(lost));
        let ((_, from, to), known) = (lost, reactions(&history));
        let table = measured(&history, Measure::Reactivity, Some(lost));
        for row in &table.rows {
            let thread = row.labels[1].parse::<usize>().expect("a thread") - 1;
            let whole = known.iter().filter(|(of, entry, parts)| {
                *of == thread && (entry + parts.iter().sum::<i64>() < from || *entry > to)
            });
            let (count, sum) = whole.fold((0, 0), |(count, sum), (.., parts)| {
                (count + 1, sum + parts.iter().sum::<i64>())
            });
            let (found, total) = (row.summary.count, row.summary.total.0 / TICK);
            prop_assert!(found <= count && total <= sum, "{}: {found}, {total}; {count}, {sum}", row.labels[1]);
        }
    }

    #[test]
    fn reactions_equal_what_the_machine_did_part_by_part(actions in actions()) {
        let history = simulate(&actions);
        let table = measured(&history, Measure::Reactivity, None);
        let mut known: BTreeMap<usize, (u64, [i64; 5])> = BTreeMap::new();
        for (thread, _, [interrupt, wait, act]) in reactions(&history) {
            let (count, sums) = known.entry(thread).or_default();
            *count += 1;
            sums.iter_mut().zip([interrupt, 0, wait, act, 0]).for_each(|(sum, part)| *sum += part);
        }
        let found: BTreeMap<usize, (u64, [i64; 5])> = table.rows.iter().map(|row| {
            let mut parts = [0; 5];
            parts.iter_mut().zip(&row.parts).for_each(|(sum, part)| *sum = part.time.0 / TICK);
            (row.labels[1].parse::<usize>().expect("a thread") - 1, (row.summary.count, parts))
        }).collect();
        prop_assert_eq!(found, known);
        for row in &table.rows {
            prop_assert_eq!(row.parts.iter().map(|part| part.time.0).sum::<i64>(), row.summary.total.0);
        }
    }
}
