//! The rest of a ring that has no writers any more.

use super::packet::packets;
use super::{Corrupt, Packet, Reader};
use sordino_event::Ticks;

impl Reader {
    /// Hands `take` copies of the unread records, sub-buffer by sub-buffer: also of the one that was being filled and,
    /// in the shared ring, the complete records of unfinished ones. Returns the number of places where writers left at
    /// least one record unfinished. To be called when the program is gone or no longer recorded. `now` is a timestamp
    /// not before the last record's.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn salvage(&self, now: Ticks, take: impl FnMut(Packet)) -> Result<u64, Corrupt> {
        let head = self.head()?;
        let copy = |seqno| Some(self.copy_seqno(seqno, self.sub_buffer_of(seqno)?, head, false));
        let newest_first: Vec<_> = self.seqnos(head).filter_map(copy).collect();
        let unfinished = newest_first.iter().map(|copied| copied.unfinished).sum();
        packets(newest_first.into_iter(), now, self.lost()).into_iter().for_each(take);
        Ok(unfinished)
    }
}
