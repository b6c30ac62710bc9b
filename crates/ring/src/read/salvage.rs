//! What is left of the shared ring when writers did not finish.

use super::{Content, Corrupt, Lost, Reader};
use crate::layout::{LEFT, MARKED, MarkWord, PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use crate::position::Head;
use sordino_percpu::primitive::{Acquire, plain};

/// What could be saved of a sub-buffer of the shared ring in which writers did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Header room and the complete records, one after the other.
    pub bytes: Vec<u8>,
    /// What its packet's header has to say.
    pub content: Content,
    /// Places where at least one record was reserved and not finished.
    pub unfinished: u64,
}

impl Reader {
    /// Hands `take` the complete records of what is left in the shared ring, sub-buffer by sub-buffer, also of those
    /// in which writers did not finish. For the end: when the program is gone or no longer recorded. `now` is a stamp
    /// that is not before the last record's. Does nothing for a CPU's ring, which has no unfinished records.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn salvage(&self, now: u64, mut take: impl FnMut(Salvaged)) -> Result<(), Corrupt> {
        let head = self.head()?;
        let size = self.geometry.size() as u32;
        let ahead = head.turn().wrapping_sub(self.turn);
        let mut parts = Vec::new();
        for turn in (0..=ahead.min(self.geometry.count)).map(|step| self.turn.wrapping_add(step)) {
            let Some(number) = self.number(turn) else { continue };
            let Some((_, marks)) = self.commit_words(number) else { return Ok(()) };
            let end = if turn == head.turn() { head.start() & (size - 1) } else { size };
            parts.push(self.gather(number, marked(marks, turn), end));
        }
        // A packet ends when the next one begins. What its last writer left does not tell: that may be the one who was killed.
        // Nor do the counts of lost records: but each record has the low bits of the total before it.
        let (mut next, mut lost) = (now, self.lost());
        for part in parts.iter_mut().rev() {
            let first = word_at(&part.bytes, PACKET_HEADER).unwrap_or(next);
            part.content = Content { first_stamp: first, last_stamp: next.max(first), lost, ..part.content };
            next = first;
            let before = word_at(&part.bytes, PACKET_HEADER + 8).unwrap_or(lost.total);
            lost.total = lost.total.saturating_sub(lost.total.wrapping_sub(before) & 0xffff);
            lost.too_large = lost.too_large.min(lost.total);
        }
        parts.into_iter().for_each(&mut take);
        Ok(())
    }

    /// Copies the marked records of one sub-buffer, of which `end` bytes are reserved. Their times and counts are still to be looked at.
    fn gather(&self, number: u32, starts: impl Iterator<Item = u32>, end: u32) -> Salvaged {
        let from = self.data(number);
        let mut bytes = vec![0; PACKET_HEADER];
        let (mut unfinished, mut behind, mut length) = (0, PACKET_HEADER as u32, PACKET_HEADER);
        for start in starts.take_while(|&start| start < end) {
            let record = from.wrapping_add(start as usize);
            let length_word = record.wrapping_add(RECORD_HEADER + SHARED_EXTRA / 2).cast::<u32>();
            // SAFETY: aligned; inside the sub-buffer or less than 24 bytes behind it, where the region goes on.
            let claimed = unsafe { plain::read(length_word) };
            let most = end.saturating_sub(start);
            if start < behind || claimed > most || (claimed as usize) < RECORD_HEADER + SHARED_EXTRA {
                continue;
            }
            unfinished += u64::from(start > behind);
            behind = start + claimed.next_multiple_of(8);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let to = bytes.len();
            bytes.resize(to + claimed as usize, 0);
            let copy = bytes[to..].as_mut_ptr();
            // SAFETY: `start + claimed <= end`, which is inside the sub-buffer; the copy has as many bytes.
            unsafe { plain::copy_out(copy, record, claimed as usize) };
            length = bytes.len();
        }
        let left_unfinished = behind < end && !self.ends_in_padding(number, behind);
        unfinished += u64::from(left_unfinished);
        bytes.truncate(length);
        let content =
            Content { end: bytes.len() as u32, first_stamp: 0, last_stamp: 0, lost: Lost::default() };
        Salvaged { bytes, content, unfinished }
    }

    /// Whether the sub-buffer was left and its content ended at `behind`, so that the rest is padding.
    fn ends_in_padding(&self, number: u32, behind: u32) -> bool {
        let left = self.data(number).wrapping_add(LEFT).cast::<[u64; 3]>();
        // SAFETY: within the sub-buffer.
        let words = unsafe { plain::guess(left) };
        Head(words[1]).start() & (self.geometry.size() as u32 - 1) == behind
    }
}

/// The offsets that are marked for `turn`, ascending.
fn marked(marks: &[MarkWord], turn: u32) -> impl Iterator<Item = u32> {
    marks.iter().zip((0..).step_by(MARKED)).flat_map(move |(word, base)| {
        // ORDER(read:D) pairs with commit:A: what is marked is complete.
        let word = word.load(Acquire);
        let bits = if (word >> 32) as u32 == turn { word as u32 } else { 0 };
        (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| base + 8 * bit)
    })
}

fn word_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..offset + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(word))
}
