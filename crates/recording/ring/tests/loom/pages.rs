//! Rings whose sub-buffers get and lose memory while a writer is at work.

use crate::support::*;
use loom::thread;
use sordino_event::Cpu;
use sordino_percpu::model;
use sordino_ring::area::Area;
use sordino_ring::area::control::{AttachOptions, Attached, Portion, Program};
use sordino_ring::layout::Geometry;

/// The program's process id, which loom's file system ignores.
const PID: i32 = 1;

/// Four sub-buffers, of which two have pages at first.
fn sparse() -> AttachOptions<'static> {
    let portion = Some(Portion { per_cpu: 2, shared: 2 });
    AttachOptions { geometry: Geometry { count: 4, ..SMALL }, portion, ..options(&[Cpu(0)], u32::MAX) }
}

fn ring() -> (Area, Program, Attached) {
    attached(&sparse())
}

#[test]
fn a_writer_goes_on_where_the_reader_has_given_back_and_the_pager_has_opened() {
    check(|| {
        let (area, program, mut attached) = ring();
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let mut pager = attached.pagers.swap_remove(0);
        let mut reader = attached.readers.swap_remove(0);
        // The reader makes room for the fifth record, and the pager, which comes second, opens it.
        let writer = thread::spawn(move || [3, 4, 5].map(|number| emit(rings(), number, WHOLE)));
        let pages = thread::spawn(move || pager.extend(&program, PID, 4).unwrap());
        let mut numbers = take(&mut reader, WHOLE);
        pages.join().unwrap();
        writer.join().unwrap();
        numbers.extend(finish(&mut reader, WHOLE));
        assert_eq!(numbers.len() as u64 + reader.lost().total, 5);
        assert!(numbers.is_sorted() && numbers.starts_with(&[1, 2]), "{numbers:?}");
    });
}

#[test]
fn of_two_that_publish_neither_takes_back_what_the_other_did() {
    check(|| {
        let (area, program, mut attached) = ring();
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let mut pager = attached.pagers.swap_remove(0);
        let mut reader = attached.readers.swap_remove(0);
        let pages = thread::spawn(move || pager.extend(&program, PID, 4).unwrap());
        let mut numbers = take(&mut reader, WHOLE);
        pages.join().unwrap();
        (3..=5).for_each(|number| emit(rings(), number, WHOLE));
        numbers.extend(finish(&mut reader, WHOLE));
        assert_eq!((numbers, reader.lost().total), (vec![1, 2, 3, 4, 5], 0));
    });
}

#[test]
fn a_writer_keeps_the_pages_that_it_writes_to_and_loses_nothing_that_it_wrote() {
    check(|| {
        let (area, program, mut attached) = ring();
        let rings = move || area.rings(attached.slot);
        let mut pager = attached.pagers.swap_remove(0);
        pager.extend(&program, PID, 4).unwrap();
        emit(rings(), 1, WHOLE);
        let writer = thread::spawn(move || [2, 3].map(|number| emit(rings(), number, WHOLE)));
        if pager.revoke(1) {
            model::outlast_sections();
            pager.reclaim(&program).unwrap();
        }
        writer.join().unwrap();
        let reader = &mut attached.readers[0];
        let numbers = finish(reader, WHOLE);
        assert_eq!(numbers.len() as u64 + reader.lost().total, 3);
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&numbers[..]), "{numbers:?}");
    });
}

#[test]
fn pages_of_what_was_read_are_taken_behind_the_reader() {
    check(|| {
        let (area, program, mut attached) = ring();
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let mut pager = attached.pagers.swap_remove(0);
        let pages = thread::spawn(move || pager.trim(&program).unwrap());
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        pages.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!(numbers, [1, 2]);
    });
}

/// Writers of the shared ring count themselves: of one that is at work, nothing is taken.
#[test]
fn a_writer_of_the_shared_ring_keeps_the_pages_that_it_writes_to() {
    check(|| {
        let (area, program, mut attached) = ring();
        let rings = move || area.rings(attached.slot);
        let mut pager = attached.pagers.swap_remove(1);
        pager.extend(&program, PID, 4).unwrap();
        share(rings(), 1, WHOLE, None);
        let writer = thread::spawn(move || [2, 3].map(|number| share(rings(), number, WHOLE, None)));
        if pager.revoke(1) {
            pager.reclaim(&program).unwrap();
        }
        writer.join().unwrap();
        let reader = &mut attached.readers[1];
        let numbers = finish(reader, WHOLE);
        assert_eq!(numbers.len() as u64 + reader.lost().total, 3);
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&numbers[..]), "{numbers:?}");
    });
}
