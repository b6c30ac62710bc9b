//! The sizes in a program's header, checked: the header is untrusted.

use crate::layout::{CATALOGUE, Capacity, Header, MAX_CPUS, PAGE, POINTS, RINGS_OFFSET};
use sordino_percpu::primitive::Relaxed;

/// A header's sizes, which agree with each other and with the file.
#[derive(Debug)]
pub(super) struct Sizes {
    pub(super) capacity: Capacity,
    pub(super) control: u64,
    pub(super) catalogue: u64,
    pub(super) reserve: u64,
    pub(super) address: u64,
}

impl Sizes {
    pub(super) fn check(header: &Header, file_size: u64) -> Option<Self> {
        let sizes = Self {
            capacity: Capacity {
                cpus: header.cpus.load(Relaxed),
                points: header.points_capacity.load(Relaxed),
            },
            control: header.control_size.load(Relaxed),
            catalogue: header.catalogue_capacity.load(Relaxed),
            reserve: header.reserve.load(Relaxed),
            address: header.address.load(Relaxed),
        };
        // No machine maps as much as 2^46 bytes for it.
        let capacity = sizes.capacity;
        let plausible = (1..=MAX_CPUS).contains(&capacity.cpus)
            && (1..=POINTS as u32).contains(&capacity.points)
            && sizes.catalogue <= CATALOGUE as u64
            && sizes.reserve <= 1 << 46;
        if !plausible {
            return None;
        }
        let catalogue = capacity.catalogue_offset();
        let control = (catalogue as u64 + sizes.catalogue).next_multiple_of(PAGE as u64);
        let consistent = header.points_offset.load(Relaxed) == capacity.points_offset() as u64
            && header.rings_offset.load(Relaxed) == RINGS_OFFSET as u64
            && header.catalogue_offset.load(Relaxed) == catalogue as u64
            && sizes.control == control
            && control <= file_size
            && control <= sizes.reserve
            && sizes.address.is_multiple_of(PAGE as u64)
            && sizes.address.checked_add(sizes.reserve).is_some();
        consistent.then_some(sizes)
    }
}
