//! Jobs of threads, compared with a machine that is simulated tick by tick.

mod machine;

use machine::{
    CPUS, MachineEvent, MachineHistory, THREADS, ThreadActivity, ThreadSpan, actions, actions_and_loss,
    simulate, spans,
};
use proptest::prelude::*;
use sordino_query::Measure;
use std::collections::BTreeSet;

/// A job, and the end of the sleep before it: the tick in which the thread began to sleep, if the machine did it.
type ThreadJob = (ThreadSpan, Option<i64>);

/// Returns the threads' jobs, which begin with a record for which `begins` returns the thread.
fn jobs(history: &MachineHistory, begins: fn(&MachineEvent) -> Option<i32>) -> Vec<ThreadJob> {
    let mut all = Vec::new();
    for thread in 0..THREADS {
        let (mut slept, mut begun) = (None, None);
        for tick in 1..history.threads.len() {
            let at = (tick + CPUS) as i64;
            let record = history.records.iter().find(|(time, ..)| *time == at);
            let is_begin = record.is_some_and(|(.., record)| begins(record) == Some(thread as i32 + 1));
            if is_begin {
                begun.get_or_insert(at);
            }
            let [before, now] = [tick - 1, tick].map(|tick| history.threads[tick][thread]);
            if before != ThreadActivity::Sleeps && now == ThreadActivity::Sleeps {
                all.extend(begun.take().map(|from| ((thread, from, at), slept)));
                slept = Some(at);
            }
        }
    }
    all
}

fn wake_up(record: &MachineEvent) -> Option<i32> {
    match record {
        MachineEvent::Waking { tid, .. } => Some(*tid),
        _ => None,
    }
}

fn call(record: &MachineEvent) -> Option<i32> {
    match record {
        MachineEvent::Syscall { tid, enters: true } => Some(*tid),
        _ => None,
    }
}

/// Returns the thread whose job a record begins.
type Begins = fn(&MachineEvent) -> Option<i32>;

/// The events that begin jobs, each with the threads whose jobs its records begin.
const BEGINS: [(&str, Begins); 2] = [("sched_waking", wake_up), ("sys_enter", call)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn jobs_that_follow_a_recorded_sleep_equal_what_the_machine_did(actions in actions()) {
        let history = simulate(&actions);
        for (event, begins) in BEGINS {
            let known = jobs(&history, begins).into_iter().filter(|(_, slept)| slept.is_some());
            let known: BTreeSet<ThreadSpan> = known.map(|(job, _)| job).collect();
            prop_assert_eq!(spans(&history, Measure::Jobs(event.to_owned()), None), known);
        }
    }

    #[test]
    fn jobs_that_may_touch_a_loss_are_apart_and_all_others_are_found(
        (actions, lost) in actions_and_loss(),
    ) {
        let history = simulate(&actions);
        prop_assume!(history.loses(lost));
        let (_, from, to) = lost;
        for (event, begins) in BEGINS {
            let is_known = |(job, slept): &ThreadJob| slept.is_some_and(|slept| job.2 < from || slept > to);
            let known = jobs(&history, begins).into_iter().filter(is_known);
            let known: BTreeSet<ThreadSpan> = known.map(|(job, _)| job).collect();
            let measure = Measure::Jobs(event.to_owned());
            prop_assert_eq!(spans(&history, measure, Some(lost)), known, "{}", event);
        }
    }
}
