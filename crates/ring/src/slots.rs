//! What a traced program sees of its area at a hit: every slot, found from one word.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `slots:A`, counting a hit that asks for a snapshot | `control:I` | who sees the count sees the record that was written before |
//! | `slots:B`, the look at a condition's word | `control:H`, storing it | who sees the word sees the code |

use crate::condition::{MAX_CODE, Place};
use crate::layout::{
    CONDITION_POOL, Capacity, ConditionEntry, EnableWord, Header, POINTS, RINGS_OFFSET, RingHeader, SLOTS,
    Slot, VALUES,
};
use crate::pending::Pending;
use crate::value::Values;
use crate::want::{Wants, stride};
use crate::write::{self, Rings};
use sordino_percpu::primitive::{Acquire, Relaxed, Release, plain};
use std::mem::MaybeUninit;
use std::ops::Range;

/// The slots of an area that stays mapped.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    /// The first ring of slot 0.
    first: *const RingHeader,
}

impl Slots {
    /// Of the area whose slot 0 has `first` as its first ring.
    ///
    /// # Safety
    /// It is an [`Area`](crate::area::Area)'s, which stays mapped.
    pub unsafe fn of(first: *const RingHeader) -> Self {
        Self { first }
    }

    /// How many CPUs have a ring in each slot.
    #[inline(always)]
    pub fn cpus(self) -> u32 {
        self.header().cpus.load(Relaxed)
    }

    /// The rings of slot `slot`.
    #[inline(always)]
    pub fn rings(self, slot: u32) -> Rings {
        let cpus = self.cpus();
        Rings { first: self.first.wrapping_add(slot as usize * (cpus as usize + 1)), cpus }
    }

    /// The slot that has `ring`, of any CPU.
    pub fn slot_of(self, ring: *const RingHeader) -> Option<u32> {
        let offset = (ring as usize).wrapping_sub(self.first as usize) as u32;
        let slot = offset.checked_div(stride(self.cpus()))?;
        (slot < SLOTS as u32).then_some(slot)
    }

    fn capacity(self) -> Capacity {
        Capacity { cpus: self.cpus(), points: self.header().points_capacity.load(Relaxed) }
    }

    fn start(self) -> *const u8 {
        self.first.cast::<u8>().wrapping_sub(RINGS_OFFSET)
    }

    fn header(self) -> &'static Header {
        // SAFETY: the area starts there, and stays mapped; all atomics.
        unsafe { &*self.start().cast() }
    }

    /// # Panics
    /// If there is no such slot.
    fn slot(self, slot: u32) -> &'static Slot {
        &self.header().slots[slot as usize]
    }

    /// Counts a value that found no room.
    #[cold]
    pub fn refuse_value(self) {
        self.header().refused_values.fetch_add(1, Relaxed);
    }

    /// What its threads say of themselves.
    pub fn values(self) -> Values<'static> {
        let first = self.start().wrapping_add(self.capacity().values_offset()).cast();
        // SAFETY: in the control part, which stays mapped; all atomics.
        Values::of(unsafe { std::slice::from_raw_parts(first, VALUES) })
    }

    /// Whether sessions may make this program's threads wait for room.
    pub fn allows_blocking(self) -> bool {
        self.header().allows_blocking.load(Relaxed) != 0
    }

    /// Has nobody wait any more for room in the rings of `slot`, whose session nobody reads.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn stop_blocking(self, slot: u32) {
        assert!(slot < SLOTS as u32);
        let rings = self.rings(slot);
        for index in 0..=rings.cpus {
            // SAFETY: one of the slot's ring headers; all atomics.
            unsafe { &*rings.at(index) }.block.store(0, Relaxed);
        }
    }

    /// Which sessions want the events of tracepoint `id`, for who has seen already that one does.
    pub fn wants(self, id: u16) -> Wants {
        self.words().get(usize::from(id)).map_or(Wants(0), |word| Wants(word.load(Relaxed)))
    }

    fn words(self) -> &'static [EnableWord] {
        let first = self.start().wrapping_add(self.capacity().points_offset()).cast();
        // Who hits a tracepoint has seen its word as point:A does, and with it the number of registered ones, stored before.
        let registered = self.header().points.load(Relaxed);
        // SAFETY: the words of registered tracepoints, which are mapped, and stay so; all atomics.
        unsafe { std::slice::from_raw_parts(first, registered as usize) }
    }

    /// The tracepoints that wait for the answers of recorders.
    pub fn pending(self) -> Pending<'static> {
        Pending::of(self.header(), self.words(), self.cpus())
    }

    /// The conditions of the session in `slot`, if there was ever one there.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline(always)]
    pub fn conditions(self, slot: u32) -> Option<Table> {
        let offset = self.slot(slot).conditions.load(Relaxed) as usize;
        // SAFETY: a collector set it to where its table lies; the file never shrinks.
        (offset != 0).then(|| unsafe { Table::at(self.start().wrapping_add(offset)) })
    }

    /// Asks the session in `slot` for a snapshot, because of a hit of tracepoint `id`.
    ///
    /// Real-time: no system call but for the wake-up where the session asked for it; waits for nobody.
    ///
    /// # Panics
    /// If there is no such slot.
    #[cold]
    pub fn trigger(self, slot: u32, id: u16) {
        let words = self.slot(slot);
        words.trigger_point.store(id.into(), Relaxed);
        // ORDER(slots:A) pairs with control:I: who sees the count sees the record that was written before.
        words.triggered.fetch_add(1, Release);
        let rings = self.rings(slot);
        let shared = rings.at(rings.cpus);
        // SAFETY: the slot's last ring header; all atomics.
        write::wake(unsafe { &*shared });
    }
}

