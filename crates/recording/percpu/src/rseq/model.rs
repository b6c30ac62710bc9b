//! The section that the checker loom sees: a sequence of steps, and a CPU is a thread.
//!
//! A CPU's one thread is never preempted for another of the same CPU, so no section restarts half-way. Threads of other
//! CPUs run between any two steps, as they do on hardware.

use super::{Bytes, Commit, Outcome, SwitchWords, Words};
use crate::arch::{area, cpu};
use crate::model;
use crate::primitive::{Relaxed, Release, fence, plain};

/// The section: writes the words of `switch`, then the record, whose payload `copy` writes, then the head.
///
/// # Safety
/// The caller meets the requirements of [`super::publish_switching`]; `copy` writes no more than the payload's length.
unsafe fn section<P>(
    commit: &Commit<'_, P>,
    switch: Option<SwitchWords>,
    copy: impl FnOnce(*mut u8),
) -> Outcome {
    model::section(|| {
        if cpu(area()) != commit.cpu || commit.head.load(Relaxed) != commit.expected {
            return Outcome::Restart;
        }
        // x86-64 orders its stores, and the loads before them; the model needs a fence for that.
        fence(Release);
        if let Some(switch) = switch {
            // SAFETY: the caller guarantees that `switch.destination` is valid for writing (this function's # Safety).
            unsafe { plain::write(switch.destination, [commit.timestamp, commit.expected, switch.lost]) };
        }
        // SAFETY: the caller guarantees 16 writable bytes, aligned to 8, at `destination` (`super::publish`'s
        // # Safety).
        unsafe { plain::write(commit.destination.cast(), [commit.timestamp, commit.tag]) };
        copy(commit.destination.wrapping_add(16));
        commit.head.store(commit.new, Release);
        Outcome::Committed
    })
}

/// Publishes a payload that lies in memory, as [`super::publish`] specifies.
pub(super) unsafe fn publish(
    _area: isize,
    commit: &Commit<'_, Bytes>,
    switch: Option<SwitchWords>,
) -> Outcome {
    let Bytes { from, length } = commit.payload;
    // SAFETY: the caller guarantees that `from` is readable, and `destination` writable behind its first two words, for
    // `length` bytes.
    let copy = |to| unsafe { plain::copy_in(to, from, length) };
    // SAFETY: the caller guarantees the requirements of `super::publish_switching`; `copy` writes `length` bytes.
    unsafe { section(commit, switch, copy) }
}

/// Publishes a payload of two words, as [`super::publish`] specifies.
pub(super) unsafe fn publish_words(
    _area: isize,
    commit: &Commit<'_, Words>,
    switch: Option<SwitchWords>,
) -> Outcome {
    // SAFETY: the caller guarantees that `destination` is writable for two more words behind its first two.
    let copy = |to: *mut u8| unsafe { plain::write(to.cast(), [commit.payload.0, commit.payload.1]) };
    // SAFETY: the caller guarantees the requirements of `super::publish_switching`; `copy` writes two words.
    unsafe { section(commit, switch, copy) }
}
