//! A ring as one side has it mapped: its header, and the memory that the header's offsets lead to.

use crate::layout::{CommitHeader, Geometry, LEFT, MARKED, MarkWord, PACKET_HEADER, RingHeader, TableEntry};
use crate::number::{RingOffset, Seqno};
use crate::offset::{Head, is_full};
use crate::table::{Entering, Entry};
use crate::write::{Full, IfFull, TimestampClock};
use sordino_percpu::SwitchWords;
use sordino_percpu::primitive::{Acquire, AtomicU64, Relaxed};

/// A ring's header, and the addresses in this process of all that it leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    pub(crate) header: &'a RingHeader,
    pub(crate) geometry: Geometry,
    /// The geometry's mask of the bits that are the same within a sub-buffer.
    pub(crate) other_bits: u64,
    pub(crate) clock: TimestampClock,
    /// Address of the first sub-buffer.
    data: *mut u8,
}

/// The reason why a sub-buffer switch is impossible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSwitch {
    /// The head has changed: the writer reads it again.
    Stale,
    /// The next sub-buffer is not free: the reader has not put it or, in a ring that overwrites, a writer that reserved
    /// there a whole round ago is still at work.
    Full,
}

/// Returns true if a sub-buffer that was claimed `uses` times, modulo 2^16, holds only complete records; `committed` is
/// the number of bytes that were committed in it altogether.
pub(crate) fn all_committed(geometry: Geometry, committed: u64, uses: u16) -> bool {
    let whole = (geometry.size() - PACKET_HEADER) as u64;
    committed.is_multiple_of(whole) && (committed / whole) as u16 == uses
}

/// The address `offset` bytes behind a ring's header.
#[inline(always)]
fn at(header: &RingHeader, offset: &AtomicU64) -> *mut u8 {
    let start: *const RingHeader = header;
    start.cast::<u8>().cast_mut().wrapping_add(offset.load(Relaxed) as usize)
}

impl<'a> Ring<'a> {
    /// The writers' view of a ring, which trusts the collector's header; `None` if there is no ring.
    #[inline(always)]
    pub(crate) fn of(header: &'a RingHeader) -> Option<Self> {
        // ORDER(view:A) pairs with control:E: if the load sees the count, then it sees the words stored before it.
        let count = header.count.load(Acquire);
        if count == 0 {
            return None;
        }
        let bits = header.bits.load(Relaxed);
        let overwrite = header.overwrite.load(Relaxed) != 0;
        let clock =
            if header.clock.load(Relaxed) == 0 { TimestampClock::Cycles } else { TimestampClock::Monotonic };
        let other_bits = u64::MAX.checked_shl(bits)?;
        let geometry = Geometry { bits, count, overwrite };
        Some(Self { header, geometry, other_bits, clock, data: at(header, &header.data) })
    }

    /// The same view on the fast path: if that is open, there is a CPU's ring and its clock is the cycle counter. If it
    /// is closed, `other_bits` are all ones: sub-buffers of one byte, into which no record fits.
    #[inline(always)]
    pub(crate) fn open(header: &'a RingHeader) -> Self {
        // ORDER(view:F) pairs with control:F: if the load sees the fast path open, then the section sees the head of
        // the opened ring, or one that is newer.
        let other_bits = header.other_bits.load(Acquire);
        let count = header.count.load(Relaxed);
        let overwrite = header.overwrite.load(Relaxed) != 0;
        let geometry = Geometry { bits: other_bits.trailing_zeros(), count, overwrite };
        let data = at(header, &header.data);
        Self { header, geometry, other_bits, clock: TimestampClock::Cycles, data }
    }

    /// The address of the byte at offset `offset` from the first sub-buffer.
    #[inline(always)]
    pub(crate) fn data(&self, offset: RingOffset) -> *mut u8 {
        self.data.wrapping_add(offset.0 as usize)
    }

    /// Finds the sub-buffer behind that of `head`: its sequence number and its offset. In a ring that overwrites, this
    /// claims it if no writer is at work there any more, as `is_complete` reports: from then on the reader leaves it
    /// alone.
    ///
    /// # Errors
    /// [`NoSwitch`], if the sub-buffer cannot be entered now.
    ///
    /// # Safety
    /// The table is mapped if the ring overwrites.
    #[inline(always)]
    pub(crate) unsafe fn enter(
        &self,
        head: Head,
        is_complete: impl FnOnce(Entry) -> bool,
    ) -> Result<(Seqno, RingOffset), NoSwitch> {
        let seqno = head.seqno().after(1);
        let number = if self.geometry.overwrite {
            // SAFETY: the caller guarantees that the table is mapped if the ring overwrites, as it does here.
            unsafe { self.claim(seqno, is_complete)? }
        } else {
            self.next(seqno)?
        };
        Ok((seqno, RingOffset(number.wrapping_mul((self.other_bits as u32).wrapping_neg()))))
    }

    /// The index of the sub-buffer with sequence number `seqno` in a ring that does not overwrite.
    #[inline(always)]
    fn next(&self, seqno: Seqno) -> Result<u32, NoSwitch> {
        // ORDER(view:C) pairs with read:B: if the load sees that the reader put a sub-buffer, then the reader has read
        // it.
        let (consumed, count) = (Seqno(self.header.consumed.load(Acquire)), self.geometry.count);
        if is_full(seqno, consumed, count) { Err(NoSwitch::Full) } else { Ok(seqno.entry(count)) }
    }

