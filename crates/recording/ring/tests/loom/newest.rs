//! Copies of a ring's newest data while its writers overwrite it.

use crate::support::*;
use loom::thread;
use sordino_event::{Cpu, Ticks};
use sordino_percpu::primitive::plain;
use sordino_ring::area::slots::Rings;
use sordino_ring::read::Reader;

/// A ring with three records that `write` wrote, each in a sub-buffer of its own: the fourth will overwrite the second.
fn filled(cpus: &[Cpu], write: impl Fn(Rings, u64)) -> (Rings, Reader) {
    let (area, _, mut attached) = attached(&overwriting(cpus));
    plain::keep_for_guesses();
    let rings = area.rings(attached.slot);
    (1..=3).for_each(|number| write(rings, number));
    (rings, attached.readers.swap_remove(0))
}

/// Copies the newest records and returns their numbers: the newest is at least the third, and none is missing before
/// it.
fn copy(reader: &Reader) -> Vec<u64> {
    let newest = reader.newest(Ticks::default(), usize::MAX, || Ticks(END_OF_TIME)).unwrap();
    let found: Vec<u64> = newest.packets.iter().flat_map(|packet| numbers(reader, packet, WHOLE)).collect();
    assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{found:?}");
    assert!(newest.overwritten || newest.packets.len() == 2, "{newest:?}");
    assert!(found.last().is_none_or(|&last| last >= 3), "{found:?}");
    found
}

#[test]
fn a_cpu_s_writer_overwrites_no_copy_unnoticed() {
    check(|| {
        let (rings, reader) = filled(&[Cpu(0)], |rings, number| emit(rings, number, WHOLE));
        let writer = thread::spawn(move || (4..=5).for_each(|number| emit(rings, number, WHOLE)));
        copy(&reader);
        writer.join().unwrap();
        assert_eq!(copy(&reader), [4, 5]);
    });
}

#[test]
fn sharing_writers_overwrite_no_copy_unnoticed() {
    check(|| {
        let (rings, reader) = filled(&[], |rings, number| share(rings, number, WHOLE, None));
        let writer = thread::spawn(move || (4..=5).for_each(|number| share(rings, number, WHOLE, None)));
        copy(&reader);
        writer.join().unwrap();
        assert_eq!(copy(&reader), [4, 5]);
    });
}

#[test]
fn a_writer_that_did_not_claim_overwrites_no_copy_unnoticed() {
    check(|| {
        let (area, _, attached) = attached(&overwriting(&[]));
        plain::keep_for_guesses();
        let (rings, reader) = (area.rings(attached.slot), &attached.readers[0]);
        (1..=6).for_each(|number| share(rings, number, HALF, None));
        // One of the writers claims the sub-buffer of the third and the fourth record, the other follows.
        let writers = [7, 8].map(|number| thread::spawn(move || share(rings, number, HALF, None)));
        let newest = reader.newest(Ticks::default(), usize::MAX, || Ticks(END_OF_TIME)).unwrap();
        let found: Vec<u64> =
            newest.packets.iter().flat_map(|packet| numbers(reader, packet, HALF)).collect();
        let old = found.iter().take_while(|&&number| number <= 6).count();
        assert!([&[3, 4, 5, 6][..], &[5, 6]].contains(&&found[..old]), "{found:?}");
        assert!(found[old..].iter().all(|&number| number > 6), "{found:?}");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}
