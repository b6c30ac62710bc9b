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

/// Makes the pages of these parts of the memory of process `pid` present there, by reading bytes of them in its name.
/// With the first page of 64 KiB, the kernel maps neighbours that are [up to date](super::fill). So this reads one byte
/// of each 64 KiB, and then one of each page that is not present in the process's page table. Returns the number of
/// pages that could not be read. Allocates nothing: it may run in a process that shares this one's memory.
///
/// # Errors
/// `EPERM` without the right to trace that process; `ESRCH` when it is gone.
pub fn populate(pid: i32, parts: impl Iterator<Item = MemoryPart> + Clone) -> io::Result<u64> {
    populate_by(pid, PageTable::of(pid).ok().as_ref(), parts)
}

fn populate_by(
    pid: i32,
    table: Option<&PageTable>,
    parts: impl Iterator<Item = MemoryPart> + Clone,
) -> io::Result<u64> {
    if parts.clone().any(|part| part.address.checked_add(part.length).is_none()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let batches = parts.flat_map(|part| batches(part.address, part.address + part.length));
    let Some(table) = table else { return read_each(pid, batches.flat_map(pages)) };
    let around = |batch: Range<u64>| {
        let aligned = (batch.start + 1).checked_next_multiple_of(AROUND as u64).unwrap_or(u64::MAX);
        std::iter::once(batch.start).chain((aligned..batch.end).step_by(AROUND))
    };
    read_each(pid, batches.clone().flat_map(around))?;
    let missing = |batch: Range<u64>| {
        let count = (batch.end - batch.start).div_ceil(PAGE as u64);
        let Ok(present) = table.present(batch.start, count as usize) else {
            return read_each(pid, pages(batch));
        };
        read_each(pid, pages(batch).zip(present).filter(|(_, present)| !present).map(|(page, _)| page))
    };
    batches.map(missing).sum()
}

/// Returns the parts of a range of addresses whose pages are looked up in the page table at once.
fn batches(start: u64, end: u64) -> impl Iterator<Item = Range<u64>> + Clone {
    const BYTES: u64 = (BATCH * PAGE) as u64;
    let next = move |from: u64| from + (BYTES - from % BYTES).min(end.saturating_sub(from));
    let begin = start - start % PAGE as u64;
    std::iter::successors(Some(begin), move |&from| Some(next(from)))
        .take_while(move |&from| from < end)
        .map(move |from| from..next(from))
}

/// Returns the addresses of the pages of a batch.
fn pages(batch: Range<u64>) -> impl Iterator<Item = u64> {
    batch.step_by(PAGE)
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
    use std::iter::once;

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
            assert_eq!(populate(here(), once(part(fresh.0, (pages * PAGE) as u64))).unwrap(), 0);
            assert_eq!(fresh.present(), pages);
        }
        let fresh = Fresh::new(40);
        assert_eq!(populate(here(), once(part(fresh.0 + 3 * PAGE as u64 + 5, 20 * PAGE as u64))).unwrap(), 0);
        assert_eq!(fresh.present(), 21);
    }

    #[test]
    fn pages_that_are_not_there_are_counted_once() {
        let fresh = Fresh::new(40);
        assert_eq!(populate(here(), once(part(fresh.0 + 30 * PAGE as u64, 11 * PAGE as u64))).unwrap(), 1);
        assert_eq!(fresh.present(), 10);
        assert_eq!(populate_by(here(), None, once(part(fresh.0, 41 * PAGE as u64))).unwrap(), 1);
        assert_eq!(fresh.present(), 40);
    }

    #[test]
    fn parts_are_made_present_together() {
        let [first, second] = [Fresh::new(20), Fresh::new(700)];
        let parts =
            [part(first.0 + 2 * PAGE as u64, 3 * PAGE as u64), part(0, 0), part(second.0, 700 * PAGE as u64)];
        assert_eq!(populate(here(), parts.into_iter()).unwrap(), 0);
        assert_eq!([first.present(), second.present()], [3, 700]);
    }

    /// Addresses come from a program, so any number is possible.
    #[test]
    fn addresses_at_the_end_of_the_address_space_come_to_an_end() {
        let end = u64::MAX - PAGE as u64 + 1;
        assert_eq!(populate(here(), once(part(end - 30 * PAGE as u64, 30 * PAGE as u64))).unwrap(), 30);
        assert!(populate(here(), once(part(end, 2 * PAGE as u64))).is_err());
    }
}
