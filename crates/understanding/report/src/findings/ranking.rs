//! The causes of the time over a whole recording.

use super::phrase::cause;
use crate::TimeFormat;
use crate::span::{share, span};
use crate::styled_text::{Style, StyledText, TIE, TableLine, shown};
use sordino_analyze::{Findings, Ranked};
use sordino_event::Nanos;

/// The maximum number of causes that have a line of their own.
const RANKED_MAX: usize = 20;

/// Writes the ranking of causes, if there is one.
pub(super) fn write(findings: &Findings, time: TimeFormat, page: &mut StyledText) {
    if findings.ranking.is_empty() {
        return;
    }
    let intervals = match (findings.ranked, findings.more) {
        (1, false) => "the only interval".into(),
        (count, false) => format!("the {count} intervals"),
        (count, true) => format!("the longest {count} intervals"),
    };
    page.gap();
    let is_by_excess = findings.ranking.iter().any(|ranked| ranked.excess > Nanos::ZERO);
    let what = if is_by_excess { "took longer than usual" } else { "took the time" };
    let title = format!("What {what} in {intervals} over {}", span(findings.limit));
    page.prose(Style::Headline, "", &title);
    let amount = |ranked: &Ranked| if is_by_excess { ranked.excess } else { ranked.time };
    let total: Nanos = findings.ranking.iter().map(amount).sum();
    let (most, hidden) = findings.ranking.split_at(shown(findings.ranking.len(), RANKED_MAX));
    let mut rows: Vec<_> =
        most.iter().map(|ranked| row(ranked, is_by_excess, total, findings, time)).collect();
    if !hidden.is_empty() {
        let rest: Nanos = hidden.iter().map(amount).sum();
        let [count, intervals, longest, at] = std::array::from_fn(|_| String::new());
        let cells = [span(rest), share(rest, total), count, intervals, longest, at];
        rows.push(TableLine { cells, text: format!("{} more causes", hidden.len()), below: Vec::new() });
    }
    let first = if is_by_excess { "excess" } else { "total" };
    let head = [first, "share", "count", "intervals", "longest", "in"].map(|name| (name, 0));
    page.table(0, head, "what", &rows);
}

fn row(
    ranked: &Ranked,
    is_by_excess: bool,
    all: Nanos,
    findings: &Findings,
    time: TimeFormat,
) -> TableLine<6> {
    // The longest occurrence usually lies in one of the intervals that are shown.
    let number = findings.intervals.iter().position(|explanation| {
        let has_it = explanation.parts.iter().any(|part| part.longest == ranked.longest);
        explanation.interval.begin == ranked.longest_at && has_it
    });
    let place = match number {
        Some(_) => String::new(),
        None => {
            format!(", in the interval at {}", time.text(ranked.longest_at).replace(' ', &TIE.to_string()))
        }
    };
    let amount = if is_by_excess { ranked.excess } else { ranked.time };
    let cells = [
        span(amount),
        share(amount, all),
        ranked.count.to_string(),
        ranked.intervals.to_string(),
        span(ranked.longest),
        number.map_or(String::new(), |index| format!("#{}", index + 1)),
    ];
    TableLine { cells, text: cause(&ranked.cause) + &place, below: Vec::new() }
}
