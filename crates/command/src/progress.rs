//! A command's progress, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sordino_collect::Watch;
use sordino_event::text::{count, printable};
use sordino_terminal::{has_terminal_for_errors, is_utf8};
use std::borrow::Cow;
use std::time::Duration;

/// Shows progress on standard error, if that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// True if nothing is shown while recording, because a command writes to the same terminal.
    quiet_while_recording: bool,
}

impl Progress {
    /// Creates the progress of a command, hidden until there is something to show.
    pub fn new(quiet_while_recording: bool) -> Self {
        let bar = ProgressBar::hidden();
        if has_terminal_for_errors() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
        Self { bar, what: "", quiet_while_recording }
    }

    /// Shows an activity of unknown length, with a spinner.
    pub fn doing(&mut self, what: impl Into<Cow<'static, str>>) {
        if self.what.is_empty() && !self.bar.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
        self.style("doing", "{spinner} {wide_msg}");
        self.bar.set_message(printable(&what.into()).into_owned());
    }

    /// Removes the progress from the terminal, for other output.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn style(&mut self, what: &'static str, template: &str) {
        if self.what != what {
            self.what = what;
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let style = style.with_key("rate", rate);
            let in_ascii = |style: ProgressStyle| style.tick_chars("|/-\\ ").progress_chars("#>-");
            self.bar.set_style(if is_utf8() { style } else { in_ascii(style) });
        }
    }
}

/// Writes the amount of work that is done in a second.
fn rate(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    let part = state.per_sec() * 100.0 / state.len().unwrap_or(0).max(1) as f64;
    let _ = if part < 10.0 { write!(text, "{part:.1}%/s") } else { write!(text, "{part:.0}%/s") };
}

impl Watch for Progress {
    fn recording(&mut self, since: Duration, programs: usize) {
        if self.quiet_while_recording {
            return;
        }
        self.style("recording", "{spinner} {wide_msg}");
        let programs = count(programs, "program");
        self.bar.set_message(format!("recording {programs} for {} s; Ctrl-C ends it", since.as_secs()));
        self.bar.tick();
    }

    fn working(&mut self, what: &'static str, done: u64, total: u64) {
        self.style(what, "{msg} {wide_bar} {percent}%, {rate}, {eta} left");
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
