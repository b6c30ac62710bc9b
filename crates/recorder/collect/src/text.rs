//! Summaries of recordings as text.

mod missing;
mod programs;

pub use missing::missing;
pub use programs::unwritten;

use crate::summary::Summary;
use crate::unanswered::unanswered_lines;
use sordino_event::Nanos;
use sordino_event::text::{count, printable};
use sordino_quantity::bytes;
use std::path::Path;
use std::time::Duration;

/// Returns the summary of the recording in `directory` as text. `next` is the advice on what to do with it.
pub fn summary(directory: &Path, summary: &Summary, next: &str) -> String {
    let mut text = missing(&summary.missing());
    text += &programs::lines(&summary.programs);
    let unanswered = summary.programs.iter().map(|program| (program.name.as_str(), program.unanswered));
    let unanswered = unanswered_lines(unanswered).into_iter();
    for line in unanswered.chain(summary.unrecorded.lines()) {
        text += &format!("  {}\n", printable(&line));
    }
    for stream in &summary.kernel {
        let events = count(stream.events, "event");
        text += &format!("  kernel cpu{}: {events}, {}", stream.cpu, bytes(stream.bytes));
        text += &programs::loss(stream.lost, &[("kernel buffer overrun", stream.lost)]);
        if stream.overwritten > 0 {
            text += &format!(", before that {} overwritten", count(stream.overwritten, "event"));
        }
        if stream.uncounted {
            text += " and more, not counted";
        }
        for (count, what) in
            [(stream.unwritten, "could not be written"), (stream.unreceived, "were not received")]
        {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        if stream.unconverted > 0 {
            let (kept, path) = (bytes(stream.unconverted), directory.display().to_string());
            text += &format!(
                "\n    {kept} of its pages are not converted: make room, then run: sordino recover {}",
                printable(&path)
            );
        }
        if let Some(damage) = &stream.damage {
            text += &format!("\n    {}", printable(damage));
        }
        text.push('\n');
    }
    for note in summary.recorder_cpus.line().iter().chain(&summary.notes).chain(&summary.shortfall.lines()) {
        text += &format!("  {}\n", printable(note));
    }
    let user = summary.user_events().map_or("?".to_owned(), |events| events.to_string());
    text += &format!(
        "recorded {user} user + {} kernel events{}, lost {}\n",
        summary.kernel_events(),
        duration(summary.duration_ns),
        lost(summary.lost(), summary.has_uncounted_loss()),
    );
    let path = directory.to_string_lossy();
    let path = printable(&path);
    let size = bytes(summary.bytes());
    text + &format!("{path}: {size}; {next}\n")
}

/// Returns the recording's duration; nothing if it is not known because the recorder was killed.
fn duration(ns: u64) -> String {
    if ns == 0 { String::new() } else { format!(" in {}", Nanos::from(Duration::from_nanos(ns))) }
}

/// Returns the number of lost records as text, with a note if there may be more than were counted.
pub fn lost(counted: u64, has_uncounted: bool) -> String {
    match (counted, has_uncounted) {
        (0, true) => "some, not counted".to_owned(),
        (counted, true) => format!("{counted} and more"),
        (counted, false) => counted.to_string(),
    }
}
