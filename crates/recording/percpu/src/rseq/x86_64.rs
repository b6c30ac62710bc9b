//! x86-64: the section, the thread's words, and the child of a `vfork`.
//!
//! Source of the section's form: the rseq(2) manual page of librseq. All x86 hardware orders stores, and loads before
//! them (x86-TSO). So a plain last store is a release store, and a release fence before the first store needs no
//! instruction: it only has to bind the compiler, which moves nothing past assembly that may touch any memory.

#[path = "x86_64/words.rs"]
mod words;

pub(crate) use words::*;

use super::abi::{CPU_ID, RSEQ_CS, SIGNATURE};
use super::{Bytes, Commit, Outcome, SwitchWords, Words};
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
pub(super) fn area() -> isize {
    let area;
    // SAFETY: reads a word of this module, which changes at most once, in `init`.
    unsafe {
        asm!("mov {a}, qword ptr [rip + sordino_rseq_offset]", a = out(reg) area,
            options(nostack, pure, readonly, preserves_flags));
    }
    area
}

pub(super) fn set_area(area: isize) {
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
pub(super) fn libc_symbols() -> Option<(isize, u32)> {
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
pub(super) fn cpu(area: isize) -> u32 {
    let cpu;
    // SAFETY: `area` is the offset of an area in the thread's own storage. Not `pure`: the kernel changes the word.
    unsafe {
        asm!("mov {c:e}, dword ptr fs:[{a} + {CPU_ID}]", c = out(reg) cpu, a = in(reg) area, CPU_ID = const CPU_ID,
            options(nostack, readonly, preserves_flags));
    }
    cpu
}

#[inline(always)]
pub(super) fn sum(a: usize, b: usize) -> usize {
    let mut sum = a;
    // SAFETY: changes one register and the flags.
    unsafe { asm!("add {}, {}", inout(reg) sum, in(reg) b, options(pure, nomem, nostack)) };
    sum
}

/// Requests the cache line `AHEAD` bytes behind `address` for writing. Never faults; does nothing on processors without
/// the instruction.
#[inline(always)]
pub(super) fn expect_write<const AHEAD: usize>(address: *const u8) {
    // SAFETY: prefetchw is a hint, which faults at no address.
    unsafe {
        asm!("prefetchw byte ptr [{a} + {AHEAD}]", a = in(reg) address, AHEAD = const AHEAD,
            options(nostack, readonly, preserves_flags));
    }
}

/// The CPU's number from the low 12 bits of `IA32_TSC_AUX`, where Linux keeps it for its own getcpu
/// (`arch/x86/include/asm/segment.h`).
pub(super) fn current_cpu() -> u32 {
    let mut auxiliary = 0;
    // SAFETY: rdtscp writes to `auxiliary`; every x86-64 that Linux's vdso serves has it.
    unsafe { core::arch::x86_64::__rdtscp(&mut auxiliary) };
    auxiliary & 0xfff
}

/// Delays and checks for `--cfg attack` (`scripts/attack`). Sections then stay for some microseconds at each of three
/// points, so that preemptions, migrations and signals arrive there. Before the last store they compare the CPU and the
/// head a second time, and trap if either has changed.
#[cfg(attack)]
macro_rules! attack {
    () => {
        "mov {t:e}, 100\n97: pause\ndec {t:e}\njnz 97b"
    };
    (compared) => {
        attack!()
    };
    (timestamped) => {
        attack!()
    };
    (copied) => {
        concat!(
            attack!(),
            "\ncmp dword ptr fs:[{a} + {CPU_ID}], {cpu:e}\njne 98f\ncmp qword ptr [{head}], {expected}\njne 98f"
        )
    };
    (trap) => {
        "98: ud2"
    };
}

#[cfg(not(attack))]
macro_rules! attack {
    ($point:ident) => {
        ""
    };
}

/// The section. `first` are instructions that it starts with, `copy` those that write the payload.
///
/// Label 91 is its begin, 92 its end, 93 its description, 94 its abort handler. If the thread is preempted, migrated or
/// receives a signal between 91 and 92, the kernel continues it at 94. As pseudo-code:
///
/// ```text
///     thread.rseq_cs = &description               // 93: { start: 91, length: 92 - 91, abort: 94 }
/// 91: if thread.cpu_id != cpu     goto 94
///     if *head != expected        goto 94
///     first                                       // a sub-buffer switch: switch[0..3] = timestamp, expected, lost
///     to[0] = timestamp; to[1] = tag
///     copy                                        // to[2..] = payload
///     *head = new                                 // the commit: the section's last store
/// 92: thread.rseq_cs = 0;         return Committed
/// 94: thread.rseq_cs = 0;         return Restart
/// ```
///
/// Every way out clears `rseq_cs`, also the two comparisons' (which therefore jump to 94): the address of the
/// description must not stay in the thread's area, because a plug-in that holds this code may be unloaded.
macro_rules! section {
    ($area:ident, $commit:ident, [$($first:literal),*], [$($copy:literal),*], $($operands:tt)*) => {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "93:",
            ".long 0, 0",
            ".quad 91f, 92f - 91f, 94f",
            ".popsection",
            "lea {t}, [rip + 93b]",
            "mov qword ptr fs:[{a} + {RSEQ_CS}], {t}",
            "91:",
            "cmp dword ptr fs:[{a} + {CPU_ID}], {cpu:e}",
            "jne 94f",
            "cmp qword ptr [{head}], {expected}",
            "jne 94f",
            attack!(compared),
            $($first,)*
            "mov qword ptr [{to}], {timestamp}",
            "mov qword ptr [{to} + 8], {tag}",
            attack!(timestamped),
            $($copy,)*
            attack!(copied),
            "mov qword ptr [{head}], {new}",
            "92:",
            "mov qword ptr fs:[{a} + {RSEQ_CS}], 0",
            ".pushsection __rseq_failure, \"ax\"",
            // `ud1` with the signature as its displacement, so that disassemblers stay in step.
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {SIGNATURE}",
            "94:",
            "mov qword ptr fs:[{a} + {RSEQ_CS}], 0",
            "jmp {restart}",
            attack!(trap),
            ".popsection",
            a = in(reg) $area,
            cpu = in(reg) $commit.cpu,
            head = in(reg) $commit.head.as_ptr(),
            expected = in(reg) $commit.expected,
            new = in(reg) $commit.new,
            to = in(reg) $commit.destination,
            timestamp = in(reg) $commit.timestamp,
            tag = in(reg) $commit.tag,
            t = out(reg) _,
            CPU_ID = const CPU_ID,
            RSEQ_CS = const RSEQ_CS,
            SIGNATURE = const SIGNATURE,
            $($operands)*
            restart = label { return Outcome::Restart },
            options(nostack),
        )
    };
}

/// The section that copies its payload from memory, backwards.
///
/// ```text
///     while left != 0 { left -= 8; to[16 + left] = from[left] }   // in words of 8 bytes
/// ```
macro_rules! copying_section {
    ($area:ident, $commit:ident, [$($first:literal),*], $($operands:tt)*) => {
        section!(
            $area, $commit, [$($first),*],
            [
                "test {left}, {left}",
                "jz 96f",
                "95:",
                "mov {t}, qword ptr [{from} + {left} - 8]",
                "mov qword ptr [{to} + {left} + 8], {t}",
                "sub {left}, 8",
                "jnz 95b",
                "96:"
            ],
            from = in(reg) $commit.payload.from,
            left = inout(reg) $commit.payload.length => _,
            $($operands)*
        )
    };
}

/// The section that stores its payload, two words, from registers.
macro_rules! words_section {
    ($area:ident, $commit:ident, [$($first:literal),*], $($operands:tt)*) => {
        section!(
            $area, $commit, [$($first),*],
            ["mov qword ptr [{to} + 16], {w0}", "mov qword ptr [{to} + 24], {w1}"],
            w0 = in(reg) $commit.payload.0,
            w1 = in(reg) $commit.payload.1,
            $($operands)*
        )
    };
}

/// The section `$section` which, if there are words to `switch`, stores these first.
macro_rules! switching {
    ($section:ident, $area:ident, $commit:ident, $switch:ident) => {
        match $switch {
            None => $section!($area, $commit, [],),
            Some(SwitchWords { destination, lost }) => $section!(
                $area,
                $commit,
                [
                    "mov qword ptr [{switch}], {timestamp}",
                    "mov qword ptr [{switch} + 8], {expected}",
                    "mov qword ptr [{switch} + 16], {lost}"
                ],
                switch = in(reg) destination,
                lost = in(reg) lost,
            ),
        }
    };
}

/// Publishes a payload that lies in memory, as [`super::publish`] specifies.
#[inline(always)]
pub(super) unsafe fn publish(
    area: isize,
    commit: &Commit<'_, Bytes>,
    switch: Option<SwitchWords>,
) -> Outcome {
    // SAFETY: the caller guarantees all that `super::publish_switching` requires. The section writes the record, the
    // words of `switch` and the head, changes the flags and the registers that it names, and clears `rseq_cs` on every
    // way out. No call, no stack access.
    unsafe { switching!(copying_section, area, commit, switch) };
    Outcome::Committed
}

/// Publishes a payload of two words in registers, as [`super::publish`] specifies.
#[inline(always)]
pub(super) unsafe fn publish_words(
    area: isize,
    commit: &Commit<'_, Words>,
    switch: Option<SwitchWords>,
) -> Outcome {
    // SAFETY: the caller guarantees all that `super::publish_switching` requires. The section writes the record, the
    // words of `switch` and the head, changes the flags and the registers that it names, and clears `rseq_cs` on every
    // way out. No call, no stack access.
    unsafe { switching!(words_section, area, commit, switch) };
    Outcome::Committed
}

/// System call number of futex(2).
const SYS_FUTEX: usize = 202;
/// `FUTEX_WAKE` without the private flag: the sleeper is another process.
const FUTEX_WAKE: usize = 1;

pub(super) fn futex_wake(word: *mut u32) {
    // SAFETY: the kernel uses `word` only to identify the futex. The instruction clobbers rcx and r11. The result does
    // not matter: it is the number of woken sleepers, or an error if `word` is not mapped, and then nobody sleeps
    // there.
    unsafe {
        asm!("syscall", inout("rax") SYS_FUTEX => _, in("rdi") word, in("rsi") FUTEX_WAKE, in("rdx") i32::MAX,
            out("rcx") _, out("r11") _, options(nostack));
    }
}

/// System call number of nanosleep(2).
const SYS_NANOSLEEP: usize = 35;

pub(super) fn sleep(nanoseconds: u32) {
    // The fields of `struct timespec`.
    let time = [0i64, nanoseconds.into()];
    // SAFETY: the kernel reads `time`. The instruction clobbers rcx and r11. The result does not matter: it only
    // reports a signal.
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
/// The child of a vfork runs on its parent's thread-local storage, whose rseq area looks registered although the kernel
/// does not know it for the child. The child's sections would not restart and could tear records. So the child's words
/// mark the storage as borrowed until the parent, which sleeps meanwhile, runs again and restores its own words.
///
/// The return address leaves the stack before the system call because the child's next call overwrites it. Registers
/// other than rax, rcx and r11 survive the system call in both. A failure sets `errno` as the C library's does.
///
/// # Safety
/// The C library's requirements hold: the child only calls `_exit` or `exec`, and functions that are safe in a signal
/// handler.
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
