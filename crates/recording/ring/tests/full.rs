//! A full ring whose session makes writers wait.
mod support;

use sordino_ring::area::control::{AttachOptions, Attached, Refusal};
use sordino_ring::layout::Geometry;
use sordino_ring::number::SlotIndex;
use sordino_ring::write::Full;
use std::cell::Cell;
use std::time::Duration;
use support::*;

const SMALL: Geometry = Geometry { bits: 14, count: 2, overwrite: false };

fn attach(harness: &Harness, options: &AttachOptions<'_>) -> Attached {
    harness.program.attach(options).unwrap()
}

/// Writes until there is no room. Returns the number of records before. The writer of the last one then calls `wait`
/// once, and gives up if that returns false.
fn fill(harness: &Harness, slot: SlotIndex, wait: impl Fn(Full) -> bool) -> u64 {
    let waits = Cell::new(0);
    let wait = |full| {
        waits.set(waits.get() + 1);
        assert_eq!(waits.get(), 1, "asked to wait again");
        wait(full)
    };
    let full = (0..).find(|number: &u64| {
        harness.write_waiting(slot, number << 32, &number.to_ne_bytes(), &wait);
        waits.get() > 0
    });
    full.unwrap()
}

fn lost(attached: &Attached) -> u64 {
    attached.readers.iter().map(|ring| ring.lost().total).sum()
}

/// A request with rings for CPUs, and one with the shared ring alone.
fn both() -> [AttachOptions<'static>; 2] {
    [options(SMALL, 3), AttachOptions { cpus: &[], ..options(SMALL, 3) }]
}

#[test]
fn a_writer_is_asked_to_wait_and_nothing_is_lost_until_it_gives_up() {
    let harness = Harness::new();
    pin(0);
    for options in both() {
        let options = AttachOptions { block: Some(Duration::from_millis(20)), ..options };
        let mut attached = attach(&harness, &options);
        let slot = attached.slot;
        let written = fill(&harness, slot, |full| {
            assert_eq!((full, lost(&attached)), (Full { block: 20_000 }, 0));
            false
        });
        assert_eq!(lost(&attached), 1);
        let taken = drain(&mut attached);
        harness.write(slot, written << 32, &written.to_ne_bytes());
        let mut read = Vec::new();
        for (cpu, _, bytes) in taken.iter().chain(&finish(&mut attached)) {
            read.extend(if cpu.is_some() { records(bytes, 8) } else { shared_records(bytes) });
        }
        let numbers: Vec<u64> = read.iter().map(|record| record.tag >> 32).collect();
        assert_eq!(numbers, (0..=written).collect::<Vec<_>>());
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn how_long_to_wait_is_what_the_session_says() {
    let harness = Harness::new();
    pin(0);
    let cases = [
        (Duration::ZERO, 1),
        (Duration::from_nanos(1500), 1),
        (Duration::from_secs(1), 1_000_000),
        (Duration::from_secs(4294), 4_294_000_000),
        (Duration::from_secs(4295), u32::MAX),
        (Duration::MAX, u32::MAX),
    ];
    for (block, expected) in cases {
        let attached = attach(&harness, &AttachOptions { block: Some(block), ..options(SMALL, 3) });
        fill(&harness, attached.slot, |full| {
            assert_eq!(full, Full { block: expected });
            harness.area.slots().stop_blocking(attached.slot);
            true
        });
        assert_eq!(lost(&attached), 1);
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn a_session_that_does_not_ask_has_nobody_wait() {
    let harness = Harness::new();
    pin(0);
    let overwrite = AttachOptions { block: Some(Duration::MAX), ..options(SMALL.overwriting(), 3) };
    for (options, is_lost) in [(options(SMALL, 3), true), (overwrite, false)] {
        let attached = attach(&harness, &options);
        for number in 0..10_000 {
            harness.write(attached.slot, number << 32, &[0; 8]);
        }
        assert_eq!(attached.readers[0].lost().total > 0, is_lost);
        harness.program.detach(&attached).unwrap();
    }
}

#[test]
fn who_waits_when_the_session_ends_waits_no_longer() {
    let harness = Harness::new();
    pin(0);
    for options in both() {
        let attached = attach(&harness, &AttachOptions { block: Some(Duration::MAX), ..options });
        fill(&harness, attached.slot, |_| harness.program.detach(&attached).is_ok());
        harness.write(attached.slot, 0, &[0; 8]);
    }
}

#[test]
fn a_program_that_allows_no_waiting_refuses_such_a_session() {
    let harness = Harness::new();
    harness.area.header().allows_blocking.store(0, std::sync::atomic::Ordering::SeqCst);
    assert!(!harness.program.allows_blocking());
    let options = AttachOptions { block: Some(Duration::ZERO), ..options(SMALL, 3) };
    assert!(matches!(harness.program.attach(&options), Err(Refusal::NoBlocking)));
    assert!(harness.program.owners().unwrap().is_empty());
    harness.attach(SMALL, 3);
}
