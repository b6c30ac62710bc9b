//! Rust twin of `programs/stepped.c`: hits a tracepoint between two breakpoints: `stepped CASE TIMES`.

use std::arch::{asm, global_asm};
use std::io::Write;
use std::mem::zeroed;

// Defines the symbols of `programs/fake_rseq.h`.
global_asm!(
    ".pushsection .tbss, \"awT\", @nobits",
    ".p2align 5",
    ".globl fake_rseq",
    ".type fake_rseq, @object",
    ".size fake_rseq, 32",
    "fake_rseq:",
    ".zero 32",
    ".popsection",
    ".pushsection .data.rel.ro, \"aw\"",
    ".balign 8",
    ".globl __rseq_offset, __rseq_size",
    ".type __rseq_offset, @object",
    ".size __rseq_offset, 8",
    "__rseq_offset: .quad fake_rseq@tpoff",
    ".type __rseq_size, @object",
    ".size __rseq_size, 4",
    "__rseq_size: .long 32",
    ".popsection",
);

/// Returns the address of this thread's rseq area.
fn fake_rseq() -> usize {
    let area;
    // SAFETY: the word at `fs:0` is the thread pointer itself, and the second instruction adds a constant to it.
    unsafe { asm!("mov {a}, fs:0", "lea {a}, [{a} + fake_rseq@tpoff]", a = out(reg) area) };
    area
}

/// Function that the golden assembly shows.
#[unsafe(no_mangle)]
#[inline(never)]
fn two_words(first: u64, second: u64) {
    sordino::tracepoint!(stepped:shown, first: u64 = first, second: u64 = second);
}

/// Calls `hit` between two breakpoints, for each of so many numbers.
#[inline(always)]
fn step(times: u64, hit: impl Fn(u64)) {
    let area = fake_rseq();
    for number in 0..times {
        // SAFETY: the debugger, which finds the area's address in rdi, continues behind the breakpoint and changes no
        // register.
        unsafe { asm!("int3", in("rdi") area) };
        hit(number);
        // SAFETY: the debugger continues behind the breakpoint and changes no register.
        unsafe { asm!("int3") };
    }
}

fn main() {
    let times: u64 = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut number = 0;
    // SAFETY: a signal set of all zeros is valid, and empty.
    let mut begin: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: the call changes `begin`, which is our own, and SIGUSR2 is a valid signal.
    unsafe { libc::sigaddset(&mut begin, libc::SIGUSR2) };
    // SAFETY: the call reads `begin`, and the old mask is not requested.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &begin, std::ptr::null_mut()) };
    println!("ready");
    std::io::stdout().flush().expect("an output");
    // SAFETY: the call reads `begin` and writes the signal's number into `number`.
    unsafe { libc::sigwait(&begin, &mut number) };
    match std::env::args().nth(1).as_deref() {
        Some("eighteen_bytes") => step(times, |number| {
            sordino::tracepoint!(stepped:eighteen_bytes, first: u64 = number, second: u64 = !number,
                third: u16 = number as u16);
        }),
        Some("switch") => step(times, |number| {
            sordino_fiber::switch(number, !number, sordino_fiber::SwitchReason::Yielded, "");
        }),
        Some("function") => step(times, |_| drop(sordino_function::function!())),
        _ => step(times, |number| {
            sordino::tracepoint!(stepped:two_words, first: u64 = number, second: u64 = !number);
        }),
    }
    two_words(times, times);
}
