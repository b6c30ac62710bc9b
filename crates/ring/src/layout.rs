//! The area: what a traced program shares with its collector, byte by byte.
//!
//! The first of sordino's two contracts (the other is the CTF it writes). `docs/layout.md` explains it and
//! holds golden bytes; a change here changes [`VERSION`], that page, and needs a design note.
//!
//! ```text
//! 0              Header                       one page: sizes, offsets, 8 slots
//! rings_offset   RingHeader[8][cpus + 1]      per slot: one per CPU, then the shared ring
//! points_offset  enable words                 one per tracepoint: the sessions that want it (want::Wants)
//! next page      Gate[8][GATES]               per slot: comparisons that hits make before anything else
//! next page      ValueCell[VALUES]            what the program's threads say of themselves
//! catalogue_offset                            text, only ever grows (sordino_event::catalogue)
//! control_size                                end of what the program makes when it starts
//! ...            per attached session: tables, commit words, sub-buffers, conditions; made by the collector
//! reserve        the file never grows beyond
//! ```
//!
//! The program chooses how many enable words and how much text there is room for. It maps what is not used yet of both without
//! access, so `mlockall` makes no pages there.
//!
//! Every word that both sides may touch is an atomic. All numbers are in the machine's byte order.

use core::mem::{offset_of, size_of};
use sordino_percpu::primitive::{AtomicU8, AtomicU32, AtomicU64};

/// `sordino` and a zero byte, as a little-endian machine reads them.
pub const MAGIC: u64 = u64::from_le_bytes(*b"sordino\0");
/// The layout's version, which the C header repeats. A collector refuses another, and a program that was compiled for another does not
/// link with the C library.
pub const VERSION: u32 = 9;
/// Sessions that may record one program at the same time.
pub const SLOTS: usize = 8;
/// The byte whose lock orders collectors that attach and detach.
pub const ATTACH_LOCK: u64 = SLOTS as u64;
/// Tracepoints that one area takes at most.
pub const POINTS: usize = if cfg!(loom) { 1 } else { 32768 };
/// Bytes of text that one catalogue takes at most.
pub const CATALOGUE: usize = 8 << 20;
/// CPUs that an area may have rings for: half of what Linux can be built for (NR_CPUS 8192).
pub const MAX_CPUS: u32 = 4096;
/// Alignment of everything that is mapped or written to disk on its own.
pub const PAGE: usize = 4096;
/// The largest record, header included. Larger ones are lost with that cause.
pub const MAX_RECORD: usize = 32 << 10;
/// `stamp` and `tag`: what every record starts with.
pub const RECORD_HEADER: usize = 16;
/// What a record in the shared ring has besides, behind the tag: its CPU and its length, a `u32` each.
pub const SHARED_EXTRA: usize = 8;
/// What [`SHARED_EXTRA`] says where the CPU is not known.
pub const UNKNOWN_CPU: u32 = u32::MAX;
/// What [`RingHeader::cpu`] says of a CPU without a ring whose records are not wanted.
pub const LEFT_OUT: u32 = u32::MAX - 1;
/// Room for the packet header at the start of each sub-buffer; the first record lies behind it.
pub const PACKET_HEADER: usize = 80;
/// Offset in that room of three words that the writers leave behind when they are done with a sub-buffer: the stamp
/// of whoever left, the head as it was then, how many records were lost since the ring began.
pub const LEFT: usize = 32;

