//! Reads a program's catalogue in pieces and declares its tracepoints for the metadata, within limits for each program.

use sordino_ctf::write::{StreamClass, event_classes};
use sordino_event::Schema;
use sordino_event::catalogue::{ErrorKind, MAX_TEXT, Read, RejectedTracepoint, read};
use sordino_event::text::count;
use sordino_ring::area::control::Program;
use sordino_ring::number::PointId;
use std::fmt;

/// Size of a piece of a catalogue that is parsed at once, in bytes.
const PIECE: usize = 2 * MAX_TEXT;
/// Number of reads that may find the end of a catalogue incomplete: each reads it again, and the library publishes
/// whole tracepoints.
const MOST_INCOMPLETE: u32 = 10;
/// Maximum size of one program's declarations in the metadata, in bytes.
const MOST_DECLARATIONS: usize = 64 << 20;
/// Maximum number of a program's unrecorded tracepoints that are named; others are only counted.
const MOST_NAMED: u64 = 20;

/// A tracepoint that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The tracepoint's id in records. The ids of a program ascend; a refused tracepoint leaves a gap.
    pub id: PointId,
    /// The tracepoint's name, level and fields.
    pub schema: Schema,
}

impl Declared {
    /// Returns the declaration of the tracepoint's event for the metadata, for both kinds of ring.
    ///
    /// # Errors
    /// CTF has no form for the schema.
    pub fn declaration(&self) -> Result<String, sordino_ctf::Error> {
        let classes = [StreamClass::Cpu, StreamClass::Shared];
        event_classes(&classes, self.id.0, &self.schema.full_name(), &self.schema)
    }
}

/// The new part of a catalogue.
#[derive(Debug, Default)]
pub struct Learned {
    /// The tracepoints that can be recorded.
    pub tracepoints: Vec<Declared>,
    /// The tracepoints' declarations for the metadata.
    pub declarations: String,
    /// Notes on tracepoints that are not recorded, for the summary.
    pub notes: Vec<String>,
}

/// A catalogue to which more text may be appended.
pub trait Catalogue {
    /// Returns the present length of the text in bytes.
    fn length(&self) -> usize;
    /// Returns the text from the byte `from` on, at most `most` bytes.
    fn part(&self, from: usize, most: usize) -> Vec<u8>;
    /// Returns the number of tracepoints that the program has room for.
    fn capacity(&self) -> u32;
}

impl Catalogue for Program {
    fn length(&self) -> usize {
        self.catalogue_length()
    }

    fn part(&self, from: usize, most: usize) -> Vec<u8> {
        self.catalogue_part(from, most)
    }

    fn capacity(&self) -> u32 {
        self.capacity().points
    }
}

/// The state of reading a program's catalogue.
#[derive(Debug, Default)]
pub struct CatalogueReader {
    /// Number of bytes parsed so far.
    read: usize,
    /// Length of the catalogue at the last read.
    seen: usize,
    /// Number of reads that found the last tracepoint incomplete.
    incomplete: u32,
    /// The lowest id that the next tracepoint may have.
    next: u32,
    /// Size of the declarations so far, in bytes.
    declared: usize,
    /// True if the catalogue was invalid; no more of it is read.
    is_broken: bool,
    /// True if the limit for declarations is reached; no more are made.
    is_full: bool,
    /// Tracepoints that are not recorded, and those of them that the program itself could not register.
    refused: u64,
    unregistered: u64,
}

impl CatalogueReader {
    /// Returns the number of bytes that have not been parsed.
    pub fn due(&self, catalogue: &impl Catalogue) -> usize {
        let length = catalogue.length();
        if self.is_broken || length == self.seen { 0 } else { length.saturating_sub(self.read) }
    }

    /// Parses new text, in at most `pieces` pieces.
    pub fn learn(&mut self, catalogue: &impl Catalogue, pieces: usize) -> Learned {
        let mut learned = Learned::default();
        if self.due(catalogue) == 0 {
            return learned;
        }
        // Text that is appended meanwhile is left for the next call.
        let end = catalogue.length();
        for _ in 0..pieces {
            if self.is_broken || self.read >= end {
                break;
            }
            let text = catalogue.part(self.read, PIECE.min(end - self.read));
            let Read { tracepoints, refused, consumed } = read(&text);
            refused.iter().for_each(|refused| self.refuse(refused, &mut learned));
            for (id, schema) in tracepoints {
                self.declare(catalogue.capacity(), Declared { id: PointId(id), schema }, &mut learned);
            }
            self.read += consumed;
            if consumed == 0 || text.is_empty() {
                self.note_incomplete(text.len(), &mut learned);
                self.seen = end;
                break;
            }
        }
        if self.read >= end {
            self.seen = end;
        }
        learned
    }

