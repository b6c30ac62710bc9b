//! The shared memory of a program, and the program's side of it: an area is made when the program starts, and made anew
//! in the child of a fork.
//!
//! | file | content |
//! |---|---|
//! | `enable` | pure: the enable word of a tracepoint |
//! | `condition` | pure: the offsets of the code that evaluates a session's condition |
//! | `pending` | hits before the recorders' answers |
//! | `annotations` | the annotations of threads |
//! | `slots` | a program's view of its slots at a hit, and of their rings |
//! | `control` | a collector's side: attaches to a slot, makes its rings, enables tracepoints |
//! | `map` | the system calls |

pub mod annotations;
pub mod condition;
pub mod control;
pub mod enable;
pub mod map;
pub mod pending;
pub mod slots;

use crate::layout::{Capacity, EnableWord, Header, MAGIC, PAGE, RINGS_OFFSET, VERSION};
use crate::number::{PointId, SlotIndex};
use map::Mapping;
use slots::{Rings, Slots};
use sordino_percpu::primitive::{Relaxed, Release, plain};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// The parameters of a new area.
#[derive(Clone, Copy, Debug)]
pub struct AreaRequest {
    /// CPUs that may exist on this machine.
    pub cpus: u32,
    /// Tracepoints that the area has room for, at most [`POINTS`](crate::layout::POINTS).
    pub points: u32,
    /// Bytes of text that the catalogue has room for, at most [`CATALOGUE`](crate::layout::CATALOGUE).
    pub catalogue: usize,
    /// Bytes of address space for all of the area; rings get those behind the control part.
    pub reserve: usize,
    /// The program's pid, in its own namespace.
    pub pid: u32,
    /// True if threads are registered for restartable sequences.
    pub restartable: bool,
    /// True if sessions may make threads wait for room.
    pub allows_blocking: bool,
}

/// A program's area, mapped as long as the program lives.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    start: NonNull<u8>,
    reserve: usize,
    capacity: Capacity,
    catalogue: usize,
}

/// Granularity in bytes at which the catalogue becomes accessible.
const STEP: usize = 4 * PAGE;

// SAFETY: points to shared memory that is never unmapped; all of it is accessed as atomics, but for the catalogue,
// whose writers the probe serialises.
unsafe impl Send for Area {}
// SAFETY: points to shared memory that is never unmapped; shared references access only atomics, and `append` demands
// one caller at a time.
unsafe impl Sync for Area {}

impl Area {
    /// Makes an area, and the file by which others find it.
    ///
    /// # Errors
    /// The kernel's error: no memory, no descriptor left, too little address space.
    pub fn create(request: &AreaRequest) -> io::Result<(Self, OwnedFd)> {
        // A program that has called `mlockall` for the future gets pages for all of a new mapping that the file has. So
        // the file is empty when it is mapped at first, and the parts that are used from the start are mapped again.
        let file = map::create_file(0)?;
        let control = control_size(request);
        let mapping = Mapping::new(file.as_fd(), 0, request.reserve.max(control))?;
        let area = Self::of(mapping.start(), request);
        let closed = area.closed(0, 0);
        closed.iter().try_for_each(|part| mapping.close(part.clone()))?;
        map::set_size(&file, control as u64)?;
        let [points, text] = closed;
        for part in [0..points.start, points.end..text.start] {
            mapping.map_again(file.as_fd(), part)?;
        }
        mapping.leak();
        area.begin(request);
        Ok((area, file))
    }

    /// Makes an area in a file that a recorder has [prepared](crate::area::control::Preparation).
    ///
    /// # Errors
    /// The kernel's error: no memory, too little address space. `InvalidInput` if it is no such file.
    pub fn create_in(file: &OwnedFd, request: &AreaRequest) -> io::Result<Self> {
        let control = control_size(request);
        vet_prepared(file, control as u64)?;
        // Inaccessible at first: a program that has called `mlockall` for the future would get pages for all of it.
        let length = request.reserve.max(control);
        let mapping = Mapping::closed(file.as_fd(), length)?;
        let area = Self::of(mapping.start(), request);
        let [points, text] = area.closed(0, 0);
        for part in [0..points.start, points.end..text.start, text.end..length] {
            mapping.open(part)?;
        }
        mapping.leak();
        area.begin(request);
        Ok(area)
    }

