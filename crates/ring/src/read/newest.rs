//! The newest data of a ring, copied while its writers go on: for snapshots.
//!
//! In a ring that overwrites, a copy races with writers that come round. It is a sequence lock, with an entry of the
//! [table](crate::table) as its sequence: it says which turn a sub-buffer was claimed for, each turn occurs once, and writers
//! claim before they write.
//!
//! | writer | reader |
//! |---|---|
//! | claims the entry for turn k + count, or sees that another did | sees the entry say k |
//! | release fence | copies, by relaxed loads |
//! | stores a record | acquire fence |
//! | | sees the entry say k again |
//!
//! If a word that was copied is of turn k + count, or a later one, the fences meet: the claim happened before the second look, which
//! then sees it, or what came after it. So a copy behind which the entry is unchanged has no such word. It has no older ones
//! either: the head was loaded first, and with it came the records of turn k (read:A, read:C, read:D).
//!
//! A writer that neither claimed nor looked at the entry has seen the claim by the head that it loaded, and fences behind that. So the
//! fence stands in front of every record, not only the first of a sub-buffer. On x86-64 it is no instruction: stores
//! are seen in their order, and a store after what its thread loaded before it.
//!
//! Where the ring does not overwrite, only the reader gives sub-buffers back, and it is busy here.

use super::packet::packets;
use super::{Corrupt, Packet, Reader};
use crate::table::Spare;
use sordino_percpu::primitive::{Acquire, fence};

/// What [`Reader::newest`] copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// One for each sub-buffer, oldest first. The records are contiguous but for those that were lost.
    pub packets: Vec<Packet>,
    /// Whether there was older data that was wanted, but writers claimed its sub-buffer before it was copied.
    pub overwritten: bool,
}

impl Reader {
    /// Copies the newest data that nobody was handed yet, and takes nothing; writers may go on. It ends with the newest
    /// record there was when the call began, and goes back sub-buffer by sub-buffer until one begins before the stamp `since`
    /// or `limit` bytes are reached, which the last one may exceed.
    ///
    /// `now` reads the clock of the records, in order: it is called once, behind the last record that is copied, and is when the
    /// last packet ends. Nothing that is written later belongs into the same stream of a trace.
    ///
    /// In the shared ring, records that are reserved and not complete are left out, and are not counted as unfinished: their writers
    /// are still at work. A later copy has them.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn newest(&self, since: u64, limit: usize, now: impl FnOnce() -> u64) -> Result<Newest, Corrupt> {
        let head = self.head()?;
        let (now, lost) = (now(), self.lost());
        let (mut newest_first, mut bytes, mut overwritten) = (Vec::new(), 0, false);
        for turn in self.turns(head) {
            if bytes >= limit {
                break;
            }
            let racing = self.exchange.is_some();
            let copy = |sub_buffer| self.copy_turn(turn, sub_buffer, head, racing);
            let Some(copied) = self.unless_claimed(turn, copy) else {
                overwritten = true;
                break;
            };
            bytes += copied.bytes.len();
            // What is older ends where this begins, or before.
            let is_last = copied.first_stamp().is_some_and(|first| first < since);
            newest_first.push(copied);
            if is_last {
                break;
            }
        }
        Ok(Newest { packets: packets(newest_first.into_iter(), now, lost), overwritten })
    }

    /// What `copy` makes of the sub-buffer of `turn`, while writers may overwrite it; `None` if they have claimed it for a later turn.
    pub(super) fn unless_claimed<T>(&self, turn: u32, copy: impl FnOnce(Spare) -> T) -> Option<T> {
        let sub_buffer = self.sub_buffer_of(turn)?;
        let copied = copy(sub_buffer);
        // ORDER(read:E) pairs with write:B and commit:D: who has copied what a later turn wrote sees that it was claimed.
        fence(Acquire);
        (self.sub_buffer_of(turn) == Some(sub_buffer)).then_some(copied)
    }
}
