//! Primitives of the architecture, in assembly, beside the section that publishes ([`rseq`](crate::rseq)): words of
//! threads and of the process, the CPU's number, hints to the processor, and system calls that leave `errno` alone.

#[cfg(loom)]
mod model;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod x86_64;
#[cfg(not(any(target_arch = "x86_64", loom)))]
compile_error!(
    "sordino records on x86-64 only so far: another architecture needs a file in arch/ and one in rseq/"
);

#[cfg(loom)]
use model as this;
#[cfg(all(target_arch = "x86_64", not(loom)))]
use x86_64 as this;

#[cfg(not(loom))]
pub use this::vfork;
pub(crate) use this::{area, cpu, libc_symbols, set_area, substitute_area};
#[cfg(not(loom))]
pub(crate) use this::{
    borrowed, counters, process_page, process_word, set_base, set_counters, set_process_word, set_tag,
    tag_and_base,
};

/// Adds `a` and `b` once, wrapping. A plain `+` lets the compiler keep both and add them in each address that depends
/// on the sum, which costs the fast path a register and two instructions.
#[inline(always)]
pub fn sum(a: usize, b: usize) -> usize {
    this::sum(a, b)
}

/// Announces to the processor that the memory `AHEAD` bytes behind `address` will be written to soon. The memory need
/// not be mapped, and another CPU may have read it last.
///
/// Real-time: one instruction, which waits for nothing.
#[inline(always)]
pub fn expect_write<const AHEAD: usize>(address: *const u8) {
    this::expect_write::<AHEAD>(address);
}

/// The CPU that this thread runs on, read from the processor: for threads in which [`cpu`](crate::cpu) returns
/// [`NO_CPU`](crate::NO_CPU).
///
/// Real-time: one instruction.
pub fn current_cpu() -> u32 {
    this::current_cpu()
}

/// Reads the processor's performance counter `number`, which has as many valid low bits as the counter is wide.
///
/// Real-time: one instruction.
///
/// # Safety
/// The kernel has allowed this process to read the counters: the mapped page of a perf event has `cap_user_rdpmc` set.
#[cfg(not(loom))]
#[inline(always)]
pub unsafe fn read_performance_counter(number: u32) -> u64 {
    // SAFETY: the caller guarantees that the kernel lets this process read the counters (this function's # Safety).
    unsafe { this::read_performance_counter(number) }
}

/// Sleeps for `nanoseconds`, less than a second; a signal ends the sleep earlier.
///
/// One system call. Leaves `errno` as it was, and is no cancellation point.
pub fn sleep(nanoseconds: u32) {
    this::sleep(nanoseconds);
}

/// Wakes all sleepers on `word`, a futex in memory that is shared between processes.
///
/// Real-time: one system call that never blocks. Leaves `errno` as it was.
pub fn wake(word: &crate::primitive::AtomicU32) {
    this::futex_wake(word.as_ptr());
}
