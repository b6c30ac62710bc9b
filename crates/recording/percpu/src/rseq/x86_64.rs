//! x86-64: the section.
//!
//! Source of the section's form: the rseq(2) manual page of librseq. All x86 hardware orders stores, and loads before
//! them (x86-TSO). So a plain last store is a release store, and a release fence before the first store needs no
//! instruction: it only has to bind the compiler, which moves nothing past assembly that may touch any memory.

use super::abi::{CPU_ID, RSEQ_CS, SIGNATURE};
use super::{Bytes, Commit, Outcome, SwitchWords, Words};
use core::arch::asm;

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
