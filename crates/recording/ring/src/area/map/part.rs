//! Parts of a file, of a program's memory and of a mapping: reading without a mapping, closing, opening.

use super::Mapping;
#[cfg(not(loom))]
use super::check;
use std::io;
use std::ops::Range;
#[cfg(not(loom))]
use std::os::fd::AsRawFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The offset of its first byte: in the file, or in the session's region of it.
    pub offset: u64,
    /// The number of its bytes.
    pub length: u64,
}

impl FilePart {
    /// The same part of a region that begins at `start`, as a part of the file.
    pub(crate) const fn in_file(self, start: u64) -> Self {
        Self { offset: start + self.offset, length: self.length }
    }

    /// The memory of this part in a program that has the file mapped at `address`.
    pub(crate) const fn mapped_at(self, address: u64) -> MemoryPart {
        MemoryPart { address: address + self.offset, length: self.length }
    }
}

/// A part of a program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// The address of its first byte in the program.
    pub address: u64,
    /// The number of its bytes.
    pub length: u64,
}

/// Reads bytes of the file from `offset` on. Returns their number, which is less than `to.len()` if the file ends
/// before.
///
/// # Errors
/// The error of pread(2).
#[cfg(not(loom))]
pub(crate) fn read_at(file: &OwnedFd, offset: u64, to: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < to.len() {
        let (rest, at) = (&mut to[done..], offset as i64 + done as i64);
        // SAFETY: pread on an owned descriptor writes at most `rest.len()` bytes into `rest`.
        let read = unsafe { libc::pread(file.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len(), at) };
        match check(read) {
            Ok(0) => break,
            Ok(read) => done += read as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(loom)]
pub(crate) fn read_at(_file: &OwnedFd, offset: u64, to: &mut [u8]) -> io::Result<usize> {
    let from = sordino_percpu::model::memory(offset as usize, to.len());
    // SAFETY: the model's memory is as long, and disjoint from `to`.
    unsafe { sordino_percpu::primitive::plain::copy_out(to.as_mut_ptr(), from.as_ptr(), to.len()) };
    Ok(to.len())
}

/// Makes a [closed](Mapping::close) part of a mapping accessible.
///
/// # Errors
/// The error of mprotect(2).
///
/// # Safety
/// The bytes belong to a mapping of this process that starts there and stays.
pub(crate) unsafe fn open(start: NonNull<u8>, part: Range<usize>) -> io::Result<()> {
    protect(start, part, libc::PROT_READ | libc::PROT_WRITE)
}

#[cfg(not(loom))]
fn protect(start: NonNull<u8>, part: Range<usize>, protection: i32) -> io::Result<()> {
    if part.is_empty() {
        return Ok(());
    }
    let first = start.as_ptr().wrapping_add(part.start).cast();
    // SAFETY: whole pages of a mapping of the caller's; nothing uses pages that lose access.
    check(unsafe { libc::mprotect(first, part.len(), protection) } as isize).map(drop)
}

#[cfg(loom)]
fn protect(_start: NonNull<u8>, _part: Range<usize>, _protection: i32) -> io::Result<()> {
    Ok(())
}

impl Mapping {
    /// Makes a part inaccessible, which nobody uses until it is opened again. `mlockall` makes no pages there.
    ///
    /// # Errors
    /// The error of mprotect(2).
    pub fn close(&self, part: Range<usize>) -> io::Result<()> {
        protect(self.start, part, libc::PROT_NONE)
    }

    /// Makes a closed part accessible.
    ///
    /// # Errors
    /// The error of mprotect(2).
    pub fn open(&self, part: Range<usize>) -> io::Result<()> {
        protect(self.start, part, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Maps a part of the file's start again at the same address. Nobody may use it yet.
    ///
    /// # Errors
    /// The error of mmap(2); the part may be unmapped then.
    #[cfg(not(loom))]
    pub fn map_again(&self, file: BorrowedFd<'_>, part: Range<usize>) -> io::Result<()> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (at, offset) = (self.at(part.start).cast(), part.start as i64);
        // SAFETY: replaces a part of this mapping by the same bytes of the same file.
        let start = unsafe { libc::mmap(at, part.len(), protection, flags, file.as_raw_fd(), offset) };
        check(start as isize).map(drop)
    }

    /// Does nothing: the memory of a model is always mapped.
    #[cfg(loom)]
    pub fn map_again(&self, _file: BorrowedFd<'_>, _part: Range<usize>) -> io::Result<()> {
        Ok(())
    }
}