/// The start of the area.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`]; written last, so that who sees it sees the rest.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// CPUs that may exist on this machine: rings per slot but for the shared one.
    pub cpus: AtomicU32,
    /// Where the program mapped the area.
    pub address: AtomicU64,
    /// How many bytes of address space it reserved there: the largest size of the file.
    pub reserve: AtomicU64,
    /// See the module's picture, as the next three.
    pub points_offset: AtomicU64,
    /// Of the ring headers.
    pub rings_offset: AtomicU64,
    /// Of the text.
    pub catalogue_offset: AtomicU64,
    /// Its room in bytes.
    pub catalogue_capacity: AtomicU64,
    /// Size of the file when the program starts.
    pub control_size: AtomicU64,
    /// How many bytes of the catalogue are complete. Its release store publishes them.
    pub catalogue_length: AtomicU64,
    /// Tracepoints that could not be registered.
    pub refused: AtomicU32,
    /// The program's pid in its own namespace.
    pub pid: AtomicU32,
    /// Whether threads are registered for restartable sequences (1) or use the shared ring (0).
    pub restartable: AtomicU32,
    /// Whether a session may make writers wait for room (1) or not (0).
    pub allows_blocking: AtomicU32,
    /// Values that found no room among the [`VALUES`].
    pub refused_values: AtomicU32,
    /// Recorders whose answer is awaited. [`pending`](crate::pending) explains this and the next four.
    pub awaited: AtomicU32,
    /// The time at which the newest tracepoints became pending, in nanoseconds of `CLOCK_MONOTONIC`.
    pub pending_since: AtomicU64,
    /// The time at which they end to be pending also without an answer, likewise.
    pub pending_until: AtomicU64,
    /// The number behind the last tracepoint that may be pending.
    pub pending_end: AtomicU32,
    /// 1 if a tracepoint ended to be pending without all answers, and later hits were not counted.
    pub uncounted: AtomicU32,
    /// Enable words that there is room for.
    pub points_capacity: AtomicU32,
    /// Tracepoints that are registered.
    pub points: AtomicU32,
    /// Zero.
    pub unused: [AtomicU32; 30],
    /// One per session.
    pub slots: [Slot; SLOTS],
}

/// What a session says of itself to the program and to other collectors.
///
/// The collector that owns slot k holds an open-file-description lock on byte k of the file; a slot that is not
/// locked is free, whatever it says. Byte [`ATTACH_LOCK`] is locked while one attaches or detaches.
#[derive(Debug)]
#[repr(C)]
pub struct Slot {
    /// Counts sub-buffers that were left; a futex. Only where [`RingHeader::wake`] leads here.
    pub wake: AtomicU32,
    /// The collector's pid in its own namespace.
    pub collector: AtomicU32,
    /// Where the session's part of the file lies, and its size.
    pub region: [AtomicU64; 2],
    /// File offset of the conditions: the pool of code, then a [`ConditionEntry`] for each tracepoint. 0 before the first session.
    pub conditions: AtomicU64,
    /// Counts hits that asked for a snapshot.
    pub triggered: AtomicU32,
    /// The tracepoint of the newest of them.
    pub trigger_point: AtomicU32,
    /// The session's name, filled up with zeros.
    pub name: [AtomicU8; 88],
}

/// One ring's control words: a cache line for every record, one for the ends of sub-buffers, one of the reader's, one
/// of the shared ring's writers.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RingHeader {
    /// The writers' [`Head`](crate::position::Head).
    pub head: AtomicU64,
    /// Records lost; the low 16 bits go into every record.
    pub lost: AtomicU64,
    /// The bits of a position that are the same within one sub-buffer. All ones where the short way is not
    /// enough: another clock than the CPU's ticks, or no ring here.
    pub other_bits: AtomicU64,
    /// Where the sub-buffers lie, relative to this header.
    pub data: AtomicU64,
    /// Whose ring it is; [`UNKNOWN_CPU`] for the shared one, [`LEFT_OUT`] for none.
    pub cpu: AtomicU32,
    /// Zero.
    pub unused0: [AtomicU32; 7],

    /// Where the table of sub-buffers of a ring that overwrites lies, relative to this header: a [`TableEntry`] for each turn.
    pub table: AtomicU64,
    /// The same for the shared ring's commit words: a [`CommitHeader`] and its bitmap for each sub-buffer.
    pub commits: AtomicU64,
    /// How many sub-buffers take turns, a power of two; 0 where there is no ring.
    pub count: AtomicU32,
    /// The binary logarithm of a sub-buffer's size.
    pub bits: AtomicU32,
    /// Which clock stamps the records: a `ring::Clock`.
    pub clock: AtomicU32,
    /// How many bytes before this header the futex [`Slot::wake`] lies that is counted up and woken whenever a
    /// sub-buffer is left; 0 for none.
    pub wake: AtomicU32,
    /// Those of the lost records that were larger than a sub-buffer takes.
    pub too_large: AtomicU64,
    /// Whether writers overwrite the oldest sub-buffer when all are full (1), or lose the record (0).
    pub overwrite: AtomicU32,
    /// How many microseconds writers wait for room where the ring is full: 0 not at all, all ones for ever.
    pub block: AtomicU32,
    /// Zero.
    pub unused1: [AtomicU32; 4],

    /// Writers may enter turns that are less than `count` ahead of this, modulo 2^32: at most what the reader has given back, and less
    /// where the sub-buffers behind have no pages yet. It may go back. See `read::room`.
    pub consumed: AtomicU32,
    /// Zero.
    pub unused2: [AtomicU32; 15],

    /// Of the shared ring: writers that may still touch the session's region. Not 0 for long while the program runs.
    pub writers: AtomicU32,
    /// Zero.
    pub unused3: AtomicU32,
    /// Of the shared ring: no record that is reserved from now on has an earlier stamp.
    pub latest: AtomicU64,
    /// Zero.
    pub unused4: [AtomicU32; 12],
}

