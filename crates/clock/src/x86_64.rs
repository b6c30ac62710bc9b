//! x86-64: the time-stamp counter.

/// The cycle counter, as fast as it can be read: the processor may read it a few instructions early or late. Between
/// CPUs whose readings follow from each other that has been seen to invert their order, by at most some 15 ns.
#[inline(always)]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 has it, and Linux allows it in user space (unless a process asked to be killed for it).
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The cycle counter, not read before everything that precedes it in the program is done.
#[inline(always)]
pub fn cycles_in_order() -> u64 {
    let mut auxiliary = 0;
    // SAFETY: as for `cycles`; rdtscp is part of what Linux's own vDSO relies on.
    unsafe { core::arch::x86_64::__rdtscp(&mut auxiliary) }
}