    /// Makes a new area in the child of a fork, in the place of the parent's, with the parent's tracepoints, none
    /// enabled.
    ///
    /// # Errors
    /// The kernel's error; the parent's area is then still mapped and must not be written to.
    ///
    /// # Safety
    /// No other thread of this process uses the area.
    pub unsafe fn renew(&self, pid: u32, restartable: bool) -> io::Result<OwnedFd> {
        let header = self.header();
        let allows_blocking = header.allows_blocking.load(Relaxed) != 0;
        let (Capacity { cpus, points }, catalogue, reserve) = (self.capacity, self.catalogue, self.reserve);
        let request = AreaRequest { cpus, points, catalogue, reserve, pid, restartable, allows_blocking };
        // The mapping is accessible everywhere and in one piece: it can only be moved like that.
        let file = map::create_file(control_size(&request) as u64)?;
        let mapping = Mapping::new(file.as_fd(), 0, reserve)?;
        let new = Self::of(mapping.start(), &request);
        new.begin(&request);
        let length = header.catalogue_length.load(Relaxed).min(catalogue as u64);
        // SAFETY: both catalogues have room for `length` bytes (at most `catalogue`), in different mappings.
        unsafe { new.catalogue().copy_from_nonoverlapping(self.catalogue(), length as usize) };
        new.header().catalogue_length.store(length, Relaxed);
        new.header().points.store(header.points.load(Relaxed), Relaxed);
        new.header().refused.store(header.refused.load(Relaxed), Relaxed);
        new.header().address.store(self.start.as_ptr() as u64, Relaxed);
        // SAFETY: the caller guarantees that nobody uses the old mapping, which is this process's own and as long.
        let mapping = unsafe { mapping.replace(self.start) }?;
        let closed = self.closed(self.header().points.load(Relaxed), length as usize);
        // If closing fails, a child that locks its memory gets more pages than it needs.
        let _ = closed.into_iter().try_for_each(|part| mapping.close(part));
        mapping.leak();
        Ok(file)
    }

    fn of(start: NonNull<u8>, request: &AreaRequest) -> Self {
        let reserve = request.reserve.max(control_size(request));
        let AreaRequest { cpus, points, catalogue, .. } = *request;
        Self { start, reserve, capacity: Capacity { cpus, points }, catalogue }
    }

    /// The parts, as offsets, that `points` tracepoints and `length` bytes of text do not need: of the enable words,
    /// and of the catalogue.
    fn closed(&self, points: u32, length: usize) -> [Range<usize>; 2] {
        let (words, text) = (self.capacity.points_offset(), self.capacity.catalogue_offset());
        let (last_word, last) =
            (self.capacity.inline_filters_offset(), (text + self.catalogue).next_multiple_of(PAGE));
        let words = words + (points as usize * size_of::<EnableWord>()).next_multiple_of(PAGE);
        let text = text + length.next_multiple_of(STEP);
        [words.min(last_word)..last_word, text.min(last)..last]
    }

    /// Fills in the header of a new, zeroed area.
    fn begin(&self, request: &AreaRequest) {
        let (header, capacity) = (self.header(), self.capacity);
        header.version.store(VERSION, Relaxed);
        header.cpus.store(capacity.cpus, Relaxed);
        header.points_capacity.store(capacity.points, Relaxed);
        header.address.store(self.start.as_ptr() as u64, Relaxed);
        header.reserve.store(self.reserve as u64, Relaxed);
        header.points_offset.store(capacity.points_offset() as u64, Relaxed);
        header.rings_offset.store(RINGS_OFFSET as u64, Relaxed);
        header.catalogue_offset.store(capacity.catalogue_offset() as u64, Relaxed);
        header.catalogue_capacity.store(self.catalogue as u64, Relaxed);
        header.control_size.store(control_size(request) as u64, Relaxed);
        header.pid.store(request.pid, Relaxed);
        header.restartable.store(u32::from(request.restartable), Relaxed);
        header.allows_blocking.store(u32::from(request.allows_blocking), Relaxed);
        // ORDER(area:A) pairs with control:B: if the load sees the magic number, then it sees the header.
        header.magic.store(MAGIC, Release);
    }

