//! The system calls: perf_event_open(2) and the requests of its descriptors. By `syscall`, whose calls are no
//! cancellation points.

use super::kind::RequestedCounter;
use super::page::PerfPage;
use sordino_ring::layout::PAGE;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// The kernel's `struct perf_event_attr`, in its first size.
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

/// Bits of [`Attributes::flags`]. A pinned event is on the processor whenever the thread is, or in error; never for a
/// part of the time.
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// The flags `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 3;
/// The flag `PERF_FLAG_FD_CLOEXEC` of perf_event_open(2).
const CLOSE_ON_EXEC: u64 = 1 << 3;
/// The request `PERF_EVENT_IOC_ID` of ioctl(2).
const GET_ID: u64 = 0x8008_2407;

/// Opens a counter for the calling thread. `Err`: the error number.
pub(super) fn open(asked: RequestedCounter, may_see_kernel: bool) -> Result<OwnedFd, i32> {
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
    // SAFETY: the kernel reads `size` bytes of the attributes, which outlive the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, group, CLOSE_ON_EXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(0));
    }
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The event's unique id; `None` if the descriptor is not an event's.
pub(super) fn id(fd: RawFd) -> Option<u64> {
    let mut id = 0u64;
    // SAFETY: the kernel writes one word to `id` if it is an event's descriptor; other files reject the request.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, fd, GET_ID, &raw mut id) };
    (result == 0).then_some(id)
}

/// Maps the event's page, present; null if there is none, and only the kernel can read the count.
pub(super) fn map(fd: &OwnedFd) -> *mut PerfPage {
    let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
    // SAFETY: makes a new mapping at an address of the kernel's choice; the kernel leaves it out of children.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ, flags, fd.as_raw_fd(), 0) };
    if page == libc::MAP_FAILED { ptr::null_mut() } else { page.cast() }
}

/// # Safety
/// [`map`] returned the page, and nobody reads it any more.
pub(super) unsafe fn unmap(page: *mut PerfPage) {
    if !page.is_null() {
        // SAFETY: the caller guarantees that `map` returned the page, and that nobody reads it any more.
        unsafe { libc::munmap(page.cast(), PAGE) };
    }
}

/// The event's count; `None` if it could not count all the time.
pub(super) fn read(fd: RawFd) -> Option<u64> {
    let mut words = [0u64; 3];
    // SAFETY: the kernel writes at most the size of `words`.
    let length = unsafe { libc::syscall(libc::SYS_read, fd, words.as_mut_ptr(), size_of_val(&words)) };
    let [count, enabled, running] = words;
    (usize::try_from(length) == Ok(size_of_val(&words)) && enabled == running).then_some(count)
}
