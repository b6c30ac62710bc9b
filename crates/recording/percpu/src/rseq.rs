//! Restartable sequences: their guarantees, and the offset of the thread's area.

#[cfg_attr(loom, expect(dead_code, reason = "the assembly names the rest"))]
mod abi;
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[path = "rseq/x86_64.rs"]
mod section;
#[cfg(loom)]
#[path = "rseq/model.rs"]
mod section;

#[cfg(not(loom))]
pub(crate) use abi::CPU_ID;

use crate::arch;
use crate::primitive::AtomicU64;

/// The result of [`cpu`] in a thread without a registered area. Larger than any CPU's number.
pub const NO_CPU: u32 = u32::MAX;

/// The outcome of a [`publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The record is visible.
    Committed,
    /// Nothing happened: the thread was interrupted, or the CPU or the head is no longer the one that the caller read.
    /// The caller reads both again and starts over.
    Restart,
}

/// A record and its destination.
///
/// The record is `timestamp`, `tag` and the payload, one after the other, at `destination`.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a, P> {
    /// The CPU that `head` and `destination` belong to, as [`cpu`] returned it.
    pub cpu: u32,
    /// The word whose change makes the record visible.
    pub head: &'a AtomicU64,
    /// The value of `head` that the caller read; if `head` has changed since, nothing happens.
    pub expected: u64,
    /// The new value of `head`.
    pub new: u64,
    /// The record's address, a multiple of 8.
    pub destination: *mut u8,
    /// The record's first word.
    pub timestamp: u64,
    /// The record's second word.
    pub tag: u64,
    /// The bytes behind the two words.
    pub payload: P,
}

/// A payload in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Address of the first byte.
    pub from: *const u8,
    /// Length in bytes, a multiple of 8.
    pub length: usize,
}

/// A payload of two words, in registers.
#[derive(Clone, Copy, Debug)]
pub struct Words(pub u64, pub u64);

/// A payload behind a record's first two words: [`Bytes`] or [`Words`].
///
/// # Safety
/// `publish` keeps the guarantees of [`publish()`] and [`publish_switching()`].
pub unsafe trait Payload: Copy {
    /// Implements [`publish()`] and, with `switch`, [`publish_switching()`].
    ///
    /// # Safety
    /// The caller meets the requirements of [`publish()`] and, with `switch`, those of [`publish_switching()`].
    #[doc(hidden)]
    unsafe fn publish(commit: &Commit<'_, Self>, switch: Option<SwitchWords>) -> Outcome;
}

// SAFETY: `section::publish` is the section that copies a payload from memory, and keeps both functions' guarantees.
unsafe impl Payload for Bytes {
    #[inline(always)]
    unsafe fn publish(commit: &Commit<'_, Self>, switch: Option<SwitchWords>) -> Outcome {
        // SAFETY: the caller guarantees the requirements of `publish` and `publish_switching` (this function's #
        // Safety).
        unsafe { section::publish(arch::area(), commit, switch) }
    }
}

// SAFETY: `section::publish_words` is the section that stores a payload from registers, and keeps both functions'
// guarantees.
unsafe impl Payload for Words {
    #[inline(always)]
    unsafe fn publish(commit: &Commit<'_, Self>, switch: Option<SwitchWords>) -> Outcome {
        // SAFETY: the caller guarantees the requirements of `publish` and `publish_switching` (this function's #
        // Safety).
        unsafe { section::publish_words(arch::area(), commit, switch) }
    }
}

/// The words that a sub-buffer switch writes into the packet header of the sub-buffer that it completes: the record's
/// timestamp, the expected head, and a count of lost records. The section writes them before the record becomes
/// visible.
#[derive(Clone, Copy, Debug)]
pub struct SwitchWords {
    /// The address of these three words.
    pub destination: *mut [u64; 3],
    /// The number of lost records.
    pub lost: u64,
}

/// Finds the area that the C library registered with the kernel. Called once, before anything else of this crate is
/// used. Returns `false` if there is no area or if `forbid` is set; [`cpu`] then always returns [`NO_CPU`].
///
/// Real-time: no system call, no allocation.
pub fn init(forbid: bool) -> bool {
    let registered = if forbid { None } else { abi::registered_area() };
    // Without rseq in the kernel or the C library, threads use an area of our own, whose `cpu_id` is [`NO_CPU`].
    arch::set_area(registered.unwrap_or_else(arch::substitute_area));
    registered.is_some()
}

/// Returns true if [`init`] has been called.
///
/// Real-time: one load.
pub fn is_ready() -> bool {
    // The offset of no area is 0: there the thread's control block begins.
    arch::area() != 0
}

/// The CPU that this thread runs on, or [`NO_CPU`]. The thread may be on another CPU as soon as this returns: only
/// [`publish`] tests that.
///
/// Real-time: two loads.
#[inline(always)]
pub fn cpu() -> u32 {
    arch::cpu(arch::area())
}

/// Writes the record and makes it visible by storing `new` to `head`, if the thread is still on `commit.cpu` and `head`
/// is still `expected`. All of it happens or, but for bytes behind the head, nothing.
///
/// The last store has release semantics: if an acquire load sees the new head, its thread sees the record. A release
/// fence precedes the first store: if a load sees any byte that the section wrote, and an acquire fence follows that
/// load, then the loading thread sees what this thread had done and seen before the section.
///
/// Real-time: bounded by the length of the record; no system call, no allocation. One try: a caller bounds how often it
/// tries again.
///
/// # Safety
/// - `destination` is valid for writing 16 bytes and the payload's length, and a payload in memory for reading it, also
///   when the thread is no longer on that CPU by now.
/// - Only sections that name the same CPU write to `head`, or to `destination` between `head`'s two values.
/// - [`init`] was called.
///
/// A page fault on any of these addresses inside the section is harmless: it does not restart the section.
#[inline(always)]
pub unsafe fn publish<P: Payload>(commit: &Commit<'_, P>) -> Outcome {
    // SAFETY: the caller guarantees valid memory, an `init` before, and that only sections of this CPU write there
    // (this function's # Safety).
    unsafe { P::publish(commit, None) }
}

/// Publishes like [`publish`], and writes the words of `switch` before the record. They may be written even if the
/// outcome is [`Outcome::Restart`]; the writer that commits the same step later writes its own.
///
/// # Safety
/// The requirements of [`publish`] hold; and while `head` is `expected`, `switch.destination` is valid for writing, and
/// only sections that name the same CPU write to it.
#[inline(always)]
pub unsafe fn publish_switching<P: Payload>(commit: &Commit<'_, P>, switch: SwitchWords) -> Outcome {
    // SAFETY: the caller guarantees all that `publish` requires, and that only sections of this CPU write to
    // `switch.destination` while `head` is `expected` (this function's # Safety).
    unsafe { P::publish(commit, Some(switch)) }
}
