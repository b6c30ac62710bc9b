//! A machine that is simulated tick by tick, and its records.
#![allow(dead_code, reason = "no test uses all of it")]

use proptest::prelude::*;
use sordino_event::{Class, Classes, Cpu, Domain, Event, Loss, LossCause, Step, Tid, Time, Value};
use sordino_intervals::Interval;
use sordino_query::{Measure, Query, StatisticsTable};
use sordino_timeline::{Consumer, SuperTrace};
use std::collections::BTreeSet;
use std::io;

pub(crate) const CPUS: usize = 2;
pub(crate) const THREADS: usize = 4;
/// Nanoseconds of a tick. At most one event happens in each.
pub(crate) const TICK: i64 = 10;

/// An event on a CPU, with its fields.
#[derive(Clone, Debug)]
pub(crate) enum MachineEvent {
    Switch { prev: i32, state: i64, next: i32 },
    Waking { tid: i32, target: usize },
    Migrate { tid: i32, to: usize },
    Irq { enters: bool },
    Syscall { tid: i32, enters: bool },
}

/// The activity of a thread in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadActivity {
    Sleeps,
    /// Waits for this CPU; true if it was woken, false if it was preempted.
    Waits(usize, bool),
    Runs(usize),
}

/// The history of the simulated machine.
#[derive(Debug, Default)]
pub(crate) struct MachineHistory {
    pub(crate) records: Vec<(i64, usize, MachineEvent)>,
    /// The threads' activities; by tick.
    pub(crate) threads: Vec<[ThreadActivity; THREADS]>,
    /// The index of the use in the parts of a wait: interrupts, threads, idle; by tick.
    pub(crate) cpus: Vec<[usize; CPUS]>,
    /// True while the thread is in a system call; by tick.
    pub(crate) calls: Vec<[bool; THREADS]>,
}

/// The ticks of a CPU whose records are lost: the CPU, the first tick and the last.
pub(crate) type LostTicks = (usize, i64, i64);

pub(crate) fn simulate(actions: &[(u8, u8, u8)]) -> MachineHistory {
    let mut history = MachineHistory::default();
    let mut threads = [ThreadActivity::Sleeps; THREADS];
    let (mut irq, mut calls) = ([false; CPUS], [false; THREADS]);
    let running = |threads: &[ThreadActivity; THREADS], cpu| {
        threads.iter().position(|does| *does == ThreadActivity::Runs(cpu))
    };
    let tid = |thread: usize| thread as i32 + 1;
    for cpu in 0..CPUS {
        history.records.push((cpu as i64, cpu, MachineEvent::Switch { prev: 0, state: 0, next: 0 }));
    }
    for (number, &(action, a, b)) in actions.iter().enumerate() {
        let (cpu, other) = (usize::from(a) % CPUS, usize::from(b) % CPUS);
        let now = running(&threads, cpu);
        let waiting = |does: &ThreadActivity| matches!(does, ThreadActivity::Waits(at, _) if *at == cpu);
        let queued = || (0..THREADS).map(|thread| (thread + usize::from(b)) % THREADS);
        let record = match action % 6 {
            0 if !irq[cpu] => {
                let next = queued().find(|thread| waiting(&threads[*thread]));
                let sleeps = a & 8 == 0;
                match (now, next) {
                    (None, None) => None,
                    (Some(_), None) if !sleeps => None,
                    (prev, next) => {
                        if let Some(prev) = prev {
                            threads[prev] = if sleeps {
                                ThreadActivity::Sleeps
                            } else {
                                ThreadActivity::Waits(cpu, false)
                            };
                        }
                        next.into_iter().for_each(|next| threads[next] = ThreadActivity::Runs(cpu));
                        let state = i64::from(sleeps && prev.is_some());
                        Some(MachineEvent::Switch {
                            prev: prev.map_or(0, tid),
                            state,
                            next: next.map_or(0, tid),
                        })
                    }
                }
            }
            1 => queued().find(|thread| threads[*thread] == ThreadActivity::Sleeps).map(|thread| {
                threads[thread] = ThreadActivity::Waits(other, true);
                MachineEvent::Waking { tid: tid(thread), target: other }
            }),
            2 => queued()
                .find_map(|thread| match threads[thread] {
                    ThreadActivity::Waits(at, woken) if at != other => Some((thread, woken)),
                    _ => None,
                })
                .map(|(thread, woken)| {
                    threads[thread] = ThreadActivity::Waits(other, woken);
                    MachineEvent::Migrate { tid: tid(thread), to: other }
                }),
            3 | 4 => {
                irq[cpu] = !irq[cpu];
                Some(MachineEvent::Irq { enters: irq[cpu] })
            }
            5 if !irq[cpu] => now.map(|thread| {
                calls[thread] = !calls[thread];
                MachineEvent::Syscall { tid: tid(thread), enters: calls[thread] }
            }),
            _ => None,
        };
        let at = (number + CPUS) as i64;
        history.records.extend(record.map(|record| (at, cpu, record)));
        history.threads.push(threads);
        history.calls.push(calls);
        let used = |cpu: usize| match (irq[cpu], running(&threads, cpu)) {
            (true, _) => 0,
            (false, Some(_)) => 1,
            (false, None) => 2,
        };
        history.cpus.push([0, 1].map(used));
    }
    history
}