/// A tracepoint's word that names the sessions which record its events: [`Wants`](crate::want::Wants).
pub type EnableWord = AtomicU64;

/// A [`table::Entry`](crate::table::Entry).
pub type TableEntry = AtomicU64;

/// How far one sub-buffer of the shared ring is.
///
/// Marks follow, a [`MarkWord`] for each 256 bytes of the sub-buffer. So a writer that was killed on the way hides none
/// of the others' records.
#[derive(Debug)]
#[repr(C)]
pub struct CommitHeader {
    /// Bytes behind the packet header that are complete, padding included, of all turns so far: nobody resets it.
    pub committed: AtomicU64,
}

/// Where complete records begin: the turn in the upper half, in the lower a bit for each 8 bytes. Nobody clears it: whoever
/// marks the first record of another turn does.
pub type MarkWord = AtomicU64;

/// Bytes of a sub-buffer to a [`MarkWord`].
pub const MARKED: usize = 256;

/// A [`condition::Place`](crate::condition::Place).
pub type ConditionEntry = AtomicU32;

/// Bytes of code for a session's conditions. The table of conditions lies behind it.
pub const CONDITION_POOL: usize = if cfg!(loom) { 64 } else { 64 << 10 };

/// The pool and the entries of so many tracepoints, in whole pages.
pub const fn conditions_size(points: usize) -> usize {
    (CONDITION_POOL + points * size_of::<ConditionEntry>()).next_multiple_of(PAGE)
}

/// The one comparison that a condition comes to, often: made where the tracepoint is hit, before a record is made ready.
///
/// It holds of a value of which `value - low`, modulo 2^64, is at most `span`; a signed one is extended to 64 bits.
#[derive(Debug)]
#[repr(C)]
pub struct Gate {
    /// The least value that passes. A negative one is its two's complement.
    pub low: AtomicU64,
    /// The greatest less the least.
    pub span: AtomicU64,
    /// The field, counted from 0: an integer, `bool` or enumeration.
    pub field: AtomicU32,
    /// Zero.
    pub unused: AtomicU32,
}

/// As many gates a session has in one program.
pub const GATES: usize = if cfg!(loom) { 1 } else { 128 };

/// What one thread says of itself under one name: see [`value`](crate::value).
#[derive(Debug)]
#[repr(C)]
pub struct ValueCell {
    /// The thread that has it; 0: none had it yet.
    pub owner: AtomicU32,
    /// Odd while the words are being written.
    pub count: AtomicU32,
    /// The value.
    pub words: [AtomicU64; VALUE_WORDS],
}

/// As many a program's threads have together.
pub const VALUES: usize = if cfg!(loom) { 2 } else { 512 };
/// The longest name of a value, in bytes.
pub const VALUE_NAME: usize = if cfg!(loom) { 8 } else { 24 };
/// The longest text.
pub const VALUE_TEXT: usize = if cfg!(loom) { 8 } else { 80 };
/// Words of a cell.
pub const VALUE_WORDS: usize = 2 + (VALUE_NAME + VALUE_TEXT) / 8;

const _: () = assert!(cfg!(loom) || size_of::<ValueCell>() == 128);
const _: () = assert!(size_of::<Header>() == 256 + SLOTS * 128 && size_of::<Header>() <= PAGE);
const _: () = assert!(offset_of!(Header, catalogue_length) == 72 && offset_of!(Header, slots) == 256);
const _: () = assert!(offset_of!(Header, pending_since) == 104);
const _: () = assert!(size_of::<Slot>() == 128);
const _: () = assert!(size_of::<RingHeader>() == 256);
const _: () = assert!(offset_of!(RingHeader, table) == 64 && offset_of!(RingHeader, consumed) == 128);
const _: () = assert!(PACKET_HEADER.is_multiple_of(16) && LEFT + 24 <= PACKET_HEADER);