    fn declare(&mut self, capacity: u32, new: Declared, learned: &mut Learned) {
        let name = || new.schema.full_name();
        if u32::from(new.id.0) < self.next || u32::from(new.id.0) >= capacity {
            return self.note(name(), &format!("its number {} is out of turn", new.id), learned);
        }
        let full = || format!("the program's declarations take more than {} MiB", MOST_DECLARATIONS >> 20);
        if self.is_full {
            return self.note(name(), &full(), learned);
        }
        match new.declaration() {
            Ok(text) if self.declared + text.len() > MOST_DECLARATIONS => {
                self.is_full = true;
                self.note(name(), &full(), learned);
            }
            Ok(text) => {
                self.declared += text.len();
                self.next = u32::from(new.id.0) + 1;
                learned.declarations += &text;
                learned.tracepoints.push(new);
            }
            Err(error) => self.note(name(), &error.to_string(), learned),
        }
    }

    fn refuse(&mut self, refused: &RejectedTracepoint, learned: &mut Learned) {
        self.unregistered += u64::from(matches!(refused.error.kind, ErrorKind::Unregistered(_)));
        match refused.name.as_str() {
            "" => self.note("a part of its catalogue".to_owned(), &refused.error, learned),
            name => self.note(name.to_owned(), &refused.error.kind, learned),
        }
    }

    /// Adds a note on a tracepoint that is not recorded, or only counts it.
    fn note(&mut self, name: String, reason: &dyn fmt::Display, learned: &mut Learned) {
        self.refused += 1;
        if self.refused <= MOST_NAMED {
            learned.notes.push(format!("{name} is not recorded: {reason}"));
        }
    }

    /// Counts a read of `bytes` bytes without the end of a tracepoint. Gives up after too many.
    fn note_incomplete(&mut self, bytes: usize, learned: &mut Learned) {
        self.incomplete += 1;
        let reason = match bytes {
            PIECE => "one of them is too long",
            _ if self.incomplete > MOST_INCOMPLETE => "the last one is never complete",
            _ => return,
        };
        self.is_broken = true;
        learned.notes.push(format!("its further tracepoints are not recorded: {reason}"));
    }

    /// Returns a note on text at the end that is not a tracepoint, or was not read any more.
    pub fn note_unread(&self, catalogue: &impl Catalogue) -> Option<String> {
        let length = catalogue.length();
        if self.is_broken || self.read >= length {
            return None;
        }
        let is_read = self.seen == length;
        Some(match is_read {
            true => "the end of its catalogue makes no tracepoint: it is not recorded".to_owned(),
            false => {
                "its newest tracepoints are not recorded: it ended before its catalogue was read".to_owned()
            }
        })
    }

    /// Returns a note on the unrecorded tracepoints that were not named, given the number that the program reports as
    /// unregistered.
    pub fn note_unnamed(&self, unregistered: u32) -> Option<String> {
        let unread = u64::from(unregistered).saturating_sub(self.unregistered);
        match (self.refused + unread).saturating_sub(self.refused.min(MOST_NAMED)) {
            0 => None,
            more => Some(format!("{} more not recorded", count(more, "tracepoint"))),
        }
    }
}

