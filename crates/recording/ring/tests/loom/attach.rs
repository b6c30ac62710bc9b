//! Writers while their session begins, ends, and another one uses its memory.

use crate::support::*;
use loom::thread;
use sordino_event::Cpu;
use sordino_percpu::model;
use sordino_percpu::primitive::{Acquire, Relaxed};
use sordino_ring::area::Area;
use sordino_ring::area::control::{AttachOptions, Attached, EnableMode, Program};
use sordino_ring::area::enable::{EnableMask, Sessions};
use sordino_ring::layout::Geometry;
use sordino_ring::number::{PointId, Seqno, SlotIndex};
use sordino_ring::offset::Head;

/// Two collectors of different processes, of which the second has attached. Loom knows the words that the first will
/// use.
fn two_collectors() -> (Area, [Program; 2], Attached) {
    let (area, file) = Area::create(&REQUEST).unwrap();
    let programs = [(); 2].map(|()| Program::open(&file).unwrap());
    area.point(PointId(0)).load(Relaxed);
    let before = programs.each_ref().map(|program| program.attach(&options(&[], 1)).unwrap());
    for (program, attached) in programs.iter().zip(&before) {
        share(area.rings(attached.slot), 0, HALF, None);
        program.detach(attached).unwrap();
    }
    let attached = programs[1].attach(&options(&[], 2)).unwrap();
    (area, programs, attached)
}

/// Writes a record to each session that enabled it, as a tracepoint does. Returns these sessions.
fn hit(area: Area) -> u8 {
    let all = EnableMask(area.point(PointId(0)).load(Acquire)).sessions(1).all;
    let wanting = SlotIndex::all().filter(|slot| slot.is_in(all));
    wanting.for_each(|slot| share(area.rings(slot), 1, HALF, None));
    all
}

#[test]
fn who_sees_that_sessions_enabled_an_event_sees_the_rings_of_all() {
    check(|| {
        let (area, [one, two], mut second) = two_collectors();
        let other_slot = second.slot;
        let writer = thread::spawn(move || hit(area));
        let other = thread::spawn(move || two.enable(other_slot, PointId(0), EnableMode::Always));
        let mut first = one.attach(&options(&[], 3)).unwrap();
        one.enable(first.slot, PointId(0), EnableMode::Always);
        let written = writer.join().unwrap();
        other.join().unwrap();
        for attached in [&mut first, &mut second] {
            let records = finish(&mut attached.readers[0], HALF).len();
            assert_eq!(records, usize::from(attached.slot.is_in(written)));
        }
        assert_eq!(hit(area), 0b11);
    });
}

#[test]
fn collectors_that_change_a_word_at_the_same_time_leave_each_other_s_part() {
    check(|| {
        let (area, [one, two], second) = two_collectors();
        let first = one.attach(&options(&[], 3)).unwrap();
        two.enable(second.slot, PointId(0), EnableMode::Always);
        let other = thread::spawn(move || {
            two.enable(second.slot, PointId(0), EnableMode::If);
            two.enable(second.slot, PointId(0), EnableMode::No);
        });
        one.enable(first.slot, PointId(0), EnableMode::Always);
        one.enable(first.slot, PointId(0), EnableMode::If);
        other.join().unwrap();
        let only = first.slot.bit();
        assert_eq!(
            EnableMask(area.point(PointId(0)).load(Relaxed)).sessions(1),
            Sessions { all: only, conditional: only, counted: 0 }
        );
    });
}

/// Another session's request: larger sub-buffers, so that the sizes in the first one's header are wrong for it.
fn other(cpus: &[Cpu]) -> AttachOptions<'_> {
    AttachOptions { geometry: Geometry { bits: 10, ..SMALL }, ..options(cpus, 11) }
}

#[test]
fn a_shared_ring_opens_at_once() {
    check(|| {
        let (area, program) = recorded_area(&options(&[], 1));
        let writer = thread::spawn(move || share(area.rings(SlotIndex::FIRST), 1, HALF, None));
        let mut attached = program.attach(&other(&[])).unwrap();
        writer.join().unwrap();
        assert!([&[][..], &[1]].contains(&&finish(&mut attached.readers[0], HALF)[..]));
    });
}

#[test]
fn a_cpu_ring_opens_at_once() {
    check(|| {
        let (area, program) = recorded_area(&other(&[Cpu(0)]));
        let writer = thread::spawn(move || emit(area.rings(SlotIndex::FIRST), 1, HALF));
        let mut attached = program.attach(&other(&[Cpu(0)])).unwrap();
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
        let (area, program, attached) = attached(&options(&[], 1));
        let slot = attached.slot;
        let writer = thread::spawn(move || share(area.rings(slot), 1, HALF, None));
        program.detach(&attached).unwrap();
        let mut next = program.attach(&options(&[], 11)).unwrap();
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
        let (area, program, attached) = attached(&options(&[Cpu(0)], 1));
        let slot = attached.slot;
        let writer = thread::spawn(move || emit(area.rings(slot), 1, HALF));
        program.detach(&attached).unwrap();
        writer.join().unwrap();
        // SAFETY: the model's memory stays as long as the execution; all fields are atomics.
        let head = || Head(unsafe { &*area.rings(slot).at(0) }.head.load(Relaxed));
        let closed = head();
        // A writer that was in its section publishes; none took the closed ring for an open one.
        assert!(closed.is_closed() || closed.seqno() == Seqno(1), "{closed:x?}");
        emit(area.rings(slot), 2, HALF);
        assert_eq!(head(), closed);
    });
}

#[test]
fn a_cpu_ring_s_writer_sleeps_through_a_session_s_end() {
    check(|| {
        let (area, program, attached) = attached(&other(&[Cpu(0)]));
        let slot = attached.slot;
        // Only the first session's sub-buffers have room for such a record.
        let writer = thread::spawn(move || emit(area.rings(slot), 1, 2 * WHOLE));
        program.detach(&attached).unwrap();
        model::outlast_sections();
        let mut next = program.attach(&options(&[Cpu(0)], 11)).unwrap();
        writer.join().unwrap();
        assert!(next.readers.iter_mut().all(|reader| finish(reader, 2 * WHOLE).is_empty()));
    });
}
