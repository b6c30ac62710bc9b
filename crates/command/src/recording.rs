//! A recording that is opened for reading, or several, with progress on the terminal.

mod align;
mod overhead;
mod part;
mod several;

pub use align::AlignOptions;
pub use overhead::OverheadOptions;
pub use part::report_misfits;
pub use sordino_reading::describes_state;

use crate::failure::{Failure, UNUSABLE};
use crate::progress::Progress;
use sordino_collect::Watch;
use sordino_reading::{Demand, OpenRecording};
use sordino_selection::TimeOptions;
use sordino_terminal::remark;
use sordino_timeline::{Consumer, Item};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

/// A recording: all of its traces, read as one.
pub struct Recording(OpenRecording);

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

impl From<Recording> for OpenRecording {
    fn from(recording: Recording) -> Self {
        recording.0
    }
}

impl Recording {
    /// Opens the recording that was named, or the newest in the current directory.
    ///
    /// # Errors
    /// There is no recording, or it can't be read.
    pub fn open(named: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self(OpenRecording::open(named)?))
    }

    /// Opens the recordings that were named, or the newest in the current directory, as one. Prints the relation of the
    /// clocks of several recordings.
    ///
    /// # Errors
    /// There is no recording, or one can't be read; the pairs of `options` relate none, or contradict each other.
    pub fn open_all(named: &[PathBuf], options: &AlignOptions) -> Result<Self, Failure> {
        let paired = options.offsets(named)?;
        let recording = Self(OpenRecording::open_all(named, &paired)?);
        recording.report_clocks();
        Ok(recording)
    }

    /// Limits passes to a part of the recording's time.
    ///
    /// # Errors
    /// No time of the recording is left.
    pub fn limit(&mut self, options: &TimeOptions) -> Result<(), Failure> {
        let (from, to) = options.resolve(self.span())?;
        self.narrow(from, to);
        Ok(())
    }

    /// Passes each item of the trace to `take`, until that returns `false`; shows progress on the terminal, as `what`.
    ///
    /// # Errors
    /// The error of `take`, or of reading.
    pub fn pass(
        &mut self,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        self.pass_of(&Demand::default(), what, take)
    }

    /// Passes the demanded items, as [`pass`](Self::pass) does.
    ///
    /// # Errors
    /// The error of `take`, or of reading.
    pub fn pass_of(
        &mut self,
        demand: &Demand,
        what: Option<&'static str>,
        take: impl FnMut(&Item<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut progress = Progress::new(false);
        self.0.pass_of(demand, what.map(|what| (what, &mut progress as &mut dyn Watch)), take)
    }

    /// Passes each item of one pass to all consumers; shows progress on the terminal, as `what`.
    pub fn feed(&mut self, what: &'static str, consumers: &mut [&mut dyn Consumer]) {
        let mut progress = Progress::new(false);
        self.0.feed(Some((what, &mut progress)), consumers);
    }

    /// Prints the problems of reading, which may be the cause of the failure, and returns the failure.
    pub fn failing(&self, failure: impl Into<Failure>) -> Failure {
        self.problems().iter().for_each(|problem| remark(problem));
        failure.into()
    }

    /// Prints the problems of reading.
    ///
    /// # Errors
    /// The last problem, if there is any.
    pub fn close(self) -> Result<(), Failure> {
        let Some((last, others)) = self.problems().split_last() else { return Ok(()) };
        others.iter().for_each(|problem| remark(problem));
        Err(Failure::new(UNUSABLE, last.clone()))
    }
}
