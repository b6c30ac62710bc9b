//! The newest data of a ring, copied while its writers go on: for snapshots.
//!
//! In a ring that overwrites, a copy races with writers that come round. The entry of the [table](crate::table) works
//! as a sequence lock: it holds the sub-buffer sequence number for which a sub-buffer was claimed, each number occurs
//! once, and writers claim before they write.
//!
//! | writer | reader |
//! |---|---|
//! | claims the entry for k + count, or sees that another did | sees k in the entry |
//! | release fence | copies, by relaxed loads |
//! | stores a record | acquire fence |
//! | | sees k in the entry again |
//!
//! If a word that was copied belongs to k + count, or to a later number, the fences pair: the claim happened before the
//! second load of the entry, which then sees it, or a later claim. So a copy behind which the entry is unchanged has no
//! such word. It has no older ones either: the head was loaded first, and with it came the records of k (read:A,
//! read:C, read:D).
//!
//! A writer that neither claimed nor loaded the entry has loaded a head that was stored after the claim, and fences
//! behind that. So the fence stands in front of every record, not only the first of a sub-buffer. On x86-64 it is no
//! instruction: stores are seen in their order, and a store after the loads that its thread made before it.
//!
//! In a ring that does not overwrite, only the reader puts sub-buffers, and it is busy here.

use super::packet::packets;
use super::{Corrupt, Packet, Reader};
use crate::number::Seqno;
use crate::table::Spare;
use sordino_event::Ticks;
use sordino_percpu::primitive::{Acquire, fence};

/// The result of [`Reader::newest`]: copies of the newest records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// A packet for each sub-buffer, oldest first. The records are contiguous but for lost ones.
    pub packets: Vec<Packet>,
    /// True if older records were requested, but writers claimed their sub-buffer before it was copied.
    pub overwritten: bool,
}

impl Reader {
    /// Copies the newest unread records, and gets no sub-buffer; writers may go on. The copy ends with the newest
    /// record at the call's begin, and goes back sub-buffer by sub-buffer until one begins before the timestamp `since`
    /// or `limit` bytes are reached, which the last one may exceed.
    ///
    /// `now` reads the clock of the records, in order: it is called once, behind the last record that is copied, and is
    /// the end of the last packet. No later record belongs into the same stream of a trace.
    ///
    /// In the shared ring, records that are reserved and not complete are left out, and are not counted as unfinished:
    /// their writers are still at work. A later copy has them.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn newest(&self, since: Ticks, limit: usize, now: impl FnOnce() -> Ticks) -> Result<Newest, Corrupt> {
        let head = self.head()?;
        let (now, lost) = (now(), self.lost());
        let (mut newest_first, mut bytes, mut overwritten) = (Vec::new(), 0, false);
        for seqno in self.seqnos(head) {
            if bytes >= limit {
                break;
            }
            let racing = self.exchange.is_some();
            let copy = |sub_buffer| self.copy_seqno(seqno, sub_buffer, head, racing);
            let Some(copied) = self.unless_claimed(seqno, copy) else {
                overwritten = true;
                break;
            };
            bytes += copied.bytes.len();
            // Older sub-buffers end where this one begins, or before.
            let is_last = copied.first_timestamp().is_some_and(|first| first < since);
            newest_first.push(copied);
            if is_last {
                break;
            }
        }
        Ok(Newest { packets: packets(newest_first.into_iter(), now, lost), overwritten })
    }

    /// The result of `copy` for the sub-buffer with sequence number `seqno`, while writers may overwrite it; `None` if
    /// they have claimed it for a later one.
    pub(super) fn unless_claimed<T>(&self, seqno: Seqno, copy: impl FnOnce(Spare) -> T) -> Option<T> {
        let sub_buffer = self.sub_buffer_of(seqno)?;
        let copied = copy(sub_buffer);
        // ORDER(read:E) pairs with write:B and commit:D: if `copy` has read a word that a later sequence number's
        // writer stored, then the load behind this fence sees that it was claimed.
        fence(Acquire);
        (self.sub_buffer_of(seqno) == Some(sub_buffer)).then_some(copied)
    }
}
