//! The last lines of a listing, in bounded memory.

use std::collections::VecDeque;
use std::io::{self, Write};

/// The number of losses between the last events that are kept.
const LOSSES: usize = 10_000;

/// Lines with their numbers in the listing.
type NumberedLines = VecDeque<(u64, Vec<u8>)>;

/// The last events of a listing, and the losses between them.
#[derive(Debug)]
pub struct LastLines {
    most: usize,
    next: u64,
    events: NumberedLines,
    losses: NumberedLines,
    /// The number of the last loss that was dropped for want of room.
    dropped: Option<u64>,
}

impl LastLines {
    /// Keeps the last `most` events.
    pub fn new(most: usize) -> Self {
        Self { most, next: 0, events: NumberedLines::new(), losses: NumberedLines::new(), dropped: None }
    }

    /// Adds the next line, which `write` writes.
    ///
    /// # Errors
    /// The error of `write`.
    pub fn push(
        &mut self,
        is_event: bool,
        write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (lines, most) = match is_event {
            true => (&mut self.events, self.most),
            false => (&mut self.losses, LOSSES),
        };
        let full = if lines.len() == most { lines.pop_front() } else { None };
        if let (false, Some((place, _))) = (is_event, &full) {
            self.dropped = Some(*place);
        }
        // Memory is reused: a listing may have millions of lines.
        let mut line = full.map(|(_, line)| line).unwrap_or_default();
        line.clear();
        write(&mut line)?;
        lines.push_back((self.next, line));
        self.next += 1;
        Ok(())
    }

    /// Writes the lines in order, without losses before the first event. Returns true if losses after it were dropped.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn write(self, out: &mut impl Write) -> io::Result<bool> {
        let is_whole = self.events.len() < self.most;
        let first = if is_whole { 0 } else { self.events.front().map_or(0, |(place, _)| *place) };
        let mut losses = self.losses.into_iter().skip_while(|(place, _)| *place < first).peekable();
        for (place, event) in self.events {
            while let Some((_, loss)) = losses.next_if(|(loss, _)| *loss < place) {
                out.write_all(&loss)?;
            }
            out.write_all(&event)?;
        }
        for (_, loss) in losses {
            out.write_all(&loss)?;
        }
        Ok(self.dropped.is_some_and(|place| place >= first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the remaining lines; capital letters are events, the others losses.
    fn last(most: usize, lines: &str) -> String {
        let mut last = LastLines::new(most);
        for letter in lines.chars() {
            last.push(letter.is_uppercase(), |line| write!(line, "{letter}")).unwrap();
        }
        let mut out = Vec::new();
        assert!(!last.write(&mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_last_events_come_with_the_losses_between_them() {
        assert_eq!(last(2, "aAbBcCdDe"), "CdDe");
        assert_eq!(last(4, "aAbBcCdDe"), "AbBcCdDe");
        assert_eq!(last(9, "aAbB"), "aAbB");
        assert_eq!(last(3, "ab"), "ab");
    }

    #[test]
    fn losses_beyond_the_room_for_them_are_said_to_be_missing() {
        let mut last = LastLines::new(1);
        for place in 0..=LOSSES + 1 {
            last.push(place == 0, |line| line.write_all(b"x")).unwrap();
        }
        let mut out = Vec::new();
        assert!(last.write(&mut out).unwrap());
        assert_eq!(out.len(), LOSSES + 1);

        let mut losses_alone = LastLines::new(1);
        for _ in 0..=LOSSES {
            losses_alone.push(false, |line| line.write_all(b"x")).unwrap();
        }
        assert!(losses_alone.write(&mut Vec::new()).unwrap(), "the very first line is missing");
    }
}
