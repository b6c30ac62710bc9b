//! The system calls: perf_event_open(2) and what its descriptors understand. By `syscall`, whose calls are no points at which a thread
//! is cancelled.

use super::kind::Asked;
use super::page::Page;
use sordino_ring::layout::PAGE;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// `struct perf_event_attr`, as large as it was at first.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    ty: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// Bits of [`Attributes::flags`]. Pinned: on the processor whenever the thread is, or in error; never for a part of the time.
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `_RUNNING`.
const TIMES: u64 = 3;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: u64 = 1 << 3;
/// `PERF_EVENT_IOC_ID`.
const GET_ID: u64 = 0x8008_2407;

/// Has the calling thread count what is `asked` for. `Err`: the error number.
pub(super) fn open(asked: Asked, may_see_kernel: bool) -> Result<OwnedFd, i32> {
    let attributes = Attributes {
        ty: asked.kind().ty,
        size: size_of::<Attributes>() as u32,
        config: asked.kind().config,
        read_format: TIMES,
        flags: PINNED | if may_see_kernel { 0 } else { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR },
        ..Attributes::default()
    };
    // This thread, on any CPU, in no group.
    let [thread, cpu, group] = [0, -1, -1];
    // SAFETY: the kernel reads as many bytes of the attributes as they say.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, group, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the call has just returned it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The event's number, which no other has; `None` if the descriptor is none of an event.
pub(super) fn id(fd: RawFd) -> Option<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes a word if it is an event; other files do not know the request.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, GET_ID, &raw mut id) };
    (result == 0).then_some(id)
}

/// The event's page, present; null where there is none to be had, and only the kernel can tell what was counted.
pub(super) fn map(fd: &OwnedFd) -> *mut Page {
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: a new mapping; the kernel leaves it out of children.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, flags, fd.as_raw_fd(), 0) };
    if page == libc::MAP_FAILED { ptr::null_mut() } else { page.cast() }
}

/// # Safety
/// [`map`] answered it, and nobody reads it any more.
pub(super) unsafe fn unmap(page: *mut Page) {
    if !page.is_null() {
        // SAFETY: the caller's obligation.
        unsafe { libc::munmap(page.cast(), PAGE) };
    }
}

/// What an event has counted; `None` if it could not count all the time.
pub(super) fn read(fd: RawFd) -> Option<u64> {
    let mut words = [0u64; 3];
    // SAFETY: the kernel writes at most so many bytes.
    let length = unsafe { libc::syscall(libc::SYS_read, fd, words.as_mut_ptr(), size_of_val(&words)) };
    let [count, enabled, running] = words;
    (usize::try_from(length) == Ok(size_of_val(&words)) && enabled == running).then_some(count)
}
