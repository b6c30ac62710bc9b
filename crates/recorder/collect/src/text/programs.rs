//! Text about the programs of a summary.

use crate::summary::{ProgramSummary, StreamSummary};
use sordino_event::text::{count, printable};
use sordino_quantity::bytes;
use std::collections::BTreeMap;

/// Most programs of one name that have lines of their own, unless there is more to report than their number of events.
const MOST: usize = 10;

/// Returns a line for each ring. More than [`MOST`] programs of one name share a line, except those with losses or
/// notes.
pub(super) fn lines(programs: &[ProgramSummary]) -> String {
    let mut of_name: BTreeMap<&str, Vec<&ProgramSummary>> = BTreeMap::new();
    for program in programs.iter().filter(|program| is_plain(program)) {
        of_name.entry(&program.name).or_default().push(program);
    }
    of_name.retain(|_, programs| programs.len() > MOST);
    let is_alone = |program: &&ProgramSummary| !is_plain(program) || !of_name.contains_key(&*program.name);
    let alone = programs.iter().filter(is_alone).map(of_one);
    alone.chain(of_name.iter().map(|(name, programs)| of_many(name, programs))).collect()
}

/// Returns true if all that it recorded is there.
fn is_plain(program: &ProgramSummary) -> bool {
    let is_whole = |stream: &StreamSummary| {
        let StreamSummary { events, overwritten, unwritten, problem, .. } = stream;
        events.is_some() && stream.lost() == 0 && overwritten + unwritten == 0 && problem.is_none()
    };
    program.notes.is_empty() && program.streams.iter().all(is_whole)
}

fn of_many(name: &str, programs: &[&ProgramSummary]) -> String {
    let streams = || programs.iter().flat_map(|program| &program.streams);
    let events: u64 = streams().filter_map(|stream| stream.events).sum();
    let (number, events) = (count(programs.len() as u64, "program"), count(events, "event"));
    let size = bytes(streams().map(|stream| stream.bytes).sum());
    format!("  {} ({number}): {events}, {size}\n", printable(name))
}

fn of_one(program: &ProgramSummary) -> String {
    let name = printable(&program.name);
    let mut text = String::new();
    for stream in &program.streams {
        let place = stream.file_name();
        let events = stream.events.map_or("? events".to_owned(), |events| count(events, "event"));
        text += &format!("  {name} ({}) {place}: {events}, {}", program.pid, bytes(stream.bytes));
        text += &loss(
            stream.lost(),
            &[
                ("ring full", stream.ring_full),
                ("too large", stream.too_large),
                ("unfinished", stream.unfinished),
                ("not received", stream.unreceived),
            ],
        );
        if stream.overwritten > 0 {
            text += &format!(", before that {} overwritten", count(stream.overwritten, "sub-buffer"));
        }
        if let Some(problem) = &stream.problem {
            text += &format!("\n    {}", printable(problem));
        }
        if stream.unwritten > 0 {
            text += &unwritten(stream.unwritten, stream.unwritten_bytes);
        }
        text.push('\n');
    }
    for note in &program.notes {
        text += &format!("  {name} ({}): {}\n", program.pid, printable(note));
    }
    text
}

/// Returns a line with the part of a ring that could not be written.
pub fn unwritten(sub_buffers: u64, lost: u64) -> String {
    let sub_buffers = count(sub_buffers, "sub-buffer");
    // For a recording that was recovered, only their number is known.
    let size = if lost > 0 { format!(" with {} of events", bytes(lost)) } else { String::new() };
    format!("\n    {sub_buffers}{size} could not be written")
}

pub(super) fn loss(total: u64, causes: &[(&str, u64)]) -> String {
    if total == 0 {
        return String::new();
    }
    let causes: Vec<String> = causes
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    format!(", lost {total} ({})", causes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(pid: i32, name: &str, ring_full: u64) -> ProgramSummary {
        let stream = StreamSummary {
            cpu: Some(1),
            bytes: 1024,
            events: Some(3),
            ring_full,
            ..StreamSummary::default()
        };
        ProgramSummary { pid, name: name.to_owned(), streams: vec![stream], ..ProgramSummary::default() }
    }

    #[test]
    fn programs_of_one_name_share_a_line_where_they_are_many_and_lost_nothing() {
        let mut programs: Vec<_> = (0..11).map(|pid| program(pid, "short", 0)).collect();
        programs.extend([program(20, "short", 7), program(21, "other", 0)]);
        let expected = "  short (20) cpu1: 3 events, 1.0 KiB, lost 7 (7 ring full)\n  other (21) cpu1: 3 events, 1.0 KiB\n  \
                        short (11 programs): 33 events, 11.0 KiB\n";
        assert_eq!(lines(&programs), expected);
        assert_eq!(lines(&programs[1..]).lines().count(), 12);
    }
}
