//! A ring as one side has it mapped: its header, and what the header's offsets lead to.

use crate::layout::{CommitHeader, Geometry, LEFT, MARKED, MarkWord, PACKET_HEADER, RingHeader, TableEntry};
use crate::position::{Head, is_full};
use crate::table::{Entering, Entry};
use crate::write::{Clock, Full, IfFull};
use sordino_percpu::Leave;
use sordino_percpu::primitive::{Acquire, AtomicU64, Relaxed};

/// A ring's header, and where what it leads to lies in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) header: &'a RingHeader,
    pub(crate) geometry: Geometry,
    /// The geometry's.
    pub(crate) other_bits: u64,
    pub(crate) clock: Clock,
    /// Where the first sub-buffer lies.
    data: *mut u8,
}

/// Why writers cannot go on into the next sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barred {
    /// The head is no longer what it was: look again.
    Stale,
    /// The next sub-buffer is not free: the reader has not given it back or, in a ring that overwrites, a writer that reserved
    /// there a whole round ago is still at work.
    Full,
}

/// Whether a sub-buffer that was claimed `uses` times, modulo 2^16, holds only complete records, given how many bytes were
/// committed in it altogether.
pub(crate) fn all_committed(geometry: Geometry, committed: u64, uses: u16) -> bool {
    let whole = (geometry.size() - PACKET_HEADER) as u64;
    committed.is_multiple_of(whole) && (committed / whole) as u16 == uses
}

/// What lies `offset` bytes behind a ring's header.
#[inline(always)]
fn at(header: &RingHeader, offset: &AtomicU64) -> *mut u8 {
    let start: *const RingHeader = header;
    start.cast::<u8>().cast_mut().wrapping_add(offset.load(Relaxed) as usize)
}

impl<'a> Ring<'a> {
    /// The writer's view, which trusts what the collector wrote into the header; `None` where there is no ring.
    #[inline(always)]
    pub(crate) fn of(header: &'a RingHeader) -> Option<Self> {
        // ORDER(view:A) pairs with control:E: who sees the count sees the rest.
        let count = header.count.load(Acquire);
        if count == 0 {
            return None;
        }
        let bits = header.bits.load(Relaxed);
        let overwrite = header.overwrite.load(Relaxed) != 0;
        let clock = if header.clock.load(Relaxed) == 0 { Clock::Cycles } else { Clock::Monotonic };
        let other_bits = u64::MAX.checked_shl(bits)?;
        let geometry = Geometry { bits, count, overwrite };
        Some(Self { header, geometry, other_bits, clock, data: at(header, &header.data) })
    }

    /// The same where the short way is open, which says that there is a CPU's ring and that its clock is the cycle counter. Where it
    /// is not, `other_bits` are all ones: sub-buffers of one byte, into which no record fits.
    #[inline(always)]
    pub(crate) fn open(header: &'a RingHeader) -> Self {
        // ORDER(write:E) pairs with control:F: with the short way open, the section sees that the ring is, too.
        let other_bits = header.other_bits.load(Acquire);
        let count = header.count.load(Relaxed);
        let overwrite = header.overwrite.load(Relaxed) != 0;
        let geometry = Geometry { bits: other_bits.trailing_zeros(), count, overwrite };
        let data = at(header, &header.data);
        Self { header, geometry, other_bits, clock: Clock::Cycles, data }
    }

    /// Where position `place` lies.
    #[inline(always)]
    pub(crate) fn data(&self, place: u32) -> *mut u8 {
        self.data.wrapping_add(place as usize)
    }

    /// Where the writers go on behind the turn of `head`: the next turn, and the place of its sub-buffer. In a ring that overwrites,
    /// this claims it if no writer is at work there any more, as `is_complete` says: from then on the reader leaves it alone.
    ///
    /// # Errors
    /// Why they cannot.
    ///
    /// # Safety
    /// The table is mapped where the ring overwrites.
    #[inline(always)]
    pub(crate) unsafe fn enter(
        &self,
        head: Head,
        is_complete: impl FnOnce(Entry) -> bool,
    ) -> Result<(u32, u32), Barred> {
        let turn = head.turn().wrapping_add(1);
        let number = if self.geometry.overwrite {
            // SAFETY: the caller's obligation.
            unsafe { self.claim(turn, is_complete)? }
        } else {
            self.next(turn)?
        };
        Ok((turn, number.wrapping_mul((self.other_bits as u32).wrapping_neg())))
    }

