//! Shared memory: the system calls of this crate, but for those that vet a program's file.

mod part;
#[cfg(not(loom))]
mod present;

pub(crate) use part::{open, read_at};
#[cfg(not(loom))]
pub use present::populate;

use sordino_percpu::primitive::AtomicU32;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// The name that `/proc/PID/maps` and `/proc/PID/fd` show for an area: `/memfd:sordino`.
pub const FILE_NAME: &CStr = c"sordino";

/// The result of a system call that answers -1 for an error.
fn check(result: isize) -> io::Result<isize> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A file in memory that may grow but never shrink: mapped pages below its size stay accessible for whoever maps it,
/// whatever the other side does.
///
/// # Errors
/// What the kernel says; `ENOSYS` before Linux 3.17.
pub fn create_file(size: u64) -> io::Result<OwnedFd> {
    // SAFETY: a constant name and flags.
    let fd = unsafe { libc::memfd_create(FILE_NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    check(fd as isize)?;
    // SAFETY: the call has just returned it.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    set_size(&file, size)?;
    // SAFETY: fcntl on an owned descriptor. Sealing the seals too would keep nobody from anything.
    check(unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) } as isize)?;
    Ok(file)
}

/// Makes the file so large. Never shrinks a sealed one.
///
/// # Errors
/// What the kernel says; `EFBIG` beyond the limit of a file's size.
pub fn set_size(file: &OwnedFd, size: u64) -> io::Result<()> {
    let too_large = || io::Error::from_raw_os_error(libc::EFBIG);
    // The kernel would send SIGXFSZ, which ends a program that has nothing to do with tracing but the library.
    if size > most_of_a_file() {
        return Err(too_large());
    }
    let size = i64::try_from(size).map_err(|_| too_large())?;
    // SAFETY: on an owned descriptor.
    check(unsafe { libc::ftruncate(file.as_raw_fd(), size) } as isize).map(drop)
}

/// The limit of a file's size in this process (`ulimit -f`), in bytes.
fn most_of_a_file() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes the structure, which outlives the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    if result == 0 { limit.rlim_cur } else { u64::MAX }
}

/// The file's size.
///
/// # Errors
/// What the kernel says.
pub fn size(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: on an owned descriptor; the offset is not used by anybody.
    check(unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) } as isize).map(|size| size as u64)
}

/// Writes zeros to a part of the file, which allocates its memory: no access to it fails later for want of memory. Pages that were written
/// to are up to date, those of `fallocate` are not: the kernel maps neighbours of a page that is touched only if they are
/// ("fault-around"), which makes [`populate`] fast.
///
/// # Errors
/// `ENOSPC` or `ENOMEM` when there is no memory, some may be allocated then; `EFBIG` beyond the limit of a file's size.
pub fn fill(file: &OwnedFd, offset: u64, length: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let end = offset + length;
    // The kernel would send SIGXFSZ.
    if end > most_of_a_file() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let mut at = offset;
    while at < end {
        let part = (end - at).min(ZEROS.len() as u64) as usize;
        // SAFETY: on an owned descriptor; `part` bytes of the zeros are readable.
        let written = unsafe { libc::pwrite(file.as_raw_fd(), ZEROS.as_ptr().cast(), part, at as i64) };
        at += check(written)? as u64;
    }
    Ok(())
}

/// Allocates memory for a part of the file, whose contents stay.
///
/// # Errors
/// `ENOSPC` or `ENOMEM` when there is none; nothing more is allocated then.
pub fn allocate(file: &OwnedFd, offset: u64, length: u64) -> io::Result<()> {
    // SAFETY: on an owned descriptor.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as i64, length as i64) };
    check(result as isize).map(drop)
}

/// Gives the memory of a part of the file back; it reads as zeros afterwards.
///
/// # Errors
/// What the kernel says.
pub fn punch(file: &OwnedFd, offset: u64, length: u64) -> io::Result<()> {
    #[cfg(loom)]
    sordino_percpu::model::clear(offset as usize, length as usize);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: on an owned descriptor.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) };
    check(result as isize).map(drop)
}

/// Does something for somebody who is not trusted: `change` runs in a process of its own, with this one's memory and no descriptor but
/// `file`'s. The file's owner can keep the file's inode locked (by a write from pages that never come), and whoever changes the file then
/// waits where no signal reaches, a kill neither. Here the caller can be killed, and its process can exit. The child stays until the
/// owner unlocks the inode or ends.
///
/// # Errors
/// Those of `change`, which only makes system calls; there is no room for another process.
#[cfg(not(loom))]
pub(crate) fn apart(file: Option<&OwnedFd>, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    /// What the child gets and leaves behind.
    struct Errand<'a> {
        /// The one that it keeps.
        descriptor: Option<libc::c_uint>,
        change: &'a dyn Fn() -> io::Result<()>,
        error: i32,
    }
    extern "C" fn child(errand: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the parent's, whose thread waits meanwhile.
        let errand = unsafe { &mut *errand.cast::<Errand<'_>>() };
        let close = |first: libc::c_uint, last: libc::c_uint| {
            // SAFETY: this process has a table of descriptors of its own. Before Linux 5.9 they stay open.
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
    // SAFETY: a signal set of zeros is a valid one.
    let [mut all, mut before]: [libc::sigset_t; 2] = unsafe { std::mem::zeroed() };
    // SAFETY: an own set.
    unsafe { libc::sigfillset(&mut all) };
    // The child shall run no handler of this process's, in this process's memory.
    // SAFETY: own sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    // SAFETY: the stack and the errand outlive the child, for which this thread waits.
    let pid = unsafe { libc::clone(child, top, flags, (&raw mut errand).cast()) };
    let cloned = check(pid as isize);
    if cloned.is_ok() {
        // SAFETY: our own child, which has ended; it sends no signal.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
    }
    // SAFETY: the set that was before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    cloned?;
    // SAFETY: the child has written it, which the compiler does not see.
    match unsafe { (&raw const errand.error).read_volatile() } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(loom)]
pub(crate) fn apart(_file: Option<&OwnedFd>, change: impl Fn() -> io::Result<()>) -> io::Result<()> {
    change()
}

/// Tries to lock byte `byte` of the file for this open file description; whether it got it.
/// The kernel releases it when the last descriptor of this description is closed, also by a kill.
///
/// # Errors
/// What the kernel says, except that somebody else holds it.
pub fn try_lock(file: &OwnedFd, byte: u64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, byte);
    // SAFETY: `lock` is initialised; OFD locks want l_pid 0.
    match check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) } as isize) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases byte `byte`.
