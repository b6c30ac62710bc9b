//! The room of a ring: the sub-buffers that its writers may enter. The header's `consumed` is stored here and nowhere
//! else.
//!
//! Writers may enter a sub-buffer whose sequence number is less than `count` ahead of `consumed`. Such a sub-buffer is
//! free: the reader has put it, and its pages are present in the program. The reader changes the first condition, the
//! [pager](crate::area::control::Pager) the second. Both change one word of the collector's own, and then publish the
//! `consumed` that follows from it: two threads, and neither waits for the other.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `read:B`, publishing the bounds | `view:C` | if a writer sees a sub-buffer put, it writes after it was read |
//! | `read:B`, publishing the bounds | itself | of two that publish, the one that comes second sees the bounds that the other had changed, and publishes those, too |
//! | `room:A`, a change of the bounds | itself | if a change sees an earlier one, it sees all that preceded that one |
//! | `room:A` | `room:C`, loading the bounds | a thread that takes a sub-buffer's pages back comes after its reader |
//! | `room:A` | `room:D`, loading them behind publishing | a reader that publishes a sub-buffer which the pager opened sees that it has pages |
//! | `room:B`, the end of a reader's publishing | `room:E`, the pager's load | if the load sees it over, then nothing older is published any more |

use super::HeaderRef;
use crate::number::Seqno;
use crate::offset::Head;
use sordino_percpu::primitive::{AcqRel, Acquire, AtomicU32, AtomicU64, Relaxed, Release};
use std::sync::Arc;

/// The bounds of the sub-buffers that writers may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The oldest sequence number whose sub-buffer the reader has not put.
    pub(crate) oldest: Seqno,
    /// The first sequence number that writers may not enter: at most `count` beyond `oldest`. If it is that, all
    /// sub-buffers have pages.
    pub(crate) open: Seqno,
}

impl Bounds {
    const fn of(word: u64) -> Self {
        Self { oldest: Seqno(word as u32), open: Seqno((word >> 32) as u32) }
    }

    const fn word(self) -> u64 {
        (self.open.0 as u64) << 32 | self.oldest.0 as u64
    }

    /// Sub-buffers that the writers may use, or have used.
    pub(crate) const fn length(self) -> u32 {
        self.open.since(self.oldest)
    }
}

/// A ring's bounds, and its header, which publishes them.
#[derive(Debug)]
pub(crate) struct Room {
    header: HeaderRef,
    count: u32,
    bounds: AtomicU64,
    /// Not 0 from the reader's change of the bounds until it has published them: until then, it may store older ones.
    publishing: AtomicU32,
    /// The head from which on the pager is to be called; [`NEVER`] after the call.
    mark: AtomicU64,
    /// The sequence number of the first sub-buffer behind the head without pages; [`NEVER`] while all have pages.
    end: AtomicU64,
}

/// A mark or an end that no head reaches.
const NEVER: u64 = u64::MAX;

impl Room {
    /// Returns the room of a ring of `count` sub-buffers that is not open yet; the first `present` have pages.
    pub(crate) fn new(header: HeaderRef, count: u32, first_seqno: Seqno, present: u32) -> Arc<Self> {
        let bounds = Bounds { oldest: first_seqno, open: first_seqno.after(present) };
        let [word, mark, end] = [(); 3].map(|()| AtomicU64::new(0));
        let room = Arc::new(Self { header, count, bounds: word, publishing: AtomicU32::new(0), mark, end });
        // At their final address: the checker loom identifies an atomic by its address.
        #[cfg(loom)]
        sordino_percpu::model::forget(&*room);
        room.bounds.store(bounds.word(), Relaxed);
        room.publishing.store(0, Relaxed);
        room.mark.store(NEVER, Relaxed);
        room.end_at((present < count).then_some(bounds.open));
        room.header.consumed.store(room.consumed(bounds).0, Relaxed);
        room
    }

    const fn consumed(&self, bounds: Bounds) -> Seqno {
        bounds.open.before(self.count)
    }

    pub(crate) fn header(&self) -> &crate::layout::RingHeader {
        &self.header
    }

