//! Waits for locks and the regularity of periods, compared with traces whose every interval is known.

#[path = "../../timeline/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use sordino_event::Nanos;
use sordino_query::{Measure, Periods, Query, StatisticsTable};
use sordino_timeline::{Consumer, Vocabulary};
use std::collections::BTreeMap;
use support::{IDLE, NPT, RUNNABLE, SLEEPING, Script, ScriptThread};

const THREADS: [ScriptThread; 3] =
    [ScriptThread(11, "a", 120), ScriptThread(12, "b", 120), ScriptThread(13, "c", 120)];
/// Nanoseconds between two events.
const STEP: i64 = 10;
const FUTEX: i64 = 202;

fn measured(script: &Script, measure: Measure) -> StatisticsTable {
    let recorded = Vocabulary::new(&script.classes).recorded();
    let mut query = Query::new(&script.classes, recorded, measure, &[]).expect("all events are there");
    script.play(|item| query.take(item));
    query.finish()
}

/// The state of a thread, each with its CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum WaiterState {
    Runs,
    Calls,
    Sleeps,
    Waits,
    Returns,
}

/// A wait of a thread: the word, the thread that ended its sleep, and the parts.
#[derive(Clone, Copy, Debug)]
struct WordWait {
    word: u64,
    by: Option<usize>,
    from: i64,
    slept: bool,
    since: i64,
    parts: [i64; 3],
}

/// The number of waits and the sums of their parts, by thread, holder and word.
type LockWaitSums = BTreeMap<[String; 3], (u64, [i64; 3])>;

/// Plays threads that wait for words and wake each other. Returns the trace and the waits.
fn play(actions: &[(u8, u8, bool)], lost_at: Option<usize>) -> (Script, LockWaitSums) {
    let (mut script, mut all) = (Script::new(), BTreeMap::new());
    let mut does = [WaiterState::Runs; 3];
    let mut waits: [Option<WordWait>; 3] = [None; 3];
    for (cpu, thread) in THREADS.into_iter().enumerate() {
        script.at(cpu as i64).cpu(cpu as u32).switch(IDLE, 0, thread);
    }
    let mut at = 100;
    for (number, &(who, word, other)) in actions.iter().enumerate() {
        at += STEP;
        if lost_at == Some(number) {
            script.at(at).no_cpu().lose_kernel(at + 1, 1);
            waits = [None; 3];
            at += STEP;
        }
        let who = usize::from(who) % 3;
        let (thread, word) = (THREADS[who], u64::from(word) % 2 + 0x1000);
        script.at(at).cpu(who as u32).by(thread);
        let mut enter = |who: usize, part: usize| {
            if let Some(wait) = &mut waits[who] {
                wait.parts[part] += at - wait.since;
                wait.since = at;
            }
        };
        match does[who] {
            WaiterState::Runs if other => {
                let sleeper = (0..3).find(|other| {
                    does[*other] == WaiterState::Sleeps && waits[*other].is_none_or(|wait| wait.word == word)
                });
                script.futex(word, 1);
                if let Some(sleeper) = sleeper {
                    at += STEP;
                    script.at(at).waking(THREADS[sleeper], sleeper as i64);
                    if let Some(wait) = &mut waits[sleeper] {
                        (wait.by, wait.parts[0], wait.since) =
                            (Some(who), wait.parts[0] + at - wait.since, at);
                    }
                    does[sleeper] = WaiterState::Waits;
                }
                at += STEP;
                script.at(at).syscall_exit(FUTEX);
            }
            WaiterState::Runs => {
                script.futex(word, 0);
                waits[who] =
                    Some(WordWait { word, by: None, from: at, slept: false, since: at, parts: [0; 3] });
                does[who] = WaiterState::Calls;
            }
            // The value has changed: the call returns at once.
            WaiterState::Calls if other => {
                script.syscall_exit(FUTEX);
                (waits[who], does[who]) = (None, WaiterState::Runs);
            }
            WaiterState::Calls => {
                enter(who, 2);
                waits[who].iter_mut().for_each(|wait| wait.slept = true);
                script.switch(thread, SLEEPING, IDLE);
                does[who] = WaiterState::Sleeps;
            }
            WaiterState::Sleeps => {}
            WaiterState::Waits => {
                enter(who, 1);
                script.by(IDLE).switch(IDLE, RUNNABLE, thread);
                does[who] = WaiterState::Returns;
            }
            WaiterState::Returns => {
                enter(who, 2);
                script.syscall_exit(FUTEX);
                does[who] = WaiterState::Runs;
                if let Some(wait) = waits[who].take().filter(|wait| wait.slept) {
                    let name = |thread: ScriptThread| format!("{}/{}", thread.1, thread.0);
                    let by = wait.by.map_or("?".to_owned(), |by| name(THREADS[by]));
                    let (count, parts) =
                        all.entry([name(thread), by, format!("{:#x}", wait.word)]).or_insert((0, [0; 3]));
                    *count += 1;
                    parts.iter_mut().zip(wait.parts).for_each(|(sum, part)| *sum += part);
                    assert_eq!(wait.parts.iter().sum::<i64>(), at - wait.from);
                }
            }
        }
    }
    (script, all)
}

