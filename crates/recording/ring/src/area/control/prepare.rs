//! Areas that a recorder prepares before a program requests one, with the memory of its first session's rings.
//!
//! A program that writes at full speed from the start uses a ring's memory faster than a recorder can supply it: to
//! allocate memory takes longer than to write to it. The file is one that the program could have made: it becomes the
//! program's area, and is never used again.

use super::plan::{AttachOptions, Placement};
use crate::area::map;
use crate::layout::{Capacity, PAGE};
use std::io;
use std::os::fd::OwnedFd;

/// The file of an area without a program.
#[derive(Clone, Copy, Debug)]
pub struct Preparation<'a> {
    /// The options with which the session will attach: geometry, CPUs, portion and first sequence number count.
    pub options: &'a AttachOptions<'a>,
    /// The CPUs and the tracepoints for which the area has room.
    pub capacity: Capacity,
    /// The bytes of its catalogue.
    pub catalogue: u64,
}

impl Preparation<'_> {
    /// Makes the file. The program that gets it is attached to with [`AttachOptions::prepared`].
    ///
    /// Not for the recording path: takes some 0.5 ms for each MiB.
    ///
    /// # Errors
    /// `ENOSPC` or `ENOMEM` when there is no memory; `EFBIG` beyond the limit of a file's size; other errors of the
    /// kernel.
    pub fn make(&self) -> io::Result<OwnedFd> {
        let file = map::create_file(self.size())?;
        for part in self.placement().ring_parts(self.options) {
            map::fill(&file, part.in_file(self.control()))?;
        }
        Ok(file)
    }

    /// Bytes of the file, and so the least address space that a program reserves for it.
    pub fn size(&self) -> u64 {
        self.control() + self.placement().length
    }

    /// Bytes of its memory.
    pub fn memory(&self) -> u64 {
        self.placement().ring_parts(self.options).map(|part| part.length).sum()
    }

    fn control(&self) -> u64 {
        (self.capacity.catalogue_offset() as u64 + self.catalogue).next_multiple_of(PAGE as u64)
    }

    fn placement(&self) -> Placement {
        Placement::of(self.options, self.capacity, 0)
    }
}