    /// The area's first page.
    pub fn header(&self) -> &Header {
        // SAFETY: the area starts with its header, is mapped and aligned to a page; all fields are atomics.
        unsafe { self.start.cast().as_ref() }
    }

    /// The area's slots, as hits access them.
    pub fn slots(&self) -> Slots {
        let first = self.start.as_ptr().wrapping_add(RINGS_OFFSET).cast();
        // SAFETY: `first` is slot 0's first ring in this area, which is never unmapped.
        unsafe { Slots::of(first) }
    }

    /// The rings of slot `slot`.
    pub fn rings(&self, slot: SlotIndex) -> Rings {
        self.slots().rings(slot)
    }

    /// The [enable word](crate::area::enable::EnableMask) of tracepoint `id`.
    ///
    /// # Panics
    /// Panics if tracepoint `id` is beyond the capacity.
    pub fn point(&self, id: PointId) -> &'static EnableWord {
        assert!(u32::from(id.0) < self.capacity.points);
        let first = self.start.as_ptr().wrapping_add(self.capacity.points_offset()).cast::<EnableWord>();
        // SAFETY: `id` is below the capacity (asserted above), and the words are mapped as long as the program lives;
        // an atomic.
        unsafe { &*first.wrapping_add(id.index()) }
    }

    /// Reads the words of a new tracepoint, so that no hit is the first to touch their pages: its enable word, and its
    /// entries in the tables of sessions that began before.
    ///
    /// # Panics
    /// Panics if tracepoint `id` is not registered.
    pub fn touch(&self, id: PointId) {
        std::hint::black_box(self.point(id).load(Relaxed));
        for (number, slot) in SlotIndex::all().zip(&self.header().slots) {
            if slot.region[1].load(Relaxed) != 0 {
                std::hint::black_box(self.slots().conditions(number).map(|table| table.code_range(id)));
            }
        }
    }

    /// Bytes of room that the catalogue still has.
    pub fn room(&self) -> usize {
        self.catalogue.saturating_sub(self.header().catalogue_length.load(Relaxed) as usize)
    }

    fn catalogue(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(self.capacity.catalogue_offset())
    }

    /// Appends `text` to the catalogue, which then describes `points` tracepoints, and publishes it. Returns false if
    /// there is no room; nothing is published then.
    ///
    /// # Safety
    /// There is one caller at a time, and `points` is not less than before.
    pub unsafe fn append(&self, text: &[u8], points: u32) -> bool {
        let header = self.header();
        let (before, length) = (header.points.load(Relaxed), header.catalogue_length.load(Relaxed) as usize);
        let end = length.saturating_add(text.len());
        if end > self.catalogue || points > self.capacity.points {
            return false;
        }
        for (before, after) in self.closed(before, length).into_iter().zip(self.closed(points, end)) {
            // SAFETY: the part lies in this area's mapping, which is never unmapped.
            if unsafe { map::open(self.start, before.start..after.start) }.is_err() {
                return false;
            }
        }
        // SAFETY: `end <= self.catalogue` (checked above); nobody reads behind the published length, and the caller is
        // the only writer.
        unsafe { plain::copy_in(self.catalogue().wrapping_add(length), text.as_ptr(), text.len()) };
        header.points.store(points, Relaxed);
        // ORDER(area:B) pairs with control:C: if the load sees the length, then it sees the text.
        header.catalogue_length.store(end as u64, Release);
        true
    }
}

/// Returns no error if the file is one in memory, and mapped pages of this file's first `size` bytes stay accessible,
/// whatever its maker does.
fn vet_prepared(file: &OwnedFd, size: u64) -> io::Result<()> {
    let is_safe = map::is_in_memory(file.as_fd())? && map::is_sealed(file) && map::size(file)? >= size;
    if is_safe { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn control_size(request: &AreaRequest) -> usize {
    let capacity = Capacity { cpus: request.cpus, points: request.points };
    (capacity.catalogue_offset() + request.catalogue).next_multiple_of(PAGE)
}
