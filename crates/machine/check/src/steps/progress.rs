//! A check's progress, and its interruption.

use crate::Explained;
use crate::limits::time;
use sordino_event::Nanos;
use std::path::Path;
use std::time::{Duration, Instant};

/// The person behind a check, who sees its progress and can interrupt it, and the explanation of traces.
pub trait CheckObserver {
    /// Shows the activity that goes on.
    fn doing(&mut self, what: String);

    /// Removes the progress from the terminal, for other output.
    fn clear(&mut self);

    /// Returns true if the check is to end.
    fn is_interrupted(&self) -> bool;

    /// Shows a remark, a line without a newline.
    fn remark(&self, text: &str);

    /// Returns the longest wake-up of cyclictest in a trace, from the timer's interrupt until the thread runs, with its
    /// causes; `None` if the trace has none.
    ///
    /// # Errors
    /// The reason why the trace can't be explained.
    fn longest_wake_up(&mut self, trace: &Path) -> Result<Option<(Nanos, Explained)>, String>;
}

/// The progress of the measurement that is being made.
pub(crate) struct MeasurementProgress<'a> {
    observer: &'a mut dyn CheckObserver,
    what: String,
    since: Instant,
    planned: Duration,
    maximum_ns: Option<f64>,
}

impl<'a> MeasurementProgress<'a> {
    pub(crate) fn new(observer: &'a mut dyn CheckObserver) -> Self {
        Self {
            observer,
            what: String::new(),
            since: Instant::now(),
            planned: Duration::ZERO,
            maximum_ns: None,
        }
    }

    /// Begins a measurement of `planned` duration.
    pub(crate) fn begin(&mut self, what: impl Into<String>, planned: Duration) {
        (self.what, self.since, self.planned, self.maximum_ns) = (what.into(), Instant::now(), planned, None);
        self.tick();
    }

    /// Reports a measured time; the longest so far is shown.
    pub(crate) fn longest(&mut self, ns: f64) {
        self.maximum_ns = Some(self.maximum_ns.map_or(ns, |maximum| maximum.max(ns)));
        self.tick();
    }

    pub(crate) fn tick(&mut self) {
        let (seconds, of) = (self.since.elapsed().as_secs(), self.planned.as_secs());
        let maximum = self.maximum_ns.map(|ns| format!(", longest so far {}", time(ns))).unwrap_or_default();
        self.observer.doing(format!("{}: {seconds} of {of} s{maximum}; Ctrl-C ends it", self.what));
    }

    pub(crate) fn clear(&mut self) {
        self.observer.clear();
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.observer.is_interrupted()
    }

    pub(crate) fn remark(&self, text: &str) {
        self.observer.remark(text);
    }

    pub(crate) fn longest_wake_up(&mut self, trace: &Path) -> Result<Option<(Nanos, Explained)>, String> {
        self.observer.longest_wake_up(trace)
    }
}
