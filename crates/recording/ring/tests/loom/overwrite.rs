//! Rings that overwrite their oldest sub-buffer while the reader exchanges it.

use crate::support::*;
use loom::thread;
use sordino_event::Cpu;

#[test]
fn a_cpu_s_writer_and_the_reader_never_have_the_same_sub_buffer() {
    check(|| {
        let (area, _, mut attached) = attached(&overwriting(&[Cpu(0)]));
        let rings = move || area.rings(attached.slot);
        emit(rings(), 1, WHOLE);
        emit(rings(), 2, WHOLE);
        let writer = thread::spawn(move || {
            emit(rings(), 3, WHOLE);
            thread::yield_now();
            emit(rings(), 4, WHOLE);
        });
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        thread::yield_now();
        // The exchange gives the sub-buffer that was got first.
        numbers.extend(take(reader, WHOLE));
        writer.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!(numbers.len() as u64 + reader.overwritten(), 4);
        assert!(numbers.is_sorted() && numbers.ends_with(&[3, 4]), "{numbers:?}");
    });
}

#[test]
fn sharing_writers_and_the_reader_never_have_the_same_sub_buffer() {
    check(|| {
        let (area, _, mut attached) = attached(&overwriting(&[]));
        let rings = move || area.rings(attached.slot);
        share(rings(), 1, WHOLE, None);
        share(rings(), 2, WHOLE, None);
        let one = thread::spawn(move || {
            share(rings(), 3, WHOLE, None);
            thread::yield_now();
            share(rings(), 4, WHOLE, None);
        });
        let other = thread::spawn(move || share(rings(), 5, WHOLE, None));
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        thread::yield_now();
        numbers.extend(take(reader, WHOLE));
        one.join().unwrap();
        other.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!(numbers.len() as u64 + reader.overwritten() + reader.lost().total, 5, "{numbers:?}");
    });
}

#[test]
fn a_writer_never_overwrites_what_another_still_writes() {
    check(|| {
        let (area, _, mut attached) = attached(&overwriting(&[]));
        let rings = move || area.rings(attached.slot);
        let one = thread::spawn(move || share(rings(), 1, WHOLE, None));
        let other = thread::spawn(move || [2, 3].map(|number| share(rings(), number, WHOLE, None)));
        one.join().unwrap();
        other.join().unwrap();
        let reader = &mut attached.readers[0];
        let numbers = finish(reader, WHOLE);
        assert_eq!(numbers.len() as u64 + reader.overwritten() + reader.lost().total, 3, "{numbers:?}");
    });
}
