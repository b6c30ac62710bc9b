//! A word of the process, reached by one load, on a page that a fork's child may find zero.
//!
//! Each module that this crate is linked into has its own.

use crate::rseq::arch;

/// What [`set_word`] set last; 0 before.
#[inline(always)]
pub fn word() -> usize {
    arch::process_word()
}

/// Sets the word, with release semantics.
pub fn set_word(word: usize) {
    arch::set_process_word(word);
}

/// The page of 4096 bytes that holds it and nothing else, in memory that no file backs: `madvise` may be told to wipe
/// it in children (`MADV_WIPEONFORK`).
pub fn page() -> *mut u8 {
    arch::process_page()
}
