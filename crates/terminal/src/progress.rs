//! The line of standard error that shows an activity while it lasts.

use crate::{has_terminal_for_errors, is_utf8};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use sordino_event::text::printable;
use std::borrow::Cow;
use std::time::Duration;

/// Shows an activity on standard error, if that is a terminal; the line is removed in the end.
pub struct ProgressLine {
    bar: ProgressBar,
    what: &'static str,
}

impl Default for ProgressLine {
    fn default() -> Self {
        Self::new()
    }
}

impl ProgressLine {
    /// Creates a line that is hidden until there is something to show.
    pub fn new() -> Self {
        let bar = ProgressBar::hidden();
        if has_terminal_for_errors() {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        }
        Self { bar, what: "" }
    }

    /// Shows an activity of unknown length, with a spinner that advances by itself.
    pub fn doing(&mut self, what: impl Into<Cow<'static, str>>) {
        if self.what.is_empty() && !self.bar.is_hidden() {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
        self.style("doing", "{spinner} {wide_msg}");
        self.bar.set_message(printable(&what.into()).into_owned());
    }

    /// Shows an activity of unknown length, with a spinner that advances with each call.
    pub fn tick(&mut self, text: String) {
        self.style("ticking", "{spinner} {wide_msg}");
        self.bar.set_message(text);
        self.bar.tick();
    }

    /// Shows that `done` of `total` is done, with the time left.
    pub fn part(&mut self, what: &'static str, done: u64, total: u64) {
        self.style(what, "{msg} {wide_bar} {percent}%{pace}");
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.set_position(done);
    }

    /// Removes the line from the terminal, for other output.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn style(&mut self, what: &'static str, template: &str) {
        if self.what != what {
            self.what = what;
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let style = style.with_key("pace", pace);
            let in_ascii = |style: ProgressStyle| style.tick_chars("|/-\\ ").progress_chars("#>-");
            self.bar.set_style(if is_utf8() { style } else { in_ascii(style) });
        }
    }
}

/// Writes the share of the work that is done in a second and the time left, both of which are unknown at the start.
fn pace(state: &ProgressState, text: &mut dyn std::fmt::Write) {
    let percent = state.per_sec() * 100.0 / state.len().unwrap_or(0).max(1) as f64;
    if state.pos() == 0 || percent <= 0.0 {
        return;
    }
    let decimals = usize::from(percent < 10.0);
    let _ = write!(text, ", {percent:.decimals$}%/s, {:#} left", HumanDuration(state.eta()));
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}
