//! The room of a ring: the turns that its writers may enter. The header's `consumed` is stored here and nowhere else.
//!
//! Writers may enter a turn that is less than `count` ahead of `consumed`. The sub-buffer of such a turn is free: the reader has given
//! it back, and its pages are present in the program. The reader changes the first part of that, the [pager](crate::control::Pager) the second. Both
//! change one word of the collector's own, and then publish what follows from it: two threads, and neither waits for the other.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `read:B`, publishing the bounds | `view:C` | who sees a sub-buffer given back writes after it was read |
//! | `read:B`, publishing the bounds | itself | of two that publish, the one that comes second sees what the other had changed, and publishes that, too |
//! | `room:A`, a change of the bounds | itself | who publishes a sub-buffer or takes its pages back comes after its reader; who publishes one knows its pages |
//! | `room:B`, the end of a reader's publishing | itself | who sees it over sees that nothing older is published any more |

use super::HeaderRef;
use crate::position::Head;
use sordino_percpu::primitive::{AcqRel, Acquire, AtomicU32, AtomicU64, Relaxed, Release};
use std::sync::Arc;

/// The bounds of what writers may enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The oldest turn that the reader has not given back.
    pub(crate) oldest: u32,
    /// The first turn that writers may not enter: at most `count` beyond `oldest`. If it is that, all sub-buffers have pages.
    pub(crate) open: u32,
}

impl Bounds {
    const fn of(word: u64) -> Self {
        Self { oldest: word as u32, open: (word >> 32) as u32 }
    }

    const fn word(self) -> u64 {
        (self.open as u64) << 32 | self.oldest as u64
    }

    /// Sub-buffers that the writers may use, or have used.
    pub(crate) const fn length(self) -> u32 {
        self.open.wrapping_sub(self.oldest)
    }
}

/// A ring's bounds, and its header, which publishes them.
#[derive(Debug)]
pub(crate) struct Room {
    header: HeaderRef,
    count: u32,
    bounds: AtomicU64,
    /// Not 0 while the reader is between changing the bounds and having published them: what it stores may be older than they are.
    publishing: AtomicU32,
    /// The head from which on the pager is to be called; [`NEVER`] once it was.
    mark: AtomicU64,
    /// The first turn behind the head whose sub-buffer has no pages; [`NEVER`] while all have some.
    end: AtomicU64,
}

/// A mark or an end that no head comes to.
const NEVER: u64 = u64::MAX;

impl Room {
    /// Returns the room of a ring of `count` sub-buffers that is not open yet; the first `present` have pages.
    pub(crate) fn new(header: HeaderRef, count: u32, first_turn: u32, present: u32) -> Arc<Self> {
        let bounds = Bounds { oldest: first_turn, open: first_turn.wrapping_add(present) };
        let [word, mark, end] = [(); 3].map(|()| AtomicU64::new(0));
        let room = Arc::new(Self { header, count, bounds: word, publishing: AtomicU32::new(0), mark, end });
        // Where they stay: the checker loom knows an atomic by its address.
        #[cfg(loom)]
        sordino_percpu::model::forget(&*room);
        room.bounds.store(bounds.word(), Relaxed);
        room.publishing.store(0, Relaxed);
        room.mark.store(NEVER, Relaxed);
        room.end_at((present < count).then_some(bounds.open));
        room.header.consumed.store(room.consumed(bounds), Relaxed);
        room
    }

    const fn consumed(&self, bounds: Bounds) -> u32 {
        bounds.open.wrapping_sub(self.count)
    }

    pub(crate) fn header(&self) -> &crate::layout::RingHeader {
        &self.header
    }

    /// Returns the present bounds.
    pub(crate) fn bounds(&self) -> Bounds {
        // ORDER(room:A): what was given back was read before.
        let word = self.bounds.load(Acquire);
        Bounds::of(word)
    }

    /// Sets the first turn that has no pages; `None`: all sub-buffers have some. To be called before writers may enter one more, and before the
    /// pages of one are taken.
    pub(crate) fn end_at(&self, turn: Option<u32>) {
        self.end.store(turn.map_or(NEVER, u64::from), Relaxed);
    }

    /// Returns true if the sub-buffer of this turn has pages. Those of a head's turn have, if writers stored the head: who has loaded it
    /// knows what [`end_at`](Self::end_at) said before they could.
    pub(crate) fn has_pages(&self, turn: u32) -> bool {
        let end = self.end.load(Relaxed);
        end == NEVER || (end as u32).wrapping_sub(turn) as i32 > 0
    }

    /// Sets the head from which on the pager is to be called.
    pub(crate) fn call_at(&self, mark: Head) {
        self.mark.store(mark.0, Relaxed);
    }

    /// Returns true if the pager was called, or there is no mark.
    pub(crate) fn is_called(&self) -> bool {
        self.mark.load(Relaxed) == NEVER
    }

    /// Returns true if the pager is to be called now, once for each mark.
    pub(crate) fn calls(&self) -> bool {
        let mark = self.mark.load(Relaxed);
        // A head is a turn, and then a place in it.
        let is_beyond = mark != NEVER && self.header.head.load(Relaxed).wrapping_sub(mark) as i64 >= 0;
        if is_beyond {
            self.mark.store(NEVER, Relaxed);
        }
        is_beyond
    }

