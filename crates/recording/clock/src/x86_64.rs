//! The time-stamp counter of x86-64.

/// Reads the cycle counter in the fastest way: the processor may read it a few instructions early or late. Readings on
/// two CPUs, one of which happened after the other, have been observed in the wrong order, at most 15 ns apart.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc, and Linux permits it in user space; only a process that requested that
    // with PR_SET_TSC gets a signal instead.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the cycle counter after all earlier instructions of the program have completed.
#[inline(always)]
pub fn cycles_in_order() -> u64 {
    let mut auxiliary = 0;
    // SAFETY: x86-64 processors of the last 15 years have rdtscp, and an older one raises SIGILL; Linux permits it in
    // user space as it does rdtsc. It writes to `auxiliary`, which is valid for writes.
    unsafe { core::arch::x86_64::__rdtscp(&mut auxiliary) }
}
