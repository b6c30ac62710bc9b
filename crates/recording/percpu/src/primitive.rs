//! The atomics of the recording crates, and their plain accesses to memory that others use. No other module names their
//! origin: `core`, and `model` under `--cfg loom`.

#[cfg(loom)]
pub use crate::model::{
    plain,
    primitive::{AtomicU8, AtomicU32, AtomicU64, fence},
};
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

pub use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Accesses that are no atomics: to records and their packet headers. A memory order elsewhere has to keep them apart.
#[cfg(not(loom))]
pub mod plain {
    /// Stores `value` at `to`.
    ///
    /// # Safety
    /// `to` is valid for writing and aligned.
    #[inline(always)]
    pub unsafe fn write<T: Copy>(to: *mut T, value: T) {
        // SAFETY: the caller guarantees that `to` is valid for writing and aligned (this function's # Safety).
        unsafe { to.write(value) }
    }

    /// Reads the value at `from` once, even if a hostile program changes it meanwhile.
    ///
    /// # Safety
    /// `from` is valid for reading and aligned, and any bits are a `T`.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(from: *const T) -> T {
        // SAFETY: the caller guarantees that `from` is valid for reading and aligned, and that any bits are a `T`.
        unsafe { from.read_volatile() }
    }

    /// Copies `length` bytes of the caller's own memory to shared memory.
    ///
    /// # Safety
    /// The ranges do not overlap; `from` is valid for reading, `to` for writing.
    #[inline(always)]
    pub unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller guarantees `length` readable and `length` writable bytes that do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, length) }
    }

    /// Copies `length` bytes of shared memory to the caller's own memory.
    ///
    /// # Safety
    /// The ranges do not overlap; `from` is valid for reading, `to` for writing.
    #[inline(always)]
    pub unsafe fn copy_out(to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller guarantees `length` readable and `length` writable bytes that do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, length) }
    }

    /// Copies like [`copy_out`] from memory that a writer may write to at the same time: word by word, each of which is
    /// an old one or a new one. The caller detects afterwards which, or works with either.
    ///
    /// # Safety
    /// The ranges do not overlap; `to` is valid for writing `length` bytes; `from` is aligned to 8, and valid for
    /// reading up to the next multiple of 8 bytes.
    pub unsafe fn guess_out(to: *mut u8, from: *const u8, length: usize) {
        let word = |at: usize| {
            let word = from.wrapping_add(at).cast::<u64>().cast_mut();
            // SAFETY: the caller guarantees that `from` is aligned to 8 and readable up to the next multiple of 8
            // bytes; an atomic, because others write there.
            let word = unsafe { super::AtomicU64::from_ptr(word) };
            word.load(super::Relaxed).to_ne_bytes()
        };
        // SAFETY: the caller guarantees that `to` is valid for writing `length` bytes, and that nothing else uses them.
        let to = unsafe { core::slice::from_raw_parts_mut(to, length) };
        let (words, rest) = to.as_chunks_mut::<8>();
        let whole = 8 * words.len();
        words.iter_mut().zip((0..).step_by(8)).for_each(|(to, at)| *to = word(at));
        if !rest.is_empty() {
            rest.copy_from_slice(&word(whole)[..rest.len()]);
        }
    }
}
