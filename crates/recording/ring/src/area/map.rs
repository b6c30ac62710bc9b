//! Shared memory: the system calls of this crate, except those that vet a program's file.

mod kind;
mod part;
#[cfg(not(loom))]
mod present;

use kind::SEALS;
pub(crate) use kind::{is_in_memory, is_sealed};
pub use part::{FilePart, MemoryPart};
pub(crate) use part::{open, read_at};
#[cfg(not(loom))]
pub use present::populate;

use crate::layout::PAGE;
use sordino_percpu::primitive::AtomicU32;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// The name that `/proc/PID/maps` and `/proc/PID/fd` show for an area: `/memfd:sordino`.
pub const FILE_NAME: &CStr = c"sordino";

/// Converts the result of a system call, in which -1 stands for an error.
fn check(result: isize) -> io::Result<isize> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a file in memory that may grow but never shrink: mapped pages below its size stay accessible in every process,
/// whatever the others do.
///
/// # Errors
/// The kernel's error; `ENOSYS` before Linux 3.17.
pub fn create_file(size: u64) -> io::Result<OwnedFd> {
    // SAFETY: the name is a constant string with a zero byte, the flags are valid.
    let fd = unsafe { libc::memfd_create(FILE_NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    check(fd as isize)?;
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    set_size(&file, size)?;
    // SAFETY: fcntl on an owned descriptor accesses no memory.
    check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } as isize)?;
    Ok(file)
}

/// Sets the file's size in bytes. Never shrinks a sealed file.
///
/// # Errors
/// The kernel's error; `EFBIG` beyond the limit of a file's size.
pub fn set_size(file: &OwnedFd, size: u64) -> io::Result<()> {
    let too_large = || io::Error::from_raw_os_error(libc::EFBIG);
    // The kernel would send SIGXFSZ, which would end a program that only shares its process with the library.
    if size > most_of_a_file() {
        return Err(too_large());
    }
    let size = i64::try_from(size).map_err(|_| too_large())?;
    // SAFETY: ftruncate on an owned descriptor accesses no memory of this process.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), size) } as isize).map(drop)
}

/// The limit of a file's size in this process (`ulimit -f`), in bytes.
fn most_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes the structure, which outlives the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if result == 0 { limit.rlim_cur } else { u64::MAX }
}

/// Returns the file's size in bytes.
///
/// # Errors
/// The kernel's error.
pub fn size(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: lseek on an owned descriptor accesses no memory; nothing uses the file offset.
    check(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) } as isize).map(|size| size as u64)
}

/// Writes zeros to a part of the file, which allocates its memory: no later access to it fails for want of memory.
/// Written pages are up to date, those of `fallocate` are not. When a page is touched, the kernel maps those of its
/// neighbours that are up to date ("fault-around"), which makes [`populate`] fast.
///
/// # Errors
/// `ENOSPC` or `ENOMEM` when there is no memory, some may be allocated then; `EFBIG` beyond the limit of a file's size.
pub fn fill(file: &OwnedFd, FilePart { offset, length }: FilePart) -> io::Result<()> {
    /// One page, which stays in the CPU's cache, and its number in one call.
    static ZEROS: [u8; PAGE] = [0; PAGE];
    const PAGES: usize = 16;
    let end = offset + length;
    // The kernel would send SIGXFSZ beyond the limit.
    if end > most_of_a_file() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let mut at = offset;
    while at < end {
        let mut left = (end - at).min((PAGES * PAGE) as u64) as usize;
        let pages = [(); PAGES].map(|()| {
            let length = left.min(PAGE);
            left -= length;
            libc::iovec { iov_base: ZEROS.as_ptr().cast_mut().cast(), iov_len: length }
        });
        // SAFETY: pwritev on an owned descriptor reads the zeros, at most a page for each element.
        let written = unsafe { libc::pwritev(file.as_raw_fd(), pages.as_ptr(), PAGES as i32, at as i64) };
        at += check(written)? as u64;
    }
    Ok(())
}

/// Allocates memory for a part of the file, whose contents stay.
///
/// # Errors
/// `ENOSPC` or `ENOMEM` when there is no memory; nothing more is allocated then.
pub fn allocate(file: &OwnedFd, FilePart { offset, length }: FilePart) -> io::Result<()> {
    // SAFETY: fallocate on an owned descriptor accesses no memory of this process.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, length as i64) };
    check(result as isize).map(drop)
}

/// Gives back the memory of a part of the file, which reads as zeros afterwards.
///
/// # Errors
/// The kernel's error.
pub fn punch(file: &OwnedFd, FilePart { offset, length }: FilePart) -> io::Result<()> {
    #[cfg(loom)]
    sordino_percpu::model::clear(offset as usize, length as usize);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: fallocate on an owned descriptor; mappings stay, and code that reads them expects zeros, or any bytes.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) };
    check(result as isize).map(drop)
}