    /// Claims the sub-buffer for sequence number `seqno` in a ring that overwrites, and returns its index.
    ///
    /// # Safety
    /// The table is mapped.
    #[inline(always)]
    unsafe fn claim(&self, seqno: Seqno, is_complete: impl FnOnce(Entry) -> bool) -> Result<u32, NoSwitch> {
        // SAFETY: the caller guarantees that the table is mapped (this function's # Safety).
        let word = unsafe { self.entry(seqno) };
        // ORDER(view:E) pairs with exchange:A: if the load sees that another writer claimed the sub-buffer for this
        // one, then the reader has read it. The claim continues the exchange's release.
        let entry = Entry(word.load(Acquire));
        match entry.entering(seqno, self.geometry.count) {
            Entering::Claimed => {}
            Entering::Stale => return Err(NoSwitch::Stale),
            Entering::Claim => {
                if !is_complete(entry) {
                    // Stale if the reader has exchanged the sub-buffer meanwhile, which may be in use under another
                    // sequence number.
                    let is_same = word.load(Relaxed) == entry.0;
                    return Err(if is_same { NoSwitch::Full } else { NoSwitch::Stale });
                }
                // ORDER(view:B) pairs with exchange:A: if the claim sees the sub-buffer that the reader gave, then the
                // reader has read it.
                let claim = word.compare_exchange(entry.0, entry.claimed(seqno).0, Acquire, Relaxed);
                claim.map_err(|_| NoSwitch::Stale)?;
            }
        }
        Ok(entry.spare().number)
    }

    /// # Safety
    /// The table is mapped.
    #[inline(always)]
    unsafe fn entry(&self, seqno: Seqno) -> &'a TableEntry {
        // A ring that is closed meanwhile has the count 0; but no table is larger than this, and regions are.
        let index = seqno.entry(self.geometry.count) & (Geometry::MAX_COUNT as u32 - 1);
        let entry = at(self.header, &self.header.table)
            .wrapping_add(index as usize * size_of::<TableEntry>())
            .cast::<TableEntry>();
        // SAFETY: the caller guarantees that the table is mapped. It has `count` entries; behind a smaller one lies the
        // rest of the region, which is mapped, too.
        unsafe { &*entry }
    }

    /// Returns true if no writer is still at work in the sub-buffer of `entry` of a shared ring, which no writer has
    /// claimed anew.
    ///
    /// # Safety
    /// The ring's commit words are mapped.
    pub(crate) unsafe fn is_complete(&self, entry: Entry) -> bool {
        // SAFETY: the caller guarantees that the ring's commit words are mapped; the entry's sub-buffer is one of the
        // ring's.
        let (commits, _) =
            unsafe { self.commits(RingOffset::of_sub_buffer(entry.spare().number, self.geometry.bits)) };
        // ORDER(view:D) pairs with commit:B and commit:G: if the load sees all bytes committed, then what their writers
        // wrote precedes this writer's stores.
        all_committed(self.geometry, commits.committed.load(Acquire), entry.spare().uses)
    }

    /// The destination and the count of lost records for a sub-buffer switch out of the sub-buffer that `head` is in.
    #[inline(always)]
    pub(crate) fn switch(&self, head: Head, lost: u64) -> SwitchWords {
        let start = head.sub_buffer(self.other_bits);
        SwitchWords { destination: self.data(start.after(LEFT as u32)).cast(), lost }
    }

    /// The commit words of the shared ring's sub-buffer at offset `offset`: the count, and the marks.
    ///
    /// # Safety
    /// This is a shared ring, its commit words are mapped, and `offset` is an offset in it.
    pub(crate) unsafe fn commits(&self, offset: RingOffset) -> (&'a CommitHeader, &'a [MarkWord]) {
        let number = offset.sub_buffer(self.geometry.bits) as usize;
        let first =
            at(self.header, &self.header.commits).wrapping_add(number * self.geometry.commit_stride());
        let first = first.cast::<CommitHeader>();
        // SAFETY: the caller guarantees mapped commit words, one header for each sub-buffer; all are atomics.
        let header = unsafe { &*first };
        let marks = first.wrapping_add(1).cast::<MarkWord>();
        // SAFETY: `commit_stride` leaves room for the marks behind the count; all are atomics.
        let marks = unsafe { std::slice::from_raw_parts(marks, self.geometry.size() / MARKED) };
        (header, marks)
    }
}

impl RingHeader {
    /// Rejects a record for which there is no room: returns an error if `if_full` permits it and the session makes
    /// writers wait, and counts the record as lost otherwise.
    ///
    /// # Errors
    /// [`Full`], if the writer may wait.
    #[cold]
    pub(crate) fn refuse(&self, if_full: IfFull) -> Result<(), Full> {
        let block = self.block.load(Relaxed);
        if if_full == IfFull::Return && block != 0 {
            return Err(Full { block });
        }
        self.lose();
        Ok(())
    }

    /// Counts a record for which there was no room.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Relaxed);
    }

    /// Counts a record that is too large for a sub-buffer.
    pub(crate) fn lose_too_large(&self) {
        self.too_large.fetch_add(1, Relaxed);
        self.lose();
    }
}
