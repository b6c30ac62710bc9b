//! What is said of threads besides their events: their names, priorities and cgroups, their ids, and values of their own.
//!
//! A hit makes no system call, so none of this can be in a record. The recorder looks at the threads of all programs ten times a second,
//! one after the other, and tells of changes in a stream of its own, each with the time at which it was seen; whoever reads the trace takes what was last told. What a thread says
//! of itself (`sordino:context`) is an event, and exact; for those that came before the recording, or were overwritten, the recorder
//! looks into the program's table of values.

mod history;
mod kinds;
mod look;

pub use kinds::Contexts;

use crate::clock::TraceClock;
use crate::program::Traced;
use history::History;
use look::{Look, Seen};
use sordino_clock::Sample;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What was seen of a thread, and when, in the recording's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) at: u64,
    pub(crate) thread: Thread,
    pub(crate) what: What,
}

/// A thread of a traced program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Thread {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Its id in its own pid namespace, as its events have it.
    pub(crate) vtid: i32,
}

/// What is told of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Its process in its own pid namespace.
    Ids { vpid: i32 },
    /// Its name.
    Comm(String),
    /// Its scheduling policy as the kernel numbers it, its real-time priority and its nice value.
    Priority { policy: u32, priority: u32, nice: i32 },
    /// Where it is among the cgroups.
    Cgroup(String),
    /// What it said under a name.
    Value { name: String, text: String },
    /// It has ended.
    End,
}

/// Looks at the threads of all programs.
#[derive(Debug)]
pub(crate) struct Watcher {
    contexts: Contexts,
    history: History,
    /// When to look again.
    next: Instant,
    /// The look that goes on.
    round: Option<Round>,
}

/// A look at all threads, one after the other: a thread takes the kernel some microseconds, and there may be a thousand.
#[derive(Debug)]
struct Round {
    /// The numbers of programs that are left.
    programs: VecDeque<usize>,
    /// The rest of the one whose turn it is.
    look: Option<Look>,
    /// Threads that are there.
    threads: Vec<Thread>,
    began: Instant,
    taken: Duration,
}

/// Looking takes one part in so many of a CPU's time at most: where there are many threads, it looks less often.
const SHARE: u32 = 100;
/// Longest time between two looks.
const LONGEST: Duration = Duration::from_secs(30);

impl Watcher {
    pub(crate) fn new(contexts: Contexts) -> Self {
        Self { contexts, history: History::default(), next: Instant::now(), round: None }
    }

    /// Begins to look at all threads, if it is time.
    pub(crate) fn begin_if_due(&mut self, programs: &[Traced]) {
        let began = Instant::now();
        if self.contexts.needs_no_look() || self.is_busy() || began < self.next {
            return;
        }
        let programs = programs.iter().map(Traced::number).collect();
        let (threads, taken) = (Vec::new(), Duration::ZERO);
        self.round = Some(Round { programs, look: None, threads, began, taken });
    }

    /// Returns true if the present round has threads left to visit.
    pub(crate) const fn is_busy(&self) -> bool {
        self.round.is_some()
    }

    /// Looks at the next thread.
    pub(crate) fn step(&mut self, programs: &[Traced], clock: &TraceClock) {
        let Some(mut round) = self.round.take() else { return };
        let (begin, now) = (Instant::now(), Sample::take());
        match round.look.as_mut().map(|look| look.next(&now)) {
            Some(Some(seen)) => round.threads.extend(seen.map(|seen| self.take(seen, clock, &now))),
            // There is no other one of this program.
            Some(None) | None => match round.programs.pop_front() {
                Some(number) => {
                    let program = programs.iter().find(|program| program.number() == number);
                    round.look = program.map(|program| Look::at(program, self.contexts));
                }
                None => {
                    self.history.end_others(&round.threads, clock.now()());
                    // A step that was interrupted may have seemed to take long.
                    self.next = round.began + (round.taken * SHARE).min(LONGEST);
                    return;
                }
            },
        }
        round.taken += begin.elapsed();
        self.round = Some(round);
    }

    /// Looks at the threads of a new program, as of `when`.
    pub(crate) fn look_at(&mut self, program: &Traced, clock: &TraceClock, when: &Sample) {
        if self.contexts.needs_no_look() {
            return;
        }
        let mut look = Look::at(program, self.contexts);
        let seen: Vec<Seen> = std::iter::from_fn(|| look.next(when)).flatten().collect();
        let threads: Vec<Thread> = seen.into_iter().map(|seen| self.take(seen, clock, when)).collect();
        // A look at all that goes on does not come to them.
        self.round.iter_mut().for_each(|round| round.threads.extend(&threads));
    }

    /// Takes in what was seen of a thread; which one.
    fn take(&mut self, Seen { thread, whats }: Seen, clock: &TraceClock, when: &Sample) -> Thread {
        let at = clock.ticks(when);
        for (what, age_ns) in whats {
            let at = at.saturating_sub(clock.ticks_in(Duration::from_nanos(age_ns)));
            self.history.take(Told { at, thread, what });
        }
        thread
    }

    /// What was told since the chunk began. The next one begins now.
    pub(crate) fn rotate(&mut self) -> Vec<Told> {
        self.history.rotate()
    }

    /// What held at `stamp`, and what was told since.
    pub(crate) fn since(&self, stamp: u64) -> Vec<Told> {
        self.history.since(stamp)
    }
}
