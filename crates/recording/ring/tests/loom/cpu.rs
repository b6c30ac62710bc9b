//! The one writer of a CPU's ring, and its reader.

use crate::support::*;
use loom::thread;
use sordino_event::Cpu;
use sordino_percpu::model;
use sordino_percpu::primitive::Acquire;
use sordino_ring::area::control::AttachOptions;
use std::time::Duration;

#[test]
fn a_full_ring_loses_what_it_counts_and_reuses_what_was_read() {
    check(|| {
        let (area, _, mut attached) = attached(&options(&[Cpu(0)], u32::MAX));
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        let writer = thread::spawn(move || [2, 3].map(|number| emit(rings(), number, WHOLE)));
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        writer.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!(numbers.len() as u64 + reader.lost().total, 3);
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&numbers[..]), "{numbers:?}");
    });
}

#[test]
fn a_reader_that_falls_asleep_is_woken_by_who_leaves_a_sub_buffer() {
    check(|| {
        let mut options = options(&[Cpu(0)], u32::MAX);
        options.wake = true;
        let (area, program, mut attached) = attached(&options);
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        let writer = thread::spawn(move || emit(rings(), 2, WHOLE));
        let mut numbers = Vec::new();
        while numbers.is_empty() {
            // Like the collector: the wake words before the rings.
            let word = program.wake_word(attached.slot);
            let seen = word.load(Acquire);
            numbers = take(&mut attached.readers[0], WHOLE);
            if numbers.is_empty() {
                model::futex::wait(word, seen);
            }
        }
        assert_eq!(numbers, [1]);
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_that_waits_for_room_loses_nothing() {
    check(|| {
        let options = AttachOptions { block: Some(Duration::MAX), ..options(&[Cpu(0)], u32::MAX) };
        let (area, _, mut attached) = attached(&options);
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let writer = thread::spawn(move || emit_waiting(rings(), 3, WHOLE));
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        writer.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!((numbers, reader.lost().total), (vec![1, 2, 3], 0));
    });
}

#[test]
fn a_writer_that_waits_goes_on_when_the_session_ends() {
    check(|| {
        let options = AttachOptions { block: Some(Duration::MAX), ..options(&[Cpu(0)], u32::MAX) };
        let (area, program, attached) = attached(&options);
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let writer = thread::spawn(move || emit_waiting(rings(), 3, WHOLE));
        program.detach(&attached).unwrap();
        writer.join().unwrap();
    });
}
