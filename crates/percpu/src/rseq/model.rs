//! The architecture that the checker loom sees: a CPU is a thread, and a section a step after the other.
//!
//! Its one thread is never preempted for another of the same CPU, so no section restarts half-way. Other CPUs' threads
//! get between any two steps, as they do outside.

use super::{Bytes, Commit, Leave, Outcome, Words};
use crate::model;
use crate::primitive::{Relaxed, Release, fence, plain};

pub(super) fn area() -> isize {
    0
}

pub(super) fn set_area(_area: isize) {}

pub(crate) fn substitute_area() -> isize {
    0
}

pub(super) fn libc_symbols() -> Option<(isize, u32)> {
    None
}

pub(super) fn cpu(_area: isize) -> u32 {
    model::cpu()
}

pub(super) fn current_cpu() -> u32 {
    model::cpu()
}

pub(super) fn sum(a: usize, b: usize) -> usize {
    a.wrapping_add(b)
}

pub(super) fn expect_write<const AHEAD: usize>(_address: *const u8) {}

pub(super) fn futex_wake(word: *mut u32) {
    model::futex::wake(word);
}

pub(super) fn sleep(_nanoseconds: u32) {
    loom::thread::yield_now();
}

/// The section: what is left, the record, whose payload `copy` writes, the head.
///
/// # Safety
/// As for [`super::publish`].
unsafe fn section<P>(commit: &Commit<'_, P>, leave: Option<Leave>, copy: impl FnOnce(*mut u8)) -> Outcome {
    model::section(|| {
        if cpu(area()) != commit.cpu || commit.head.load(Relaxed) != commit.expected {
            return Outcome::Restart;
        }
        // The architecture orders its stores and the loads before them.
        fence(Release);
        if let Some(leave) = leave {
            // SAFETY: the caller's obligation.
            unsafe { plain::write(leave.destination, [commit.stamp, commit.expected, leave.lost]) };
        }
        // SAFETY: likewise.
        unsafe { plain::write(commit.destination.cast(), [commit.stamp, commit.tag]) };
        copy(commit.destination.wrapping_add(16));
        commit.head.store(commit.new, Release);
        Outcome::Committed
    })
}

/// See [`super::publish`].
pub(super) unsafe fn publish(_area: isize, commit: &Commit<'_, Bytes>, leave: Option<Leave>) -> Outcome {
    let Bytes { from, length } = commit.payload;
    // SAFETY: the caller's obligation.
    let copy = |to| unsafe { plain::copy_in(to, from, length) };
    // SAFETY: likewise.
    unsafe { section(commit, leave, copy) }
}

/// See [`super::publish`].
pub(super) unsafe fn publish_words(
    _area: isize,
    commit: &Commit<'_, Words>,
    leave: Option<Leave>,
) -> Outcome {
    // SAFETY: the caller's obligation.
    let copy = |to: *mut u8| unsafe { plain::write(to.cast(), [commit.payload.0, commit.payload.1]) };
    // SAFETY: likewise.
    unsafe { section(commit, leave, copy) }
}
