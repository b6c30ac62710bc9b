//! Writers that share a ring, and its reader.

use crate::support::*;
use loom::thread;
use sordino_event::Ticks;

#[test]
fn two_writers_and_a_reader_agree_on_every_record() {
    check(|| {
        let (area, _, mut attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        let writers = [1, 2].map(|number| thread::spawn(move || share(rings(), number, HALF, None)));
        let reader = &mut attached.readers[0];
        assert!(take(reader, HALF).is_empty());
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut numbers = finish(reader, HALF);
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
    });
}

#[test]
fn a_writer_that_leaves_a_sub_buffer_hands_it_over_whole() {
    check(|| {
        let (area, _, mut attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        let writers = [1, 2].map(|number| thread::spawn(move || share(rings(), number, WHOLE, None)));
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        numbers.extend(finish(reader, WHOLE));
        numbers.sort_unstable();
        assert_eq!((numbers, reader.lost().total), (vec![1, 2], 0));
    });
}

#[test]
fn a_full_ring_loses_what_it_counts_and_reuses_what_was_read() {
    check(|| {
        let (area, _, mut attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        share(rings(), 1, WHOLE, None);
        share(rings(), 2, WHOLE, None);
        let writer = thread::spawn(move || share(rings(), 3, WHOLE, None));
        let reader = &mut attached.readers[0];
        let mut numbers = take(reader, WHOLE);
        writer.join().unwrap();
        numbers.extend(finish(reader, WHOLE));
        assert_eq!(numbers.len() as u64 + reader.lost().total, 3);
        assert!([&[1, 2][..], &[1, 2, 3]].contains(&&numbers[..]), "{numbers:?}");
    });
}

#[test]
fn a_writer_that_is_killed_hides_no_record_of_another() {
    check(|| {
        let (area, _, attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        let killed = thread::spawn(move || share(rings(), 1, HALF, None));
        let other = thread::spawn(move || [2, 3].map(|number| share(rings(), number, HALF, None)));
        other.join().unwrap();
        let (mut numbers, unfinished) = salvage(&attached.readers[0], HALF);
        let complete = numbers.contains(&1);
        numbers.retain(|&number| number != 1);
        assert_eq!(numbers, [2, 3]);
        assert!(unfinished == 0 || !complete, "a complete record was taken for an unfinished one");
        killed.join().unwrap();
    });
}

#[test]
fn who_reserves_later_has_the_later_time() {
    check(|| {
        let (area, _, attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        let time = LaggingClock::new();
        let passing = time.clone();
        let passing = thread::spawn(move || passing.pass());
        let writers = [1, 2].map(|number| {
            let time = time.clone();
            thread::spawn(move || share(rings(), number, HALF, Some(&time)))
        });
        passing.join().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut timestamps = Vec::new();
        attached.readers[0]
            .salvage(Ticks(END_OF_TIME), |part| timestamps = records(&part.bytes, 24, HALF))
            .unwrap();
        assert!(timestamps.is_sorted_by_key(|&(timestamp, _)| timestamp), "{timestamps:?}");
    });
}

#[test]
fn so_has_one_whose_cpu_is_behind() {
    check(|| {
        let (area, _, attached) = attached(&options(&[], u32::MAX));
        let rings = move || area.rings(attached.slot);
        let writers = [(1, LaggingClock::of(2)), (2, LaggingClock::of(1))]
            .map(|(number, time)| thread::spawn(move || share(rings(), number, HALF, Some(&time))));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut timestamps = Vec::new();
        attached.readers[0]
            .salvage(Ticks(END_OF_TIME), |part| timestamps = records(&part.bytes, 24, HALF))
            .unwrap();
        assert!(
            timestamps.len() == 2 && timestamps.is_sorted_by_key(|&(timestamp, _)| timestamp),
            "{timestamps:?}"
        );
    });
}
