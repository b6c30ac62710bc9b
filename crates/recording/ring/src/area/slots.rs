//! A traced program's view of its area at a hit: every slot, found from one word.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `slots:A`, counting a hit that requests a snapshot | `control:I` | if the load sees the count, it sees the record that was written before |
//! | `slots:B`, loading a condition's word | `control:H`, storing it | if the load sees the word, it sees the code |

use crate::area::annotations::Annotations;
use crate::area::condition::{CodeRange, MAX_CODE};
use crate::area::enable::{EnableMask, stride};
use crate::area::pending::Pending;
use crate::layout::{
    ANNOTATIONS, CONDITION_POOL, Capacity, ConditionEntry, EnableWord, Header, POINTS, RINGS_OFFSET,
    RingHeader, Slot,
};
use crate::number::{PointId, SlotIndex};
use crate::write::wake;
use sordino_percpu::primitive::{Acquire, Relaxed, Release, plain};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The slots of an area that stays mapped.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// Address of slot 0's first ring.
    first: *const RingHeader,
}

impl Slots {
    /// The slots of the area whose slot 0 has `first` as its first ring.
    ///
    /// # Safety
    /// The area is an [`Area`](crate::area::Area)'s, which stays mapped.
    pub unsafe fn of(first: *const RingHeader) -> Self {
        Self { first }
    }

    /// Number of CPUs that have a ring in each slot.
    #[inline(always)]
    pub fn cpus(self) -> u32 {
        self.header().cpus.load(Relaxed)
    }

    /// The rings of slot `slot`.
    #[inline(always)]
    pub fn rings(self, slot: SlotIndex) -> Rings {
        Rings { first: self.first, cpus: self.cpus() }.in_slot(slot)
    }

    fn capacity(self) -> Capacity {
        Capacity { cpus: self.cpus(), points: self.header().points_capacity.load(Relaxed) }
    }

    fn start(self) -> *const u8 {
        self.first.cast::<u8>().wrapping_sub(RINGS_OFFSET)
    }

    fn header(self) -> &'static Header {
        // SAFETY: the area starts there with its header, and stays mapped; all fields are atomics.
        unsafe { &*self.start().cast() }
    }

    fn slot(self, slot: SlotIndex) -> &'static Slot {
        &self.header().slots[slot.index() as usize]
    }

    /// Counts an annotation that found no room.
    #[cold]
    pub fn refuse_annotation(self) {
        self.header().refused_annotations.fetch_add(1, Relaxed);
    }

    /// The annotations of the program's threads.
    pub fn annotations(self) -> Annotations<'static> {
        let first = self.start().wrapping_add(self.capacity().annotations_offset()).cast();
        // SAFETY: the table has `ANNOTATIONS` cells at this offset of the control part, which stays mapped; all are
        // atomics.
        Annotations::of(unsafe { std::slice::from_raw_parts(first, ANNOTATIONS) })
    }

    /// Returns true if sessions may make this program's threads wait for room.
    pub fn allows_blocking(self) -> bool {
        self.header().allows_blocking.load(Relaxed) != 0
    }

    /// Ends all waiting for room in the rings of `slot`, whose session has no reader any more.
    pub fn stop_blocking(self, slot: SlotIndex) {
        let rings = self.rings(slot);
        for index in 0..=rings.cpus {
            // SAFETY: `index <= cpus`, so it is one of the slot's ring headers, which stay mapped; all fields are
            // atomics.
            unsafe { &*rings.at(index) }.block.store(0, Relaxed);
        }
    }

    /// The sessions that enabled tracepoint `id`, for a caller that has loaded an enable word with one.
    pub fn enable_mask(self, id: PointId) -> EnableMask {
        self.words().get(id.index()).map_or(EnableMask(0), |word| EnableMask(word.load(Relaxed)))
    }

    fn words(self) -> &'static [EnableWord] {
        let first = self.start().wrapping_add(self.capacity().points_offset()).cast();
        // The caller has loaded the tracepoint's word as point:A does, and so sees the number of registered
        // tracepoints, stored before.
        let registered = self.header().points.load(Relaxed);
        // SAFETY: these are the words of registered tracepoints, which are mapped and stay so; all are atomics.
        unsafe { std::slice::from_raw_parts(first, registered as usize) }
    }

    /// The tracepoints that wait for the answers of recorders.
    pub fn pending(self) -> Pending<'static> {
        Pending::of(self.header(), self.words(), self.cpus())
    }

    /// The conditions of the session in `slot`, or of an earlier session there; `None` if there was none.
    #[inline(always)]
    pub fn conditions(self, slot: SlotIndex) -> Option<Table> {
        let offset = self.slot(slot).conditions.load(Relaxed) as usize;
        // SAFETY: a collector stored the offset of its table, which lies in the area's file; the file never shrinks.
        (offset != 0).then(|| unsafe { Table::at(self.start().wrapping_add(offset)) })
    }

    /// Requests a snapshot from the session in `slot`, because of a hit of tracepoint `id`.
    ///
    /// Real-time: no system call but for the wake-up if the session requested it; never waits.
    #[cold]
    pub fn trigger(self, slot: SlotIndex, id: PointId) {
        let words = self.slot(slot);
        words.trigger_point.store(id.0.into(), Relaxed);
        // ORDER(slots:A) pairs with control:I: if the load sees the count, then it sees the record that was written
        // before.
        words.triggered.fetch_add(1, Release);
        let rings = self.rings(slot);
        let shared = rings.at(rings.cpus);
        // SAFETY: index `cpus` is the slot's last ring header, the shared ring's; all fields are atomics.
        wake(unsafe { &*shared });
    }
}