/// Room for a copy of one code, on the stack.
pub type Copied = [MaybeUninit<u64>; MAX_CODE / 8];

/// A session's conditions, as a traced program has them mapped.
///
/// A thread that was slow may look there when the region was given back, or is another session's by now. Then it finds any bytes;
/// they lead it nowhere but into the region, which stays mapped, and code must be harmless whatever it is.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    start: *const u8,
}

impl Table {
    /// # Safety
    /// A session's pool lies there, or lay there once; it and the table behind it stay mapped.
    pub(crate) unsafe fn at(start: *const u8) -> Self {
        Self { start }
    }

    /// Where the code of tracepoint `id` lies; 0 if it has none.
    #[inline(always)]
    pub fn place(self, id: u16) -> Place {
        let table = self.start.wrapping_add(CONDITION_POOL).cast::<ConditionEntry>();
        let entry = table.wrapping_add(usize::from(id) % POINTS);
        // SAFETY: inside the table; an atomic.
        let entry = unsafe { &*entry };
        // ORDER(slots:B) pairs with control:H: who sees the word sees the code.
        Place(entry.load(Acquire))
    }

    /// Copies code, which somebody may write to meanwhile if the session has ended.
    ///
    /// Real-time: bounded by [`MAX_CODE`].
    ///
    /// # Safety
    /// A [`Place`] said that it lies there.
    #[inline(always)]
    pub unsafe fn copy(self, code: Range<usize>, to: &mut Copied) -> &[u8] {
        let from = self.start.wrapping_add(code.start).cast::<u64>();
        let length = code.len().min(MAX_CODE);
        for (index, word) in to.iter_mut().enumerate().take(length.div_ceil(8)) {
            // SAFETY: inside the pool, or behind it in the table or the page that every region ends with; aligned, since code begins
            // at a multiple of 8.
            word.write(unsafe { plain::read(from.wrapping_add(index)) });
        }
        // SAFETY: so many bytes were written above.
        unsafe { std::slice::from_raw_parts(to.as_ptr().cast(), length) }
    }

    /// Code that is a `T`, read once, as [`copy`](Self::copy) does it.
    ///
    /// Real-time: a load for each field.
    ///
    /// # Safety
    /// A [`Place`] said that it lies there. Any bytes are a `T`, which is no longer than `code` and aligned to 8 at most.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(self, code: Range<usize>) -> T {
        let from = self.start.wrapping_add(code.start).cast::<T>();
        // SAFETY: inside the pool, or behind it in the table or the page that every region ends with; aligned, as above.
        unsafe { plain::read(from) }
    }
}
