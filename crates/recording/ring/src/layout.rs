//! The area: the memory that a traced program shares with its collector, byte by byte.
//!
//! This is one of sordino's three contracts; the others are the CTF that it writes, and the registration of programs.
//! `docs/layout.md` explains it and holds golden bytes; a change here changes [`VERSION`], that page, and needs a
//! design note.
//!
//! ```text
//! 0              Header                       one page: sizes, offsets, 8 slots
//! rings_offset   RingHeader[8][cpus + 1]      per slot: one per CPU, then the shared ring
//! points_offset  enable words                 one per tracepoint: the sessions that enabled it (enable::EnableMask)
//! next page      InlineFilter[8][INLINE_FILTERS]  per slot: inline filters, which hits test before anything else
//! next page      AnnotationCell[ANNOTATIONS]  annotations of the program's threads
//! catalogue_offset                            text, only ever grows (sordino_event::catalogue)
//! control_size                                end of the part that the program makes when it starts
//! ...            per attached session: tables, commit words, sub-buffers, conditions; made by the collector
//! reserve        largest size of the file
//! ```
//!
//! The program chooses the number of enable words and the size of the text. It maps the unused pages of both without
//! access, so `mlockall` makes no pages there.
//!
//! Every word that both sides may touch is an atomic. All numbers are in the machine's byte order.

use core::mem::{offset_of, size_of};
use sordino_percpu::primitive::{AtomicU8, AtomicU32, AtomicU64};

/// `sordino` and a zero byte, as a little-endian machine reads them.
pub const MAGIC: u64 = u64::from_le_bytes(*b"sordino\0");
/// The layout's version, which the C header repeats. A collector refuses another, and a program that was compiled for
/// another does not link with the C library.
pub const VERSION: u32 = 9;
/// Sessions that may record one program at the same time.
pub const SLOTS: usize = 8;
/// The byte whose lock orders collectors that attach and detach.
pub const ATTACH_LOCK: u64 = SLOTS as u64;
/// The most tracepoints that one area takes.
pub const POINTS: usize = if cfg!(loom) { 1 } else { 32768 };
/// The most bytes of text that one catalogue takes.
pub const CATALOGUE: usize = 8 << 20;
/// CPUs that an area may have rings for: half of what Linux can be built for (NR_CPUS 8192).
pub const MAX_CPUS: u32 = 4096;
/// Alignment of everything that is mapped or written to disk on its own.
pub const PAGE: usize = 4096;
/// The size of the largest record in bytes, header included. A larger record is lost and counted as too large.
pub const MAX_RECORD: usize = 32 << 10;
/// Bytes of a record's header: the timestamp and the tag, a `u64` each.
pub const RECORD_HEADER: usize = 16;
/// Additional bytes of a record in the shared ring, behind the tag: its CPU and its length, a `u32` each.
pub const SHARED_EXTRA: usize = 8;
/// The CPU of a record in the shared ring ([`SHARED_EXTRA`]) if it is not known.
pub const UNKNOWN_CPU: u32 = u32::MAX;
/// The value of [`RingHeader::cpu`] for a CPU without a ring, whose records the session leaves out.
pub const LEFT_OUT: u32 = u32::MAX - 1;
/// Room for the packet header at the start of each sub-buffer; the first record lies behind it.
pub const PACKET_HEADER: usize = 80;
/// Offset in the packet header of three words that a writer stores there at the sub-buffer switch: the timestamp of its
/// record, the head before the switch, and the number of records lost since the ring began.
pub const LEFT: usize = 32;

