//! x86-64: the words of threads and of the process, the CPU's number, hints, system calls, and the child of a `vfork`.

#[path = "x86_64/words.rs"]
mod words;

pub(crate) use words::*;

use crate::rseq::CPU_ID;
use core::arch::{asm, global_asm, naked_asm};

// Hidden symbols are reached without the global offset table, from every module that this is linked into. That saves a
// load in the dependency chain of every record.
//
// `sordino_thread`: tag, borrowed, the CPU's ring, counters, then a substitute for the rseq area, whose cpu_id stays
// -1.
global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".p2align 5",
    ".hidden sordino_thread",
    ".globl sordino_thread",
    ".type sordino_thread, @object",
    ".size sordino_thread, 64",
    "sordino_thread:",
    ".quad 0",
    ".quad 0",
    ".quad 0",
    ".quad 0",
    ".long 0, -1",
    ".zero 24",
    ".popsection",
    // `sordino_process`: a word on a page of its own, in memory that no file backs.
    ".pushsection .bss,\"aw\",@nobits",
    ".p2align 12",
    ".hidden sordino_process",
    ".globl sordino_process",
    ".type sordino_process, @object",
    ".size sordino_process, 4096",
    "sordino_process:",
    ".zero 4096",
    // `sordino_rseq_offset`: the offset of the thread's rseq area from its thread pointer.
    ".hidden sordino_rseq_offset",
    ".globl sordino_rseq_offset",
    ".type sordino_rseq_offset, @object",
    ".size sordino_rseq_offset, 8",
    "sordino_rseq_offset:",
    ".zero 8",
    ".popsection",
    // The C library may lack these symbols: before glibc 2.35, and in other C libraries.
    ".weak __rseq_offset",
    ".weak __rseq_size",
);

/// Offset of the substitute area in `sordino_thread`.
const SUBSTITUTE: isize = 32;

#[inline(always)]
pub(crate) fn area() -> isize {
    let area;
    // SAFETY: reads a word of this module, which changes at most once, in `init`.
    unsafe {
        asm!("mov {a}, qword ptr [rip + sordino_rseq_offset]", a = out(reg) area,
            options(nostack, pure, readonly, preserves_flags));
    }
    area
}

pub(crate) fn set_area(area: isize) {
    // SAFETY: writes a word of this module, which only assembly accesses.
    unsafe {
        asm!("mov qword ptr [rip + sordino_rseq_offset], {a}", a = in(reg) area, options(nostack, preserves_flags));
    }
}

pub(crate) fn substitute_area() -> isize {
    let offset: isize;
    // SAFETY: loads the symbol's thread-local offset from the global offset table and accesses no other memory.
    unsafe {
        asm!("mov {o}, qword ptr [rip + sordino_thread@GOTTPOFF]", o = out(reg) offset,
            options(nostack, nomem, preserves_flags));
    }
    offset + SUBSTITUTE
}

/// Values of the C library's `__rseq_offset` and `__rseq_size`, if it has them.
pub(crate) fn libc_symbols() -> Option<(isize, u32)> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: loads two entries of the global offset table; the entry of an undefined weak symbol is null.
    unsafe {
        asm!("mov {o}, qword ptr [rip + __rseq_offset@GOTPCREL]", "mov {s}, qword ptr [rip + __rseq_size@GOTPCREL]",
            o = out(reg) offset, s = out(reg) size, options(nostack, readonly, preserves_flags));
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: not null, so glibc defines it: as a constant `ptrdiff_t`.
    let offset = unsafe { *offset };
    // SAFETY: not null, so glibc defines it: as a constant `unsigned int`.
    let size = unsafe { *size };
    Some((offset, size))
}

#[inline(always)]
pub(crate) fn cpu(area: isize) -> u32 {
    let cpu;
    // SAFETY: `area` is the offset of an area in the thread's own storage. Not `pure`: the kernel changes the word.
    unsafe {
        asm!("mov {c:e}, dword ptr fs:[{a} + {CPU_ID}]", c = out(reg) cpu, a = in(reg) area, CPU_ID = const CPU_ID,
            options(nostack, readonly, preserves_flags));
    }
    cpu
}

#[inline(always)]
pub(crate) fn sum(a: usize, b: usize) -> usize {
    let mut sum = a;
    // SAFETY: changes one register and the flags.
    unsafe { asm!("add {}, {}", inout(reg) sum, in(reg) b, options(pure, nomem, nostack)) };
    sum
}

