//! The text of one interval: its headline, its parts, and notes.

use super::chain::woken;
use super::phrase::cause;
use super::words::{DETAILS_MAX, cpu, fiber, file, inversion, lost, sent, stage, thread, tied_headline};
use crate::TimeFormat;
use crate::span::{share, span};
use crate::styled_text::{Style, StyledText, TableLine, name, shown};
use sordino_analyze::{Explanation, Migration, Part, Stage, Stolen};
use sordino_event::Nanos;
use sordino_event::text::count;

/// The indent of an interval's text, behind the interval's number.
const INDENT: &str = "    ";
/// The maximum number of parts that have a line of their own.
const PARTS_MAX: usize = 16;

/// Writes the causes of the interval with this rank by length. The headline names the thread if `is_of_several`.
pub(super) fn write(
    number: usize,
    explanation: &Explanation,
    is_of_several: bool,
    time: TimeFormat,
    page: &mut StyledText,
) {
    let of = if is_of_several { format!(" of {}", thread(&explanation.thread)) } else { String::new() };
    let headline = format!("{}{of}: {}", span(explanation.length), tied_headline(explanation));
    page.prose(Style::Headline, &format!("#{number}  "), &headline);
    page.prose(Style::Plain, INDENT, &place(explanation, time));
    stages(explanation, page);
    table(explanation, page);
    let overhead = explanation.interval.overhead;
    if overhead > Nanos::ZERO {
        let text = format!("recording took {} more, which is subtracted (estimated)", span(overhead));
        page.prose(Style::Plain, INDENT, &text);
    }
    let inversions = &explanation.inversions;
    let few = shown(inversions.len(), DETAILS_MAX);
    for inverted in &inversions[..few] {
        let text = format!("priority inversion for {}: {}", span(inverted.time), inversion(inverted));
        page.prose(Style::Alarm, INDENT, &text);
    }
    rest(Style::Alarm, inversions.len() - few, "priority inversions", page);
    if explanation.migrations_count > 0 {
        page.prose(Style::Plain, INDENT, &migrations(explanation));
    }
    let few = shown(explanation.stolen.len(), DETAILS_MAX);
    for stolen in &explanation.stolen[..few] {
        page.prose(Style::Plain, INDENT, &theft(stolen, time));
    }
    rest(Style::Plain, explanation.stolen.len() - few, "thefts by the hypervisor", page);
    let few = shown(explanation.lost.len(), DETAILS_MAX);
    for loss in &explanation.lost[..few] {
        page.prose(Style::Warning, INDENT, &format!("incomplete: {}", lost(loss, time)));
    }
    rest(Style::Warning, explanation.lost.len() - few, "losses", page);
}

fn rest(style: Style, count: usize, what: &str, page: &mut StyledText) {
    if count > 0 {
        page.prose(style, INDENT, &format!("and {count} more {what}"));
    }
}

/// Returns the time, the CPUs and the thread of an interval.
fn place(explanation: &Explanation, time: TimeFormat) -> String {
    let interval = &explanation.interval;
    let at = time.text(interval.begin);
    let on = match (interval.begin_cpu, interval.end_cpu) {
        (begin, end) if begin == end => format!("on {}", cpu(begin)),
        (begin, end) => format!("from {} to {}", cpu(begin), cpu(end)),
    };
    let of = match interval.pid {
        Some(pid) if pid.0 != interval.tid.0 => format!(" of process {pid}"),
        _ => String::new(),
    };
    let whose = explanation.fiber.as_ref().map_or(String::new(), |of| format!("fiber {} on ", fiber(of)));
    format!("at {at} {on}, {whose}thread {}{of}", thread(&explanation.thread))
}

/// Writes the stages of a request, in their order.
fn stages(explanation: &Explanation, page: &mut StyledText) {
    let cells = |length| [span(length), share(length, explanation.length)];
    let row =
        |of: &Stage| TableLine { cells: cells(of.explanation.length), text: stage(of), below: Vec::new() };
    let rows: Vec<_> = explanation.stages.iter().map(row).collect();
    if !rows.is_empty() {
        page.table(INDENT.len(), [("time", 7), ("share", 6)], "stage", &rows);
    }
}

