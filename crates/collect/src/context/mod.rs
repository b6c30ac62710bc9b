//! What is said of threads besides their events: their names, priorities and cgroups, their ids, and values of their own.
//!
//! A hit makes no system call, so none of this can be in a record. The recorder looks at the threads of all programs ten times a second,
//! and tells of changes in a stream of its own, each with the time at which it was seen; whoever reads the trace takes what was last told. What a thread says
//! of itself (`sordino:context`) is an event, and exact; for those that came before the recording, or were overwritten, the recorder
//! looks into the program's table of values.

mod history;
mod kinds;
mod look;

pub use kinds::Contexts;

use crate::clock::TraceClock;
use crate::program::Traced;
use history::History;
use look::{Seen, look};
use sordino_clock::Sample;
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
}

/// Looking takes one part in so many of a CPU's time at most: where there are many threads, it looks less often.
const SHARE: u32 = 100;

impl Watcher {
    pub(crate) fn new(contexts: Contexts) -> Self {
        Self { contexts, history: History::default(), next: Instant::now() }
    }

    /// Looks at all threads, if it is time.
    pub(crate) fn look(&mut self, programs: &[Traced], clock: &TraceClock) {
        let begin = Instant::now();
        if self.contexts.needs_no_look() || begin < self.next {
            return;
        }
        let mut threads = Vec::new();
        let now = Sample::take();
        programs.iter().for_each(|program| threads.extend(self.look_at(program, clock, &now)));
        self.history.end_others(&threads, clock.now()());
        self.next = begin + begin.elapsed() * SHARE;
    }

    /// Looks at the threads of one program, and says so as of `when`; which they are.
    pub(crate) fn look_at(&mut self, program: &Traced, clock: &TraceClock, when: &Sample) -> Vec<Thread> {
        let seen =
            if self.contexts.needs_no_look() { Vec::new() } else { look(program, self.contexts, when) };
        let at = clock.ticks(when);
        let mut threads = Vec::with_capacity(seen.len());
        for Seen { thread, whats } in seen {
            threads.push(thread);
            for (what, age_ns) in whats {
                let at = at.saturating_sub(clock.ticks_in(Duration::from_nanos(age_ns)));
                self.history.take(Told { at, thread, what });
            }
        }
        threads
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