/// Runs `change` for an untrusted program in a process of its own, with this one's memory and no descriptor but
/// `file`'s. The file's owner can keep the file's inode locked (by a write from pages that never come), and a process
/// that changes the file then waits where no signal reaches, not even a kill. Here the caller can be killed, and its
/// process can exit. The child stays until the owner unlocks the inode or ends.
///
/// # Errors
/// The errors of `change`, which only makes system calls; the kernel's error if there is no room for another process.
#[cfg(not(loom))]
pub(crate) fn apart(file: Option<&OwnedFd>, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    /// The child's parameters, and its result.
    struct Errand<'a> {
        /// The descriptor that the child keeps.
        descriptor: Option<libc::c_uint>,
        change: &'a dyn Fn() -> io::Result<()>,
        error: i32,
    }
    extern "C" fn child(errand: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the parent's `Errand`, whose thread waits until the child has ended, so nothing else uses it.
        let errand = unsafe { &mut *errand.cast::<Errand<'_>>() };
        let close = |first: libc::c_uint, last: libc::c_uint| {
            // SAFETY: this process has a table of descriptors of its own, so it closes none of the parent's. Before
            // Linux 5.9 they stay open.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        };
        close(errand.descriptor.map_or(0, |kept| kept + 1), libc::c_uint::MAX);
        if let Some(last) = errand.descriptor.and_then(|kept| kept.checked_sub(1)) {
            close(0, last);
        }
        let result = (errand.change)();
        errand.error = result.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        0
    }
    const STACK: usize = 64 << 10;
    let mut stack = vec![0u128; STACK / size_of::<u128>()];
    let descriptor = file.map(|file| file.as_raw_fd() as libc::c_uint);
    let mut errand = Errand { descriptor, change: &change, error: libc::EINTR };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    let top = stack.as_mut_ptr_range().end.cast();
    // SAFETY: a signal set consists of integers, for which zeros are valid.
    let [mut all, mut before]: [libc::sigset_t; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: writes a set of this function's own.
    unsafe { libc::sigfillset(&mut all) };
    // The child must not run handlers of this process, in this process's memory.
    // SAFETY: reads and writes sets of this function's own.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    // SAFETY: the stack and the errand outlive the child, since this thread waits for it (CLONE_VFORK); `child` only
    // makes system calls.
    let pid = unsafe { libc::clone(child, top, flags, (&raw mut errand).cast()) };
    let cloned = check(pid as isize);
    if cloned.is_ok() {
        // SAFETY: reaps this process's own child, which has ended and sends no signal; a null status is allowed.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    }
    // SAFETY: restores the set that was in effect before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    cloned?;
    // SAFETY: `errand` is alive; volatile, because the child has written it, which the compiler does not see.
    match unsafe { (&raw const errand.error).read_volatile() } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(loom)]
pub(crate) fn apart(_file: Option<&OwnedFd>, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    change()
}

/// Tries to lock byte `byte` of the file for this open file description. Returns false if another description holds it.
/// The kernel releases the lock when the last descriptor of this description is closed, also by a kill.
///
/// # Errors
/// The kernel's error, other than that another description holds the lock.
pub fn try_lock(file: &OwnedFd, byte: u64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, byte);
    // SAFETY: `lock` is initialised; OFD locks require that l_pid is 0, and `flock` sets it so.
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) } as isize) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases the lock on byte `byte`.
///
/// # Errors
/// The kernel's error.
pub fn unlock(file: &OwnedFd, byte: u64) -> io::Result<()> {
    let mut lock = flock(libc::F_UNLCK, byte);
    // SAFETY: `lock` is initialised; OFD locks require that l_pid is 0, and `flock` sets it so.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) } as isize).map(drop)
}

/// Returns true if another description holds byte `byte`.
///
/// # Errors
/// The kernel's error.
pub fn is_locked(file: &impl AsRawFd, byte: u64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, byte);
    // SAFETY: the kernel reads and writes `lock`, which outlives the call; a wrong descriptor is an error.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } as isize)?;
    Ok(i32::from(lock.l_type) != libc::F_UNLCK)
}