    /// The reader gives a turn back: `oldest` is the next. Where all sub-buffers have pages, writers may enter it again.
    pub(crate) fn give_back(&self, oldest: u32) {
        self.publishing.store(1, Relaxed);
        self.change(|bounds| {
            let open = match bounds.length() == self.count {
                true => oldest.wrapping_add(self.count),
                // The writers went on between a look at their head and a revocation: what was read was open.
                false if oldest.wrapping_sub(bounds.open) as i32 > 0 => oldest,
                false => bounds.open,
            };
            Bounds { oldest, open }
        });
        // ORDER(room:B) pairs with itself.
        self.publishing.store(0, Release);
    }

    /// Returns true if no bounds are about to be published that are older than the present ones. The published word follows from the bounds
    /// then, or will before any writer reads it again.
    pub(crate) fn is_settled(&self) -> bool {
        // ORDER(room:B): a reader that is not seen here has published, or changes the bounds behind ours.
        self.publishing.load(Acquire) == 0
    }

    /// The pager moves the end of what is open on; to where the reader is, if all sub-buffers have pages now.
    pub(crate) fn open_until(&self, open: u32, is_whole: bool) {
        self.change(|bounds| Bounds {
            open: if is_whole { bounds.oldest.wrapping_add(self.count) } else { open },
            ..bounds
        });
    }

    /// The pager closes the turns from `end` on. Returns the bounds before, if any of them was open.
    pub(crate) fn close_from(&self, end: u32) -> Option<Bounds> {
        let is_beyond = |bounds: Bounds| bounds.open.wrapping_sub(end) as i32 > 0;
        let before = self
            .change(|bounds| Bounds { open: if is_beyond(bounds) { end } else { bounds.open }, ..bounds });
        is_beyond(before).then_some(before)
    }

    /// Changes the bounds, and publishes them. Returns the bounds before.
    fn change(&self, change: impl Fn(Bounds) -> Bounds) -> Bounds {
        let mut before = self.bounds.load(Relaxed);
        let after = loop {
            let after = change(Bounds::of(before));
            // ORDER(room:A)
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

    /// Stores the word that writers go by; again, if the bounds were changed meanwhile: whoever did that may have stored first.
    fn publish(&self, mut bounds: Bounds) {
        loop {
            // ORDER(read:B) pairs with view:C: who sees it writes after we have read.
            self.header.consumed.swap(self.consumed(bounds), AcqRel);
            // ORDER(room:A): a reader that publishes what the pager opened knows its pages.
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
    use crate::layout::{Geometry, RingHeader};
    use crate::map::{Mapping, create_file};
    use crate::position::is_full;
    use std::os::fd::AsFd;

    fn room(first_turn: u32, present: u32) -> Arc<Room> {
        let size = size_of::<RingHeader>();
        let file = create_file(size as u64).unwrap();
        let control = Arc::new(Mapping::new(file.as_fd(), 0, size).unwrap());
        Room::new(HeaderRef { control, offset: 0 }, 4, first_turn, present)
    }

    /// The turns from `from` on that writers may enter.
    fn open(room: &Room, from: u32) -> Vec<u32> {
        let consumed = room.header.consumed.load(Relaxed);
        let turns = (0..8).map(|step| from.wrapping_add(step));
        turns.take_while(|&turn| !is_full(turn, consumed, 4)).collect()
    }

    #[test]
    fn writers_enter_what_has_pages_and_was_given_back() {
        let room = room(u32::MAX, 2);
        assert_eq!(open(&room, 0), [0]);
        room.give_back(0);
        assert_eq!(open(&room, 0), [0], "it has pages, and the one behind it has not");
        room.open_until(4, true);
        assert_eq!(open(&room, 0), [0, 1, 2, 3]);
        room.give_back(1);
        assert_eq!(open(&room, 0), [0, 1, 2, 3, 4], "all have pages");
    }

    #[test]
    fn a_turn_has_pages_before_the_end_and_everywhere_where_all_have() {
        let room = room(u32::MAX, 2);
        assert_eq!([u32::MAX, 0, 1, 2].map(|turn| room.has_pages(turn)), [true, true, false, false]);
        room.end_at(None);
        assert!(room.has_pages(1) && room.has_pages(2));
        assert!(
            self::room(7, 4).has_pages(11),
            "the count of its sub-buffers limits the head of a whole ring"
        );
    }

    #[test]
    fn a_ring_that_was_revoked_behind_its_writers_can_be_opened_again() {
        let room = room(0, 4);
        room.close_from(1);
        room.give_back(3);
        assert_eq!(room.bounds(), Bounds { oldest: 3, open: 3 });
        room.open_until(5, false);
        assert_eq!(open(&room, 3), [3, 4]);
    }

    #[test]
    fn what_is_revoked_is_closed_to_writers_that_are_past_it_too() {
        let room = room(5, Geometry::MIN_COUNT as u32 * 2);
        assert_eq!(room.close_from(7), Some(Bounds { oldest: 5, open: 9 }));
        assert_eq!(open(&room, 6), [6]);
        assert!(open(&room, 7).is_empty() && open(&room, 8).is_empty() && open(&room, 20).is_empty());
        room.give_back(6);
        assert_eq!(open(&room, 6), [6]);
    }
}