/// A stretch of ticks in which a thread did the same.
#[derive(Clone, Debug)]
pub(crate) struct ActivityStretch {
    pub(crate) thread: usize,
    pub(crate) does: ThreadActivity,
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// The begin of the thread's sleep before, if it is a wait after one.
    pub(crate) slept: Option<i64>,
    pub(crate) parts: [i64; 3],
}

/// Returns the whole stretches of all threads; moves between queues do not end a wait.
pub(crate) fn stretches(history: &MachineHistory) -> Vec<ActivityStretch> {
    let mut found = Vec::new();
    let kind = |does: ThreadActivity| match does {
        ThreadActivity::Waits(_, woken) => ThreadActivity::Waits(0, woken),
        does => does,
    };
    for thread in 0..THREADS {
        let mut begin = None;
        let mut slept = None;
        let mut parts = [0; 3];
        for tick in 1..history.threads.len() {
            let (before, after) = (history.threads[tick - 1][thread], history.threads[tick][thread]);
            if let ThreadActivity::Waits(cpu, _) = before {
                parts[history.cpus[tick - 1][cpu]] += 1;
            }
            if kind(before) != kind(after) {
                let at = (tick + CPUS) as i64;
                if let Some(from) = begin {
                    found.push(ActivityStretch { thread, does: before, from, to: at, slept, parts });
                }
                slept = if before == ThreadActivity::Sleeps { begin } else { None };
                (begin, parts) = (Some(at), [0; 3]);
            }
        }
    }
    found
}

pub(crate) fn fields(event: &mut Event, record: &MachineEvent) {
    let mut number = |value: i64| event.push(Value::signed(value));
    match *record {
        MachineEvent::Switch { prev, state, next } => {
            _ = [prev.into(), 120, next.into(), 120, state].map(&mut number);
        }
        MachineEvent::Waking { tid, target } => _ = [tid.into(), target as i64].map(&mut number),
        MachineEvent::Migrate { tid, to } => _ = [tid.into(), to as i64].map(&mut number),
        MachineEvent::Irq { .. } => number(7),
        MachineEvent::Syscall { .. } => number(1),
    }
}

/// Measures the history, as far as its records are not lost.
pub(crate) fn measured(
    history: &MachineHistory,
    measure: Measure,
    lost: Option<LostTicks>,
) -> StatisticsTable {
    query(history, measure, lost).finish()
}

/// A span in ticks: the thread's index, the begin and the end.
pub(crate) type ThreadSpan = (usize, i64, i64);

/// Returns the spans of a measure in the order of time.
pub(crate) fn spans(
    history: &MachineHistory,
    measure: Measure,
    lost: Option<LostTicks>,
) -> BTreeSet<ThreadSpan> {
    let survey = query(history, measure, lost).finish_with_survey().1.expect("spans are collected");
    let span = |found: &Interval| (found.tid.0 as usize - 1, found.begin.0 / TICK, found.end.0 / TICK);
    survey.longest.iter().map(span).collect()
}

