//! The collector's side of a ring. The writers are not trusted: what they say is checked, and read once.
//!
//! A broken or hostile program can spoil the bytes of its own records and nothing else: sizes and offsets are the
//! reader's own, the file cannot shrink under it, and a head that cannot be is an error.

use crate::layout::{Geometry, LEFT, PACKET_HEADER, RECORD_HEADER, RingHeader, SHARED_EXTRA};
use crate::map::Mapping;
use crate::position::Head;
use sordino_percpu::primitive::{Acquire, AtomicU64, Relaxed, Release};
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
        unsafe { self.bytes.copy_from_nonoverlapping(header.as_ptr(), header.len()) };
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
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(self.bytes, copy.len()) };
        copy
    }
}

/// What could be saved of a sub-buffer of the shared ring in which writers did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// Header room and the complete records, one after the other.
    pub bytes: Vec<u8>,
    /// What its packet's header has to say.
    pub content: Content,
    /// Places where at least one record was reserved and not finished.
    pub unfinished: u64,
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
    /// The turn of the sub-buffer that is read next.
    pub(crate) turn: u32,
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

    /// How many sub-buffers wait to be read, the one being filled not among them.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn waiting(&self) -> Result<u32, Corrupt> {
        self.head().map(|head| head.turn().wrapping_sub(self.turn))
    }

    /// The next sub-buffer that its writers have left; `None` if there is none yet.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn take(&mut self) -> Result<Option<SubBuffer<'_>>, Corrupt> {
        let head = self.head()?;
        if head.turn() == self.turn || !self.is_committed(self.turn) {
            return Ok(None);
        }
        let left = self.data(self.place(self.turn)).wrapping_add(LEFT).cast::<[u64; 4]>();
        // SAFETY: within the sub-buffer; volatile, because the program may write there if it is hostile.
        let [stamp, end, too_large, lost] = unsafe { left.read_volatile() };
        let lost = Lost { total: lost, too_large: too_large.min(lost) };
        let end = u32::try_from(end).unwrap_or(u32::MAX);
        Ok(Some(self.sub_buffer(self.turn, end, stamp, lost)))
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
        Ok(Some(self.sub_buffer(self.turn, end, now, lost)))
    }

    /// Gives the sub-buffer that [`take`](Self::take) or [`rest`](Self::rest) returned back to the writers.
    pub fn give_back(&mut self) {
        if let Some((commits, starts)) = self.commit_words(self.turn) {
            starts.iter().for_each(|word| word.store(0, Relaxed));
            commits.store(0, Relaxed);
        }
        self.turn = self.turn.wrapping_add(1);
        // ORDER(read:B) pairs with write:B and commit:D: who sees it writes after we have read.
        self.header.consumed.store(self.turn, Release);
    }

    /// Hands `take` the complete records of what is left in the shared ring, sub-buffer by sub-buffer, also of those
    /// in which writers did not finish. For the end: when the program is gone or no longer recorded. `now` is a stamp
    /// that is not before the last record's. Does nothing for a CPU's ring, which has no unfinished records.
    ///
    /// # Errors
    /// If the head cannot be.
    pub fn salvage(&self, now: u64, mut take: impl FnMut(Salvaged)) -> Result<(), Corrupt> {
        let head = self.head()?;
        let size = self.geometry.size() as u32;
        let ahead = head.turn().wrapping_sub(self.turn);
        let mut parts = Vec::new();
        for turn in (0..=ahead).map(|step| self.turn.wrapping_add(step)) {
            let Some((_, starts)) = self.commit_words(turn) else { return Ok(()) };
            let end = if turn == head.turn() { head.start() & (size - 1) } else { size };
            parts.push(self.gather(turn, starts, end));
        }
        // A packet ends when the next one begins. What its last writer left does not tell: that may be the one who was killed.
        let mut next = now;
        for part in parts.iter_mut().rev() {
            let first = stamp_at(&part.bytes, PACKET_HEADER).unwrap_or(next);
            (part.content.first_stamp, part.content.last_stamp) = (first, next.max(first));
            next = first;
        }
        parts.into_iter().for_each(&mut take);
        Ok(())
    }

    /// Copies the marked records of one sub-buffer, of which `end` bytes are reserved. Their times are still to be looked at.
    fn gather(&self, turn: u32, starts: &[AtomicU64], end: u32) -> Salvaged {
        let from = self.data(self.place(turn));
        let mut bytes = vec![0; PACKET_HEADER];
        let (mut unfinished, mut behind, mut length) = (0, PACKET_HEADER as u32, PACKET_HEADER);
        for start in marked(starts).take_while(|&start| start < end) {
            let record = from.wrapping_add(start as usize);
            let length_word = record.wrapping_add(RECORD_HEADER + SHARED_EXTRA / 2).cast::<u32>();
            // SAFETY: aligned; inside the sub-buffer or less than 24 bytes behind it, where the region goes on.
            let claimed = unsafe { length_word.read_volatile() };
            let most = end.saturating_sub(start);
            if start < behind || claimed > most || (claimed as usize) < RECORD_HEADER + SHARED_EXTRA {
                continue;
            }
            unfinished += u64::from(start > behind);
            behind = start + claimed.next_multiple_of(8);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let to = bytes.len();
            bytes.resize(to + claimed as usize, 0);
            let copy = bytes[to..].as_mut_ptr();
            // SAFETY: `start + claimed <= end`, which is inside the sub-buffer; the copy has as many bytes.
            unsafe { copy.copy_from_nonoverlapping(record, claimed as usize) };
            length = bytes.len();
        }
        let left_unfinished = behind < end && !self.ends_in_padding(turn, behind);
        unfinished += u64::from(left_unfinished);
        bytes.truncate(length);
        let content = Content { end: bytes.len() as u32, first_stamp: 0, last_stamp: 0, lost: self.lost() };
        Salvaged { bytes, content, unfinished }
    }

    /// Whether the sub-buffer was left and its content ended at `behind`, so that the rest is padding.
    fn ends_in_padding(&self, turn: u32, behind: u32) -> bool {
        let left = self.data(self.place(turn)).wrapping_add(LEFT).cast::<[u64; 4]>();
        // SAFETY: within the sub-buffer.
        let words = unsafe { left.read_volatile() };
        words[1].next_multiple_of(8) == u64::from(behind)
    }

    /// Whether all records of the sub-buffer at `turn` are complete. They always are in a CPU's ring.
    fn is_committed(&self, turn: u32) -> bool {
        let all = (self.geometry.size() - PACKET_HEADER) as u64;
        // ORDER(read:C) pairs with commit:B.
        self.commit_words(turn).is_none_or(|(commits, _)| commits.load(Acquire) == all)
    }

    fn commit_words(&self, turn: u32) -> Option<(&AtomicU64, &[AtomicU64])> {
        let number = (turn & (self.geometry.count - 1)) as usize;
        let offset = self.commits? + number * self.geometry.commit_stride();
        let first = self.region.at(offset).cast::<AtomicU64>();
        // SAFETY: inside the region (`control` made it so), aligned to 64: the count and its bitmap, all atomics.
        let words = unsafe { std::slice::from_raw_parts(first, 1 + self.geometry.size() / 512) };
        words.split_first()
    }

    fn sub_buffer(&mut self, turn: u32, end: u32, last_stamp: u64, lost: Lost) -> SubBuffer<'_> {
        let bytes = self.data(self.place(turn));
        let size = self.geometry.size();
        let end = end.clamp(PACKET_HEADER as u32, size as u32);
        let has_record = end as usize >= PACKET_HEADER + RECORD_HEADER;
        let first_word = bytes.wrapping_add(PACKET_HEADER).cast::<u64>();
        let first_stamp = if has_record {
            // SAFETY: inside the sub-buffer and aligned.
            unsafe { first_word.read_volatile() }
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
        let offset = head.start().wrapping_sub(self.place(head.turn()));
        let possible = ahead < self.geometry.count
            && offset >= PACKET_HEADER as u32
            && offset < self.geometry.size() as u32;
        if possible { Ok(head) } else { Err(Corrupt { head: head.0, turn: self.turn }) }
    }

    /// Where the sub-buffer of this turn starts. They take turns in the order they lie in.
    fn place(&self, turn: u32) -> u32 {
        (turn & (self.geometry.count - 1)) << self.geometry.bits
    }

    fn data(&self, place: u32) -> *mut u8 {
        self.region.at(self.data + place as usize)
    }
}

/// The offsets that a bitmap marks, ascending.
fn marked(starts: &[AtomicU64]) -> impl Iterator<Item = u32> {
    starts.iter().zip((0..).step_by(64)).flat_map(|(word, base)| {
        // ORDER(read:D) pairs with commit:A: what is marked is complete.
        let word = word.load(Acquire);
        (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 8 * (base + bit))
    })
}

fn stamp_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let word = bytes.get(offset..offset + 8)?.try_into().ok()?;
    Some(u64::from_ne_bytes(word))
}