    /// Returns the present bounds.
    pub(crate) fn bounds(&self) -> Bounds {
        // ORDER(room:C) pairs with room:A: if the load sees that a sub-buffer was put, then it was read before.
        let word = self.bounds.load(Acquire);
        Bounds::of(word)
    }

    /// Sets the first sequence number that has no pages; `None`: all have pages. To be called before writers may enter
    /// one more, and before the pages of one are taken.
    pub(crate) fn end_at(&self, seqno: Option<Seqno>) {
        self.end.store(seqno.map_or(NEVER, |seqno| seqno.0.into()), Relaxed);
    }

    /// Returns true if the sub-buffer with sequence number `seqno` has pages. That of a head has pages, if writers
    /// stored the head: a thread that has loaded it sees the [`end_at`](Self::end_at) that preceded.
    pub(crate) fn has_pages(&self, seqno: Seqno) -> bool {
        let end = self.end.load(Relaxed);
        end == NEVER || Seqno(end as u32).since(seqno) as i32 > 0
    }

    /// Sets the head from which on the pager is to be called.
    pub(crate) fn call_at(&self, mark: Head) {
        self.mark.store(mark.0, Relaxed);
    }

    /// Returns true if the pager was called, is to be called now, or there is no mark.
    pub(crate) fn is_called(&self) -> bool {
        let mark = self.mark.load(Relaxed);
        mark == NEVER || self.is_beyond(mark)
    }

    /// Returns true if writers are beyond this mark.
    fn is_beyond(&self, mark: u64) -> bool {
        // A head's word is its sequence number, and then the offset.
        mark != NEVER && self.header.head.load(Relaxed).wrapping_sub(mark) as i64 >= 0
    }

    /// Returns true if the pager is to be called now, once for each mark.
    pub(crate) fn calls(&self) -> bool {
        let mark = self.mark.load(Relaxed);
        // The pager may have set the next mark meanwhile, which stays.
        self.is_beyond(mark) && self.mark.compare_exchange(mark, NEVER, Relaxed, Relaxed).is_ok()
    }

    /// Puts the reader's sub-buffers before `oldest`. If all have pages, writers may enter them again.
    pub(crate) fn put(&self, oldest: Seqno) {
        self.publishing.store(1, Relaxed);
        self.change(|bounds| {
            let open = match bounds.length() == self.count {
                true => oldest.after(self.count),
                // The writers went on between the pager's load of the head and a revocation: the reader read
                // sub-buffers that were open.
                false if oldest.since(bounds.open) as i32 > 0 => oldest,
                false => bounds.open,
            };
            Bounds { oldest, open }
        });
        // ORDER(room:B) pairs with room:E: if the load sees this 0, then the bounds above are published.
        self.publishing.store(0, Release);
    }

    /// Returns true if no bounds are about to be published that are older than the present ones. The published word
    /// then follows from the present bounds, or will before any writer reads it again.
    pub(crate) fn is_settled(&self) -> bool {
        // ORDER(room:E) pairs with room:B: if the load does not see the reader, then the reader has published, or
        // changes the bounds behind this thread's change.
        self.publishing.load(Acquire) == 0
    }

    /// Moves the pager's end of the open sub-buffers to `open`; to `count` beyond the reader, if all have pages now.
    pub(crate) fn open_until(&self, open: Seqno, is_whole: bool) {
        self.change(|bounds| Bounds {
            open: if is_whole { bounds.oldest.after(self.count) } else { open },
            ..bounds
        });
    }

    /// Closes the sub-buffers from sequence number `end` on, for the pager. Returns the bounds before, if any of them
    /// was open.
    pub(crate) fn close_from(&self, end: Seqno) -> Option<Bounds> {
        let is_beyond = |bounds: Bounds| bounds.open.since(end) as i32 > 0;
        let before = self
            .change(|bounds| Bounds { open: if is_beyond(bounds) { end } else { bounds.open }, ..bounds });
        is_beyond(before).then_some(before)
    }

