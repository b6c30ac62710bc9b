//! Hits between a tracepoint's registration and the recorders' answers: counted in its enable word, so that whoever answers late
//! knows how many it lacks.
//!
//! A tracepoint is *pending* from the moment on in which recorders are told of it. Its hits go the long way, which records them for the
//! sessions that have answered and counts them for the others, in one step: a session that puts itself into the word finds there
//! exactly the hits that it is not to find in its rings. The last recorder to answer ends it; where none does, a hit behind
//! [`LONGEST`] does, and says that hits from then on were not counted.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `pending:A`, a word that becomes pending | `point:A`, `pending:B` | who sees it pending sees until when |
//! | `pending:C`, where the pending tracepoints end | `pending:D` | who sees that tracepoints may be pending sees that somebody is awaited for them |
//! | `pending:E`, a word that a late hit settles | `control:J` | who finds it settled sees that hits were not counted |

use crate::layout::{EnableWord, Header, POINTS};
use crate::want::Wants;
use sordino_percpu::primitive::{Acquire, Relaxed, Release};
use std::ops::Range;
use std::time::Duration;

/// For how long tracepoints are pending at most. Some 200 programs that start at once were taken up in a tenth of it when
/// taking up was slow.
pub const LONGEST: Duration = Duration::from_secs(60);

/// A program's pending tracepoints. Both sides act on them: the program when it tells recorders and at hits, a recorder when it answers.
#[derive(Clone, Copy, Debug)]
pub struct Pending<'a> {
    header: &'a Header,
    words: &'a [EnableWord],
}

impl<'a> Pending<'a> {
    /// Of the area with this header and these enable words, `POINTS` of them.
    pub(crate) fn of(header: &'a Header, words: &'a [EnableWord]) -> Self {
        Self { header, words }
    }

    /// Has these tracepoints be pending from `now` on, in nanoseconds of `CLOCK_MONOTONIC`. The program itself counts as one that
    /// has to [answer](Self::answer), so that no recorder ends it while others are not told yet.
    ///
    /// Not for the recording path: a compare-and-swap for each.
    pub fn begin(self, ids: Range<u16>, now: u64) {
        self.await_another();
        self.header.pending_since.store(now, Relaxed);
        self.header.pending_until.store(now.saturating_add(LONGEST.as_nanos() as u64), Relaxed);
        let cpus = self.header.cpus.load(Relaxed);
        for word in self.words.iter().take(ids.end.into()).skip(ids.start.into()) {
            change(word, |wants| wants.pending(cpus));
        }
        // ORDER(pending:C) pairs with pending:D: who sees this end sees that somebody is awaited.
        self.header.pending_end.store(ids.end.into(), Release);
    }

    /// Before a recorder is told of them.
    pub fn await_another(self) {
        self.header.awaited.fetch_add(1, Relaxed);
    }

    /// A recorder has answered, or will not. The last one settles all words.
    ///
    /// Not for the recording path: bounded by the number of tracepoints.
    pub fn answer(self) {
        // ORDER(pending:D) pairs with pending:C. Before the count: what is told meanwhile lies behind this end, or is awaited still.
        let end = self.header.pending_end.load(Acquire) as usize;
        if !self.is_last() {
            return;
        }
        let cpus = self.header.cpus.load(Relaxed);
        for word in self.words.iter().take(end.min(POINTS)) {
            change(word, |wants| wants.settled(cpus));
        }
    }

    /// Takes one from the recorders that are awaited; whether it was the last. None is taken where a hostile program says that there are none.
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

    /// Counts a hit of tracepoint `id` if it is pending; which sessions have answered by then. `now` reads `CLOCK_MONOTONIC`, in
    /// nanoseconds.
    ///
    /// Real-time: no system call, no lock; starts over only when another hit was counted, or a recorder answered.
    pub fn count(self, id: u16, now: impl Fn() -> u64) -> Wants {
        let Some(word) = self.words.get(usize::from(id)) else { return Wants(0) };
        let cpus = self.header.cpus.load(Relaxed);
        // ORDER(pending:B) pairs with pending:A and control:A: who sees it pending sees until when, and who sees a session its rings.
        let mut seen = word.load(Acquire);
        loop {
            let wants = Wants(seen);
            if !wants.is_pending() {
                return wants;
            }
            let is_late = now() >= self.header.pending_until.load(Relaxed);
            if is_late {
                self.header.uncounted.store(1, Relaxed);
            }
            let next = if is_late { wants.settled(cpus) } else { wants.hit() };
            // ORDER(pending:E) pairs with control:J: who finds it settled sees that hits were not counted.
            match word.compare_exchange(seen, next.0, Release, Acquire) {
                Ok(_) => return wants.settled(cpus),
                Err(now) => seen = now,
            }
        }
    }

    /// When the newest tracepoints became pending, in nanoseconds of `CLOCK_MONOTONIC`, as the program says; 0 if none ever did.
    pub fn since(self) -> u64 {
        self.header.pending_since.load(Relaxed)
    }

    /// Whether hits of tracepoints that nobody had answered for were not counted, as the program says.
    pub fn has_uncounted(self) -> bool {
        self.header.uncounted.load(Relaxed) != 0
    }

    /// The hits of tracepoint `id` that were counted for recorders that have not answered, as the program says; all ones: at least so many.
    pub fn hits(self, id: u16) -> u32 {
        self.words.get(usize::from(id)).map_or(0, |word| Wants(word.load(Relaxed)).hits())
    }
}

/// Changes a word, unless it is as it should be.
fn change(word: &EnableWord, to: impl Fn(Wants) -> Wants) {
    let mut seen = word.load(Relaxed);
    loop {
        let next = to(Wants(seen));
        if next.0 == seen {
            return;
        }
        // ORDER(pending:A) pairs with point:A and pending:B: who sees it pending sees until when.
        match word.compare_exchange(seen, next.0, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}
