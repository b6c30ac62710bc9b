//! Writers while their session begins, ends, and another one takes its place.

use crate::support::*;
use loom::thread;
use sordino_percpu::model;
use sordino_percpu::primitive::{Acquire, Relaxed};
use sordino_ring::control::Wanted;
use sordino_ring::layout::Geometry;
use sordino_ring::position::Head;

#[test]
fn who_sees_a_session_s_bit_sees_its_rings() {
    check(|| {
        let (area, program) = recorded_area(&wanted(&[], 1));
        let writer = thread::spawn(move || {
            // As a tracepoint does.
            let enabled = area.point(0).load(Acquire) != 0;
            if enabled {
                share(area.rings(0), 1, HALF, None);
            }
            enabled
        });
        let mut attached = program.attach(&wanted(&[], 2)).unwrap();
        program.enable(attached.slot, 0, true);
        let written = writer.join().unwrap();
        assert_eq!(finish(&mut attached.readers[0], HALF).len(), usize::from(written));
    });
}

/// Another session's wish: larger sub-buffers, so that what the first one's header says of them is wrong.
fn other(cpus: &[u32]) -> Wanted<'_> {
    Wanted { geometry: Geometry { bits: 10, ..SMALL }, ..wanted(cpus, 11) }
}

#[test]
fn a_shared_ring_opens_at_once() {
    check(|| {
        let (area, program) = recorded_area(&wanted(&[], 1));
        let writer = thread::spawn(move || share(area.rings(0), 1, HALF, None));
        let mut attached = program.attach(&other(&[])).unwrap();
        writer.join().unwrap();
        assert!([&[][..], &[1]].contains(&&finish(&mut attached.readers[0], HALF)[..]));
    });
}

#[test]
fn a_cpu_ring_opens_at_once() {
    check(|| {
        let (area, program) = recorded_area(&other(&[0]));
        let writer = thread::spawn(move || emit(area.rings(0), 1, HALF));
        let mut attached = program.attach(&other(&[0])).unwrap();
        writer.join().unwrap();
        let of_cpu = finish(&mut attached.readers[0], HALF);
        let shared = finish(&mut attached.readers[1], HALF);
        assert!(of_cpu.is_empty() || shared.is_empty());
        assert!([&[][..], &[1]].contains(&&[of_cpu, shared].concat()[..]));
    });
}

#[test]
fn a_shared_ring_s_writer_keeps_its_memory_from_the_next_session() {
    check(|| {
        let (area, program, attached) = attached(&wanted(&[], 1));
        let slot = attached.slot;
        let writer = thread::spawn(move || share(area.rings(slot), 1, HALF, None));
        program.detach(&attached).unwrap();
        let mut next = program.attach(&wanted(&[], 11)).unwrap();
        share(area.rings(next.slot), 2, HALF, None);
        assert!(salvage(&next.readers[0], HALF).0.contains(&2));
        writer.join().unwrap();
        let numbers = finish(&mut next.readers[0], HALF);
        assert!([&[2][..], &[1, 2], &[2, 1]].contains(&&numbers[..]), "{numbers:?}");
    });
}

#[test]
fn a_cpu_ring_that_closes_stays_closed() {
    check(|| {
        let (area, program, attached) = attached(&wanted(&[0], 1));
        let slot = attached.slot;
        let writer = thread::spawn(move || emit(area.rings(slot), 1, HALF));
        program.detach(&attached).unwrap();
        writer.join().unwrap();
        // SAFETY: the model's memory stays.
        let head = || Head(unsafe { &*area.rings(slot).at(0) }.head.load(Relaxed));
        let closed = head();
        // The section of a writer that was in it publishes; nobody took the closed ring for an open one.
        assert!(closed.is_closed() || closed.turn() == 1, "{closed:x?}");
        emit(area.rings(slot), 2, HALF);
        assert_eq!(head(), closed);
    });
}

#[test]
fn a_cpu_ring_s_writer_sleeps_through_a_session_s_end() {
    check(|| {
        let (area, program, attached) = attached(&other(&[0]));
        let slot = attached.slot;
        // Only the first session's sub-buffers take such a record.
        let writer = thread::spawn(move || emit(area.rings(slot), 1, 2 * WHOLE));
        program.detach(&attached).unwrap();
        model::outlast_sections();
        let mut next = program.attach(&wanted(&[0], 11)).unwrap();
        writer.join().unwrap();
        assert!(next.readers.iter_mut().all(|reader| finish(reader, 2 * WHOLE).is_empty()));
    });
}
