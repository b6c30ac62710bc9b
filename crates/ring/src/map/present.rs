//! Pages of another process that are to be present there, so that it does not fault when it touches them.

use super::check;
use crate::layout::PAGE;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes at multiples of which the kernel maps all pages that are up to date when it maps one (`fault_around_bytes`, by default).
const AROUND: usize = 64 << 10;
/// Pages that are looked at in one go.
const BATCH: usize = 512;

/// Makes the pages of `length` bytes from `address` in process `pid` present there: reads bytes of them in its name. The kernel maps
/// neighbours that are [up to date](super::fill) with the first one of 64 KiB; so one byte of each 64 KiB is read, and then one of each page that
/// the process's page table does not show as present. Returns the number of pages that could not be read. Allocates nothing: it may run in
/// a process that shares this one's memory.
///
/// # Errors
/// `EPERM` without the right to trace that process; `ESRCH` when it is gone.
pub fn populate(pid: i32, address: u64, length: u64) -> io::Result<u64> {
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

/// Reads the byte at each address in the name of process `pid`. Returns the number of those that could not be read.
fn read_each(pid: i32, addresses: impl Iterator<Item = u64>) -> io::Result<u64> {
    const PARTS: usize = 128;
    const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
    let (mut addresses, mut missing) = (addresses.fuse(), 0);
    loop {
        let (mut sink, mut remote, mut count) = ([0u8; PARTS], [EMPTY; PARTS], 0);
        // The addresses last: no one is taken from them that has no place.
        for (part, address) in remote.iter_mut().zip(&mut addresses) {
            part.iov_base = address as *mut _;
            count += 1;
        }
        let mut rest = &remote[..count];
        while !rest.is_empty() {
            let local = libc::iovec { iov_base: sink.as_mut_ptr().cast(), iov_len: rest.len() };
            // SAFETY: the local vector is `sink`; the remote addresses are the other process's affair.
            let read = unsafe { libc::process_vm_readv(pid, &local, 1, rest.as_ptr(), rest.len() as u64, 0) };
            let done = match check(read) {
                Ok(read) => read as usize,
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
                Err(error) => return Err(error),
            };
            // A page in the middle that can't be read ends the call early: go on behind it.
            missing += u64::from(done < rest.len());
            rest = rest.get(done + 1..).unwrap_or_default();
        }
        if count < PARTS {
            return Ok(missing);
        }
    }
}

/// A process's `/proc/PID/pagemap`.
struct PageTable(OwnedFd);

impl PageTable {
    fn of(pid: i32) -> io::Result<Self> {
        let mut path = [0u8; 32];
        write!(&mut path[..31], "/proc/{pid}/pagemap")?;
        // SAFETY: the path ends with a zero byte and outlives the call.
        let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
        check(file as isize)?;
        // SAFETY: the call has just returned it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(file) }))
    }

    /// For each of `count` pages from `address` on, at most [`BATCH`], true if the process has it in its page table.
    fn present(&self, address: u64, count: usize) -> io::Result<impl Iterator<Item = bool>> {
        /// Set in the entry of a page that is present: Documentation/admin-guide/mm/pagemap.rst of the kernel.
        const PRESENT: u64 = 1 << 63;
        let mut entries = [0u64; BATCH];
        let length = size_of_val(entries.get(..count).ok_or(io::ErrorKind::InvalidInput)?);
        let at = address / PAGE as u64 * size_of::<u64>() as u64;
        // SAFETY: on an owned descriptor; `length` bytes of the entries are writable.
        let read = unsafe { libc::pread(self.0.as_raw_fd(), entries.as_mut_ptr().cast(), length, at as i64) };
        let read = check(read)? as usize / size_of::<u64>();
        // What is not told of is not known to be present.
        Ok(entries.into_iter().enumerate().map(move |(index, entry)| index < read && entry & PRESENT != 0))
    }
}
