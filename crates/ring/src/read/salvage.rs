//! What is left in a ring when nobody writes any more.

use super::packet::packets;
use super::{Corrupt, Packet, Reader};

impl Reader {
    /// Hands `take` copies of what is left in the ring, sub-buffer by sub-buffer: also of the one that was being filled and, in the
    /// shared ring, the complete records of those in which writers did not finish. In how many places they left at least one record
    /// unfinished. For the end: when the program is gone or no longer recorded. `now` is a stamp that is not before the last record's.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn salvage(&self, now: u64, take: impl FnMut(Packet)) -> Result<u64, Corrupt> {
        let head = self.head()?;
        let copy = |turn| Some(self.copy_turn(turn, self.sub_buffer_of(turn)?, head, false));
        let newest_first: Vec<_> = self.turns(head).filter_map(copy).collect();
        let unfinished = newest_first.iter().map(|copied| copied.unfinished).sum();
        packets(newest_first.into_iter(), now, self.lost()).into_iter().for_each(take);
        Ok(unfinished)
    }
}
