//! Hits between a tracepoint's registration and the recorders' answers: counted in its enable word, for the recorders
//! that answer late.
//!
//! A tracepoint is *pending* from its registration with recorders on. Its hits take the slow path, which in one step
//! counts them and reads the sessions that have answered; they are recorded for these. A session that enters the word
//! takes the count of exactly the hits that are not in its rings. The last answer ends the pending state; without one,
//! the first hit after [`LONGEST`] ends it and marks later hits as uncounted.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `pending:A`, a word that becomes pending | `point:A`, `pending:B` | if the load sees it pending, it sees the time until when |
//! | `pending:C`, where the pending tracepoints end | `pending:D` | if the load sees that tracepoints may be pending, it sees that somebody is awaited for them |
//! | `pending:E`, a word that a late hit settles | `control:J` | if the change finds it settled, it sees that hits were not counted |

use crate::area::enable::EnableMask;
use crate::layout::{EnableWord, Header};
use crate::number::PointId;
use sordino_percpu::primitive::{Acquire, Relaxed, Release};
use std::ops::Range;
use std::time::Duration;

/// The longest time for which a tracepoint is pending: thirty times the time for which a program waits for recorders.
pub const LONGEST: Duration = Duration::from_secs(60);

/// A program's pending tracepoints. The program changes them when it registers and at hits, a recorder when it answers.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a> {
    header: &'a Header,
    words: &'a [EnableWord],
    /// CPUs that have a ring in each slot. Each side uses its own number: the header's is the program's to change.
    cpus: u32,
}

impl<'a> Pending<'a> {
    /// The pending tracepoints of the area with this header and these enable words.
    pub(crate) fn of(header: &'a Header, words: &'a [EnableWord], cpus: u32) -> Self {
        Self { header, words, cpus }
    }

    /// Makes these tracepoints pending at the time `now`, in nanoseconds of `CLOCK_MONOTONIC`. The program itself
    /// counts as an awaited recorder, which keeps them pending until it has registered with all and
    /// [answers](Self::answer).
    ///
    /// Not for the recording path: a compare-and-swap for each tracepoint.
    pub fn begin(self, ids: Range<u16>, now: u64) {
        self.await_another();
        self.header.pending_since.store(now, Relaxed);
        self.header.pending_until.store(now.saturating_add(LONGEST.as_nanos() as u64), Relaxed);
        for word in self.words.iter().take(ids.end.into()).skip(ids.start.into()) {
            change(word, |mask| mask.pending(self.cpus));
        }
        // ORDER(pending:C) pairs with pending:D: if the load sees this end, then it sees that a recorder is awaited.
        self.header.pending_end.store(ids.end.into(), Release);
    }

    /// Counts an awaited recorder. Precedes the packet to it.
    pub fn await_another(self) {
        self.header.awaited.fetch_add(1, Relaxed);
    }

    /// Counts an awaited recorder off, which has answered or will not. The last one settles all words.
    ///
    /// Not for the recording path: bounded by the number of tracepoints.
    pub fn answer(self) {
        // ORDER(pending:D) pairs with pending:C: if the load sees an end, then it sees that a recorder is awaited for
        // the tracepoints before it. It precedes the count: tracepoints that become pending meanwhile lie behind this
        // end, or a recorder is still awaited.
        let end = self.header.pending_end.load(Acquire) as usize;
        if !self.is_last() {
            return;
        }
        for word in self.words.iter().take(end) {
            change(word, |mask| mask.settled(self.cpus));
        }
    }

    /// Takes one from the count of awaited recorders, and returns true if it was the last. A count of 0, which only a
    /// hostile program shows, stays.
    fn is_last(self) -> bool {
        let mut awaited = self.header.awaited.load(Relaxed);
        while awaited != 0 {
            match self.header.awaited.compare_exchange(awaited, awaited - 1, Relaxed, Relaxed) {
                Ok(_) => return awaited == 1,
                Err(now) => awaited = now,
            }
        }
        false
    }

    /// Counts a hit of tracepoint `id` if it is pending, and returns the sessions that have answered. `now` reads
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    ///
    /// Real-time: no system call, no lock, no allocation; lock-free, but not wait-free: another try for each hit that
    /// another thread counts, and each answer, in between.
    pub fn count(self, id: PointId, now: impl Fn() -> u64) -> EnableMask {
        let Some(word) = self.words.get(id.index()) else { return EnableMask(0) };
        // ORDER(pending:B) pairs with pending:A and control:A: if the load sees it pending, then it sees until when; if
        // it sees a session, then it sees the session's rings.
        let mut seen = word.load(Acquire);
        loop {
            let mask = EnableMask(seen);
            if !mask.is_pending() {
                return mask;
            }
            let is_late = now() >= self.header.pending_until.load(Relaxed);
            if is_late {
                self.header.uncounted.store(1, Relaxed);
            }
            let next = if is_late { mask.settled(self.cpus) } else { mask.hit() };
            // ORDER(pending:E) pairs with control:J: if the change finds the word settled, then it sees that hits were
            // not counted.
            match word.compare_exchange(seen, next.0, Release, Acquire) {
                Ok(_) => return mask.settled(self.cpus),
                Err(now) => seen = now,
            }
        }
    }

    /// The time at which the newest tracepoints became pending, in nanoseconds of `CLOCK_MONOTONIC`; 0 before the
    /// first. The program writes it: any number.
    pub fn since(self) -> u64 {
        self.header.pending_since.load(Relaxed)
    }

    /// Returns true if the program marked hits as uncounted, because no answer came in time.
    pub fn has_uncounted(self) -> bool {
        self.header.uncounted.load(Relaxed) != 0
    }

    /// Returns true if hits of tracepoint `id` are counted at present.
    pub fn counts(self, id: PointId) -> bool {
        self.words.get(id.index()).is_some_and(|word| EnableMask(word.load(Relaxed)).is_pending())
    }

    /// The hits of tracepoint `id` that were counted so far for recorders without an answer; all ones stand for that
    /// many or more.
    pub fn hits(self, id: PointId) -> u32 {
        self.words.get(id.index()).map_or(0, |word| EnableMask(word.load(Relaxed)).hits())
    }
}

/// Replaces a word by `to` of it, if that differs.
fn change(word: &EnableWord, to: impl Fn(EnableMask) -> EnableMask) {
    let mut seen = word.load(Relaxed);
    loop {
        let next = to(EnableMask(seen));
        if next.0 == seen {
            return;
        }
        // ORDER(pending:A) pairs with point:A and pending:B: if a load sees it pending, then it sees until when.
        match word.compare_exchange(seen, next.0, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}