    /// Changes the bounds, and publishes them. Returns the bounds before.
    fn change(&self, change: impl Fn(Bounds) -> Bounds) -> Bounds {
        let mut before = self.bounds.load(Relaxed);
        let after = loop {
            let after = change(Bounds::of(before));
            // ORDER(room:A) pairs with itself, room:C and room:D: if the change or a load sees an earlier change, then
            // it sees all that preceded that one; a change passes it on.
            match self.bounds.compare_exchange(before, after.word(), AcqRel, Relaxed) {
                Ok(_) => break after,
                Err(now) => before = now,
            }
        };
        if after.open != Bounds::of(before).open {
            self.publish(after);
        }
        Bounds::of(before)
    }

    /// Stores the word that writers read; and again, if the bounds were changed meanwhile: the thread that changed them
    /// may have stored first.
    fn publish(&self, mut bounds: Bounds) {
        loop {
            // ORDER(read:B) pairs with itself and view:C: if a writer's load sees this value, then the writer writes
            // after the reader has read; if a later exchange does, then it sees the bounds that this thread changed.
            self.header.consumed.swap(self.consumed(bounds).0, AcqRel);
            // ORDER(room:D) pairs with room:A: if a reader publishes sub-buffers that the pager opened, then it sees
            // that they have pages.
            let now = Bounds::of(self.bounds.load(Acquire));
            if now.open == bounds.open {
                return;
            }
            bounds = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::map::{Mapping, create_file};
    use crate::layout::{Geometry, RingHeader};
    use crate::offset::is_full;
    use std::os::fd::AsFd;

    fn room(first_seqno: Seqno, present: u32) -> Arc<Room> {
        let size = size_of::<RingHeader>();
        let file = create_file(size as u64).unwrap();
        let control = Arc::new(Mapping::new(file.as_fd(), 0, size).unwrap());
        Room::new(HeaderRef { control, offset: 0 }, 4, first_seqno, present)
    }

    /// Sequence numbers from `from` on that writers may enter.
    fn open(room: &Room, from: u32) -> Vec<u32> {
        let consumed = Seqno(room.header.consumed.load(Relaxed));
        let seqnos = (0..8).map(|step| from.wrapping_add(step));
        seqnos.take_while(|&seqno| !is_full(Seqno(seqno), consumed, 4)).collect()
    }

    #[test]
    fn writers_enter_what_has_pages_and_was_given_back() {
        let room = room(Seqno(u32::MAX), 2);
        assert_eq!(open(&room, 0), [0]);
        room.put(Seqno(0));
        assert_eq!(open(&room, 0), [0], "it has pages, and the one behind it has not");
        room.open_until(Seqno(4), true);
        assert_eq!(open(&room, 0), [0, 1, 2, 3]);
        room.put(Seqno(1));
        assert_eq!(open(&room, 0), [0, 1, 2, 3, 4], "all have pages");
    }

    #[test]
    fn a_turn_has_pages_before_the_end_and_everywhere_where_all_have() {
        let room = room(Seqno(u32::MAX), 2);
        assert_eq!([u32::MAX, 0, 1, 2].map(|seqno| room.has_pages(Seqno(seqno))), [true, true, false, false]);
        room.end_at(None);
        assert!(room.has_pages(Seqno(1)) && room.has_pages(Seqno(2)));
        assert!(
            self::room(Seqno(7), 4).has_pages(Seqno(11)),
            "the count of its sub-buffers limits the head of a whole ring"
        );
    }

    #[test]
    fn a_ring_that_was_revoked_behind_its_writers_can_be_opened_again() {
        let room = room(Seqno(0), 4);
        room.close_from(Seqno(1));
        room.put(Seqno(3));
        assert_eq!(room.bounds(), Bounds { oldest: Seqno(3), open: Seqno(3) });
        room.open_until(Seqno(5), false);
        assert_eq!(open(&room, 3), [3, 4]);
    }

    #[test]
    fn what_is_revoked_is_closed_to_writers_that_are_past_it_too() {
        let room = room(Seqno(5), Geometry::MIN_COUNT as u32 * 2);
        assert_eq!(room.close_from(Seqno(7)), Some(Bounds { oldest: Seqno(5), open: Seqno(9) }));
        assert_eq!(open(&room, 6), [6]);
        assert!(open(&room, 7).is_empty() && open(&room, 8).is_empty() && open(&room, 20).is_empty());
        room.put(Seqno(6));
        assert_eq!(open(&room, 6), [6]);
    }
}