///
/// # Errors
/// What the kernel says.
pub fn unlock(file: &OwnedFd, byte: u64) -> io::Result<()> {
    let mut lock = flock(libc::F_UNLCK, byte);
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &mut lock) } as isize).map(drop)
}

/// Whether another description holds byte `byte`.
///
/// # Errors
/// What the kernel says.
pub fn is_locked(file: &impl AsRawFd, byte: u64) -> io::Result<bool> {
    let mut lock = flock(libc::F_WRLCK, byte);
    // SAFETY: fills in `lock`, whatever the descriptor is.
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
fn map_shared(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    let (fd, offset) = (file.as_raw_fd(), offset as i64);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, fd, offset) };
    check(start as isize)?;
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// # Safety
/// It is the caller's mapping, and nobody uses it any more.
#[cfg(not(loom))]
unsafe fn unmap(start: NonNull<u8>, length: usize) {
    // SAFETY: the caller's obligation.
    unsafe { libc::munmap(start.as_ptr().cast(), length) };
}

/// In the model every mapping is a part of the same memory: loom knows a word by its address.
#[cfg(loom)]
fn map_shared(_file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<NonNull<u8>> {
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

// SAFETY: memory that is shared with another process is not tied to a thread; every access says why it is sound.
unsafe impl Send for Mapping {}
// SAFETY: likewise.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `offset`, which may lie beyond the file's end as long as nobody touches them there.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        map_shared(file, offset, length).map(|start| Self { start, length })
    }

    /// Its first byte.
    pub const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address `offset` bytes from its first.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// Its length.
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Gives up unmapping it: it stays as long as the process lives.
    pub fn leak(self) -> NonNull<u8> {
        let start = self.start;
        std::mem::forget(self);
        start
    }

    /// Puts it in the place of a mapping of the same length at `address`, which is gone then.
    ///
    /// # Errors
    /// The kernel's error; the old mapping is still there then, and this one is not.
    ///
    /// # Safety
    /// The old mapping belongs to the caller, and nobody relies on what it held.
    pub unsafe fn replace(self, address: NonNull<u8>) -> io::Result<Self> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (from, length) = (self.start.as_ptr().cast(), self.length);
        // SAFETY: moves our mapping over the caller's.
        let moved = unsafe { libc::mremap(from, length, length, flags, address.as_ptr()) };
        check(moved as isize)?;
        std::mem::forget(self);
        Ok(Self { start: address, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nobody borrows from it any more.
        unsafe { unmap(self.start, self.length) };
    }
}

/// Sleeps until one of the words is woken or is no longer what the caller saw in it, or until the time is over. Words beyond
/// the kernel's limit of 128 are not watched.
///
/// # Errors
/// `ENOSYS` before Linux 5.16; other failures of the system call. That the time is over is none.
pub fn wait_any(seen: &[(&AtomicU32, u32)], timeout: Duration) -> io::Result<()> {
    /// `struct futex_waitv` of <linux/futex.h>.
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
    // SAFETY: fills in `end`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut end) };
    let nanoseconds = end.tv_nsec + i64::from(timeout.subsec_nanos());
    end.tv_sec += timeout.as_secs() as i64 + nanoseconds / 1_000_000_000;
    end.tv_nsec = nanoseconds % 1_000_000_000;
    let (list, count) = (waiters.as_ptr(), waiters.len());
    // SAFETY: `count` initialised waiters, whose words are mapped as long as they are borrowed; an absolute time.
    let result = unsafe { libc::syscall(libc::SYS_futex_waitv, list, count, 0, &end, libc::CLOCK_MONOTONIC) };
    match check(result as isize).map_err(|error| (error.raw_os_error(), error)) {
        Ok(_) | Err((Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR), _)) => Ok(()),
        Err((_, error)) => Err(error),
    }
}

/// All pages are present in the model; it never fails.
///
/// # Errors
/// Returns none: the signature is that of the real one.
#[cfg(loom)]
pub fn populate(_pid: i32, _address: u64, _length: u64) -> io::Result<u64> {
    Ok(0)
}

/// The same for a process that is not trusted, which may have pages there that its file system never brings: then nobody who reads them
/// can be killed. They are read by a process of its own, without descriptors; the caller can be killed, and its process can exit.
///
/// # Errors
/// Those of [`populate`]; there is no room for another process.
pub fn populate_apart(pid: i32, address: u64, length: u64) -> io::Result<u64> {
    let missing = std::cell::Cell::new(0);
    apart(None, || populate(pid, address, length).map(|pages| missing.set(pages)))?;
    Ok(missing.get())
}
