//! One word of the process, read by one load, on a page that the kernel can wipe in a fork's child.
//!
//! Each module that this crate is linked into has its own word.

use crate::arch;

/// The value that [`set_word`] stored last; 0 before.
#[inline(always)]
pub fn word() -> usize {
    arch::process_word()
}

/// Stores the word, with release semantics.
pub fn set_word(word: usize) {
    arch::set_process_word(word);
}

/// The page of 4096 bytes that holds the word and nothing else, in memory that no file backs: a caller can have
/// `madvise` wipe it in children (`MADV_WIPEONFORK`).
pub fn page() -> *mut u8 {
    arch::process_page()
}
