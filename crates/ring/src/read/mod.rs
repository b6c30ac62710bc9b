//! The collector's side of a ring. The writers are not trusted: what they say is checked, and read once.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `read:B`, giving a sub-buffer back | `view:C` | who sees it given back writes after it was read |
//! | `exchange:A`, exchanging a sub-buffer | `view:B` | who claims the sub-buffer that was given writes after it was read |
//!
//! A broken or hostile program can spoil the bytes of its own records and nothing else: sizes and offsets are the
//! reader's own, the file cannot shrink under it, and a head that cannot be is an error.

mod exchange;
mod salvage;

pub(crate) use exchange::Exchange;
pub use salvage::Salvaged;

use crate::layout::{
    CommitHeader, Geometry, LEFT, MARKED, MarkWord, PACKET_HEADER, RECORD_HEADER, RingHeader,
};
use crate::map::Mapping;
use crate::position::Head;
use crate::view::all_committed;
use sordino_percpu::primitive::{Acquire, Relaxed, Release, plain};
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::{fmt, io};

/// Records that were lost since the ring began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// All of them.
    pub total: u64,
    /// Those that were larger than a sub-buffer takes.
    pub too_large: u64,
}

/// The head cannot be: the program overwrote it, or is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// What the head says.
    pub head: u64,
    /// The turn of the sub-buffer that comes next.
    pub turn: u32,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ring's head {:#x} is impossible after turn {}", self.head, self.turn)
    }
}

impl std::error::Error for Corrupt {}

/// One sub-buffer that is the reader's until it gives it back.
#[derive(Debug)]
pub struct SubBuffer<'a> {
    /// The whole of it; its first [`PACKET_HEADER`] bytes are for the packet's header.
    bytes: *mut u8,
    size: usize,
    /// What its packet's header has to say.
    pub content: Content,
    _reader: std::marker::PhantomData<&'a mut Reader>,
}

/// What a packet's header has to say of its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// How many bytes are header room and records; at least [`PACKET_HEADER`], at most the sub-buffer's size.
    pub end: u32,
    /// The first record's stamp; `last_stamp` where there is no record.
    pub first_stamp: u64,
    /// Not before the last record's stamp, not after the next packet's first.
    pub last_stamp: u64,
    /// Records lost by the packet's end.
    pub lost: Lost,
}

impl SubBuffer<'_> {
    /// Writes the packet's header into its room.
    ///
    /// # Panics
    /// If it is longer than the room.
    pub fn set_header(&mut self, header: &[u8]) {
        assert!(header.len() <= PACKET_HEADER);
        // SAFETY: the sub-buffer is mapped and larger; a program that writes there at the same time spoils its own packet.
        unsafe { plain::copy_in(self.bytes, header.as_ptr(), header.len()) };
    }

    /// Writes the first `length` bytes to `file` at `offset`, by one system call; how many the kernel took.
    ///
    /// The bytes go from the shared memory to the kernel and are looked at by nobody on the way: a program that changes them
    /// meanwhile spoils its own packet.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If that is more than the sub-buffer has.
    pub fn write(&self, file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<usize> {
        assert!(length <= self.size);
        let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
        // SAFETY: as many bytes are mapped and stay so.
        let written = unsafe { libc::pwrite(file.as_raw_fd(), self.bytes.cast(), length, offset) };
        usize::try_from(written).map_err(|_| io::Error::last_os_error())
    }

    /// Its size: the most that may be written.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A copy of the header room and the records.
    pub fn copy(&self) -> Vec<u8> {
        let mut copy = vec![0; self.content.end as usize];
        // SAFETY: `end` is at most the sub-buffer's size; bytes that change meanwhile are some bytes or others.
        unsafe { plain::copy_out(copy.as_mut_ptr(), self.bytes, copy.len()) };
        copy
    }
}

/// A ring's header in shared memory.
#[derive(Debug)]
pub(crate) struct HeaderRef {
    pub(crate) control: Arc<Mapping>,
    pub(crate) offset: usize,
}

impl Deref for HeaderRef {
    type Target = RingHeader;
    fn deref(&self) -> &RingHeader {
        // SAFETY: `offset` lies within the mapping and is aligned (`control`); all fields are atomics.
        unsafe { &*self.control.at(self.offset).cast() }
    }
}

/// Reads one ring.
#[derive(Debug)]
pub struct Reader {
    pub(crate) header: HeaderRef,
    /// Where the ring's parts begin in `region`.
    pub(crate) data: usize,
    /// Only the shared ring has them.
    pub(crate) commits: Option<usize>,
    pub(crate) region: Arc<Mapping>,
    pub(crate) geometry: Geometry,
    /// The turn at which the ring began.
    pub(crate) first_turn: u32,
    /// The turn of the sub-buffer that is read next.
    pub(crate) turn: u32,
    /// Of a ring that overwrites.
    pub(crate) exchange: Option<Exchange>,
    /// Whose ring it is; `None` for the shared one.
    pub(crate) cpu: Option<u32>,
}

impl Reader {
    /// Whose ring it is; `None` for the shared one.
    pub fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    /// The ring's sizes.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Records lost so far. More may be lost at any time while the program lives.
    pub fn lost(&self) -> Lost {
        let total = self.header.lost.load(Relaxed);
        Lost { total, too_large: self.header.too_large.load(Relaxed).min(total) }
    }

    /// Sub-buffers that were overwritten before this reader came to them.
    pub fn overwritten(&self) -> u64 {
        self.exchange.as_ref().map_or(0, |exchange| exchange.overwritten)
    }

