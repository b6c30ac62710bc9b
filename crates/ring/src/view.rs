//! A ring as one side has it mapped: its header, and what the header's offsets lead to.

use crate::layout::{CommitHeader, Geometry, LEFT, MARKED, MarkWord, PACKET_HEADER, RingHeader, TableEntry};
use crate::position::{Head, Plan};
use crate::table::{Entering, Entry};
use crate::write::Clock;
use sordino_percpu::primitive::{Acquire, AtomicU64, Relaxed};

/// A ring's header, and where what it leads to lies in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) header: &'a RingHeader,
    pub(crate) geometry: Geometry,
    pub(crate) clock: Clock,
    pub(crate) places: Places,
}

/// Why writers cannot go on into the next sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barred {
    /// The head is no longer what it was: look again.
    Stale,
    /// A writer that reserved there a whole round of the ring ago is still at work.
    Unfinished,
}

/// Whether a sub-buffer that was claimed `uses` times, modulo 2^16, holds only complete records, given how many bytes were
/// committed in it altogether.
pub(crate) fn all_committed(geometry: Geometry, committed: u64, uses: u16) -> bool {
    let whole = (geometry.size() - PACKET_HEADER) as u64;
    committed.is_multiple_of(whole) && (committed / whole) as u16 == uses
}

/// The first byte of each of a ring's parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) table: *mut u8,
    /// Null but for the shared ring.
    pub(crate) commits: *mut u8,
    pub(crate) data: *mut u8,
}

impl<'a> Ring<'a> {
    /// The writer's view, which trusts what the collector wrote into the header; `None` where there is no ring.
    pub(crate) fn of(header: &'a RingHeader) -> Option<Self> {
        // ORDER(view:A) pairs with control:E: who sees the count sees the rest.
        let count = header.count.load(Acquire);
        let bits = header.bits.load(Relaxed);
        let geometry = Geometry::new(1u64.checked_shl(bits)?, u64::from(count))?;
        let overwrite = header.overwrite.load(Relaxed) != 0;
        let geometry = Geometry { overwrite, ..geometry };
        let clock = if header.clock.load(Relaxed) == 0 { Clock::Cycles } else { Clock::Monotonic };
        let start: *const RingHeader = header;
        let at =
            |offset: &AtomicU64| start.cast::<u8>().cast_mut().wrapping_add(offset.load(Relaxed) as usize);
        let places =
            Places { table: at(&header.table), commits: at(&header.commits), data: at(&header.data) };
        Some(Self { header, geometry, clock, places })
    }

    /// Where position `place` lies.
    pub(crate) fn data(&self, place: u32) -> *mut u8 {
        self.places.data.wrapping_add(place as usize)
    }

    /// How many sub-buffers are the writers' again, for [`plan`](crate::position::plan) at `head`: in a ring that
    /// overwrites, all others.
    pub(crate) fn consumed(&self, head: Head) -> u32 {
        // ORDER(view:C) pairs with read:B: what the reader has given back, it has read.
        if self.geometry.overwrite { head.turn() } else { self.header.consumed.load(Acquire) }
    }

    /// Where the writers go on behind the turn of `head`. In a ring that overwrites, this claims the next sub-buffer: from
    /// then on the reader leaves it alone.
    ///
    /// # Errors
    /// Why they cannot.
    ///
    /// # Safety
    /// The table is mapped, and for a shared ring the commit words.
    pub(crate) unsafe fn enter(&self, head: Head) -> Result<Head, Barred> {
        let turn = head.turn().wrapping_add(1);
        // SAFETY: the caller's obligation.
        let word = unsafe { self.entry(turn) };
        // ORDER(view:B) pairs with exchange:A, if another claimed it for us: a claim continues the exchange's release.
        let entry = Entry(word.load(Acquire));
        if self.geometry.overwrite {
            match entry.entering(turn, self.geometry.count) {
                Entering::Claimed => {}
                Entering::Stale => return Err(Barred::Stale),
                Entering::Claim => {
                    // SAFETY: the caller's obligation.
                    if !unsafe { self.is_complete(entry) } {
                        // Unless the reader has exchanged it, and it is somewhere else in use.
                        let is_same = word.load(Relaxed) == entry.0;
                        return Err(if is_same { Barred::Unfinished } else { Barred::Stale });
                    }
                    // ORDER(view:B) pairs with exchange:A: what the reader gave us, it has read.
                    let claim = word.compare_exchange(entry.0, entry.claimed(turn).0, Acquire, Relaxed);
                    claim.map_err(|_| Barred::Stale)?;
                }
            }
        }
        Ok(Head::entering(turn, self.place(entry)))
    }

    /// # Safety
    /// The table is mapped.
    unsafe fn entry(&self, turn: u32) -> &'a TableEntry {
        let index = (turn & (self.geometry.count - 1)) as usize;
        let entry = self.places.table.wrapping_add(index * size_of::<TableEntry>()).cast::<TableEntry>();
        // SAFETY: the table has `count` entries.
        unsafe { &*entry }
    }

    /// Where the sub-buffer of `entry` starts, as a position.
    fn place(&self, entry: Entry) -> u32 {
        let number = entry.spare().number.min(self.geometry.sub_buffers() as u32 - 1);
        number << self.geometry.bits
    }

    /// Whether no writer is still at work in the sub-buffer of `entry`, which nobody has claimed anew. In a CPU's ring there
    /// never is one.
    ///
    /// # Safety
    /// Those of a shared ring's commit words are mapped.
    unsafe fn is_complete(&self, entry: Entry) -> bool {
        if self.header.commits.load(Relaxed) == 0 {
            return true;
        }
        // SAFETY: the caller's obligation.
        let (commits, _) = unsafe { self.commits(self.place(entry)) };
        // ORDER(view:D) pairs with commit:B: what they wrote is there before what we write.
        all_committed(self.geometry, commits.committed.load(Acquire), entry.spare().uses)
    }

    /// Where the writers leave their words in the sub-buffer that `head` is in.
    pub(crate) fn left_words(&self, head: Head) -> *mut [u64; 4] {
        let start = head.start() & !(self.geometry.size() as u32 - 1);
        self.data(start + LEFT as u32).cast()
    }

    /// The commit words of the shared ring's sub-buffer at `place`: the count, and the marks.
    ///
    /// # Safety
    /// This is a shared ring, its commit words are mapped, and `place` is one of its positions.
    pub(crate) unsafe fn commits(&self, place: u32) -> (&'a CommitHeader, &'a [MarkWord]) {
        let number = (place >> self.geometry.bits) as usize;
        let first = self.places.commits.wrapping_add(number * self.geometry.commit_stride());
        let first = first.cast::<CommitHeader>();
        // SAFETY: there is one for each sub-buffer; all are atomics.
        let header = unsafe { &*first };
        let marks = first.wrapping_add(1).cast::<MarkWord>();
        // SAFETY: `commit_stride` leaves room for them behind the count.
        let marks = unsafe { std::slice::from_raw_parts(marks, self.geometry.size() / MARKED) };
        (header, marks)
    }

    /// Counts a record that `plan` refused.
    pub(crate) fn lose(&self, plan: Plan) {
        if plan == Plan::TooLarge {
            self.header.too_large.fetch_add(1, Relaxed);
        }
        self.header.lost.fetch_add(1, Relaxed);
    }
}