/// The start of the area.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// The area's [`MAGIC`]; written last, so a collector that reads it finds the other fields, too.
    pub magic: AtomicU64,
    /// The [`VERSION`] of the program's layout.
    pub version: AtomicU32,
    /// CPUs that may exist on this machine: the rings of a slot, without the shared one.
    pub cpus: AtomicU32,
    /// The address at which the program mapped the area.
    pub address: AtomicU64,
    /// Bytes of address space that the program reserved there: the largest size of the file.
    pub reserve: AtomicU64,
    /// File offset of the enable words.
    pub points_offset: AtomicU64,
    /// File offset of the ring headers.
    pub rings_offset: AtomicU64,
    /// File offset of the catalogue's text.
    pub catalogue_offset: AtomicU64,
    /// Bytes of text that the catalogue has room for.
    pub catalogue_capacity: AtomicU64,
    /// Size of the file when the program starts.
    pub control_size: AtomicU64,
    /// The number of complete bytes in the catalogue. A release store of this field publishes them.
    pub catalogue_length: AtomicU64,
    /// Tracepoints that could not be registered.
    pub refused: AtomicU32,
    /// The program's pid in its own namespace.
    pub pid: AtomicU32,
    /// 1 if threads are registered for restartable sequences, 0 if they use the shared ring.
    pub restartable: AtomicU32,
    /// 1 if a session may make writers wait for room, else 0.
    pub allows_blocking: AtomicU32,
    /// Annotations that found no room among the [`ANNOTATIONS`].
    pub refused_annotations: AtomicU32,
    /// The number of recorders whose answer is awaited. [`pending`](crate::area::pending) explains this and the next
    /// four fields.
    pub awaited: AtomicU32,
    /// The time at which the newest tracepoints became pending, in nanoseconds of `CLOCK_MONOTONIC`.
    pub pending_since: AtomicU64,
    /// The time after which they are no longer pending, even without an answer, in nanoseconds of `CLOCK_MONOTONIC`.
    pub pending_until: AtomicU64,
    /// One more than the number of the last tracepoint that may be pending.
    pub pending_end: AtomicU32,
    /// 1 if the time ran out for a tracepoint before all recorders answered, so that later hits were not counted.
    pub uncounted: AtomicU32,
    /// The number of enable words in the area.
    pub points_capacity: AtomicU32,
    /// The number of registered tracepoints.
    pub points: AtomicU32,
    /// Reserved space, always zero.
    pub unused: [AtomicU32; 30],
    /// The slots, one for each session.
    pub slots: [Slot; SLOTS],
}

/// The description of a session, for the program and for other collectors.
///
/// The collector that owns slot k holds an open-file-description lock on byte k of the file; a slot that is not locked
/// is free, whatever its fields contain. A collector locks byte [`ATTACH_LOCK`] while it attaches or detaches.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// The futex that counts sub-buffer switches, in the rings whose [`RingHeader::wake`] leads here.
    pub wake: AtomicU32,
    /// The collector's pid in its own namespace.
    pub collector: AtomicU32,
    /// The offset of the session's part of the file, and its size, in bytes.
    pub region: [AtomicU64; 2],
    /// File offset of the conditions: the pool of code, then a [`ConditionEntry`] for each tracepoint. 0 before the
    /// first session.
    pub conditions: AtomicU64,
    /// The number of hits that requested a snapshot.
    pub triggered: AtomicU32,
    /// The tracepoint of the newest such hit.
    pub trigger_point: AtomicU32,
    /// The session's name, filled up with zeros.
    pub name: [AtomicU8; 88],
}

/// The control words of one ring, in four cache lines: one that every record uses, one for sub-buffer switches, one for
/// the reader, and one for the shared ring's writers.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RingHeader {
    /// The offset of the writers: a [`Head`](crate::offset::Head).
    pub head: AtomicU64,
    /// The number of lost records; its low 16 bits go into every record.
    pub lost: AtomicU64,
    /// The bits of an offset that are the same within one sub-buffer. All ones if every record needs the slow path:
    /// with another clock than the CPU's cycle counter, or without a ring.
    pub other_bits: AtomicU64,
    /// The offset of the sub-buffers, relative to this header.
    pub data: AtomicU64,
    /// The number of the ring's CPU; [`UNKNOWN_CPU`] for the shared ring, [`LEFT_OUT`] if there is none.
    pub cpu: AtomicU32,
    /// Reserved space, always zero.
    pub unused0: [AtomicU32; 7],

    /// The offset, relative to this header, of the table of sub-buffers in a ring that overwrites: `count` words, each
    /// a [`TableEntry`].
    pub table: AtomicU64,
    /// The offset, relative to this header, of the shared ring's commit words: a [`CommitHeader`] and its marks for
    /// each sub-buffer.
    pub commits: AtomicU64,
    /// The number of sub-buffers that the writers use in rotation, a power of two; 0 if there is no ring.
    pub count: AtomicU32,
    /// The binary logarithm of a sub-buffer's size.
    pub bits: AtomicU32,
    /// The clock of the records' timestamps: a `ring::TimestampClock`.
    pub clock: AtomicU32,
    /// The distance in bytes back from this header to the futex [`Slot::wake`], which each sub-buffer switch increments
    /// and wakes; 0 for none.
    pub wake: AtomicU32,
    /// The number of lost records that were larger than a sub-buffer takes.
    pub too_large: AtomicU64,
    /// 1 if writers overwrite the oldest sub-buffer when all are full, 0 if they lose the record.
    pub overwrite: AtomicU32,
    /// The time that writers wait for room in a full ring, in microseconds: 0 not at all, all ones for ever.
    pub block: AtomicU32,
    /// Reserved space, always zero.
    pub unused1: [AtomicU32; 4],

    /// The limit of the writers: they may enter sub-buffers whose sequence number is less than `count` ahead of it,
    /// modulo 2^32. It is at most the number of sub-buffers that the reader has put, and less while the next ones have
    /// no pages yet. It may decrease. See `read::room`.
    pub consumed: AtomicU32,
    /// Reserved space, always zero.
    pub unused2: [AtomicU32; 15],

    /// The number of the shared ring's writers that may still touch the session's region. While the program runs, it is
    /// above 0 only briefly.
    pub writers: AtomicU32,
    /// Reserved space, always zero.
    pub unused3: AtomicU32,
    /// The lower bound of timestamps in the shared ring: no record that is reserved from now on has an earlier one.
    pub latest: AtomicU64,
    /// Reserved space, always zero.
    pub unused4: [AtomicU32; 12],
}

