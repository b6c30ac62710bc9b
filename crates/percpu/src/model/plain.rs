//! Plain accesses that loom sees: two of one word, one of them a write, that no order keeps apart, fail the model.

use super::known;
use loom::cell::UnsafeCell;

/// Loom's knowledge of each word that `length` bytes from `address` touch.
fn words(address: usize, length: usize) -> impl Iterator<Item = std::rc::Rc<UnsafeCell<()>>> {
    (address & !7..address + length).step_by(8).map(|word| known(word, || UnsafeCell::new(())))
}

fn written(address: usize, length: usize) {
    words(address, length).for_each(|word| word.with_mut(|_| ()));
}

fn seen(address: usize, length: usize) {
    words(address, length).for_each(|word| word.with(|_| ()));
}

/// Stores `value` at `to`.
///
/// # Safety
/// `to` is valid for writing and aligned.
pub unsafe fn write<T: Copy>(to: *mut T, value: T) {
    written(to as usize, size_of::<T>());
    // SAFETY: the caller's obligations are the same.
    unsafe { to.write(value) }
}

/// What is stored at `from`.
///
/// # Safety
/// `from` is valid for reading and aligned, and any bits are a `T`.
pub unsafe fn read<T: Copy>(from: *const T) -> T {
    seen(from as usize, size_of::<T>());
    // SAFETY: the caller's obligations are the same.
    unsafe { from.read() }
}

/// As [`read`], where a writer that is not known to be done may write at the same time: the caller can live with anything.
///
/// # Safety
/// As for [`read`].
pub unsafe fn guess<T: Copy>(from: *const T) -> T {
    // SAFETY: the caller's obligations are the same.
    unsafe { from.read() }
}

/// Copies `length` bytes of the caller's own to shared memory.
///
/// # Safety
/// They do not overlap; `from` is valid for reading, `to` for writing.
pub unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) {
    written(to as usize, length);
    // SAFETY: the caller's obligations are the same.
    unsafe { to.copy_from_nonoverlapping(from, length) }
}

/// Copies `length` bytes of shared memory to the caller's own.
///
/// # Safety
/// As for [`copy_in`].
pub unsafe fn copy_out(to: *mut u8, from: *const u8, length: usize) {
    seen(from as usize, length);
    // SAFETY: the caller's obligations are the same.
    unsafe { to.copy_from_nonoverlapping(from, length) }
}
