//! The atomics of the recording crates, and their plain accesses to memory that others use: the one place that names where
//! they come from. Under `--cfg loom` that is `model`.

#[cfg(loom)]
pub use crate::model::{
    plain,
    primitive::{AtomicU8, AtomicU32, AtomicU64, fence},
};
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

pub use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Accesses that are no atomics: records, and what is said of them. An order elsewhere has to keep them apart.
#[cfg(not(loom))]
pub mod plain {
    /// Stores `value` at `to`.
    ///
    /// # Safety
    /// `to` is valid for writing and aligned.
    #[inline(always)]
    pub unsafe fn write<T: Copy>(to: *mut T, value: T) {
        // SAFETY: the caller's obligations are the same.
        unsafe { to.write(value) }
    }

    /// What is stored at `from`: read once, even if a hostile program changes it meanwhile.
    ///
    /// # Safety
    /// `from` is valid for reading and aligned, and any bits are a `T`.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(from: *const T) -> T {
        // SAFETY: the caller's obligations are the same.
        unsafe { from.read_volatile() }
    }

    /// As [`read`], where a writer that is not known to be done may write at the same time: the caller can live with anything.
    ///
    /// # Safety
    /// As for [`read`].
    #[inline(always)]
    pub unsafe fn guess<T: Copy>(from: *const T) -> T {
        // SAFETY: the caller's obligations are the same.
        unsafe { read(from) }
    }

    /// Copies `length` bytes of the caller's own to shared memory.
    ///
    /// # Safety
    /// They do not overlap; `from` is valid for reading, `to` for writing.
    #[inline(always)]
    pub unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller's obligations are the same.
        unsafe { to.copy_from_nonoverlapping(from, length) }
    }

    /// Copies `length` bytes of shared memory to the caller's own.
    ///
    /// # Safety
    /// As for [`copy_in`].
    #[inline(always)]
    pub unsafe fn copy_out(to: *mut u8, from: *const u8, length: usize) {
        // SAFETY: the caller's obligations are the same.
        unsafe { to.copy_from_nonoverlapping(from, length) }
    }
}
