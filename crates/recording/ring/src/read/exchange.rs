//! Exchanging the oldest sub-buffer of a ring that overwrites, while its writers go on: see [`table`](crate::table).

use super::{Corrupt, HandedOut, Reader};
use crate::layout::TableEntry;
use crate::number::Seqno;
use crate::offset::Head;
use crate::table::{Entry, Spare};
use sordino_percpu::primitive::{Relaxed, Release};

/// The additional state of the reader of a ring that overwrites.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The table's offset in the region.
    pub(crate) table: usize,
    /// The reader's own sub-buffer, which it gives for the one that it gets.
    pub(crate) spare: Spare,
    /// The sub-buffer that it got and has not put.
    pub(crate) held: Option<Spare>,
    /// Sub-buffers that were overwritten before the reader came to them.
    pub(crate) overwritten: u64,
}

impl Exchange {
    /// Puts the held sub-buffer, which becomes the spare of the next exchange.
    pub(crate) fn put(&mut self) {
        self.spare = self.held.take().unwrap_or(self.spare);
    }
}

impl Reader {
    /// Gets the oldest complete sub-buffer that no writer has claimed, and returns its index. Bounded by the number of
    /// sub-buffers.
    pub(super) fn get_oldest(&mut self, head: Head) -> Option<u32> {
        let held = self.exchange.as_ref()?.held;
        if let Some(held) = held {
            return Some(held.number);
        }
        self.skip_overwritten(head);
        while self.seqno != head.seqno() {
            let entry = self.entry(self.seqno)?;
            if entry.seqno() == self.seqno {
                if !self.is_committed(entry.spare()) {
                    return None;
                }
                if let Some(taken) = self.try_exchange(entry) {
                    return Some(taken);
                }
            }
            self.skip(1);
        }
        None
    }

    /// Exchanges the reader's spare against the sub-buffer of `entry`, whose sequence number the head has passed. Fails
    /// if writers have claimed the sub-buffer for a later sequence number.
    fn try_exchange(&mut self, entry: Entry) -> Option<u32> {
        let exchange = self.exchange.as_ref()?;
        let given = Entry::of(entry.seqno(), exchange.spare);
        let word = self.entry_word(entry.seqno())?;
        // ORDER(exchange:A) pairs with view:B and view:E: if a writer claims the sub-buffer that is given here, then
        // this reader has read it before. The one that it gets was complete when it saw the head (read:A) and the
        // commit count (read:C).
        word.compare_exchange(entry.0, given.0, Release, Relaxed).ok()?;
        let taken = entry.spare();
        self.exchange.as_mut()?.held = Some(taken);
        Some(taken.number)
    }

    /// The sub-buffer with sequence number `seqno`, if it was not claimed for a later one.
    pub(super) fn in_table(&self, seqno: Seqno) -> Option<Spare> {
        let entry = self.entry(seqno)?;
        (entry.seqno() == seqno).then_some(entry.spare())
    }

    /// The entry for sequence number `seqno`, if its index is possible.
    fn entry(&self, seqno: Seqno) -> Option<Entry> {
        // The load orders nothing: the exchange confirms its value, or the value is never undone.
        let entry = Entry(self.entry_word(seqno)?.load(Relaxed));
        ((entry.spare().number as usize) < self.geometry.sub_buffers()).then_some(entry)
    }

    fn entry_word(&self, seqno: Seqno) -> Option<&TableEntry> {
        let index = seqno.entry(self.geometry.count) as usize;
        let word = self.region.at(self.exchange.as_ref()?.table + index * size_of::<TableEntry>());
        // SAFETY: the table lies inside the region and has `count` entries, of which `index` is one; all are atomics.
        Some(unsafe { &*word.cast::<TableEntry>() })
    }

    /// Skips overwritten sub-buffers. A reader that gets none from a ring that overwrites calls it now and then, before
    /// 2^31 sub-buffers have gone by.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn keep_up(&mut self) -> Result<(), Corrupt> {
        let head = self.head()?;
        if self.exchange.as_ref().is_some_and(|exchange| exchange.held.is_none()) {
            self.skip_overwritten(head);
        }
        Ok(())
    }

    fn skip_overwritten(&mut self, head: Head) {
        let oldest = head.seqno().after(1).before(self.geometry.count);
        let behind = oldest.since(self.seqno);
        if (1..=i32::MAX as u32).contains(&behind) {
            self.skip(behind);
        }
    }

    fn skip(&mut self, sub_buffers: u32) {
        self.seqno = self.seqno.after(sub_buffers);
        self.handed_out = HandedOut::default();
        if let Some(exchange) = &mut self.exchange {
            exchange.overwritten += u64::from(sub_buffers);
        }
    }
}