    /// The number of the sub-buffer of `turn` in a ring that does not overwrite.
    #[inline(always)]
    fn next(&self, turn: u32) -> Result<u32, Barred> {
        // ORDER(view:C) pairs with read:B: what the reader has given back, it has read.
        let (consumed, count) = (self.header.consumed.load(Acquire), self.geometry.count);
        if is_full(turn, consumed, count) { Err(Barred::Full) } else { Ok(turn & count.wrapping_sub(1)) }
    }

    /// Claims the sub-buffer of `turn` in a ring that overwrites; its number.
    ///
    /// # Safety
    /// The table is mapped.
    #[inline(always)]
    unsafe fn claim(&self, turn: u32, is_complete: impl FnOnce(Entry) -> bool) -> Result<u32, Barred> {
        // SAFETY: the caller's obligation.
        let word = unsafe { self.entry(turn) };
        // ORDER(view:B) pairs with exchange:A, if another claimed it for us: a claim continues the exchange's release.
        let entry = Entry(word.load(Acquire));
        match entry.entering(turn, self.geometry.count) {
            Entering::Claimed => {}
            Entering::Stale => return Err(Barred::Stale),
            Entering::Claim => {
                if !is_complete(entry) {
                    // Unless the reader has exchanged it, and it is somewhere else in use.
                    let is_same = word.load(Relaxed) == entry.0;
                    return Err(if is_same { Barred::Full } else { Barred::Stale });
                }
                // ORDER(view:B) pairs with exchange:A: what the reader gave us, it has read.
                let claim = word.compare_exchange(entry.0, entry.claimed(turn).0, Acquire, Relaxed);
                claim.map_err(|_| Barred::Stale)?;
            }
        }
        Ok(entry.spare().number)
    }

    /// # Safety
    /// The table is mapped.
    #[inline(always)]
    unsafe fn entry(&self, turn: u32) -> &'a TableEntry {
        // The count is 0 of a ring that is closed meanwhile, but no table is larger, and regions are.
        let index = turn & self.geometry.count.wrapping_sub(1) & (Geometry::MAX_COUNT as u32 - 1);
        let entry = at(self.header, &self.header.table)
            .wrapping_add(index as usize * size_of::<TableEntry>())
            .cast::<TableEntry>();
        // SAFETY: the table has `count` entries; behind a smaller one lies the rest of the region, which is mapped.
        unsafe { &*entry }
    }

    /// Whether no writer is still at work in the sub-buffer of `entry` of a shared ring, which nobody has claimed anew.
    ///
    /// # Safety
    /// The ring's commit words are mapped.
    pub(crate) unsafe fn is_complete(&self, entry: Entry) -> bool {
        // SAFETY: the caller's obligation.
        let (commits, _) = unsafe { self.commits(entry.spare().number << self.geometry.bits) };
        // ORDER(view:D) pairs with commit:B: what they wrote is there before what we write.
        all_committed(self.geometry, commits.committed.load(Acquire), entry.spare().uses)
    }

    /// What the writers leave in the sub-buffer that `head` is in.
    #[inline(always)]
    pub(crate) fn leave(&self, head: Head, lost: u64) -> Leave {
        let start = head.sub_buffer(self.other_bits);
        Leave { destination: self.data(start + LEFT as u32).cast(), lost }
    }

    /// The commit words of the shared ring's sub-buffer at `place`: the count, and the marks.
    ///
    /// # Safety
    /// This is a shared ring, its commit words are mapped, and `place` is one of its positions.
    pub(crate) unsafe fn commits(&self, place: u32) -> (&'a CommitHeader, &'a [MarkWord]) {
        let number = (place >> self.geometry.bits) as usize;
        let first =
            at(self.header, &self.header.commits).wrapping_add(number * self.geometry.commit_stride());
        let first = first.cast::<CommitHeader>();
        // SAFETY: there is one for each sub-buffer; all are atomics.
        let header = unsafe { &*first };
        let marks = first.wrapping_add(1).cast::<MarkWord>();
        // SAFETY: `commit_stride` leaves room for them behind the count.
        let marks = unsafe { std::slice::from_raw_parts(marks, self.geometry.size() / MARKED) };
        (header, marks)
    }
}

impl RingHeader {
    /// There is no room for a record: tells the writer if it and the session agree that it waits, or counts the record as lost.
    ///
    /// # Errors
    /// That the writer may wait.
    #[cold]
    pub(crate) fn refuse(&self, if_full: IfFull) -> Result<(), Full> {
        let block = self.block.load(Relaxed);
        if if_full == IfFull::Tell && block != 0 {
            return Err(Full { block });
        }
        self.lose();
        Ok(())
    }

    /// Counts a record that found no room.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// Counts a record that no sub-buffer takes.
    pub(crate) fn lose_too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
        self.lose();
    }
}