/// A tracepoint's word with the sessions that enabled it: [`EnableMask`](crate::area::enable::EnableMask).
pub type EnableWord = AtomicU64;

/// A word of the table of sub-buffers: a [`table::Entry`](crate::table::Entry).
pub type TableEntry = AtomicU64;

/// The progress of the writers in one sub-buffer of the shared ring.
///
/// Marks follow, a [`MarkWord`] for each 256 bytes of the sub-buffer. So a writer that is killed before it commits its
/// record hides none of the others' records.
#[derive(Debug)]
#[repr(C)]
pub struct CommitHeader {
    /// The number of complete bytes behind the packet header, padding included, over all uses of the sub-buffer: it is
    /// never reset.
    pub committed: AtomicU64,
}

/// The starts of complete records: a sub-buffer sequence number in the upper half, a bit for each 8 bytes in the lower
/// half. It is never cleared: the writer that marks the first record with another sequence number replaces all of it.
pub type MarkWord = AtomicU64;

/// Bytes of a sub-buffer that one [`MarkWord`] covers.
pub const MARKED: usize = 256;

/// The place of a tracepoint's condition: a [`condition::CodeRange`](crate::area::condition::CodeRange).
pub type ConditionEntry = AtomicU32;

/// Bytes of code for a session's conditions. The table of conditions follows the code.
pub const CONDITION_POOL: usize = if cfg!(loom) { 64 } else { 64 << 10 };

/// Returns the size in bytes of the pool and the entries of so many tracepoints, in whole pages.
pub const fn conditions_size(points: usize) -> usize {
    (CONDITION_POOL + points * size_of::<ConditionEntry>()).next_multiple_of(PAGE)
}

/// An inline filter: a condition that is one comparison, as many are. A hit makes it before it prepares a record.
///
/// It holds for a value if `value - low`, modulo 2^64, is at most `span`; a signed value is extended to 64 bits.
#[derive(Debug)]
#[repr(C)]
pub struct InlineFilter {
    /// The least value that passes, a negative one as two's complement.
    pub low: AtomicU64,
    /// The difference between the greatest value that passes and the least.
    pub span: AtomicU64,
    /// The index of the field, counted from 0: an integer, `bool` or enumeration.
    pub field: AtomicU32,
    /// Reserved space, always zero.
    pub unused: AtomicU32,
}

/// The most inline filters that a session has in one program.
pub const INLINE_FILTERS: usize = if cfg!(loom) { 1 } else { 128 };

/// An annotation of one thread under one name: see [`value`](crate::area::annotations).
#[derive(Debug)]
#[repr(C)]
pub struct AnnotationCell {
    /// The id of the thread that has the cell; 0 if none has had it yet.
    pub owner: AtomicU32,
    /// Odd while the words are being written.
    pub count: AtomicU32,
    /// The annotation: thread, lengths, time, name and text.
    pub words: [AtomicU64; ANNOTATION_WORDS],
}

