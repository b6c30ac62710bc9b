//! Restartable sequences: what they promise, and where the thread's area lies.

#[cfg_attr(loom, expect(dead_code, reason = "the assembly names the rest"))]
mod abi;
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[path = "x86_64.rs"]
pub(crate) mod arch;
#[cfg(loom)]
#[path = "model.rs"]
pub(crate) mod arch;
#[cfg(not(any(target_arch = "x86_64", loom)))]
compile_error!(
    "sordino records on x86-64 only so far: another architecture needs a file beside rseq/x86_64.rs"
);

use crate::primitive::AtomicU64;

/// What [`cpu`] answers in a thread without a registered area. Larger than any CPU's number.
pub const NO_CPU: u32 = u32::MAX;

/// Whether a [`publish`] happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// The record is visible.
    Committed,
    /// Nothing happened: the thread was interrupted, or the CPU or the head is no longer what the caller saw.
    /// Look again and start over.
    Restart,
}

/// One record and where it goes.
///
/// The record is `stamp`, `tag` and the payload, one after the other, at `destination`.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a, P> {
    /// The CPU that `head` and `destination` belong to, as [`cpu`] gave it.
    pub cpu: u32,
    /// The word whose change makes the record visible.
    pub head: &'a AtomicU64,
    /// What the caller saw in `head`; if it is something else by now, nothing happens.
    pub expected: u64,
    /// What `head` becomes.
    pub new: u64,
    /// Where the record goes; a multiple of 8.
    pub destination: *mut u8,
    /// The record's first word.
    pub stamp: u64,
    /// The record's second word.
    pub tag: u64,
    /// What is behind them.
    pub payload: P,
}

/// A payload in memory.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// Where.
    pub from: *const u8,
    /// How many, a multiple of 8.
    pub length: usize,
}

/// A payload of two words, in registers.
#[derive(Clone, Copy, Debug)]
pub struct Words(pub u64, pub u64);

/// What a record can carry behind its first two words: [`Bytes`] or [`Words`].
///
/// # Safety
/// `publish` does what [`publish()`] and [`publish_leaving()`] promise.
pub unsafe trait Payload: Copy {
    /// See [`publish()`] and, with `leave`, [`publish_leaving()`].
    ///
    /// # Safety
    /// As there.
    #[doc(hidden)]
    unsafe fn publish(commit: &Commit<'_, Self>, leave: Option<Leave>) -> Outcome;
}

// SAFETY: the architecture's sections are made for it.
unsafe impl Payload for Bytes {
    #[inline(always)]
    unsafe fn publish(commit: &Commit<'_, Self>, leave: Option<Leave>) -> Outcome {
        // SAFETY: the caller's obligations are the same.
        unsafe { arch::publish(arch::area(), commit, leave) }
    }
}

// SAFETY: the architecture's sections are made for it.
unsafe impl Payload for Words {
    #[inline(always)]
    unsafe fn publish(commit: &Commit<'_, Self>, leave: Option<Leave>) -> Outcome {
        // SAFETY: the caller's obligations are the same.
        unsafe { arch::publish_words(arch::area(), commit, leave) }
    }
}

/// What is written first, in the same section, because the sub-buffer that the record leaves behind must say it of itself before
/// the record is visible: the record's stamp, the head that was expected, and a count.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    /// Where these three words go.
    pub destination: *mut [u64; 3],
    /// How many records were lost.
    pub lost: u64,
}

/// Finds the area that the C library registered with the kernel, once, before anything else of this crate is used;
/// `false` means that there is none or that `forbid` says not to use it, and [`cpu`] always answers [`NO_CPU`].
///
/// Real-time: no system call, no allocation.
pub fn init(forbid: bool) -> bool {
    let registered = if forbid { None } else { abi::registered_area() };
    // Where the kernel or the C library has no rseq, an area of our own in which `cpu_id` says [`NO_CPU`].
    arch::set_area(registered.unwrap_or_else(arch::substitute_area));
    registered.is_some()
}

