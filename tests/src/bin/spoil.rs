//! A program that overwrites its own area, after a hundred events: `spoil [SECONDS]`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Writes pseudo-random numbers all over `words`.
fn spoil(words: &[AtomicU64], end: Instant) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    while Instant::now() < end {
        for _ in 0..1000 {
            // xorshift64 (Marsaglia).
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            words[state as usize % words.len()].store(state >> (state % 64), Relaxed);
        }
    }
}

/// Returns the beginning of the library's own area, made writable.
fn own_area() -> &'static [AtomicU64] {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let line = maps.lines().find(|line| line.ends_with("/memfd:sordino (deleted)")).expect("an area");
    let start = usize::from_str_radix(line.split('-').next().unwrap_or_default(), 16).expect("an address");
    // The beginning of the control part, whose words the recorder reads. The library keeps unused parts inaccessible.
    let (length, access) = (128 << 10, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the area stays mapped until the program ends, its first 128 KiB are made accessible here, and atomics may
    // change.
    unsafe {
        assert_eq!(libc::mprotect(start as *mut libc::c_void, length, access), 0, "access");
        std::slice::from_raw_parts(start as *const AtomicU64, length / 8)
    }
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    for number in 0..100u32 {
        sordino::tracepoint!(spoil:before, number: u32 = number);
    }
    spoil(own_area(), Instant::now() + Duration::from_secs_f64(seconds));
}
