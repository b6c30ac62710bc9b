//! The architecture that the checker loom sees: a CPU is a thread.

use crate::model;

pub(crate) fn area() -> isize {
    0
}

pub(crate) fn set_area(_area: isize) {}

pub(crate) fn substitute_area() -> isize {
    0
}

pub(crate) fn libc_symbols() -> Option<(isize, u32)> {
    None
}

pub(crate) fn cpu(_area: isize) -> u32 {
    model::cpu()
}

pub(crate) fn current_cpu() -> u32 {
    model::cpu()
}

pub(crate) fn sum(a: usize, b: usize) -> usize {
    a.wrapping_add(b)
}

pub(crate) fn expect_write<const AHEAD: usize>(_address: *const u8) {}

pub(crate) fn futex_wake(word: *mut u32) {
    model::futex::wake(word);
}

pub(crate) fn sleep(_nanoseconds: u32) {
    loom::thread::yield_now();
}
