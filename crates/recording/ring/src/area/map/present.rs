//! Pages that are made present in another process, so that it does not fault when it touches them.

use super::{MemoryPart, check};
use crate::layout::PAGE;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Alignment in bytes of the ranges in which the kernel maps all pages that are up to date when it maps one
/// (`fault_around_bytes`, by default).
const AROUND: usize = 64 << 10;
/// Pages that are read at a time from the page table.
const BATCH: usize = 512;

/// Makes the pages of a part of the memory of process `pid` present there, by reading bytes of them in its name. With
/// the first page of 64 KiB, the kernel maps neighbours that are [up to date](super::fill). So this reads one byte of
/// each 64 KiB, and then one of each page that is not present in the process's page table. Returns the number of pages
/// that could not be read. Allocates nothing: it may run in a process that shares this one's memory.
///
/// # Errors
/// `EPERM` without the right to trace that process; `ESRCH` when it is gone.
pub fn populate(pid: i32, MemoryPart { address, length }: MemoryPart) -> io::Result<u64> {
    const BYTES: u64 = (BATCH * PAGE) as u64;
    let table = PageTable::of(pid).ok();
    let end = address.checked_add(length).ok_or(io::ErrorKind::InvalidInput)?;
    let (mut missing, mut from) = (0, address - address % PAGE as u64);
    while from < end {
        let to = from + (BYTES - from % BYTES).min(end - from);
        missing += populate_batch(pid, table.as_ref(), from..to)?;
        from = to;
    }
    Ok(missing)
}

fn populate_batch(pid: i32, table: Option<&PageTable>, addresses: Range<u64>) -> io::Result<u64> {
    let each = |start: u64, step| (start..addresses.end).step_by(step);
    let all = each(addresses.start, PAGE);
    let Some(table) = table else { return read_each(pid, all) };
    let aligned = (addresses.start + 1).checked_next_multiple_of(AROUND as u64).unwrap_or(u64::MAX);
    read_each(pid, std::iter::once(addresses.start).chain(each(aligned, AROUND)))?;
    let pages = (addresses.end - addresses.start).div_ceil(PAGE as u64);
    match table.present(addresses.start, pages as usize) {
        Ok(present) => read_each(pid, all.zip(present).filter(|(_, present)| !present).map(|(page, _)| page)),
        Err(_) => read_each(pid, all),
    }
}

/// Reads the byte at each address in the name of process `pid`. Returns the number of bytes that could not be read.
fn read_each(pid: i32, addresses: impl Iterator<Item = u64>) -> io::Result<u64> {
    const PARTS: usize = 128;
    const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    let (mut addresses, mut missing) = (addresses.fuse(), 0);
    loop {
        let (mut sink, mut remote, mut count) = ([0u8; PARTS], [EMPTY; PARTS], 0);
        // `addresses` comes last in the zip: no address is taken from it when `remote` is full.
        for (part, address) in remote.iter_mut().zip(&mut addresses) {
            part.iov_base = address as *mut _;
            count += 1;
        }
        let mut rest = &remote[..count];
        while !rest.is_empty() {
            let local = libc::iovec { iov_base: sink.as_mut_ptr().cast(), iov_len: rest.len() };
            // SAFETY: the local vector is `sink`, which has that many bytes; the remote addresses are checked by the
            // kernel.
            let read = unsafe { libc::process_vm_readv(pid, &local, 1, rest.as_ptr(), rest.len() as u64, 0) };
            let done = match check(read) {
                Ok(read) => read as usize,
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
                Err(error) => return Err(error),
            };
            // A page in the middle that can't be read ends the call early: the next call begins behind it.
            missing += u64::from(done < rest.len());
            rest = rest.get(done + 1..).unwrap_or_default();
        }
        if count < PARTS {
            return Ok(missing);
        }
    }
}

/// The page table of a process, as `/proc/PID/pagemap` shows it.
struct PageTable(OwnedFd);

impl PageTable {
    fn of(pid: i32) -> io::Result<Self> {
        let mut path = [0u8; 32];
        write!(&mut path[..31], "/proc/{pid}/pagemap")?;
        // SAFETY: the path ends with a zero byte and outlives the call.
        let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        check(file as isize)?;
        // SAFETY: the call has just returned this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(file) }))
    }