/// The most annotations that a program's threads have together.
pub const ANNOTATIONS: usize = if cfg!(loom) { 2 } else { 512 };
/// The length of an annotation's longest name, in bytes.
pub const ANNOTATION_NAME: usize = if cfg!(loom) { 8 } else { 24 };
/// The length of an annotation's longest text, in bytes.
pub const ANNOTATION_TEXT: usize = if cfg!(loom) { 8 } else { 80 };
/// The number of words of an annotation.
pub const ANNOTATION_WORDS: usize = 2 + (ANNOTATION_NAME + ANNOTATION_TEXT) / 8;

const _: () = assert!(cfg!(loom) || size_of::<AnnotationCell>() == 128);
const _: () = assert!(size_of::<Header>() == 256 + SLOTS * 128 && size_of::<Header>() <= PAGE);
const _: () = assert!(offset_of!(Header, catalogue_length) == 72 && offset_of!(Header, slots) == 256);
const _: () = assert!(offset_of!(Header, pending_since) == 104);
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<RingHeader>() == 256);
const _: () = assert!(offset_of!(RingHeader, table) == 64 && offset_of!(RingHeader, consumed) == 128);
const _: () = assert!(PACKET_HEADER.is_multiple_of(16) && LEFT + 24 <= PACKET_HEADER);

// An enable word has 24 bits for the distance to a slot's ring headers, in units of one header.
const _: () = assert!(SLOTS * (MAX_CPUS as usize + 1) < 1 << 24);

// It has 24 bits for the distance in bytes to an inline filter, too.
const _: () = assert!(
    POINTS * size_of::<EnableWord>() + SLOTS * INLINE_FILTERS * size_of::<InlineFilter>() + PAGE < 1 << 24
);
const _: () = assert!(size_of::<InlineFilter>() == 24 && POINTS <= 1 << 16);

/// File offset of the ring headers.
pub const RINGS_OFFSET: usize = PAGE;

/// The numbers that determine the offsets of an area's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The number of CPUs that may exist.
    pub cpus: u32,
    /// The number of enable words, one for each tracepoint.
    pub points: u32,
}

impl Capacity {
    /// File offset of the enable words.
    pub const fn points_offset(self) -> usize {
        (RINGS_OFFSET + SLOTS * (self.cpus as usize + 1) * size_of::<RingHeader>()).next_multiple_of(PAGE)
    }

    /// File offset of the inline filters.
    pub const fn inline_filters_offset(self) -> usize {
        (self.points_offset() + self.points as usize * size_of::<EnableWord>()).next_multiple_of(PAGE)
    }

    /// File offset of the threads' annotations.
    pub const fn annotations_offset(self) -> usize {
        (self.inline_filters_offset() + SLOTS * INLINE_FILTERS * size_of::<InlineFilter>())
            .next_multiple_of(PAGE)
    }

    /// File offset of the catalogue.
    pub const fn catalogue_offset(self) -> usize {
        (self.annotations_offset() + ANNOTATIONS * size_of::<AnnotationCell>()).next_multiple_of(PAGE)
    }
}

/// The sizes of a ring's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The binary logarithm of a sub-buffer's size in bytes.
    pub bits: u32,
    /// The number of sub-buffers that the writers use in rotation, a power of two.
    pub count: u32,
    /// True if the ring overwrites its oldest sub-buffer. There is one sub-buffer more then, the reader's.
    pub overwrite: bool,
}

impl Geometry {
    /// The size of the smallest sub-buffer: 16 KiB.
    pub const MIN_SIZE: u64 = if cfg!(loom) { 512 } else { 16 << 10 };
    /// The size of the largest sub-buffer: 256 MiB.
    pub const MAX_SIZE: u64 = 256 << 20;
    /// The fewest sub-buffers: one to write, one to read.
    pub const MIN_COUNT: u64 = 2;
    /// The most sub-buffers of a ring.
    pub const MAX_COUNT: u64 = 4096;
    /// The most bytes in one ring: an offset is a 32-bit number.
    pub const MAX_RING: u64 = 2 << 30;

    /// Returns the geometry of `count` sub-buffers of `size` bytes; `None` if a size is no power of two or out of
    /// range.
    pub const fn new(size: u64, count: u64) -> Option<Self> {
        let fits = size >= Self::MIN_SIZE
            && size <= Self::MAX_SIZE
            && count >= Self::MIN_COUNT
            && count <= Self::MAX_COUNT;
        if !fits || !size.is_power_of_two() || !count.is_power_of_two() || size * count > Self::MAX_RING {
            return None;
        }
        Some(Self { bits: size.trailing_zeros(), count: count as u32, overwrite: false })
    }

