//! The cause of the longest wake-up in a trace.

use crate::Failure;
use crate::commands::explain::{explain, format};
use crate::recording::Recording;
use sordino_analyze::{ExplainOptions, Thread};
use sordino_check::Explained;
use sordino_event::Nanos;
use sordino_intervals::{IntervalRule, IntervalSelector, Key, Point};
use sordino_report::{FindingsFormat, headline, write_findings};
use std::path::Path;

/// Returns true for cyclictest's measuring threads; its other threads have ordinary priorities.
fn is_measuring(thread: &Thread) -> bool {
    thread.comm.as_deref() == Some("cyclictest")
        && thread.priority.is_some_and(|priority| priority.is_real_time())
}

/// Returns the longest wake-up of cyclictest in this trace, from the timer's interrupt until the thread runs, with its
/// causes. `None` if the trace has none.
pub(super) fn longest(trace: &Path) -> Result<Option<(Nanos, Explained)>, Failure> {
    let point =
        |event: &str, field: &str| Point { event: event.to_owned(), key: Key::Field(field.to_owned()) };
    let rule = IntervalRule { begin: point("sched_waking", "tid"), end: point("sched_switch", "next_tid") };
    let mut recording = Recording::open(Some(trace))?;
    let selected = ExplainOptions { longest: 1, ..ExplainOptions::default() };
    let selector: IntervalSelector = Box::new(|moment, tid| is_measuring(&Thread::of(moment.system, tid)));
    let findings = explain(&mut recording, rule, selected, Some(selector))?;
    let Some(longest) = findings.intervals.first() else { return Ok(None) };
    let format = FindingsFormat { color: false, width: 100, ..format(&recording) };
    let mut details = Vec::new();
    write_findings(&findings, format, &mut details)?;
    let explained = Explained {
        headline: headline(longest),
        details: String::from_utf8_lossy(&details).into_owned(),
        trace: None,
    };
    let length = longest.length;
    recording.close()?;
    Ok(Some((length, explained)))
}