// An enable word has 24 bits for where a slot's ring headers lie, in units of one.
const _: () = assert!(SLOTS * (MAX_CPUS as usize + 1) < 1 << 24);

// And as many for how far behind it a gate lies.
const _: () = assert!(POINTS * size_of::<EnableWord>() + SLOTS * GATES * size_of::<Gate>() + PAGE < 1 << 24);
const _: () = assert!(size_of::<Gate>() == 24 && POINTS <= 1 << 16);

/// Where the ring headers lie.
pub const RINGS_OFFSET: usize = PAGE;

/// The numbers that decide where the parts of an area lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// CPUs that may exist.
    pub cpus: u32,
    /// The number of enable words, one for each tracepoint.
    pub points: u32,
}

impl Capacity {
    /// File offset of the enable words.
    pub const fn points_offset(self) -> usize {
        (RINGS_OFFSET + SLOTS * (self.cpus as usize + 1) * size_of::<RingHeader>()).next_multiple_of(PAGE)
    }

    /// File offset of the gates.
    pub const fn gates_offset(self) -> usize {
        (self.points_offset() + self.points as usize * size_of::<EnableWord>()).next_multiple_of(PAGE)
    }

    /// File offset of the threads' values.
    pub const fn values_offset(self) -> usize {
        (self.gates_offset() + SLOTS * GATES * size_of::<Gate>()).next_multiple_of(PAGE)
    }

    /// File offset of the catalogue.
    pub const fn catalogue_offset(self) -> usize {
        (self.values_offset() + VALUES * size_of::<ValueCell>()).next_multiple_of(PAGE)
    }
}

/// A ring's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The binary logarithm of a sub-buffer's size in bytes.
    pub bits: u32,
    /// How many sub-buffers take turns, a power of two.
    pub count: u32,
    /// Whether the ring overwrites its oldest sub-buffer; there is one more then, the reader's.
    pub overwrite: bool,
}

impl Geometry {
    /// The smallest sub-buffer: 16 KiB.
    pub const MIN_SIZE: u64 = if cfg!(loom) { 512 } else { 16 << 10 };
    /// The largest: 256 MiB.
    pub const MAX_SIZE: u64 = 256 << 20;
    /// The fewest sub-buffers: one to fill, one to take.
    pub const MIN_COUNT: u64 = 2;
    /// The most.
    pub const MAX_COUNT: u64 = 4096;
    /// The most bytes in one ring: a position is a 32-bit number.
    pub const MAX_RING: u64 = 2 << 30;

    /// Sub-buffers of `size` bytes, `count` of them; `None` if a size is no power of two or out of range.
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

    /// The same, for a ring that overwrites.
    pub const fn overwriting(self) -> Self {
        Self { overwrite: true, ..self }
    }

    /// The next smaller: half as large sub-buffers down to 64 KiB, then half as many down to four, then both to the least. `None` where
    /// nothing is smaller.
    pub const fn smaller(self) -> Option<Self> {
        let (size, count) = (1u64 << self.bits, self.count as u64);
        if size > 64 << 10 || count <= 4 && size > Self::MIN_SIZE {
            return Some(Self { bits: self.bits - 1, ..self });
        }
        if count > Self::MIN_COUNT { Some(Self { count: self.count / 2, ..self }) } else { None }
    }

    /// How many sub-buffers there are.
    pub const fn sub_buffers(self) -> usize {
        self.count as usize + self.overwrite as usize
    }

    /// Bytes in a sub-buffer, packet header included.
    pub const fn size(self) -> usize {
        1 << self.bits
    }

    /// The bits of a position that are the same within a sub-buffer: those above a place in it.
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
            assert!(parts.gates_offset() >= words);
            assert!(parts.values_offset() >= parts.gates_offset() + SLOTS * GATES * size_of::<Gate>());
            assert!(parts.catalogue_offset() >= parts.values_offset() + VALUES * size_of::<ValueCell>());
        }
    }
}
