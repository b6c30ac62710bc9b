//! x86-64: words of the thread and the process, and the processor's counters.

use core::arch::asm;

#[inline(always)]
pub(crate) fn tag_and_base() -> (u64, usize) {
    let (tag, base);
    // SAFETY: reads the calling thread's own words.
    unsafe {
        asm!("mov {p}, qword ptr [rip + sordino_thread@GOTTPOFF]", "mov {t}, qword ptr fs:[{p}]",
            "mov {p}, qword ptr fs:[{p} + 16]", t = out(reg) tag, p = out(reg) base,
            options(nostack, readonly, preserves_flags));
    }
    (tag, base)
}

/// The calling thread's word `AT` bytes behind its tag.
#[inline(always)]
fn word<const AT: usize>() -> u64 {
    let word;
    // SAFETY: reads the calling thread's own word.
    unsafe {
        asm!("mov {w}, qword ptr [rip + sordino_thread@GOTTPOFF]", "mov {w}, qword ptr fs:[{w} + {AT}]", w = out(reg) word,
            AT = const AT, options(nostack, readonly, preserves_flags));
    }
    word
}

#[inline(always)]
fn set_word<const AT: usize>(word: u64) {
    // SAFETY: writes the calling thread's own word.
    unsafe {
        asm!("mov {t}, qword ptr [rip + sordino_thread@GOTTPOFF]", "mov qword ptr fs:[{t} + {AT}], {w}", t = out(reg) _,
            w = in(reg) word, AT = const AT, options(nostack, preserves_flags));
    }
}

#[inline(always)]
pub(crate) fn set_tag(tag: u64) {
    set_word::<0>(tag);
}

pub(crate) fn set_base(base: usize) {
    set_word::<16>(base as u64);
}

#[inline(always)]
pub(crate) fn borrowed() -> u64 {
    word::<8>()
}

pub(crate) fn counters() -> usize {
    word::<24>() as usize
}

pub(crate) fn set_counters(counters: usize) {
    set_word::<24>(counters as u64);
}

/// Reads performance counter `number`. A process that the kernel does not allow to gets a general protection fault.
#[inline(always)]
pub(crate) unsafe fn read_performance_counter(number: u32) -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: the caller guarantees that the kernel lets this process read the counters. Not `nomem`: the compiler
    // moves no load of the kernel's page past it.
    unsafe {
        asm!("rdpmc", in("ecx") number, out("rax") low, out("rdx") high, options(nostack, preserves_flags));
    }
    high << 32 | low
}

/// The process's word, which starts as 0.
#[inline(always)]
pub(crate) fn process_word() -> usize {
    let word;
    // SAFETY: reads a word of this module, which only assembly accesses.
    unsafe {
        asm!("mov {w}, qword ptr [rip + sordino_process]", w = out(reg) word, options(nostack, readonly, preserves_flags));
    }
    word
}

pub(crate) fn set_process_word(word: usize) {
    // SAFETY: writes a word of this module, after all stores that precede it (x86-TSO).
    unsafe {
        asm!("mov qword ptr [rip + sordino_process], {w}", w = in(reg) word, options(nostack, preserves_flags));
    }
}

/// The page that holds the process's word.
pub(crate) fn process_page() -> *mut u8 {
    let page;
    // SAFETY: computes the address of a symbol of this module, and accesses no memory.
    unsafe {
        asm!("lea {p}, [rip + sordino_process]", p = out(reg) page, options(nostack, nomem, preserves_flags));
    }
    page
}