    /// Returns true for each of `count` pages from `address` on, at most [`BATCH`], that the page table has.
    fn present(&self, address: u64, count: usize) -> io::Result<impl Iterator<Item = bool>> {
        /// The bit of an entry whose page is present: Documentation/admin-guide/mm/pagemap.rst of the kernel.
        const PRESENT: u64 = 1 << 63;
        let mut entries = [0u64; BATCH];
        let length = size_of_val(entries.get(..count).ok_or(io::ErrorKind::InvalidInput)?);
        let at = address / PAGE as u64 * size_of::<u64>() as u64;
        // SAFETY: pread on an owned descriptor; `length` bytes of the entries are writable.
        let read = unsafe { libc::pread(self.0.as_raw_fd(), entries.as_mut_ptr().cast(), length, at as i64) };
        let read = check(read)? as usize / size_of::<u64>();
        // A page without an entry is not known to be present.
        Ok(entries.into_iter().enumerate().map(move |(index, entry)| index < read && entry & PRESENT != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fresh pages of this process, none of which is present, with a page behind them that is not mapped.
    struct Fresh(u64, usize);

    impl Fresh {
        fn new(pages: usize) -> Self {
            let (access, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: makes a new mapping at an address of the kernel's choice, which replaces none.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), (pages + 1) * PAGE, access, flags, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            // SAFETY: within that mapping, which nobody else uses; huge pages would make neighbours present.
            unsafe { libc::madvise(start, pages * PAGE, libc::MADV_NOHUGEPAGE) };
            // SAFETY: the last page of that mapping, which nobody uses.
            unsafe { libc::munmap(start.wrapping_byte_add(pages * PAGE), PAGE) };
            Self(start.addr() as u64, pages)
        }

        fn present(&self) -> usize {
            let table = PageTable::of(here()).unwrap();
            let batches = (0..self.1).step_by(BATCH);
            let of = |first: usize| {
                let (address, count) = (self.0 + (first * PAGE) as u64, BATCH.min(self.1 - first));
                table.present(address, count).unwrap().take(count).filter(|present| *present).count()
            };
            batches.map(of).sum()
        }
    }

    impl Drop for Fresh {
        fn drop(&mut self) {
            // SAFETY: unmaps this value's own mapping, which nobody uses any more.
            unsafe { libc::munmap(self.0 as *mut _, self.1 * PAGE) };
        }
    }

    fn here() -> i32 {
        std::process::id() as i32
    }

    fn part(address: u64, length: u64) -> MemoryPart {
        MemoryPart { address, length }
    }

    /// Pages of no file have no neighbours that come with them: all but one of each 64 KiB are found in the page table.
    #[test]
    fn each_page_is_present_that_a_part_touches_and_no_other() {
        for pages in [1, 15, 16, 17, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH + 5] {
            let fresh = Fresh::new(pages);
            assert_eq!(fresh.present(), 0);
            assert_eq!(populate(here(), part(fresh.0, (pages * PAGE) as u64)).unwrap(), 0);
            assert_eq!(fresh.present(), pages);
        }
        let fresh = Fresh::new(40);
        assert_eq!(populate(here(), part(fresh.0 + 3 * PAGE as u64 + 5, 20 * PAGE as u64)).unwrap(), 0);
        assert_eq!(fresh.present(), 21);
    }

    #[test]
    fn pages_that_are_not_there_are_counted_once() {
        let fresh = Fresh::new(40);
        assert_eq!(populate(here(), part(fresh.0 + 30 * PAGE as u64, 11 * PAGE as u64)).unwrap(), 1);
        assert_eq!(fresh.present(), 10);
        assert_eq!(populate_batch(here(), None, fresh.0..fresh.0 + 41 * PAGE as u64).unwrap(), 1);
        assert_eq!(fresh.present(), 40);
    }

    /// Addresses come from a program, so any number is possible.
    #[test]
    fn addresses_at_the_end_of_the_address_space_come_to_an_end() {
        let end = u64::MAX - PAGE as u64 + 1;
        assert_eq!(populate(here(), part(end - 30 * PAGE as u64, 30 * PAGE as u64)).unwrap(), 30);
        assert!(populate(here(), part(end, 2 * PAGE as u64)).is_err());
    }
}
