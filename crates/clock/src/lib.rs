//! Read the machine's clocks, and sample how they relate.
//!
//! Records are stamped with the CPU's cycle counter ([`cycles`]): the cheapest clock, and one that the kernel can
//! stamp its own events with. [`Sample`] reads it together with the clocks that people know, [`Rate`] says how
//! fast it runs, [`cycles_usable`] whether it runs evenly on this machine.
//!
//! Real-time: [`cycles`], [`cycles_in_order`] and [`nanoseconds`] neither block nor allocate, and make no system call where
//! the kernel's vDSO serves the clock (everywhere but on machines with an odd clock source). The rest is for later.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod counter;
mod machine;
mod rate;

pub use counter::{cycles, cycles_in_order};
pub use machine::{Unusable, cycles_usable};
pub use rate::{Rate, Sample};

/// The kernel's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Clock {
    /// Since the Unix epoch; set and slewed.
    Realtime = libc::CLOCK_REALTIME,
    /// Since some point before boot; slewed, stops in suspend.
    Monotonic = libc::CLOCK_MONOTONIC,
    /// The same, never slewed.
    MonotonicRaw = libc::CLOCK_MONOTONIC_RAW,
    /// As `Monotonic`, counting suspend too.
    Boottime = libc::CLOCK_BOOTTIME,
}

/// What `clock` says, in nanoseconds.
#[inline]
pub fn nanoseconds(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in `time`; all of `Clock` exist on every kernel that sordino runs on.
    unsafe { libc::clock_gettime(clock as i32, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
