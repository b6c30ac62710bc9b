//! A recording that is opened for reading, with progress on the terminal.

mod part;

pub(crate) use part::report_misfits;
pub(crate) use sordino_reading::describes_state;

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::progress::Progress;
use crate::terminal::remark;
use sordino_collect::Watch;
use sordino_reading::{Demand, OpenRecording};
use sordino_selection::TimeOptions;
use sordino_timeline::Item;
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// A recording: all of its traces, read as one.
pub(crate) struct Recording(OpenRecording);

impl Deref for Recording {
    type Target = OpenRecording;

    fn deref(&self) -> &OpenRecording {
        &self.0
    }
}

impl DerefMut for Recording {
    fn deref_mut(&mut self) -> &mut OpenRecording {
        &mut self.0
    }
}

impl Recording {
    /// Opens the recording that was named, or the newest in the current directory.
    pub(crate) fn open(named: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self(OpenRecording::open(named)?))
    }

    /// Limits passes to a part of the recording's time.
    ///
    /// # Errors
    /// No time of the recording is left.
    pub(crate) fn limit(&mut self, options: &TimeOptions) -> Result<(), Failure> {
        let (from, to) = options.resolve(self.span())?;
        self.narrow(from, to);
        Ok(())
    }

    /// Passes each item of the trace to `take`, until that returns `false`; shows progress on the terminal, as `what`.
    pub(crate) fn pass(
        &mut self,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(false);
        self.0.pass(what.map(|what| (what, &mut progress as &mut dyn Watch)), take)
    }

    /// Does the same, and begins with the items a little before the time to which passes are limited: they show what the
    /// machine did then.
    pub(crate) fn pass_with_lead(
        &mut self,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(false);
        self.0.pass_with_lead(what.map(|what| (what, &mut progress as &mut dyn Watch)), take)
    }

    /// Does what [`pass`](Self::pass) does, with the events and fields that are demanded.
    pub(crate) fn pass_of(
        &mut self,
        demand: &Demand,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(false);
        self.0.pass_of(demand, what.map(|what| (what, &mut progress as &mut dyn Watch)), take)
    }

    /// Does what [`pass_with_lead`](Self::pass_with_lead) does, with the events and fields that are demanded.
    pub(crate) fn pass_of_with_lead(
        &mut self,
        demand: &Demand,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(false);
        self.0.pass_of_with_lead(demand, what.map(|what| (what, &mut progress as &mut dyn Watch)), take)
    }

    /// Prints the problems of reading, which may be the cause of the failure, and returns the failure.
    pub(crate) fn failing(&self, failure: impl Into<Failure>) -> Failure {
        self.problems().iter().for_each(|problem| remark(problem));
        failure.into()
    }

    /// Prints the problems of reading.
    ///
    /// # Errors
    /// The last problem, if there is any.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let Some((last, others)) = self.problems().split_last() else { return Ok(()) };
        others.iter().for_each(|problem| remark(problem));
        Err(Failure::new(UNUSABLE, last.clone()))
    }
}
