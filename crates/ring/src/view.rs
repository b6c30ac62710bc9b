//! A ring as one side has it mapped: its header, and what the header's offsets lead to.

use crate::layout::{CommitHeader, Geometry, LEFT, RingHeader, TableEntry};
use crate::position::{Head, Plan};
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

    /// Where the sub-buffer whose turn is `turn` starts, as a position.
    ///
    /// # Safety
    /// The table is mapped.
    pub(crate) unsafe fn place(&self, turn: u32) -> u32 {
        let index = (turn & (self.geometry.count - 1)) as usize;
        let entry = self.places.table.wrapping_add(index * size_of::<TableEntry>()).cast::<TableEntry>();
        // SAFETY: the table has `count` entries.
        let number = unsafe { &*entry }.load(Relaxed) as u32;
        (number & (self.geometry.count - 1)) << self.geometry.bits
    }

    /// Where the writers leave their words in the sub-buffer that `head` is in.
    pub(crate) fn left_words(&self, head: Head) -> *mut [u64; 4] {
        let start = head.start() & !(self.geometry.size() as u32 - 1);
        self.data(start + LEFT as u32).cast()
    }

    /// The commit words of the shared ring's sub-buffer at `place`, and its bitmap: one bit for each 8 bytes.
    ///
    /// # Safety
    /// This is a shared ring, its commit words are mapped, and `place` is one of its positions.
    pub(crate) unsafe fn commits(&self, place: u32) -> (&'a CommitHeader, &'a [AtomicU64]) {
        let number = (place >> self.geometry.bits) as usize;
        let first = self.places.commits.wrapping_add(number * self.geometry.commit_stride());
        let first = first.cast::<CommitHeader>();
        // SAFETY: there is one for each sub-buffer; all are atomics.
        let header = unsafe { &*first };
        let bitmap = first.wrapping_add(1).cast::<AtomicU64>();
        // SAFETY: `commit_stride` leaves room for it behind the count.
        let starts = unsafe { std::slice::from_raw_parts(bitmap, self.geometry.size() / 512) };
        (header, starts)
    }

    /// Counts a record that `plan` refused.
    pub(crate) fn lose(&self, plan: Plan) {
        if plan == Plan::TooLarge {
            self.header.too_large.fetch_add(1, Relaxed);
        }
        self.header.lost.fetch_add(1, Relaxed);
    }
}
