//! Taking the oldest sub-buffer of a ring that overwrites, while its writers go on: see [`table`](crate::table).

use super::{Corrupt, HandedOut, Reader};
use crate::layout::TableEntry;
use crate::position::Head;
use crate::table::{Entry, Spare};
use sordino_percpu::primitive::{Relaxed, Release};

/// What the reader of such a ring has besides.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Where the table lies in the region.
    pub(crate) table: usize,
    /// The reader's own, which it gives for the one it takes.
    pub(crate) spare: Spare,
    /// The one it took and has not given back.
    pub(crate) held: Option<Spare>,
    /// Sub-buffers that were overwritten before it came to them.
    pub(crate) overwritten: u64,
}

impl Exchange {
    /// What was taken is the next to be given.
    pub(crate) fn give_back(&mut self) {
        self.spare = self.held.take().unwrap_or(self.spare);
    }
}

impl Reader {
    /// Takes the oldest complete sub-buffer that nobody has claimed; its number. Bounded by how many there are.
    pub(super) fn take_oldest(&mut self, head: Head) -> Option<u32> {
        let held = self.exchange.as_ref()?.held;
        if let Some(held) = held {
            return Some(held.number);
        }
        self.leave_overwritten(head);
        while self.turn != head.turn() {
            let entry = self.entry(self.turn)?;
            if entry.turn() == self.turn {
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

    /// Exchanges our spare against the sub-buffer of `entry`, of whose turn the head says that writers are done. It fails when they
    /// have claimed the sub-buffer for a later turn.
    fn try_exchange(&mut self, entry: Entry) -> Option<u32> {
        let exchange = self.exchange.as_ref()?;
        let given = Entry::of(entry.turn(), exchange.spare);
        let word = self.entry_word(entry.turn())?;
        // ORDER(exchange:A) pairs with view:B: we have read what we give before they claim it. What we take was complete
        // when we saw the head (read:A) and the commit count (read:C).
        word.compare_exchange(entry.0, given.0, Release, Relaxed).ok()?;
        let taken = entry.spare();
        self.exchange.as_mut()?.held = Some(taken);
        Some(taken.number)
    }

    /// The sub-buffer of a turn, if no later turn has claimed it.
    pub(super) fn in_table(&self, turn: u32) -> Option<Spare> {
        let entry = self.entry(turn)?;
        (entry.turn() == turn).then_some(entry.spare())
    }

    /// The entry of a turn, if it can be.
    fn entry(&self, turn: u32) -> Option<Entry> {
        // It orders nothing: what it says is confirmed by the exchange, or is never undone.
        let entry = Entry(self.entry_word(turn)?.load(Relaxed));
        ((entry.spare().number as usize) < self.geometry.sub_buffers()).then_some(entry)
    }

    fn entry_word(&self, turn: u32) -> Option<&TableEntry> {
        let index = (turn & (self.geometry.count - 1)) as usize;
        let word = self.region.at(self.exchange.as_ref()?.table + index * size_of::<TableEntry>());
        // SAFETY: the table lies inside the region and has `count` entries; atomics.
        Some(unsafe { &*word.cast::<TableEntry>() })
    }

    /// Leaves behind what was overwritten: whoever takes nothing from a ring that overwrites calls it now and then, before 2^31
    /// sub-buffers have gone by.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn keep_up(&mut self) -> Result<(), Corrupt> {
        let head = self.head()?;
        if self.exchange.as_ref().is_some_and(|exchange| exchange.held.is_none()) {
            self.leave_overwritten(head);
        }
        Ok(())
    }

    fn leave_overwritten(&mut self, head: Head) {
        let oldest = head.turn().wrapping_add(1).wrapping_sub(self.geometry.count);
        let behind = oldest.wrapping_sub(self.turn);
        if (1..=i32::MAX as u32).contains(&behind) {
            self.skip(behind);
        }
    }

    fn skip(&mut self, sub_buffers: u32) {
        self.turn = self.turn.wrapping_add(sub_buffers);
        self.handed_out = HandedOut::default();
        if let Some(exchange) = &mut self.exchange {
            exchange.overwritten += u64::from(sub_buffers);
        }
    }
}