fn table(explanation: &Explanation, page: &mut StyledText) {
    let (longest, hidden) = explanation.parts.split_at(shown(explanation.parts.len(), PARTS_MAX));
    let mut rows: Vec<_> = longest.iter().map(|part| row(part, explanation.length)).collect();
    if !hidden.is_empty() {
        let time: Nanos = hidden.iter().map(|part| part.time).sum();
        let cells = [span(time), share(time, explanation.length), String::new(), String::new()];
        rows.push(TableLine { cells, text: format!("{} more causes", hidden.len()), below: Vec::new() });
    }
    page.table(INDENT.len(), [("time", 7), ("share", 6), ("count", 5), ("longest", 7)], "what", &rows);
}

fn row(part: &Part, length: Nanos) -> TableLine<4> {
    let longest = if part.count > 1 { span(part.longest) } else { String::new() };
    let functions = || part.inside.iter().filter(|inside| inside.time != Nanos::ZERO);
    let inside = functions().map(|inside| format!("{} in {}", span(inside.time), name(&inside.function)));
    let beside = part.beside.iter().filter_map(|beside| Some((beside.time, beside.thread.as_ref()?)));
    let beside = beside.map(|(time, by)| format!("{} had its CPU for {}", thread(by), span(time)));
    let senders = part.senders.iter().map(|by| format!("sent {} by {}", count(by.count, "time"), sent(by)));
    let files = part.files.iter().map(|read| format!("{} for {}", span(read.time), file(read)));
    let woken = part.wakers.iter().map(woken);
    let more = |all: usize, what: &str| {
        let hidden = all - shown(all, DETAILS_MAX);
        (hidden > 0).then(|| format!("and {hidden} more {what}"))
    };
    let (functions, wakers, others) = (functions().count(), part.wakers.len(), part.beside.len());
    let below = inside
        .take(shown(functions, DETAILS_MAX))
        .chain(more(functions, "functions"))
        .chain(beside.take(shown(others, DETAILS_MAX)))
        .chain(more(others, "threads"))
        .chain(senders.take(shown(part.senders.len(), DETAILS_MAX)))
        .chain(more(part.senders.len(), "senders"))
        .chain(files.take(shown(part.files.len(), DETAILS_MAX)))
        .chain(more(part.files.len(), "files"))
        .chain(woken.take(shown(wakers, DETAILS_MAX)).flatten())
        .chain(more(wakers, "wakers"))
        .collect();
    TableLine {
        cells: [span(part.time), share(part.time, length), part.count.to_string(), longest],
        text: cause(&part.cause) + &usual(part) + &entry(part),
        below,
    }
}

/// Returns a part's usual time in words, if it is at least a twentieth of the part's time.
fn usual(part: &Part) -> String {
    match part.usual.0.saturating_mul(20) > part.time.0 {
        true => format!(", usually {}", span(part.usual)),
        false => String::new(),
    }
}

/// Returns the estimated time of entering and leaving interrupts in words, if there is one.
fn entry(part: &Part) -> String {
    match part.entry > Nanos::ZERO {
        true => format!(", of which {} to enter and leave (estimated)", span(part.entry)),
        false => String::new(),
    }
}

fn theft(stolen: &Stolen, time: TimeFormat) -> String {
    format!(
        "the hypervisor took {} of cpu{} (steal) between {} and {}",
        span(stolen.time),
        stolen.cpu,
        time.text(stolen.from),
        time.text(stolen.to)
    )
}

fn migrations(explanation: &Explanation) -> String {
    let step = |migration: &Migration| {
        let after = span(migration.at - explanation.interval.begin);
        format!("from cpu{} to cpu{} after {after}", migration.from, migration.to)
    };
    let steps: Vec<String> = explanation.migrations.iter().map(step).collect();
    let hidden = explanation.migrations_count.saturating_sub(steps.len() as u64);
    let more = if hidden > 0 { format!(", and {hidden} more") } else { String::new() };
    format!("migrated {}{more}", steps.join(", "))
}
