//! Thread contexts, recorded beside the events: names, priorities, cgroups, ids and annotations.
//!
//! A tracepoint hit makes no system call, so a record cannot contain these. The recorder visits the threads of all
//! programs ten times a second, one after the other, and writes changes into a stream of its own, each with the time of
//! observation; a reader of the trace uses the latest one. A thread's own annotation (`sordino:context`) is an event,
//! and exact. For annotations from before the recording, or overwritten ones, the recorder reads the program's table of
//! annotations.

mod history;

use crate::number::ProgramNumber;
use crate::program::Traced;
use history::History;
use sordino_clock::Sample;
use sordino_event::Ticks;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::{Contexts, Observation, ThreadAttributes, ThreadIds, Visit};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Observes the threads of all programs.
#[derive(Debug)]
pub struct Watcher {
    contexts: Contexts,
    history: History,
    /// The time of the next round.
    next: Instant,
    /// The round in progress.
    round: Option<Round>,
}

/// A visit of all threads, one after the other: a thread takes the kernel some microseconds, and there may be a
/// thousand.
#[derive(Debug)]
struct Round {
    /// Numbers of the programs that are left.
    programs: VecDeque<ProgramNumber>,
    /// The visit of the present program's threads.
    visit: Option<Visit>,
    /// The living threads visited so far.
    threads: Vec<ThreadIds>,
    began: Instant,
    taken: Duration,
}

/// Visits take at most this fraction (1/100) of a CPU's time: with many threads, rounds become less frequent.
const SHARE: u32 = 100;
/// Longest time between two rounds.
const LONGEST: Duration = Duration::from_secs(30);

impl Watcher {
    /// Creates a watcher that observes these attributes.
    pub fn new(contexts: Contexts) -> Self {
        Self { contexts, history: History::default(), next: Instant::now(), round: None }
    }

    /// Begins a round if it is due.
    pub fn begin_if_due(&mut self, programs: &[Traced]) {
        let began = Instant::now();
        if self.contexts.needs_no_look() || self.is_busy() || began < self.next {
            return;
        }
        let programs = programs.iter().map(Traced::number).collect();
        let (threads, taken) = (Vec::new(), Duration::ZERO);
        self.round = Some(Round { programs, visit: None, threads, began, taken });
    }

    /// Returns true if the present round has threads left to visit.
    pub const fn is_busy(&self) -> bool {
        self.round.is_some()
    }

    /// Visits the next thread.
    pub fn step(&mut self, programs: &[Traced], clock: &TraceClock) {
        let Some(mut round) = self.round.take() else { return };
        let (begin, now) = (Instant::now(), Sample::take());
        match round.visit.as_mut().map(|visit| visit.next(&now)) {
            Some(Some(observed)) => {
                round.threads.extend(observed.map(|observed| self.take(observed, clock, &now)))
            }
            // This program has no more threads.
            Some(None) | None => match round.programs.pop_front() {
                Some(number) => {
                    let program = programs.iter().find(|program| program.number() == number);
                    round.visit = program.map(|program| visit(program, self.contexts));
                }
                None => {
                    self.history.end_others(&round.threads, clock.now()());
                    // An interrupted step may have appeared to take long.
                    self.next = round.began + (round.taken * SHARE).min(LONGEST);
                    return;
                }
            },
        }
        round.taken += begin.elapsed();
        self.round = Some(round);
    }

    /// Visits all threads of a new program at once, with the time `when`.
    pub fn look_at(&mut self, program: &Traced, clock: &TraceClock, when: &Sample) {
        if self.contexts.needs_no_look() {
            return;
        }
        let mut visit = visit(program, self.contexts);
        let observed: Vec<ThreadAttributes> = std::iter::from_fn(|| visit.next(when)).flatten().collect();
        let threads: Vec<ThreadIds> =
            observed.into_iter().map(|observed| self.take(observed, clock, when)).collect();
        // The round in progress does not visit these threads.
        self.round.iter_mut().for_each(|round| round.threads.extend(&threads));
    }

    /// Adds a thread's observed attributes to the history and returns the thread.
    fn take(
        &mut self,
        ThreadAttributes { thread, attributes }: ThreadAttributes,
        clock: &TraceClock,
        when: &Sample,
    ) -> ThreadIds {
        let at = clock.ticks(when);
        for (attribute, age_ns) in attributes {
            let at = at.before(clock.ticks_in(Duration::from_nanos(age_ns)));
            self.history.take(Observation { at, thread, attribute });
        }
        thread
    }

    /// Returns the observations since the chunk began, and begins the next chunk.
    pub fn rotate(&mut self) -> Vec<Observation> {
        self.history.rotate()
    }

    /// Returns the attributes that were current at `timestamp`, and all later observations.
    pub fn since(&self, timestamp: Ticks) -> Vec<Observation> {
        self.history.since(timestamp)
    }
}

/// Begins a visit of all threads of a program.
fn visit(program: &Traced, contexts: Contexts) -> Visit {
    let (pid, own_pid) = (program.trace.pid, program.trace.identity.own_pid);
    let annotations = if contexts.annotations { program.program.annotations().copy() } else { Vec::new() };
    Visit::begin(pid, own_pid, annotations, contexts)
}
