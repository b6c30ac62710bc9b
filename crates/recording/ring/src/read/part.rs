//! The sub-buffer being filled, handed out in parts.

use super::packet::{Copied, packets};
use super::{Corrupt, Packet, Reader};
use crate::layout::{LEFT, PACKET_HEADER};
use crate::offset::Head;
use crate::table::Spare;
use sordino_event::Ticks;
use sordino_percpu::primitive::plain;

/// The handed-out part of the sub-buffer that is read next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HandedOut {
    /// Bytes of records that were handed out in parts; a multiple of 8.
    parts: u32,
    /// True if the reader has got the sub-buffer and not put it.
    pub(super) taken: bool,
}

impl HandedOut {
    /// The offset in the sub-buffer of the first unread byte.
    pub(super) fn behind(self) -> u32 {
        PACKET_HEADER as u32 + self.parts
    }
}

impl Reader {
    /// Copies the published records of the sub-buffer being filled that no earlier part had, so that a record need not
    /// wait until its sub-buffer is full. [`get`](Self::get) yields only the rest. The packet is empty if there is
    /// nothing new; `None` if another sub-buffer has to be got or put first, or, in a ring that overwrites, this one is
    /// gone.
    ///
    /// In the shared ring a part ends before the first record that is not complete; a sub-buffer behind the head has
    /// parts, too, while [`get`](Self::get) waits for such a record.
    ///
    /// `now` reads the clock of the records, in order: it is called once, behind the last record that is copied, and is
    /// the end of the packet. A writer reads the clock before it publishes, so a record that is published next may have
    /// an earlier timestamp: no packet may follow in the same stream of a trace. A part is the last one of a chunk. A
    /// caller that lets other packets follow has to end it with the last record's timestamp, and so has to know the
    /// length of records.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn part(&mut self, now: impl FnOnce() -> Ticks) -> Result<Option<Packet>, Corrupt> {
        let head = self.head()?;
        let (now, lost) = (now(), self.lost());
        if self.handed_out.taken {
            return Ok(None);
        }
        let part = self.unless_claimed(self.seqno, |sub_buffer| self.next_part(sub_buffer, head));
        let Some((bytes, behind)) = part.flatten() else { return Ok(None) };
        self.handed_out.parts = behind - PACKET_HEADER as u32;
        let copied = Copied { bytes, left: None, unfinished: 0 };
        Ok(packets(std::iter::once(copied), now, lost).pop())
    }

    /// The packet's bytes, and the offset of the first byte that it leaves.
    fn next_part(&self, sub_buffer: Spare, head: Head) -> Option<(Vec<u8>, u32)> {
        let source = self.source(sub_buffer.number, self.exchange.is_some());
        let (start, size) = (self.handed_out.behind(), self.geometry.size() as u32);
        let filling = self.seqno == head.seqno();
        let end = if filling { head.start().within(size) } else { size };
        let Some((_, marks)) = self.commit_words(sub_buffer.number) else {
            return filling.then(|| (source.packet(start..self.end(head)), end.max(start)));
        };
        if !filling && self.is_committed(sub_buffer) {
            return None;
        }
        let mut behind = start;
        let records: Vec<_> = source
            .complete(marks, self.seqno, start..end)
            .take_while(|record| {
                let follows = record.start == behind;
                behind = if follows { record.end.next_multiple_of(8) } else { behind };
                follows
            })
            .collect();
        Some((source.gather(&records), behind))
    }

    /// Moves the unread records to the start of a complete sub-buffer, where those of other sub-buffers begin.
    pub(super) fn close_up(&mut self, number: u32) {
        let start = self.handed_out.behind();
        let parts = std::mem::take(&mut self.handed_out.parts);
        if parts == 0 {
            return;
        }
        let source = self.source(number, false);
        let [timestamp, head, lost] = source.words(LEFT);
        let rest = source.packet(start..self.end(Head(head)));
        let records = &rest[PACKET_HEADER..];
        let to = self.data(number);
        // SAFETY: not more bytes than there were, which move towards the front; the sub-buffer is the reader's.
        unsafe { plain::copy_in(to.wrapping_add(PACKET_HEADER), records.as_ptr(), records.len()) };
        let left = [timestamp, head.wrapping_sub(parts.into()), lost];
        // SAFETY: the words of a sub-buffer switch lie in the packet header's room, aligned to 8; the sub-buffer is the
        // reader's.
        unsafe { plain::write(to.wrapping_add(LEFT).cast(), left) };
    }
}
