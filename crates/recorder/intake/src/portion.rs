//! The part of their pages with which a program's rings begin, where they get pages while they are used.

use super::ledger::Memory;
use sordino_ring::control::Portion;
use sordino_ring::layout::Geometry;

/// Initial size of a program's rings, in bytes.
const BYTES: u64 = 2 << 20;
/// Initial size of a program's rings, in bytes, while the session's rings use less than [`FIRST`].
const BYTES_FIRST: u64 = 6 << 20;
const FIRST: u64 = 128 << 20;
/// The number of programs within a second that halves the initial size of the next ones': programs of a crowd are
/// usually short-lived.
const CROWD: usize = 4;
/// A program begins with at most this fraction (1/64) of the rest of the session's budget.
const PART: u64 = 64;

/// Size of the rings of a program whose user has no other recorded program, in bytes; at most an eighth of the budget.
/// Each CPU's ring gets the same part, though the program may use few of them and may give it back soon.
pub(super) const ALONE: u64 = 64 << 20;

/// Returns the size of each CPU's ring in bytes for a program that is alone and has `rings` of them.
pub(super) fn bytes_alone(rings: usize, budget: u64) -> u64 {
    ALONE.min(budget / 8) / rings.max(1) as u64
}

/// Returns the sub-buffers that have memory in an area that is prepared for a program that will be alone.
pub(super) fn prepared_portion(geometry: Geometry, cpus: usize, budget: u64) -> Portion {
    let cpu = (bytes_alone(cpus, budget) >> geometry.bits).clamp(1, geometry.count.into()) as u32;
    Portion { cpu, shared: 1 }
}

/// Returns the initial portion of a program with rings for `cpus` CPUs, one of `arrivals` within a second. If its
/// threads cannot use restartable sequences, most of it goes to the shared ring.
pub(super) fn portion(
    geometry: Geometry,
    cpus: usize,
    memory: Memory,
    arrivals: usize,
    is_restartable: bool,
) -> Portion {
    let left = memory.budget.saturating_sub(memory.used) / PART;
    let used = if is_restartable { cpus.max(1) as u64 } else { 1 };
    let sub_buffers =
        |bytes: u64| ((bytes.min(left) / used) >> geometry.bits).clamp(1, geometry.count.into()) as u32;
    let alone = if memory.used < FIRST { BYTES_FIRST } else { BYTES };
    let first = sub_buffers(alone >> (arrivals / CROWD).min(u64::BITS as usize - 1));
    match is_restartable {
        true => Portion { cpu: first, shared: 1 },
        false => Portion { cpu: 1, shared: first },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Geometry = Geometry { bits: 17, count: 256, overwrite: false };

    fn of(cpus: usize, used: u64, is_restartable: bool) -> Portion {
        portion(RING, cpus, Memory { used, budget: 1 << 30, short: 0 }, 1, is_restartable)
    }

    #[test]
    fn a_prepared_area_has_what_a_program_that_is_alone_gets() {
        assert_eq!(prepared_portion(RING, 2, 4 << 30), Portion { cpu: 256, shared: 1 });
        assert_eq!(prepared_portion(RING, 2, 128 << 20), Portion { cpu: 64, shared: 1 });
        assert_eq!(prepared_portion(RING, 64, 4 << 30), Portion { cpu: 8, shared: 1 });
        assert_eq!(prepared_portion(RING, 0, 0), Portion { cpu: 1, shared: 1 });
    }

    #[test]
    fn in_a_crowd_each_begins_with_less() {
        let of =
            |arrivals| portion(RING, 2, Memory { used: 0, budget: 1 << 30, short: 0 }, arrivals, true).cpu;
        assert_eq!([1, 4, 8, 16, 256].map(of), [24, 12, 6, 1, 1]);
    }

    #[test]
    fn the_more_cpus_and_the_less_memory_the_less_has_a_ring() {
        assert_eq!(of(2, 0, true), Portion { cpu: 24, shared: 1 });
        assert_eq!(of(2, 200 << 20, true), Portion { cpu: 8, shared: 1 });
        assert_eq!(of(64, 0, true), Portion { cpu: 1, shared: 1 });
        assert_eq!(of(2, 1000 << 20, true), Portion { cpu: 1, shared: 1 });
        assert_eq!(of(2, 2 << 30, true).cpu, 1);
        assert_eq!(of(0, 0, true).cpu, 48);
        assert_eq!(of(2, 0, false), Portion { cpu: 1, shared: 48 });
    }
}