fn flock(kind: i32, byte: u64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte as i64,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(not(loom))]
fn map_shared(file: BorrowedFd<'_>, offset: u64, length: usize, protection: i32) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let (fd, offset) = (file.as_raw_fd(), offset as i64);
    // SAFETY: makes a new mapping at an address of the kernel's choice, which replaces none.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
    check(start as isize)?;
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// # Safety
/// The range is a mapping of the caller's, and nobody uses it any more.
#[cfg(not(loom))]
unsafe fn unmap(start: NonNull<u8>, length: usize) {
    // SAFETY: the caller guarantees that it is the caller's own mapping, which nobody uses any more (this function's
    // # Safety).
    unsafe { libc::munmap(start.as_ptr().cast(), length) };
}

/// Maps nothing: in the model every mapping is a part of the same memory, because loom identifies a word by its
/// address.
#[cfg(loom)]
fn map_shared(_file: BorrowedFd<'_>, offset: u64, length: usize, _: i32) -> io::Result<NonNull<u8>> {
    Ok(sordino_percpu::model::memory(offset as usize, length))
}

#[cfg(loom)]
unsafe fn unmap(_start: NonNull<u8>, _length: usize) {}

/// A part of a file in this process's memory, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: memory that is shared with another process is not tied to a thread; every access gives its reason.
unsafe impl Send for Mapping {}
// SAFETY: its methods only return addresses or change the mapping's protection; every access gives its reason.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `offset`, which may lie beyond the file's end as long as nobody touches them there.
    ///
    /// # Errors
    /// The kernel's error of mmap(2).
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        map_shared(file, offset, length, protection).map(|start| Self { start, length })
    }

    /// Maps the file's first `length` bytes, inaccessible: parts of it are [opened](Self::open) later.
    ///
    /// # Errors
    /// The kernel's error of mmap(2).
    pub fn closed(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        map_shared(file, 0, length, libc::PROT_NONE).map(|start| Self { start, length })
    }

    /// The mapping's first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address `offset` bytes from the mapping's first byte.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// The mapping's length in bytes.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Keeps the mapping as long as the process lives.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Moves the mapping over one of the same length at `address`, which is gone then.
    ///
    /// # Errors
    /// The kernel's error; the old mapping is still there then, and this one is not.
    ///
    /// # Safety
    /// The old mapping belongs to the caller, and nobody relies on its content.
    pub unsafe fn replace(self, address: NonNull<u8>) -> io::Result<Self> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (from, length) = (self.start.as_ptr().cast(), self.length);
        // SAFETY: moves this mapping over the old one, which the caller guarantees to own, with content that nobody
        // relies on.
        let moved = unsafe { libc::mremap(from, length, length, flags, address.as_ptr()) };
        check(moved as isize)?;
        std::mem::forget(self);
        Ok(Self { start: address, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, and nothing borrows from it any more.
        unsafe { unmap(self.start, self.length) };
    }
}

/// Sleeps until one of the words is woken or differs from the value that the caller read, or until the time is over.
/// Words beyond the kernel's limit of 128 are not watched.
///
/// # Errors
/// `ENOSYS` before Linux 5.16; other failures of the system call. The end of the time is no error.
pub fn wait_any(seen: &[(&AtomicU32, u32)], timeout: Duration) -> io::Result<()> {
    /// The kernel's `struct futex_waitv` of <linux/futex.h>.
    #[repr(C)]
    struct Waiter {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    const FUTEX_32: u32 = 2;
    const FUTEX_WAITV_MAX: usize = 128;
    let waiter = |&(word, value): &(&AtomicU32, u32)| Waiter {
        value: value.into(),
        address: word.as_ptr() as u64,
        flags: FUTEX_32,
        reserved: 0,
    };
    let waiters: Vec<Waiter> = seen.iter().take(FUTEX_WAITV_MAX).map(waiter).collect();
    let mut end = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes `end`, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut end) };
    let nanoseconds = end.tv_nsec + i64::from(timeout.subsec_nanos());
    end.tv_sec += timeout.as_secs() as i64 + nanoseconds / 1_000_000_000;
    end.tv_nsec = nanoseconds % 1_000_000_000;
    let (list, count) = (waiters.as_ptr(), waiters.len());
    // SAFETY: `count` initialised waiters, whose words are mapped as long as they are borrowed; `end` is an absolute
    // time.
    let result = unsafe { libc::syscall(libc::SYS_futex_waitv, list, count, 0, &end, libc::CLOCK_MONOTONIC) };
    match check(result as isize).map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// Does nothing: all pages are present in the model.
///
/// # Errors
/// Returns none: the signature is that of the real function.
#[cfg(loom)]
pub fn populate(_pid: i32, _parts: impl Iterator<Item = MemoryPart> + Clone) -> io::Result<u64> {
    Ok(0)
}

/// Populates like [`populate`] in an untrusted process, which may have pages there that its file system never brings: a
/// process that reads them can then not be killed. A process of its own, without descriptors, reads them; the caller
/// can be killed, and its process can exit.
///
/// # Errors
/// The errors of [`populate`]; the kernel's error if there is no room for another process.
pub fn populate_apart(pid: i32, parts: impl Iterator<Item = MemoryPart> + Clone) -> io::Result<u64> {
    let missing = std::cell::Cell::new(0);
    apart(None, || populate(pid, parts.clone()).map(|pages| missing.set(pages)))?;
    Ok(missing.get())
}