fn locks(table: &StatisticsTable) -> LockWaitSums {
    let rows = table.rows.iter().map(|row| {
        let label = |index: usize| row.labels[index].to_string();
        let mut parts = [0; 3];
        parts.iter_mut().zip(&row.parts).for_each(|(sum, part)| *sum = part.time.0);
        assert_eq!(parts.iter().sum::<i64>(), row.summary.total.0);
        ([label(0), label(1), label(2)], (row.summary.count, parts))
    });
    rows.collect()
}

/// Returns the deviation of a period from a usual one, the events that are missing in it, and true if it is late.
fn judged(period: i64, usual: i64) -> (i64, u64, bool) {
    let multiples = (1..).take_while(|times| (times - 1) * usual <= 2 * period);
    let nearest =
        multiples.min_by_key(|times| ((period - times * usual).abs(), -times)).expect("one at least");
    ((period - nearest * usual).abs(), (nearest - 1) as u64, period > usual + usual / 10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn waits_for_locks_have_their_holders_words_and_parts(
        actions in prop::collection::vec(any::<(u8, u8, bool)>(), 1..200),
    ) {
        let (script, known) = play(&actions, None);
        if known.is_empty() {
            return Ok(());
        }
        let table = measured(&script, Measure::Locks);
        prop_assert_eq!(locks(&table), known);
        prop_assert_eq!(table.apart.broken, 0);
    }

    #[test]
    fn waits_that_touch_a_loss_are_apart(
        actions in prop::collection::vec(any::<(u8, u8, bool)>(), 1..200),
        place in 0.0..1.0_f64,
    ) {
        let (script, known) = play(&actions, Some((actions.len() as f64 * place) as usize));
        if known.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(locks(&measured(&script, Measure::Locks)), known);
    }

    #[test]
    fn periods_are_judged_one_by_one(
        periods in prop::collection::vec(prop_oneof![900_i64..1200, 1..5000_i64], 1..100),
        usual in 500_i64..1500,
    ) {
        let mut script = Script::new();
        let mut at = 0;
        script.at(at).user("motor:period", NPT, &[]);
        let (mut total, mut missed, mut run, mut longest) = (0, 0, 0, 0);
        for period in &periods {
            at += period;
            script.at(at).user("motor:period", NPT, &[]);
            let (deviation, missing, is_late) = judged(*period, usual);
            run = if is_late { run + 1 } else { 0 };
            (total, missed, longest) = (total + deviation, missed + missing, run.max(longest));
        }
        let measure = Measure::Jitter("motor:period".to_owned(), Periods::every(Nanos(usual)));
        let table = measured(&script, measure);
        let row = &table.rows[0];
        let counts: Vec<u64> = row.counts.iter().map(|count| count.count).collect();
        prop_assert_eq!((row.summary.total, counts), (Nanos(total), vec![missed, longest]));
        prop_assert_eq!(row.summary.count, periods.len() as u64);
    }
}