/// The rings of one slot, as a traced program has them mapped.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// The ring of CPU 0; the other CPUs' rings follow, and the shared ring is the last.
    pub first: *const RingHeader,
    /// Number of CPUs' rings, without the shared ring.
    pub cpus: u32,
}

impl Rings {
    /// The ring of CPU `index`, or the shared ring if `index` is `cpus`.
    #[inline(always)]
    pub fn at(&self, index: u32) -> *const RingHeader {
        self.first.wrapping_add(index as usize)
    }

    /// The rings of `slot`, if these are the first slot's. Needs no other load of the number of CPUs than theirs.
    #[inline(always)]
    pub fn in_slot(self, slot: SlotIndex) -> Self {
        Self {
            first: self.first.wrapping_add(slot.index() as usize * (self.cpus as usize + 1)),
            cpus: self.cpus,
        }
    }

    /// The slot that `ring` belongs to, whichever CPU's it is, if these are the first slot's rings.
    pub fn slot_of(self, ring: *const RingHeader) -> Option<SlotIndex> {
        let offset = (ring as usize).wrapping_sub(self.first as usize) as u32;
        SlotIndex::new(offset.checked_div(stride(self.cpus))?)
    }

    /// The header of the ring of CPU `index`, or of the shared ring if `index` is `cpus`.
    ///
    /// # Safety
    /// `index <= self.cpus`, and `self.first` points to mapped ring headers.
    pub(crate) unsafe fn get<'a>(&self, index: u32) -> &'a RingHeader {
        // SAFETY: the caller guarantees a mapped header at this index (this function's # Safety); headers are atomics
        // and stay mapped as long as the program lives.
        unsafe { &*self.at(index) }
    }
}

/// Room for a copy of one code, on the stack.
pub type Copied = [MaybeUninit<u64>; MAX_CODE / 8];

/// A session's conditions, as a traced program has them mapped.
///
/// A slow thread may read there when the region was given back, or belongs to another session by now. It then finds
/// arbitrary bytes; they lead it nowhere but into the region, which stays mapped, and code must be harmless whatever it
/// is.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    start: *const u8,
}

impl Table {
    /// # Safety
    /// A session's pool lies at `start`, or lay there once; it and the table behind it stay mapped.
    pub(crate) unsafe fn at(start: *const u8) -> Self {
        Self { start }
    }

    /// The table's word for tracepoint `id`, which leads to its code; 0 if it has none.
    #[inline(always)]
    pub fn code_range(self, id: PointId) -> CodeRange {
        let table = self.start.wrapping_add(CONDITION_POOL).cast::<ConditionEntry>();
        let entry = table.wrapping_add(id.index() % POINTS);
        // SAFETY: the index is below `POINTS`, the table's length; the table stays mapped, and an entry is an atomic.
        let entry = unsafe { &*entry };
        // ORDER(slots:B) pairs with control:H: if the load sees the word, then it sees the code.
        CodeRange(entry.load(Acquire))
    }

    /// Copies code. Another session may write to it meanwhile if this one has ended.
    ///
    /// Real-time: bounded by [`MAX_CODE`].
    ///
    /// # Safety
    /// `code` is a range that a [`CodeRange`] of this table returned.
    #[inline(always)]
    pub unsafe fn copy(self, code: Range<usize>, to: &mut Copied) -> &[u8] {
        let from = self.start.wrapping_add(code.start).cast::<u64>();
        let length = code.len().min(MAX_CODE);
        for (index, word) in to.iter_mut().enumerate().take(length.div_ceil(8)) {
            // SAFETY: a `CodeRange` leads into the pool, or behind it into the table or the page that every region ends
            // with; aligned, since code begins at a multiple of 8.
            word.write(unsafe { plain::read(from.wrapping_add(index)) });
        }
        // SAFETY: the loop has written the `length.div_ceil(8)` words that hold these bytes.
        unsafe { std::slice::from_raw_parts(to.as_ptr().cast(), length) }
    }

    /// Reads code that is a `T` once, under the conditions of [`copy`](Self::copy).
    ///
    /// Real-time: a load for each field.
    ///
    /// # Safety
    /// `code` is a range that a [`CodeRange`] of this table returned. Any bytes are a `T`, which is no longer than
    /// `code` and aligned to 8 at most.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(self, code: Range<usize>) -> T {
        let from = self.start.wrapping_add(code.start).cast::<T>();
        // SAFETY: a `CodeRange` leads into the pool, or behind it into the table or the page that every region ends
        // with; aligned, since code begins at a multiple of 8.
        unsafe { plain::read(from) }
    }
}