/// The CPU this thread runs on, or [`NO_CPU`]. It may be another one as soon as this returns: only
/// [`publish`] tells whether that mattered.
///
/// Real-time: two loads.
#[inline(always)]
pub fn cpu() -> u32 {
    arch::cpu(arch::area())
}

/// `a + b`, wrapping, once: left to itself, the compiler keeps both and adds them in each address that depends on the sum, which
/// costs the short way a register and two instructions.
#[inline(always)]
pub fn sum(a: usize, b: usize) -> usize {
    arch::sum(a, b)
}

/// Says that the memory `AHEAD` bytes behind `address`, which need not be mapped, will be written to soon: another CPU may
/// have read it last.
///
/// Real-time: one instruction, which waits for nothing.
#[inline(always)]
pub fn expect_write<const AHEAD: usize>(address: *const u8) {
    arch::expect_write::<AHEAD>(address);
}

/// The CPU this thread runs on, for threads in which [`cpu`] answers [`NO_CPU`]: asks the processor.
///
/// Real-time: one instruction.
pub fn current_cpu() -> u32 {
    arch::current_cpu()
}

/// What the processor's performance counter `number` says, in as many low bits as it has.
///
/// Real-time: one instruction.
///
/// # Safety
/// The kernel has allowed this process to read them: a perf event's page says so, mapped.
#[cfg(not(loom))]
#[inline(always)]
pub unsafe fn read_performance_counter(number: u32) -> u64 {
    // SAFETY: the caller's obligation is the same.
    unsafe { arch::read_performance_counter(number) }
}

/// Writes the record and makes it visible by storing `new` to `head`, if the thread is still on `commit.cpu` and
/// `head` is still `expected`; all of it or, but for bytes behind the head, nothing.
///
/// The last store has release semantics: who sees the new head with an acquire load sees the record. A release fence precedes
/// the first: who sees any byte that the section wrote, and then fences by acquire, sees what this thread had done and seen
/// before.
///
/// Real-time: bounded by the length of the record; no system call, no allocation. One try: a caller bounds how often
/// it tries again.
///
/// # Safety
/// - `destination` is valid for writing 16 bytes and the payload's length, and a payload in memory for reading it, also when the
///   thread is no longer on that CPU by now.
/// - Only sections that name the same CPU write to `head`, or to `destination` between `head`'s two values.
/// - [`init`] was called.
///
/// A page fault on any of these addresses inside the section is harmless: it does not restart the section.
#[inline(always)]
pub unsafe fn publish<P: Payload>(commit: &Commit<'_, P>) -> Outcome {
    // SAFETY: the caller's obligations are the same.
    unsafe { P::publish(commit, None) }
}

/// As [`publish`], and writes the words of `leave` before the record. They may be written even if the outcome is
/// [`Outcome::Restart`]; who commits the same step later writes its own.
///
/// # Safety
/// As for [`publish`]; and `leave.destination` is valid for writing, by sections that name the same CPU alone, while
/// `head` is `expected`.
#[inline(always)]
pub unsafe fn publish_leaving<P: Payload>(commit: &Commit<'_, P>, leave: Leave) -> Outcome {
    // SAFETY: the caller's obligations are the same.
    unsafe { P::publish(commit, Some(leave)) }
}

/// Sleeps for so many nanoseconds, less than a second; a signal ends it earlier.
///
/// One system call. Leaves `errno` as it was, and is no point at which a thread is cancelled.
pub fn sleep(nanoseconds: u32) {
    arch::sleep(nanoseconds);
}

/// Wakes whoever sleeps on `word`, a futex in memory that is shared between processes.
///
/// Real-time: one system call that never blocks. Leaves `errno` as it was.
pub fn wake(word: &crate::primitive::AtomicU32) {
    arch::futex_wake(word.as_ptr());
}
