//! Reads the machine's clocks, and samples them together.
//!
//! The timestamp of a record is the CPU's cycle counter ([`cycles`]): the cheapest clock, and one that the kernel can
//! use for its own events. [`Sample`] reads it together with the kernel's clocks, [`Rate`] is its frequency, and
//! [`cycles_usable`] checks that it runs evenly on this machine.
//!
//! Real-time: [`cycles`], [`cycles_in_order`] and [`nanoseconds`] neither block nor allocate, and make no system call
//! where the kernel's vDSO serves the clock (everywhere but on machines with an odd clock source). All other functions
//! may block, allocate and make system calls.
//!
//! | module | content |
//! |---|---|
//! | `counter` | the cycle counter |
//! | `rate` | samples of all clocks, and the counter's rate between two of them |
//! | `machine` | the check that this machine's counter can serve as a clock |

#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod counter;
mod machine;
mod rate;

pub use counter::{cycles, cycles_in_order};
pub use machine::{Unusable, cycles_usable};
pub use rate::{Rate, Sample};

/// The kernel's clocks that sordino uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Clock {
    /// Time since the Unix epoch; set and slewed.
    Realtime = libc::CLOCK_REALTIME,
    /// Time since some point before boot; slewed, stops in suspend.
    Monotonic = libc::CLOCK_MONOTONIC,
    /// Time since some point before boot; never slewed, stops in suspend.
    MonotonicRaw = libc::CLOCK_MONOTONIC_RAW,
    /// Time since boot; slewed, continues in suspend.
    Boottime = libc::CLOCK_BOOTTIME,
}

/// Reads `clock`, in nanoseconds.
#[inline]
pub fn nanoseconds(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2) writes to `time`, which is valid for writes; every kernel that sordino supports has each
    // `Clock`.
    unsafe { libc::clock_gettime(clock as i32, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the maximum error of `CLOCK_REALTIME` in nanoseconds, which the daemon that synchronises the clock has
/// reported to the kernel; `None` if nothing synchronises it, or if the kernel has no such value.
pub fn realtime_error() -> Option<u64> {
    // SAFETY: `timex` consists of integers, for which zeros are valid.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: adjtimex(2) writes to `state`, which is valid for writes; with no mode set it changes no clock.
    let result = unsafe { libc::adjtimex(&raw mut state) };
    let is_synchronised = result >= 0 && result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    is_synchronised.then(|| u64::try_from(state.maxerror).ok()?.checked_mul(1000)).flatten()
}
