//! A command's progress, on a terminal.

use sordino_collect::Watch;
use sordino_event::text::count;
use sordino_terminal::ProgressLine;
use std::borrow::Cow;
use std::time::Duration;

/// Shows progress on standard error, if that is a terminal.
pub struct Progress {
    line: ProgressLine,
    /// True if nothing is shown while recording, because a command writes to the same terminal.
    quiet_while_recording: bool,
}

impl Progress {
    /// Creates the progress of a command, hidden until there is something to show.
    pub fn new(quiet_while_recording: bool) -> Self {
        Self { line: ProgressLine::new(), quiet_while_recording }
    }

    /// Shows an activity of unknown length, with a spinner.
    pub fn doing(&mut self, what: impl Into<Cow<'static, str>>) {
        self.line.doing(what);
    }

    /// Removes the progress from the terminal, for other output.
    pub fn clear(&self) {
        self.line.clear();
    }
}

impl Watch for Progress {
    fn recording(&mut self, since: Duration, programs: usize) {
        if self.quiet_while_recording {
            return;
        }
        let programs = count(programs, "program");
        self.line.tick(format!("recording {programs} for {} s; Ctrl-C ends it", since.as_secs()));
    }

    fn working(&mut self, what: &'static str, done: u64, total: u64) {
        self.line.part(what, done, total);
    }
}
