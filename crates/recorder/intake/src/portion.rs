//! The part of their pages with which a program's rings begin, where they get pages while they are used.

use super::ledger::Memory;
use sordino_ring::area::control::Portion;
use sordino_ring::layout::Geometry;

/// Initial size of a program's rings, in bytes: the program waits for that memory.
const BYTES: u64 = 2 << 20;
/// Initial size of rings in a prepared area, whose memory only has to be mapped in the program.
const BYTES_PREPARED: u64 = 6 << 20;
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
    let per_cpu = (bytes_alone(cpus, budget) >> geometry.bits).clamp(1, geometry.count.into()) as u32;
    Portion { per_cpu, shared: 1 }
}

/// The circumstances that decide with how much memory a program's rings begin.
pub(super) struct Beginning {
    /// The memory of the session's rings.
    pub(super) memory: Memory,
    /// The number of programs that registered within the last second.
    pub(super) arrivals: usize,
    /// True if the program's threads can use restartable sequences. If not, most memory goes to the shared ring.
    pub(super) is_restartable: bool,
    /// True if the area is prepared.
    pub(super) is_prepared: bool,
}

/// Returns the initial portion of a program with rings for `cpus` CPUs.
pub(super) fn portion(geometry: Geometry, cpus: usize, beginning: &Beginning) -> Portion {
    let Beginning { memory, arrivals, is_restartable, is_prepared } = *beginning;
    let left = memory.budget.saturating_sub(memory.used) / PART;
    let used = if is_restartable { cpus.max(1) as u64 } else { 1 };
    let sub_buffers =
        |bytes: u64| ((bytes.min(left) / used) >> geometry.bits).clamp(1, geometry.count.into()) as u32;
    let alone = if is_prepared { BYTES_PREPARED } else { BYTES };
    let first = sub_buffers(alone >> (arrivals / CROWD).min(u64::BITS as usize - 1));
    match is_restartable {
        true => Portion { per_cpu: first, shared: 1 },
        false => Portion { per_cpu: 1, shared: first },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: Geometry = Geometry { bits: 17, count: 256, overwrite: false };

    fn of(cpus: usize, used: u64, is_restartable: bool) -> Portion {
        let memory = Memory { used, budget: 1 << 30, ..Memory::default() };
        portion(RING, cpus, &Beginning { memory, arrivals: 1, is_restartable, is_prepared: false })
    }

    #[test]
    fn a_prepared_area_has_what_a_program_that_is_alone_gets() {
        assert_eq!(prepared_portion(RING, 2, 4 << 30), Portion { per_cpu: 256, shared: 1 });
        assert_eq!(prepared_portion(RING, 2, 128 << 20), Portion { per_cpu: 64, shared: 1 });
        assert_eq!(prepared_portion(RING, 64, 4 << 30), Portion { per_cpu: 8, shared: 1 });
        assert_eq!(prepared_portion(RING, 0, 0), Portion { per_cpu: 1, shared: 1 });
    }

    #[test]
    fn in_a_crowd_each_begins_with_less() {
        let memory = Memory { budget: 1 << 30, ..Memory::default() };
        let of = |is_prepared| {
            let begin = |arrivals| Beginning { memory, arrivals, is_restartable: true, is_prepared };
            [1, 4, 8, 16, 256].map(|arrivals| portion(RING, 2, &begin(arrivals)).per_cpu)
        };
        assert_eq!([true, false].map(of), [[24, 12, 6, 1, 1], [8, 4, 2, 1, 1]]);
    }

    #[test]
    fn the_more_cpus_and_the_less_memory_the_less_has_a_ring() {
        assert_eq!(of(2, 0, true), Portion { per_cpu: 8, shared: 1 });
        assert_eq!(of(2, 960 << 20, true), Portion { per_cpu: 4, shared: 1 });
        assert_eq!(of(64, 0, true), Portion { per_cpu: 1, shared: 1 });
        assert_eq!(of(2, 1000 << 20, true), Portion { per_cpu: 1, shared: 1 });
        assert_eq!(of(2, 2 << 30, true).per_cpu, 1);
        assert_eq!(of(0, 0, true).per_cpu, 16);
        assert_eq!(of(2, 0, false), Portion { per_cpu: 1, shared: 16 });
    }
}