/// Requests the cache line `AHEAD` bytes behind `address` for writing. Never faults; some processors ignore it.
#[inline(always)]
pub(crate) fn expect_write<const AHEAD: usize>(address: *const u8) {
    // SAFETY: prefetchw is a hint, which faults at no address.
    unsafe {
        asm!("prefetchw byte ptr [{a} + {AHEAD}]", a = in(reg) address, AHEAD = const AHEAD,
            options(nostack, readonly, preserves_flags));
    }
}

/// The CPU's number from the low 12 bits of `IA32_TSC_AUX`, where Linux keeps it for its own getcpu
/// (`arch/x86/include/asm/segment.h`).
pub(crate) fn current_cpu() -> u32 {
    let mut auxiliary = 0;
    // SAFETY: rdtscp writes to `auxiliary`; every x86-64 that Linux's vdso serves has it.
    unsafe { core::arch::x86_64::__rdtscp(&mut auxiliary) };
    auxiliary & 0xfff
}

/// System call number of futex(2).
const SYS_FUTEX: usize = 202;
/// `FUTEX_WAKE` without the private flag: the sleeper is another process.
const FUTEX_WAKE: usize = 1;

pub(crate) fn futex_wake(word: *mut u32) {
    // SAFETY: the kernel uses `word` only to identify the futex. The instruction clobbers rcx and r11. The result does
    // not matter: it is the number of woken sleepers, or an error if `word` is not mapped, where nobody sleeps.
    unsafe {
        asm!("syscall", inout("rax") SYS_FUTEX => _, in("rdi") word, in("rsi") FUTEX_WAKE, in("rdx") i32::MAX,
            out("rcx") _, out("r11") _, options(nostack));
    }
}

/// System call number of nanosleep(2).
const SYS_NANOSLEEP: usize = 35;

pub(crate) fn sleep(nanoseconds: u32) {
    // The fields of `struct timespec`.
    let time = [0i64, nanoseconds.into()];
    // SAFETY: the kernel reads `time`. The instruction clobbers rcx and r11. The result only reports a signal.
    unsafe {
        asm!("syscall", inout("rax") SYS_NANOSLEEP => _, in("rdi") &time, in("rsi") 0,
            out("rcx") _, out("r11") _, options(nostack));
    }
}

/// System call numbers of vfork(2) and gettid(2).
const SYS_VFORK: usize = 58;
const SYS_GETTID: usize = 186;

/// `vfork` for the whole program, in place of the C library's.
///
/// The child of a vfork runs on its parent's thread-local storage, whose rseq area appears to be registered, although
/// the kernel has not registered it for the child. The child's sections would not restart and could tear records. So
/// the child's words mark the storage as borrowed until the parent, which sleeps meanwhile, runs again and restores its
/// own words.
///
/// The return address leaves the stack before the system call because the child's next call overwrites it. Registers
/// other than rax, rcx and r11 survive the system call in both. A failure sets `errno` as the C library's does.
///
/// # Safety
/// The C library's requirements hold: the child only calls `_exit`, `exec`, and functions that signal handlers may
/// call.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> i32 {
    naked_asm!(
        "mov r8, qword ptr [rip + sordino_thread@GOTTPOFF]",
        "mov r9, qword ptr fs:[r8]",
        "mov r10, qword ptr fs:[r8 + 8]",
        "mov rdx, qword ptr fs:[r8 + 16]",
        "pop rdi",
        "mov eax, {SYS_VFORK}",
        "syscall",
        "push rdi",
        "test eax, eax",
        "jz 2f",
        "js 3f",
        "mov qword ptr fs:[r8], r9",
        "mov qword ptr fs:[r8 + 8], r10",
        "mov qword ptr fs:[r8 + 16], rdx",
        "ret",
        "2:",
        "mov eax, {SYS_GETTID}",
        "syscall",
        "mov qword ptr fs:[r8], 0",
        "mov qword ptr fs:[r8 + 8], rax",
        "mov qword ptr fs:[r8 + 16], 0",
        "xor eax, eax",
        "ret",
        "3:",
        "neg eax",
        "push rax",
        "call qword ptr [rip + __errno_location@GOTPCREL]",
        "pop rcx",
        "mov dword ptr [rax], ecx",
        "mov eax, -1",
        "ret",
        SYS_VFORK = const SYS_VFORK,
        SYS_GETTID = const SYS_GETTID,
    )
}