    /// Returns the same geometry, for a ring that overwrites.
    pub const fn overwriting(self) -> Self {
        Self { overwrite: true, ..self }
    }

    /// Returns the next smaller geometry: half as large sub-buffers down to 64 KiB, then half as many down to four,
    /// then both down to the least. `None` if there is no smaller one.
    pub const fn smaller(self) -> Option<Self> {
        let (size, count) = (1u64 << self.bits, self.count as u64);
        if size > 64 << 10 || count <= 4 && size > Self::MIN_SIZE {
            return Some(Self { bits: self.bits - 1, ..self });
        }
        if count > Self::MIN_COUNT { Some(Self { count: self.count / 2, ..self }) } else { None }
    }

    /// The number of sub-buffers, the reader's included.
    pub const fn sub_buffers(self) -> usize {
        self.count as usize + self.overwrite as usize
    }

    /// Bytes in a sub-buffer, packet header included.
    pub const fn size(self) -> usize {
        1 << self.bits
    }

    /// The bits of an offset that are the same within a sub-buffer: those above the offset in the sub-buffer.
    #[inline(always)]
    pub const fn other_bits(self) -> u64 {
        !(self.size() as u64 - 1)
    }

    /// Bytes that the table takes, in whole pages.
    pub const fn table_size(self) -> usize {
        (self.count as usize * size_of::<TableEntry>()).next_multiple_of(PAGE)
    }

    /// Bytes between the commit words of two sub-buffers.
    pub const fn commit_stride(self) -> usize {
        (size_of::<CommitHeader>() + self.size() / MARKED * size_of::<MarkWord>()).next_multiple_of(64)
    }

    /// Bytes that all sub-buffers' commit words take, in whole pages.
    pub const fn commits_size(self) -> usize {
        (self.sub_buffers() * self.commit_stride()).next_multiple_of(PAGE)
    }

    /// Bytes that the sub-buffers take.
    pub const fn data_size(self) -> usize {
        self.sub_buffers() << self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_no_power_of_two_or_absurd_are_refused() {
        for (size, count) in
            [(0, 2), (3 << 20, 2), (1 << 13, 2), (1 << 29, 2), (1 << 20, 1), (1 << 20, 3), (1 << 28, 16)]
        {
            assert_eq!(Geometry::new(size, count), None, "{size} x {count}");
        }
        assert_eq!(Geometry::new(1 << 20, 32), Some(Geometry { bits: 20, count: 32, overwrite: false }));
    }

    #[test]
    fn a_geometry_becomes_smaller_until_it_is_the_least() {
        let steps = |geometry| std::iter::successors(Geometry::new(geometry, 32), |one| one.smaller());
        assert!(steps(1 << 20).any(|one| (one.size(), one.count) == (64 << 10, 32)));
        let least = steps(1 << 20).last().unwrap();
        assert_eq!((least.size() as u64, u64::from(least.count)), (Geometry::MIN_SIZE, Geometry::MIN_COUNT));
        assert!(steps(256 << 10).is_sorted_by(|one, next| next.data_size() * 2 == one.data_size()));
    }

    #[test]
    fn parts_do_not_overlap() {
        for (cpus, points) in
            [1, 2, 255, 4096].into_iter().flat_map(|cpus| [1, 8192, 32768].map(|points| (cpus, points)))
        {
            let parts = Capacity { cpus, points };
            let rings = RINGS_OFFSET + SLOTS * (cpus as usize + 1) * size_of::<RingHeader>();
            assert!(RINGS_OFFSET >= size_of::<Header>() && parts.points_offset() >= rings);
            let words = parts.points_offset() + points as usize * size_of::<EnableWord>();
            assert!(parts.inline_filters_offset() >= words);
            assert!(
                parts.annotations_offset()
                    >= parts.inline_filters_offset() + SLOTS * INLINE_FILTERS * size_of::<InlineFilter>()
            );
            assert!(
                parts.catalogue_offset()
                    >= parts.annotations_offset() + ANNOTATIONS * size_of::<AnnotationCell>()
            );
        }
    }
}
