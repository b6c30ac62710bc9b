//! The findings of an analysis, as text for people and as JSON for programs.

mod chain;
mod choice;
mod gaps;
mod groups;
mod interval;
mod phrase;
mod ranking;
mod words;

use crate::TimeFormat;
use crate::span::span;
use crate::styled_text::{Style, StyledText, TIE, name};
use sordino_analyze::Findings;
use sordino_event::text::count;
use sordino_intervals::Unpaired;
use std::collections::BTreeSet;
use std::io::{self, Write};

pub use choice::{misplaced_directory, none_was_woken, nothing_to_choose, rule_arguments};
pub use words::headline;

/// The format of findings as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FindingsFormat {
    /// The format of points in time.
    pub time: TimeFormat,
    /// True if headlines, inversions and losses are coloured.
    pub color: bool,
    /// The maximum number of columns of a line, from 60 to 120; values outside are replaced by the nearest bound.
    pub width: usize,
}

/// Findings in words, section by section. Each line ends with a line feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingsText {
    /// The lengths of all intervals, and the rule that was chosen.
    pub summary: String,
    /// The explanation of each of the longest intervals.
    pub intervals: Vec<String>,
    /// Notes about kinds of causes that occur; each begins with an empty line.
    pub notes: String,
    /// The causes in all intervals that took long; begins with an empty line.
    pub ranking: String,
    /// The gaps of the trace, and their remedies; begins with an empty line.
    pub gaps: String,
}

impl FindingsText {
    /// Returns the text of findings.
    pub fn of(findings: &Findings, format: FindingsFormat) -> Self {
        let page = |write: &dyn Fn(&mut StyledText)| {
            let mut page = StyledText::new(format.width.clamp(60, 120), format.color);
            write(&mut page);
            page.finish()
        };
        let numbered = findings.intervals.iter().enumerate();
        let mut pairs = findings.intervals.windows(2);
        let is_of_several = pairs.any(|two| two[0].thread.tid != two[1].thread.tid && two[0].fiber.is_none());
        let explain = |(index, explanation)| {
            page(&|page| interval::write(index + 1, explanation, is_of_several, format.time, page))
        };
        let parts = findings.intervals.iter().flat_map(|explanation| &explanation.parts);
        let notes: BTreeSet<_> = parts.filter_map(|part| part.cause.note()).collect();
        Self {
            summary: page(&|page| {
                page.prose(Style::Plain, "", &summary(findings));
                choice::write(findings, page);
            }),
            intervals: numbered.map(explain).collect(),
            notes: page(&|page| {
                for note in &notes {
                    page.gap();
                    page.prose(Style::Plain, "", note);
                }
            }),
            ranking: page(&|page| ranking::write(findings, format.time, page)),
            gaps: page(&|page| gaps::write(findings, format.time, page)),
        }
    }
}

/// Writes findings for a person: the lengths of the intervals, the causes of each of the longest and of all together,
/// and the gaps of the trace.
///
/// # Errors
/// The error of `out`.
pub fn write_findings(findings: &Findings, format: FindingsFormat, out: &mut impl Write) -> io::Result<()> {
    let FindingsText { summary, intervals, notes, ranking, gaps } = FindingsText::of(findings, format);
    out.write_all(summary.as_bytes())?;
    for interval in intervals {
        write!(out, "\n{interval}")?;
    }
    write!(out, "{notes}{ranking}{gaps}")
}

/// Writes findings for a program: one JSON object in one line, as [`Findings`] is serialized.
///
/// # Errors
/// The error of `out`.
pub fn write_findings_json(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(findings)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Returns the number and the lengths of the intervals, or the reason if there are none.
fn summary(findings: &Findings) -> String {
    let rule = name(&findings.rule);
    let statistics = findings.statistics;
    if statistics.count == 0 {
        return format!("{rule}: no intervals, {}", why_none(findings));
    }
    let mut text = format!("{rule}: {}", count(statistics.count, "interval"));
    let lengths = [
        ("min", statistics.min),
        ("median", statistics.median),
        ("p99", statistics.p99),
        ("p99.9", statistics.p99_9),
        ("max", statistics.max),
    ];
    for (what, length) in lengths {
        text += &format!(", {what}{TIE}{}", span(length));
    }
    if findings.intervals.is_empty() && statistics.max <= findings.limit {
        text += &format!("; none is longer than the limit of {}", span(findings.limit));
    }
    text
}

fn why_none(findings: &Findings) -> &'static str {
    let Unpaired { begins, ends, without_key, without_thread } = findings.unpaired;
    if findings.broken.count > 0 {
        "records are lost between the ends of all pairs"
    } else if without_thread > 0 {
        "the threads of all pairs are unknown"
    } else if without_key > 0 {
        "the events lack the thread, CPU or field that would pair them"
    } else if begins > 0 && ends > 0 {
        "no end belongs to a begin before it"
    } else if begins > 0 {
        "the event that ends them did not occur"
    } else if ends > 0 {
        "the event that begins them did not occur"
    } else if findings.rule.contains("..") {
        "neither of the events occurred"
    } else {
        "the event did not occur twice in the same thread"
    }
}
