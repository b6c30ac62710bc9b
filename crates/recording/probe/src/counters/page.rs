//! Reading a counter in user space, as `include/uapi/linux/perf_event.h` documents it at `struct perf_event_mmap_page`.
//! The kernel changes the page only on this thread's CPU, while it interrupts or switches the thread: so equal values
//! of `lock` before and behind the other loads confirm these.

use sordino_percpu::primitive::plain;
use std::mem::offset_of;

/// The beginning of a perf event's page.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PerfPage {
    versions: [u32; 2],
    /// A number that changes whenever the rest does.
    lock: u32,
    /// The number of the processor's counter plus one; 0 if it does not count now, or cannot be read here.
    index: u32,
    /// The number to add to the processor's counter.
    offset: i64,
    /// The time for which the event was enabled, and for which it counted.
    times: [u64; 2],
    capabilities: u64,
    /// Width of the processor's counter in bits.
    width: u16,
}

/// The bit `cap_user_rdpmc` of the capabilities.
const MAY_READ: u64 = 1 << 2;
/// Number of tries. The kernel changes the page at most once for each interrupt: more in a row would be a storm of
/// them.
const TRIES: usize = 8;

/// The count of the event of `page`; `None` if only the kernel can read it, or it did not count all the time. `read`
/// reads a counter of the processor's.
///
/// Real-time: a few loads and `read`, at most eight times.
///
/// # Safety
/// `page` is the mapped page of a perf event.
#[inline(always)]
pub(super) unsafe fn count(page: *const PerfPage, read: impl Fn(u32) -> u64) -> Option<u64> {
    for _ in 0..TRIES {
        // SAFETY: the caller guarantees a mapped page of an event, in which `lock` is a `u32`.
        let before = unsafe { read_at::<u32>(page, offset_of!(PerfPage, lock)) };
        // SAFETY: the caller guarantees a mapped page of an event, in which `index` is a `u32`.
        let index = unsafe { read_at::<u32>(page, offset_of!(PerfPage, index)) };
        // SAFETY: the caller guarantees a mapped page of an event, in which `capabilities` is a `u64`.
        let capabilities = unsafe { read_at::<u64>(page, offset_of!(PerfPage, capabilities)) };
        // SAFETY: the caller guarantees a mapped page of an event, in which `offset` is an `i64`.
        let offset = unsafe { read_at::<i64>(page, offset_of!(PerfPage, offset)) };
        // SAFETY: the caller guarantees a mapped page of an event, in which `width` is a `u16`.
        let width = unsafe { read_at::<u16>(page, offset_of!(PerfPage, width)) };
        // SAFETY: the caller guarantees a mapped page of an event, in which `times` are two `u64`.
        let [enabled, running] = unsafe { read_at::<[u64; 2]>(page, offset_of!(PerfPage, times)) };
        if capabilities & MAY_READ == 0 || index == 0 || enabled != running {
            return None;
        }
        let counter = extend(read(index - 1), width)?;
        // SAFETY: the caller guarantees a mapped page of an event, in which `lock` is a `u32`.
        if unsafe { read_at::<u32>(page, offset_of!(PerfPage, lock)) } == before {
            return Some(offset.wrapping_add(counter).cast_unsigned());
        }
    }
    None
}

/// Loads a field, after all loads before it.
///
/// # Safety
/// `page` is the mapped page of a perf event; a `T` lies at `offset`.
#[inline(always)]
unsafe fn read_at<T: Copy>(page: *const PerfPage, offset: usize) -> T {
    // SAFETY: the caller guarantees a `T` at this offset of a mapped page; volatile, since the kernel changes it.
    unsafe { plain::read(page.wrapping_byte_add(offset).cast()) }
}

/// Sign-extends the lower `width` bits: the kernel has the counter begin below zero.
fn extend(counter: u64, width: u16) -> Option<i64> {
    let above = 64u32.checked_sub(width.into()).filter(|above| *above < 64)?;
    Some((counter << above).cast_signed() >> above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const PAGE: PerfPage = PerfPage {
        versions: [0; 2],
        lock: 2,
        index: 4,
        offset: 1000,
        times: [9; 2],
        capabilities: MAY_READ,
        width: 48,
    };

    fn counted(page: PerfPage, counter: u64) -> Option<u64> {
        // SAFETY: `page` is this function's own.
        unsafe { count(&raw const page, |_| counter) }
    }

    #[test]
    fn it_is_the_offset_and_the_processor_s_counter_with_its_sign() {
        assert_eq!(counted(PAGE, 24), Some(1024));
        assert_eq!(counted(PAGE, (1 << 48) - 24), Some(976));
        // Bits above the counter's width do not count.
        assert_eq!(counted(PAGE, 0xffff << 48 | 24), Some(1024));
        assert_eq!(counted(PerfPage { width: 64, ..PAGE }, u64::MAX), Some(999));
        assert_eq!(counted(PerfPage { offset: i64::MAX, ..PAGE }, 1), Some(1 << 63));
        let page = PAGE;
        // SAFETY: `page` is this function's own.
        let number = unsafe { count(&raw const page, |number| number.into()) };
        assert_eq!(number, Some(1003), "the index less one");
    }

    #[test]
    fn where_only_the_kernel_can_tell_nothing_is_read() {
        let cannot = [
            PerfPage { index: 0, ..PAGE },
            PerfPage { capabilities: !MAY_READ, ..PAGE },
            PerfPage { times: [9, 8], ..PAGE },
        ];
        for page in cannot {
            // SAFETY: `page` is this function's own.
            assert_eq!(unsafe { count(&raw const page, |number| panic!("counter {number}")) }, None);
        }
        for width in [0, 65, u16::MAX] {
            assert_eq!(counted(PerfPage { width, ..PAGE }, 24), None, "{width} bits");
        }
    }

    #[test]
    fn a_page_that_changes_meanwhile_is_read_again_but_not_for_ever() {
        for changes in [1, TRIES - 1, TRIES] {
            let mut page = PAGE;
            let (page, reads) = (&raw mut page, Cell::new(0));
            let read = |_| {
                reads.set(reads.get() + 1);
                if reads.get() <= changes {
                    // SAFETY: `page` is this function's own, and nobody holds a reference to it.
                    unsafe { page.write(PerfPage { lock: 2 + reads.get() as u32, offset: 5000, ..PAGE }) };
                }
                24
            };
            // SAFETY: `page` is this function's own.
            let counted = unsafe { count(page, read) };
            assert_eq!(counted, (changes < TRIES).then_some(5024), "it changed {changes} times");
            assert_eq!(reads.get(), (changes + 1).min(TRIES));
        }
    }
}
