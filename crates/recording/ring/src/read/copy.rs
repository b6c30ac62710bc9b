//! Copies of records out of a ring: all records of a whole sub-buffer, and the complete ones of an unfinished one.

use super::Reader;
use super::packet::Copied;
use crate::layout::{LEFT, MARKED, MarkWord, PACKET_HEADER, RECORD_HEADER, SHARED_EXTRA};
use crate::number::Seqno;
use crate::offset::Head;
use crate::table::Spare;
use sordino_event::Ticks;
use sordino_percpu::primitive::{Acquire, plain};
use std::ops::Range;

/// Bytes in front of the payload of a shared ring's record.
const SHARED_HEADER: u32 = (RECORD_HEADER + SHARED_EXTRA) as u32;

/// A sub-buffer that records are copied from.
#[derive(Clone, Copy)]
pub(super) struct CopySource {
    bytes: *mut u8,
    size: u32,
    /// True if writers may overwrite it meanwhile, which the caller checks afterwards.
    racing: bool,
}

impl CopySource {
    /// Copies `to.len()` bytes from `offset`, a multiple of 8.
    fn copy(self, offset: u32, to: &mut [u8]) {
        assert!(offset.is_multiple_of(8) && offset as usize + to.len() <= self.size as usize);
        let (from, length) = (self.bytes.wrapping_add(offset as usize), to.len());
        if self.racing {
            // SAFETY: inside the sub-buffer (asserted above), which is aligned, whose size is a multiple of 8, and
            // which stays mapped.
            unsafe { plain::guess_out(to.as_mut_ptr(), from, length) }
        } else {
            // SAFETY: inside the sub-buffer (asserted above), which stays mapped; bytes that a hostile program changes
            // meanwhile are arbitrary bytes.
            unsafe { plain::copy_out(to.as_mut_ptr(), from, length) }
        }
    }

    pub(super) fn words<const N: usize>(self, offset: usize) -> [u64; N] {
        let mut bytes = [[0; 8]; N];
        self.copy(offset as u32, bytes.as_flattened_mut());
        bytes.map(u64::from_ne_bytes)
    }

    /// Copies the records in `records` behind room for a packet's header.
    pub(super) fn packet(self, records: Range<u32>) -> Vec<u8> {
        let length = records.end.saturating_sub(records.start) as usize;
        let mut bytes = vec![0; PACKET_HEADER + length];
        self.copy(records.start, &mut bytes[PACKET_HEADER..]);
        bytes
    }

    /// Copies each of `records` behind room for a packet's header.
    pub(super) fn gather(self, records: &[Range<u32>]) -> Vec<u8> {
        let mut bytes = vec![0; PACKET_HEADER];
        for record in records {
            let to = bytes.len().next_multiple_of(8);
            bytes.resize(to + record.len(), 0);
            self.copy(record.start, &mut bytes[to..]);
        }
        bytes
    }

    /// The complete records in `within`, a part of this sub-buffer of a shared ring, whose marks are `marks`.
    pub(super) fn complete(
        self,
        marks: &[MarkWord],
        seqno: Seqno,
        within: Range<u32>,
    ) -> impl Iterator<Item = Range<u32>> {
        let mut behind = within.start;
        marked(marks, seqno).filter_map(move |start| {
            let most = within.end.saturating_sub(start);
            if start < behind || most < SHARED_HEADER {
                return None;
            }
            let [extra] = self.words(start as usize + RECORD_HEADER);
            let length = (extra >> 32) as u32;
            if !(SHARED_HEADER..=most).contains(&length) {
                return None;
            }
            behind = start + length.next_multiple_of(8);
            Some(start..start + length)
        })
    }

    /// Returns true if a sub-buffer switch completed the sub-buffer and its content ended at `behind`, so that the rest
    /// is padding. Its last writer may be about to store the words of the switch.
    fn ends_in_padding(self, behind: u32) -> bool {
        let [_, head, _] = Self { racing: true, ..self }.words(LEFT);
        Head(head).start().within(self.size) == behind
    }
}

/// The offsets that are marked for sequence number `seqno`, ascending.
fn marked(marks: &[MarkWord], seqno: Seqno) -> impl Iterator<Item = u32> {
    marks.iter().zip((0..).step_by(MARKED)).flat_map(move |(word, base)| {
        // ORDER(read:D) pairs with commit:A: if the load sees a mark, then it sees the record.
        let word = word.load(Acquire);
        let bits = if (word >> 32) as u32 == seqno.0 { word as u32 } else { 0 };
        (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| base + 8 * bit)
    })
}

impl Reader {
    pub(super) fn source(&self, number: u32, racing: bool) -> CopySource {
        CopySource { bytes: self.data(number), size: self.geometry.size() as u32, racing }
    }

    /// Copies the unread records of the sub-buffer with sequence number `seqno`, up to `head`. Where writers may be
    /// `racing`, the caller has to check afterwards if they wrote.
    pub(super) fn copy_seqno(&self, seqno: Seqno, sub_buffer: Spare, head: Head, racing: bool) -> Copied {
        let (source, size) = (self.source(sub_buffer.number, racing), self.geometry.size() as u32);
        let start = if seqno == self.seqno { self.handed_out.behind() } else { PACKET_HEADER as u32 };
        let filling = seqno == head.seqno();
        match self.commit_words(sub_buffer.number) {
            Some((_, marks)) if filling || !self.is_committed(sub_buffer) => {
                let end = if filling { head.start().within(size) } else { size };
                let records: Vec<_> = source.complete(marks, seqno, start..end).collect();
                let unfinished = gaps(&records, start..end, |behind| source.ends_in_padding(behind));
                Copied { bytes: source.gather(&records), left: None, unfinished }
            }
            _ if filling => {
                let bytes = source.packet(start..self.end(head));
                Copied { bytes, left: None, unfinished: 0 }
            }
            _ => {
                let [timestamp, left, lost] = source.words(LEFT);
                let bytes = source.packet(start..self.end(Head(left)));
                Copied { bytes, left: Some((Ticks(timestamp), lost)), unfinished: 0 }
            }
        }
    }

    /// The end of the content of the sub-buffer that `head` is in, within the sub-buffer even for a hostile program's
    /// head.
    pub(super) fn end(&self, head: Head) -> u32 {
        head.content_end(self.geometry).clamp(PACKET_HEADER as u32, self.geometry.size() as u32)
    }
}

/// The number of places of `within` that hold something else than `records`, without padding at the end.
fn gaps(records: &[Range<u32>], within: Range<u32>, is_padding: impl FnOnce(u32) -> bool) -> u64 {
    let (mut gaps, mut behind) = (0, within.start);
    for record in records {
        gaps += u64::from(record.start > behind);
        behind = record.end.next_multiple_of(8);
    }
    gaps + u64::from(behind < within.end && !is_padding(behind))
}
