//! Areas that a recorder has prepared before the program asks for one.
mod support;

use sordino_event::Cpu;
use sordino_ring::area::Area;
use sordino_ring::area::control::{AttachOptions, Portion, Preparation, Program, Refusal};
use sordino_ring::area::map;
use sordino_ring::area::map::MemoryPart;
use sordino_ring::layout::{Capacity, Geometry};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use support::*;

const GEOMETRY: Geometry = Geometry { bits: 16, count: 8, overwrite: false };
/// Records in a sub-buffer, each of two words and a payload of one.
const RECORDS: u64 = (GEOMETRY.size() as u64 - 80) / 24;

/// A session whose ring for this thread's CPU has six sub-buffers with memory, which go round the ring's end.
fn prepared_for() -> AttachOptions<'static> {
    let portion = Some(Portion { per_cpu: 6, shared: 1 });
    AttachOptions { cpus: &[Cpu(0)], portion, conditions: false, ..options(GEOMETRY, u32::MAX - 2) }
}

/// The same session when it attaches: two of the sub-buffers are made present first.
fn attaching() -> AttachOptions<'static> {
    AttachOptions { prepared: Some(Portion { per_cpu: 2, shared: 1 }), ..prepared_for() }
}

fn preparation<'a>(options: &'a AttachOptions<'a>) -> Preparation<'a> {
    let capacity = Capacity { cpus: cpus(), points: POINTS };
    Preparation { options, capacity, catalogue: CATALOGUE as u64 }
}

fn memory(file: &OwnedFd) -> u64 {
    File::from(file.try_clone().unwrap()).metadata().unwrap().blocks() * 512
}

#[test]
fn its_rings_take_as_many_records_as_were_prepared_and_no_new_memory() {
    pin(0);
    let options = prepared_for();
    let file = preparation(&options).make().unwrap();
    assert_eq!(memory(&file), preparation(&options).memory());
    let harness = Harness::in_prepared(file);
    let before = memory(&harness.file);
    let attached = harness.program.attach(&attaching()).unwrap();
    // Some pages of the control part come with a slot.
    assert!(memory(&harness.file) - before < GEOMETRY.size() as u64);
    let before = memory(&harness.file);
    for number in 0..6 * RECORDS + 1 {
        assert_eq!(attached.readers[0].lost().total, 0, "record {number}");
        harness.write(attached.slot, number << 32, &number.to_ne_bytes());
    }
    assert_eq!((attached.readers[0].lost().total, memory(&harness.file)), (1, before));
}

#[test]
fn all_that_is_open_is_to_be_made_present_at_once_or_later() {
    let options = prepared_for();
    let harness = Harness::in_prepared(preparation(&options).make().unwrap());
    let attached = harness.program.attach(&attaching()).unwrap();
    let bytes = |parts: &[MemoryPart]| -> u64 {
        let rings = attached.region.address..attached.region.address + attached.region.length;
        parts.iter().filter(|part| rings.contains(&part.address)).map(|part| part.length).sum()
    };
    let [first, later] = [bytes(&attached.present), bytes(&attached.hidden)];
    assert_eq!(later, 4 * GEOMETRY.size() as u64);
    assert_eq!(first + later, preparation(&options).memory());
}

/// Another recorder may find a program before the one that prepared its area attaches.
#[test]
fn another_session_that_comes_first_gets_none_of_it_and_nothing_is_left() {
    pin(0);
    let options_of_prepared = prepared_for();
    let file = preparation(&options_of_prepared).make().unwrap();
    let harness = Harness::in_prepared(file);
    let other = Geometry { bits: 14, count: 2, overwrite: false };
    let small = AttachOptions { cpus: &[Cpu(0)], conditions: false, ..options(other, 7) };
    let before = memory(&harness.file);
    let other_recorder = Program::open(&harness.file).unwrap();
    let first = other_recorder.attach(&small).unwrap();
    let prepared = preparation(&options_of_prepared).memory();
    assert!(memory(&harness.file) + prepared - 8 * other.data_size() as u64 <= before, "it stays");
    let second = harness.program.attach(&attaching()).unwrap();
    let behind = first.region.address + first.region.length;
    assert_eq!((second.region.address, second.hidden.len()), (behind, 0));
    for (attached, records) in [(&first, 1), (&second, 2 * RECORDS)] {
        for number in 0..records {
            harness.write(attached.slot, number << 32, &number.to_ne_bytes());
        }
        assert_eq!(attached.readers[0].lost().total, 0);
    }
    harness.write(second.slot, 0, &[0; 8]);
    assert_eq!((second.readers[0].lost().total, second.is_prepared), (1, false), "it has its first portion");
}

/// The refused attempt may have removed the memory that was prepared.
#[test]
fn after_a_session_that_failed_to_attach_nothing_counts_as_prepared() {
    pin(0);
    let options_of_prepared = prepared_for();
    let harness = Harness::in_prepared(preparation(&options_of_prepared).make().unwrap());
    let huge = Geometry { bits: 20, count: 512, overwrite: false };
    let other_recorder = Program::open(&harness.file).unwrap();
    let refused = other_recorder.attach(&AttachOptions { cpus: &[Cpu(0)], ..options(huge, 7) });
    assert!(matches!(refused, Err(Refusal::NoRoom { .. })), "{refused:?}");
    let attached = harness.program.attach(&attaching()).unwrap();
    assert!(!attached.is_prepared && attached.hidden.is_empty());
}

#[test]
fn a_file_that_may_shrink_or_is_too_small_is_no_area() {
    let refused = |file: &OwnedFd| {
        let error = Area::create_in(file, &request(256 << 20)).map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    };
    refused(&map::create_file(4096).unwrap());
    // SAFETY: the name is a constant string with a zero byte, and the flags are valid.
    let fd = unsafe { libc::memfd_create(c"unsealed".as_ptr(), libc::MFD_CLOEXEC) };
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    let unsealed = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    File::from(unsealed.try_clone().unwrap()).set_len(64 << 20).unwrap();
    refused(&unsealed);
    refused(&OwnedFd::from(File::open("/proc/self/exe").unwrap()));
}
