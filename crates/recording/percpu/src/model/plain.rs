//! Plain accesses that loom sees: if no order keeps apart two accesses of one word, one of them a write, the model
//! fails.

use super::known;
use super::primitive::Own;
use crate::primitive::Relaxed;
use core::cell::{Cell, RefCell};
use loom::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The bytes that one access wrote at an address, and those that later ones of the same length wrote. A reader that
/// [guesses](guess_out) sees any of these that the orders allow. Other than on hardware it sees an access whole, but
/// bytes of the accesses before and behind it may be older or newer.
struct Versions {
    /// Index of the newest version. Relaxed, like each word of a record for a reader that copies it while it is
    /// written.
    newest: Own,
    bytes: RefCell<Vec<Box<[u8]>>>,
}

thread_local! {
    static GUESSED: Cell<bool> = const { Cell::new(false) };
    static VERSIONS: RefCell<BTreeMap<usize, Rc<Versions>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Begins one execution, in which nobody guesses until [`keep_for_guesses`].
pub(super) fn begin() {
    GUESSED.set(false);
    VERSIONS.take();
}

/// Makes each access that writes a step from now on, and keeps its bytes for [`guess_out`]; models without guesses need
/// neither. As with atomics, loom requires that the thread that starts all others is the first to write anywhere.
pub fn keep_for_guesses() {
    GUESSED.set(true);
}

/// Keeps the bytes that were written at `address`, and drops overlapping ones that accesses of other lengths wrote.
fn keep(address: usize, bytes: &[u8]) {
    if !GUESSED.get() {
        return;
    }
    let end = address + bytes.len();
    let known = VERSIONS.with_borrow_mut(|versions| {
        versions.retain(|&at, kept| {
            let kept = kept.bytes.borrow()[0].len();
            (at, kept) == (address, bytes.len()) || at >= end || at + kept <= address
        });
        let new = || Versions { newest: Own::new(0), bytes: RefCell::default() };
        Rc::clone(versions.entry(address).or_insert_with(|| Rc::new(new())))
    });
    let version = known.bytes.borrow().len();
    known.bytes.borrow_mut().push(bytes.into());
    known.newest.store(version as u64, Relaxed);
}

/// Loom's state of each word that `length` bytes from `address` touch.
fn words(address: usize, length: usize) -> impl Iterator<Item = Rc<UnsafeCell<()>>> {
    (address & !7..address + length).step_by(8).map(|word| known(word, || UnsafeCell::new(())))
}

fn words_in_use(start: usize, length: usize) -> Vec<Rc<UnsafeCell<()>>> {
    let words = (start & !7..start + length).step_by(8);
    words
        .filter(|&word| super::is_known::<UnsafeCell<()>>(word))
        .map(|word| known(word, || UnsafeCell::new(())))
        .collect()
}

fn mark_written(address: usize, length: usize) {
    words(address, length).for_each(|word| word.with_mut(|_| ()));
}

/// Records a write to those of these words that have been used.
pub(super) fn written_where_known(start: usize, length: usize) {
    words_in_use(start, length).iter().for_each(|word| word.with_mut(|_| ()));
}

fn mark_read(address: usize, length: usize) {
    words(address, length).for_each(|word| word.with(|_| ()));
}

/// Stores `value` at `to`.
///
/// # Safety
/// `to` is valid for writing and aligned.
pub unsafe fn write<T: Copy>(to: *mut T, value: T) {
    mark_written(to as usize, size_of::<T>());
    // SAFETY: the caller guarantees that `to` is valid for writing and aligned (this function's # Safety).
    unsafe { to.write(value) };
    // SAFETY: these bytes were just written; the words of records have no padding.
    keep(to as usize, unsafe { core::slice::from_raw_parts(to.cast(), size_of::<T>()) });
}

/// Reads the value at `from`.
///
/// # Safety
/// `from` is valid for reading and aligned, and any bits are a `T`.
pub unsafe fn read<T: Copy>(from: *const T) -> T {
    mark_read(from as usize, size_of::<T>());
    // SAFETY: the caller guarantees that `from` is valid for reading and aligned, and that any bits are a `T`.
    unsafe { from.read() }
}

/// Copies `length` bytes of the caller's own memory to shared memory.
///
/// # Safety
/// The ranges do not overlap; `from` is valid for reading, `to` for writing.
pub unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize) {
    mark_written(to as usize, length);
    // SAFETY: the caller guarantees `length` readable and `length` writable bytes that do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, length) };
    // SAFETY: the caller guarantees that `from` is valid for reading `length` bytes.
    keep(to as usize, unsafe { core::slice::from_raw_parts(from, length) });
}

/// Copies `length` bytes of shared memory to the caller's own memory.
///
/// # Safety
/// The ranges do not overlap; `from` is valid for reading, `to` for writing.
pub unsafe fn copy_out(to: *mut u8, from: *const u8, length: usize) {
    mark_read(from as usize, length);
    // SAFETY: the caller guarantees `length` readable and `length` writable bytes that do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, length) }
}

/// Copies like [`copy_out`] from memory that a writer may write to at the same time: the caller detects that
/// afterwards, or works with either version.
///
/// # Safety
/// The ranges do not overlap; `from` is valid for reading, `to` for writing.
pub unsafe fn guess_out(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller guarantees `length` readable and `length` writable bytes that do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, length) };
    // SAFETY: these `length` bytes were just written, and are the caller's own.
    let to = unsafe { core::slice::from_raw_parts_mut(to, length) };
    let (start, end) = (from as usize, from as usize + length);
    let all: Vec<_> = VERSIONS
        .with_borrow(|versions| versions.range(..end).map(|(&at, kept)| (at, Rc::clone(kept))).collect());
    for (at, versions) in all {
        let kept = at + versions.bytes.borrow()[0].len();
        let within = at.max(start)..kept.min(end);
        if !within.is_empty() {
            let version = versions.newest.load(Relaxed) as usize;
            let bytes = &versions.bytes.borrow()[version];
            to[within.start - start..within.end - start]
                .copy_from_slice(&bytes[within.start - at..within.end - at]);
        }
    }
}