/// Returns the tracepoints in the first part of a catalogue, and true if these are all: for programs that are not
/// recorded, of which a session may have to read many.
pub fn first_tracepoints(catalogue: &impl Catalogue) -> (Vec<Declared>, bool) {
    let Read { tracepoints, consumed, .. } = read(&catalogue.part(0, PIECE.min(catalogue.length())));
    let mut next = 0;
    let in_turn = tracepoints.into_iter().filter(|&(id, _)| {
        let is_in_turn = u32::from(id) >= next && u32::from(id) < catalogue.capacity();
        next = if is_in_turn { u32::from(id) + 1 } else { next };
        is_in_turn
    });
    (
        in_turn.map(|(id, schema)| Declared { id: PointId(id), schema }).collect(),
        consumed == catalogue.length(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_ring::layout::{CATALOGUE, POINTS};

    impl Catalogue for String {
        fn length(&self) -> usize {
            self.len().min(CATALOGUE)
        }

        fn part(&self, from: usize, most: usize) -> Vec<u8> {
            self.as_bytes()[from..].iter().take(most).copied().collect()
        }

        fn capacity(&self) -> u32 {
            POINTS as u32
        }
    }

    /// Reads a catalogue with this text.
    fn learned(text: &str) -> (String, CatalogueReader, Learned) {
        let (text, mut reader) = (text.to_owned(), CatalogueReader::default());
        let learned = reader.learn(&text, usize::MAX);
        assert_eq!(reader.due(&text), 0);
        (text, reader, learned)
    }

    fn event(id: usize, fields: &str) -> String {
        format!("event\t{id}\t6\tp\te{id}\tfile.c\t1\n{fields}end\n")
    }

    fn ids(learned: &Learned) -> Vec<u16> {
        learned.tracepoints.iter().map(|new| new.id.0).collect()
    }

    #[test]
    fn a_tracepoint_that_makes_no_sense_is_named_and_leaves_a_gap() {
        let twice = event(1, "field\tu8\tx\nfield\tu8\tx\n");
        let text =
            [event(0, ""), twice, event(2, ""), event(2, ""), event(40_000, ""), event(3, "")].concat();
        let (_, reader, learned) = learned(&(text + "refused\tlevel\tp\tloud\n"));
        assert_eq!(ids(&learned), [0, 2, 3]);
        assert!(learned.declarations.contains("\tid = 3;") && !learned.declarations.contains("\tid = 1;"));
        assert_eq!(
            learned.notes,
            [
                "p:e1 is not recorded: two fields of the name 'x'",
                "p:loud is not recorded: unknown level",
                "p:e2 is not recorded: its number 2 is out of turn",
                "p:e40000 is not recorded: its number 40000 is out of turn",
            ]
        );
        assert_eq!(reader.note_unnamed(1), None);
        assert_eq!(reader.note_unnamed(3).as_deref(), Some("2 tracepoints more not recorded"));
    }

    #[test]
    fn a_catalogue_of_many_pieces_is_read_and_what_is_refused_in_it_is_counted() {
        let bad = |id: usize| if id.is_multiple_of(100) { event(id, "nonsense\n") } else { event(id, "") };
        let text: String = (0..POINTS).map(bad).collect();
        assert!(text.len() > 2 * PIECE);
        let (_, reader, learned) = learned(&text);
        let refused = POINTS.div_ceil(100);
        assert_eq!((learned.tracepoints.len(), learned.notes.len()), (POINTS - refused, MOST_NAMED as usize));
        let more = format!("{} tracepoints more not recorded", refused as u64 - MOST_NAMED);
        assert_eq!(reader.note_unnamed(0), Some(more));
    }

    #[test]
    fn what_a_catalogue_has_held_is_bounded() {
        let labels = "label\t1\t2\ta\n".repeat(MAX_TEXT / 13);
        let text: String = (0..30).map(|id| event(id, &format!("field\tenum:u32\tx\n{labels}"))).collect();
        let (_, _, all) = learned(&text);
        assert!(all.declarations.len() <= MOST_DECLARATIONS);
        let (_, reader, long) = learned(&event(0, &labels.repeat(4)));
        assert!(reader.is_broken && long.tracepoints.is_empty());
        assert!(long.notes[0].contains("too long"), "{:?}", long.notes);
    }

    #[test]
    fn of_a_program_that_is_not_recorded_the_first_piece_is_read_and_the_rest_is_unknown() {
        let first = |text: &str| {
            let (tracepoints, are_all) = first_tracepoints(&text.to_owned());
            (tracepoints.iter().map(|new| new.id.0).collect::<Vec<_>>(), are_all)
        };
        let few = [event(0, ""), event(2, ""), event(2, ""), event(1, ""), event(40_000, "")].concat();
        assert_eq!(first(&few), (vec![0, 2], true));
        assert_eq!(first(&(few + "event\t3\t6\tp")), (vec![0, 2], false));
        assert_eq!(first(""), (Vec::new(), true));
        let many: String = (0..POINTS).map(|id| event(id, "")).collect();
        let (ids, are_all) = first(&many);
        assert!(!are_all && ids.len() > 1000 && ids.len() < POINTS, "{}", ids.len());
    }

    #[test]
    fn an_end_that_never_comes_is_read_a_few_times() {
        let (text, mut reader, learned) = learned(&(event(0, "") + "event\t1\t6\tp"));
        assert_eq!(ids(&learned), [0]);
        assert!(reader.note_unread(&text).is_some() && reader.note_unread(&event(0, "")).is_none());
        for _ in 1..MOST_INCOMPLETE {
            reader.seen = 0;
            assert!(reader.learn(&text, usize::MAX).notes.is_empty());
        }
        reader.seen = 0;
        assert!(reader.learn(&text, usize::MAX).notes[0].contains("never complete"));
        reader.seen = 0;
        assert_eq!(reader.due(&text), 0);
    }
}
