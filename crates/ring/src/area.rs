//! The program's side of an area: made when the program starts, made anew in the child of a fork.

use crate::layout::{
    self, EnableWord, Header, MAGIC, PAGE, POINTS, POINTS_OFFSET, RINGS_OFFSET, SLOTS, VERSION,
};
use crate::map::{self, Mapping};
use crate::slots::Slots;
use crate::write::Rings;
use sordino_percpu::primitive::{Relaxed, Release};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

/// What a new area is made of.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// CPUs that may exist on this machine.
    pub cpus: u32,
    /// Bytes of catalogue.
    pub catalogue: usize,
    /// Bytes of address space for all of the area: what is left of them behind the control part is for rings.
    pub reserve: usize,
    /// The program's pid.
    pub pid: u32,
    /// Whether threads are registered for restartable sequences.
    pub restartable: bool,
    /// Whether sessions may make threads wait for room.
    pub allows_blocking: bool,
}

/// A program's area, mapped as long as the program lives.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    start: NonNull<u8>,
    reserve: usize,
    cpus: u32,
    catalogue: usize,
}

// SAFETY: points to shared memory that is never unmapped; all of it is accessed as atomics, but for the catalogue, whose
// writers the probe serialises.
unsafe impl Send for Area {}
// SAFETY: likewise.
unsafe impl Sync for Area {}

impl Area {
    /// Makes an area, and the file that others find it by.
    ///
    /// # Errors
    /// What the kernel says: no memory, no descriptor left, too little address space.
    pub fn create(request: &Request) -> io::Result<(Self, OwnedFd)> {
        let (file, mapping) = Self::make(request)?;
        let area = Self::of(mapping.leak(), request);
        area.begin(request);
        Ok((area, file))
    }

    /// In the child of a fork: a new area in the place of the parent's, with the parent's tracepoints, none enabled.
    ///
    /// # Errors
    /// What the kernel says; the parent's area is then still mapped and must not be written to.
    ///
    /// # Safety
    /// No other thread of this process uses the area.
    pub unsafe fn renew(&self, pid: u32, restartable: bool) -> io::Result<OwnedFd> {
        let allows_blocking = self.header().allows_blocking.load(Relaxed) != 0;
        let (cpus, catalogue, reserve) = (self.cpus, self.catalogue, self.reserve);
        let request = Request { cpus, catalogue, reserve, pid, restartable, allows_blocking };
        let (file, mapping) = Self::make(&request)?;
        let new = Self::of(mapping.start(), &request);
        new.begin(&request);
        let length = self.header().catalogue_length.load(Relaxed).min(self.catalogue as u64);
        // SAFETY: both catalogues have that many bytes, in different mappings.
        unsafe { new.catalogue().copy_from_nonoverlapping(self.catalogue(), length as usize) };
        new.header().catalogue_length.store(length, Relaxed);
        new.header().refused.store(self.header().refused.load(Relaxed), Relaxed);
        new.header().address.store(self.start.as_ptr() as u64, Relaxed);
        // SAFETY: the caller says that nobody uses the old mapping, which is ours.
        unsafe { mapping.replace(self.start) }?;
        Ok(file)
    }

    fn make(request: &Request) -> io::Result<(OwnedFd, Mapping)> {
        let control = control_size(request);
        let file = map::create_file(control as u64)?;
        let mapping = Mapping::new(file.as_fd(), 0, request.reserve.max(control))?;
        Ok((file, mapping))
    }

    fn of(start: NonNull<u8>, request: &Request) -> Self {
        let reserve = request.reserve.max(control_size(request));
        Self { start, reserve, cpus: request.cpus, catalogue: request.catalogue }
    }

    /// Fills in the header of a new, zeroed area.
    fn begin(&self, request: &Request) {
        let catalogue = layout::catalogue_offset(self.cpus);
        let header = self.header();
        header.version.store(VERSION, Relaxed);
        header.cpus.store(self.cpus, Relaxed);
        header.address.store(self.start.as_ptr() as u64, Relaxed);
        header.reserve.store(self.reserve as u64, Relaxed);
        header.points_offset.store(POINTS_OFFSET as u64, Relaxed);
        header.rings_offset.store(RINGS_OFFSET as u64, Relaxed);
        header.catalogue_offset.store(catalogue as u64, Relaxed);
        header.catalogue_capacity.store(self.catalogue as u64, Relaxed);
        header.control_size.store(control_size(request) as u64, Relaxed);
        header.pid.store(request.pid, Relaxed);
        header.restartable.store(u32::from(request.restartable), Relaxed);
        header.allows_blocking.store(u32::from(request.allows_blocking), Relaxed);
        // ORDER(area:A) pairs with control:B: who sees the magic number sees the header.
        header.magic.store(MAGIC, Release);
    }

    /// The area's first page.
    pub fn header(&self) -> &Header {
        // SAFETY: mapped, aligned to a page, all atomics.
        unsafe { self.start.cast().as_ref() }
    }

    /// Its slots, as they are seen at a hit.
    pub fn slots(&self) -> Slots {
        let first = self.start.as_ptr().wrapping_add(RINGS_OFFSET).cast();
        // SAFETY: the area's own, which is never unmapped.
        unsafe { Slots::of(first) }
    }

    /// The rings of slot `slot`.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn rings(&self, slot: usize) -> Rings {
        assert!(slot < SLOTS);
        self.slots().rings(slot as u32)
    }

    /// The [word](crate::want::Wants) that says which sessions want tracepoint `id`.
    ///
    /// # Panics
    /// If there is no such tracepoint.
    pub fn point(&self, id: u16) -> &'static EnableWord {
        assert!(usize::from(id) < POINTS);
        let first = self.start.as_ptr().wrapping_add(POINTS_OFFSET).cast::<EnableWord>();
        // SAFETY: mapped as long as the program lives; an atomic.
        unsafe { &*first.wrapping_add(usize::from(id)) }
    }

    fn catalogue(&self) -> *mut u8 {
        self.start.as_ptr().wrapping_add(layout::catalogue_offset(self.cpus))
    }

    /// Appends to the catalogue what `write` writes into the room that is left, and publishes it. `write` answers
    /// how many bytes that is, or `None` if there is too little room: then nothing is published.
    ///
    /// # Safety
    /// One caller at a time.
    pub unsafe fn append(&self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let length = self.header().catalogue_length.load(Relaxed) as usize;
        let left = self.catalogue.saturating_sub(length);
        let end = self.catalogue().wrapping_add(length);
        // SAFETY: nobody reads behind the published length, and the caller is the only one who writes there.
        let room = unsafe { std::slice::from_raw_parts_mut(end, left) };
        let Some(written) = write(room) else { return false };
        // ORDER(area:B) pairs with control:C: who sees the length sees the text.
        self.header().catalogue_length.store((length + written.min(left)) as u64, Release);
        true
    }
}

fn control_size(request: &Request) -> usize {
    (layout::catalogue_offset(request.cpus) + request.catalogue).next_multiple_of(PAGE)
}
