//! Tracepoints that the metadata does not declare yet, and the hits that nobody recorded until it did.

use super::trace::ProgramTrace;
use crate::error::Error;
use crate::options::UserEvents;
use crate::unanswered::{Lack, Unanswered};
use sordino_clock::Sample;
use sordino_event::Pid;
use sordino_filter::condition::{Condition, Context};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::discover::Identity;
use sordino_intake::{Declared, Learned, first_tracepoints};
use sordino_ring::area::control::Program;
use std::time::Duration;

/// The tracepoints that are not in the metadata yet.
#[derive(Debug, Default)]
pub(super) struct Undeclared {
    learned: Learned,
    /// The number of answers that the program gets once these are in the metadata.
    owed_answers: u32,
    /// The time since which these could not be declared.
    since: Option<Sample>,
}

impl Undeclared {
    /// Adds what the catalogue's reader has learned.
    pub(super) fn add(&mut self, mut learned: Learned) {
        self.learned.tracepoints.append(&mut learned.tracepoints);
        self.learned.declarations += &learned.declarations;
    }

    /// Declares the tracepoints in the metadata, and returns them. On failure, they stay for the next call.
    pub(super) fn declare(
        &mut self,
        trace: &ProgramTrace,
        program: &Program,
    ) -> Result<Vec<Declared>, Error> {
        if self.learned.tracepoints.is_empty() {
            return Ok(Vec::new());
        }
        let appended = trace.append(&self.learned.declarations);
        appended.inspect_err(|_| _ = self.since.get_or_insert_with(Sample::take))?;
        Ok(self.take(program))
    }

    /// Takes the tracepoints. Forgets since when they could not be declared if the program has counted their hits.
    fn take(&mut self, program: &Program) -> Vec<Declared> {
        let tracepoints = std::mem::take(&mut self.learned).tracepoints;
        if tracepoints.iter().all(|new| program.pending().counts(new.id)) {
            self.since = None;
        }
        tracepoints
    }

    /// Adds the hits of tracepoints that the metadata still lacks to the trace's unanswered ones. Precedes detaching.
    pub(super) fn give_up(
        &mut self,
        program: &Program,
        trace: &mut ProgramTrace,
        user: &UserEvents,
        clock: &TraceClock,
    ) -> Result<(), Error> {
        let undeclared = self.take(program);
        let (unanswered, is_chosen) = pending_hits(program, &undeclared, user, &trace.context());
        let reported = if undeclared.is_empty() {
            Ok(())
        } else {
            self.take_over(program, trace, (unanswered, is_chosen), clock)
        };
        self.give_owed_answers(program);
        reported
    }

    /// Adds the hits that the area counted before this answer to the trace, if the program registered while the session
    /// recorded, and those that nobody counted. `is_chosen` if the session records any of the tracepoints.
    pub(super) fn take_over(
        &mut self,
        program: &Program,
        trace: &mut ProgramTrace,
        (mut unanswered, is_chosen): (Unanswered, bool),
        clock: &TraceClock,
    ) -> Result<(), Error> {
        let (pending, to) = (program.pending(), Sample::take());
        let undeclared_since = self.since.take();
        unanswered.uncounted |= is_chosen && (pending.has_uncounted() || undeclared_since.is_some());
        // The value comes from the program and may be anything.
        let registered = pending
            .since()
            .checked_sub(clock.begin.monotonic)
            .map(|after| clock.ticks(&clock.begin).after(clock.ticks_in(Duration::from_nanos(after))));
        let since = registered.into_iter().chain(undeclared_since.map(|since| clock.ticks(&since))).min();
        let Some(from) = since.filter(|_| unanswered.is_any()) else { return Ok(()) };
        let to = clock.ticks(&to);
        trace.add_lack(Lack { unanswered, from: from.min(to), to })
    }

    /// Stores the session's answer in the area. If tracepoints are undeclared it is owed: until then, the program
    /// counts their hits.
    pub(super) fn answer(&mut self, program: &Program) {
        self.owed_answers = self.owed_answers.saturating_add(1);
        if self.learned.tracepoints.is_empty() {
            self.give_owed_answers(program);
        }
    }

    pub(super) fn give_owed_answers(&mut self, program: &Program) {
        (0..std::mem::take(&mut self.owed_answers)).for_each(|_| program.pending().answer());
    }
}

/// Returns the unanswered hits of a program that can't be recorded, for the tracepoints that these rules select.
pub fn unanswered_of(program: &Program, identity: &Identity, pid: i32, user: &UserEvents) -> Unanswered {
    let context = Context { pid: Pid(pid), procname: &identity.name };
    let (tracepoints, are_all) = first_tracepoints(program);
    let (mut unanswered, _) = pending_hits(program, &tracepoints, user, &context);
    unanswered.uncounted |= program.pending().has_uncounted() || !are_all;
    unanswered
}

/// Returns the hits of these tracepoints that the program has counted, and true if the rules select any of them.
fn pending_hits(
    program: &Program,
    tracepoints: &[Declared],
    user: &UserEvents,
    context: &Context<'_>,
) -> (Unanswered, bool) {
    let (mut unanswered, mut is_chosen) = (Unanswered::default(), false);
    for Declared { id, schema } in tracepoints {
        let filter = user.choose(schema, context).filter;
        unanswered.add(program.pending().hits(*id), &filter);
        is_chosen |= filter != Condition::Never;
    }
    (unanswered, is_chosen)
}
