//! The progress of a query or an export, on a terminal.

use sordino_tables::RecordingSource;
use sordino_terminal::{ProgressLine, has_terminal_for_errors};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time before progress is shown: most queries end sooner.
const AFTER: Duration = Duration::from_millis(500);
/// Time between two updates.
const PERIOD: Duration = Duration::from_millis(200);

/// Progress that a thread shows on standard error, if that is a terminal, until this value is dropped.
pub(crate) struct ShownProgress {
    shower: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ShownProgress {
    /// Shows the part of the recording that is read from now on.
    pub(crate) fn of_reading(what: &'static str, source: &Arc<RecordingSource>) -> Self {
        let (source, begin) = (Arc::clone(source), source.progress().steps());
        Self::shown(move |line| match source.progress().steps() {
            (done, total) if total > begin.1 => line.part(what, done - begin.0, total - begin.1),
            _ => line.tick(what.to_owned()),
        })
    }

    /// Shows an activity of unknown length.
    pub(crate) fn without_length(what: &'static str) -> Self {
        Self::shown(move |line| line.tick(what.to_owned()))
    }

    fn shown(mut update: impl FnMut(&mut ProgressLine) + Send + 'static) -> Self {
        if !has_terminal_for_errors() {
            return Self { shower: None };
        }
        let (sender, ended) = channel();
        let show = move || {
            let (mut line, mut wait) = (ProgressLine::new(), AFTER);
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                update(&mut line);
                wait = PERIOD;
            }
        };
        Self { shower: Some((sender, thread::spawn(show))) }
    }
}

impl Drop for ShownProgress {
    /// Removes the line from the terminal.
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.shower.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}