fn query(history: &MachineHistory, measure: Measure, lost: Option<LostTicks>) -> Query {
    let mut classes = Classes::default();
    let mut class =
        |name: &str, fields: &[&str]| classes.add(Class::new(Domain::Kernel, name, fields.iter().copied()));
    let ids = [
        class("sched_switch", &["prev_tid", "prev_prio", "next_tid", "next_prio", "prev_state"]),
        class("sched_waking", &["tid", "target_cpu"]),
        class("sched_migrate_task", &["tid", "dest_cpu"]),
        class("irq_handler_entry", &["irq"]),
        class("irq_handler_exit", &["irq"]),
        class("sys_enter", &["id"]),
        class("sys_exit", &["id"]),
        class("softirq_entry", &["vec"]),
    ];
    let class_of = |record: &MachineEvent| match record {
        MachineEvent::Switch { .. } => ids[0],
        MachineEvent::Waking { .. } => ids[1],
        MachineEvent::Migrate { .. } => ids[2],
        MachineEvent::Irq { enters } => ids[if *enters { 3 } else { 4 }],
        MachineEvent::Syscall { enters, .. } => ids[if *enters { 5 } else { 6 }],
    };
    let streams = (0..CPUS).map(|cpu| {
        let mut own: Vec<(i64, Option<&MachineEvent>)> = Vec::new();
        let mut has_loss = false;
        for (at, of, record) in history.records.iter().filter(|(_, of, _)| *of == cpu) {
            let is_lost = lost.is_some_and(|(cpu, from, to)| cpu == *of && (from..=to).contains(at));
            if !is_lost {
                own.push((*at, Some(record)));
            } else if !std::mem::replace(&mut has_loss, true) {
                own.push((lost.map_or(*at, |(_, from, _)| from), None));
            }
        }
        let mut own = own.into_iter();
        move |event: &mut Event| -> Result<Step, io::Error> {
            let Some((at, record)) = own.next() else { return Ok(Step::End) };
            let cpu = Cpu(cpu as u32);
            let Some(record) = record else {
                let (_, from, to) = lost.unwrap_or_default();
                let (from, to) = (Time(from * TICK), Time(to * TICK + 1));
                let cause = LossCause::RingFull;
                return Ok(Step::Loss(Loss {
                    from,
                    to,
                    cpu: Some(cpu),
                    pid: None,
                    count: Some(1),
                    cause,
                    place: None,
                }));
            };
            event.begin(Time(at * TICK), class_of(record));
            event.cpu = Some(cpu);
            if let MachineEvent::Syscall { tid, .. } = record {
                event.tid = Some(Tid(*tid));
            }
            fields(event, record);
            Ok(Step::Event)
        }
    });
    let mut trace = SuperTrace::new(&classes, streams);
    let query = Query::new(&classes, trace.recorded(), measure, &[]).expect("all events are there");
    let mut query = query.surveying();
    while let Some(item) = trace.next().expect("no source fails") {
        query.take(&item);
    }
    query
}

pub(crate) fn actions() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8)>(), 1..400)
}

/// Returns actions and a loss during some of their ticks.
pub(crate) fn actions_and_loss() -> impl Strategy<Value = (Vec<(u8, u8, u8)>, LostTicks)> {
    (actions(), 0..CPUS, 0.0..1.0_f64, 1..60_i64).prop_map(|(actions, cpu, place, length)| {
        // The first switches show who runs on each CPU.
        let from = CPUS as i64 + (actions.len() as f64 * place) as i64;
        (actions, (cpu, from, from + length))
    })
}

impl MachineHistory {
    /// Returns true if a loss takes some of the records.
    pub(crate) fn loses(&self, (cpu, from, to): LostTicks) -> bool {
        self.records.iter().any(|(at, of, _)| *of == cpu && (from..=to).contains(at))
    }
}