    /// How many sub-buffers wait to be read, the one being filled not among them.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn waiting(&self) -> Result<u32, Corrupt> {
        let ahead = self.head()?.turn().wrapping_sub(self.turn);
        Ok(ahead.min(self.geometry.count - 1))
    }

    /// The next sub-buffer that its writers have left; `None` if there is none yet. In a ring that overwrites, the oldest that
    /// is still there.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn take(&mut self) -> Result<Option<SubBuffer<'_>>, Corrupt> {
        let head = self.head()?;
        let number = if self.exchange.is_some() { self.take_oldest(head) } else { self.next(head) };
        let Some(number) = number else { return Ok(None) };
        let left = self.data(number).wrapping_add(LEFT).cast::<[u64; 3]>();
        // SAFETY: within the sub-buffer.
        let [stamp, head, lost] = unsafe { plain::read(left) };
        // As many of them as by now are known to have been too large.
        let lost = Lost { total: lost, too_large: self.header.too_large.load(Relaxed).min(lost) };
        let end = Head(head).content_end(self.geometry);
        Ok(Some(self.sub_buffer(number, end, stamp, lost)))
    }

    /// The next sub-buffer of a ring that does not overwrite, if its writers are done with it.
    fn next(&self, head: Head) -> Option<u32> {
        let number = self.number(self.turn)?;
        let rounds = self.turn.wrapping_sub(self.first_turn) / self.geometry.count;
        let done = head.turn() != self.turn && self.is_committed(number, (rounds + 1) as u16);
        done.then_some(number)
    }

    /// What the sub-buffer being filled holds so far, once its program is gone or no longer writes; `None` if it is not
    /// the next to be read. `now` is a stamp that is not before the last record's.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn rest(&mut self, now: u64) -> Result<Option<SubBuffer<'_>>, Corrupt> {
        let head = self.head()?;
        if head.turn() != self.turn || self.commits.is_some() {
            return Ok(None);
        }
        let (end, lost) = (head.content_end(self.geometry), self.lost());
        Ok(Some(self.sub_buffer(head.start() >> self.geometry.bits, end, now, lost)))
    }

    /// Gives the sub-buffer that [`take`](Self::take) or [`rest`](Self::rest) returned back to the writers.
    pub fn give_back(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        match &mut self.exchange {
            Some(exchange) => exchange.give_back(),
            // ORDER(read:B) pairs with view:C: who sees it writes after we have read.
            None => self.header.consumed.store(self.turn, Release),
        }
    }

    /// Whether all records of a sub-buffer that was claimed `uses` times are complete. They always are in a CPU's ring.
    fn is_committed(&self, number: u32, uses: u16) -> bool {
        // ORDER(read:C) pairs with commit:B.
        let committed = |commits: &CommitHeader| commits.committed.load(Acquire);
        self.commit_words(number)
            .is_none_or(|(commits, _)| all_committed(self.geometry, committed(commits), uses))
    }

    fn commit_words(&self, number: u32) -> Option<(&CommitHeader, &[MarkWord])> {
        let offset = self.commits? + number as usize * self.geometry.commit_stride();
        let first = self.region.at(offset).cast::<CommitHeader>();
        let marks = first.wrapping_add(1).cast::<MarkWord>();
        // SAFETY: inside the region (`control` made it so), aligned to 64; all atomics.
        let commits = unsafe { &*first };
        // SAFETY: behind it, likewise.
        let marks = unsafe { std::slice::from_raw_parts(marks, self.geometry.size() / MARKED) };
        Some((commits, marks))
    }

    fn sub_buffer(&mut self, number: u32, end: u32, last_stamp: u64, lost: Lost) -> SubBuffer<'_> {
        let bytes = self.data(number);
        let size = self.geometry.size();
        let end = end.clamp(PACKET_HEADER as u32, size as u32);
        let has_record = end as usize >= PACKET_HEADER + RECORD_HEADER;
        let first_word = bytes.wrapping_add(PACKET_HEADER).cast::<u64>();
        let first_stamp = if has_record {
            // SAFETY: inside the sub-buffer and aligned.
            unsafe { plain::read(first_word) }
        } else {
            last_stamp
        };
        let last_stamp = last_stamp.max(first_stamp);
        let content = Content { end, first_stamp, last_stamp, lost };
        SubBuffer { bytes, size, content, _reader: std::marker::PhantomData }
    }

    /// The head, if it can be.
    fn head(&self) -> Result<Head, Corrupt> {
        // ORDER(read:A) pairs with write:A: if we see this head, we see the records before it and what was left.
        let head = Head(self.header.head.load(Acquire));
        let ahead = head.turn().wrapping_sub(self.turn);
        let offset = head.start() & (self.geometry.size() as u32 - 1);
        let number = head.start() >> self.geometry.bits;
        let in_its_place = match self.exchange {
            Some(_) => ahead <= i32::MAX as u32 && (number as usize) < self.geometry.sub_buffers(),
            None => ahead < self.geometry.count && number == head.turn() & (self.geometry.count - 1),
        };
        let possible = in_its_place && offset >= PACKET_HEADER as u32;
        if possible { Ok(head) } else { Err(Corrupt { head: head.0, turn: self.turn }) }
    }

    /// The sub-buffer of a turn; `None` if a later turn has it. Without overwriting they take turns in the order they lie in.
    fn number(&self, turn: u32) -> Option<u32> {
        if self.exchange.is_some() {
            self.number_in_table(turn)
        } else {
            Some(turn & (self.geometry.count - 1))
        }
    }

    fn data(&self, number: u32) -> *mut u8 {
        self.region.at(self.data + ((number as usize) << self.geometry.bits))
    }
}
