//! How far a command is, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sordino_collect::Watch;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Shows how a recording gets on, if standard error is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// Nothing is shown while a command writes to the same terminal.
    quiet_while_recording: bool,
}

impl Progress {
    pub(crate) fn new(quiet_while_recording: bool) -> Self {
        let bar = ProgressBar::hidden();
        if stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
        Self { bar, what: "", quiet_while_recording }
    }

    fn style(&mut self, what: &'static str, template: &str) {
        if self.what != what {
            self.what = what;
            self.bar.set_style(
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
        }
    }
}

impl Watch for Progress {
    fn recording(&mut self, since: Duration, programs: usize) {
        if self.quiet_while_recording {
            return;
        }
        self.style("recording", "{spinner} {msg}");
        let noun = if programs == 1 { "program" } else { "programs" };
        self.bar
            .set_message(format!("recording {programs} {noun} for {} s; Ctrl-C ends it", since.as_secs()));
        self.bar.tick();
    }

    fn working(&mut self, what: &'static str, done: u64, total: u64) {
        self.style(what, "{msg} {wide_bar} {percent}% {eta}");
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
