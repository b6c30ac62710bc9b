//! The bytes that the layout page shows are the bytes of an area.
mod support;

use sordino_event::Cpu;
use sordino_ring::area::control::{EnableMode, Program};
use sordino_ring::area::map::Mapping;
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{Capacity, Geometry, LEFT, RINGS_OFFSET, RingHeader};
use sordino_ring::number::PointId;
use std::fmt::Write;
use std::os::fd::AsFd;
use support::*;

const PAGE: &str = include_str!("../../../../docs/layout.md");

/// Formats sixteen bytes a line, like `xxd` and `hexdump -C`, without lines of zeros.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, offset) in bytes.chunks(16).zip((0..).step_by(16)) {
        if line.iter().any(|byte| *byte != 0) {
            let _ = write!(text, "{offset:04x}:");
            line.iter().for_each(|byte| {
                let _ = write!(text, " {byte:02x}");
            });
            text.push('\n');
        }
    }
    text
}

/// The page's block of text behind a heading.
fn block(heading: &str) -> String {
    let rest = PAGE.split_once(&format!("### {heading}\n")).expect(heading).1;
    let rest = rest.split_once("```text\n").expect(heading).1;
    rest.split_once("```").expect(heading).0.to_owned()
}

fn bytes_at(mapping: &Mapping, offset: usize, length: usize) -> Vec<u8> {
    // SAFETY: the test's own mapping, which has these bytes; no other thread writes them.
    unsafe { std::slice::from_raw_parts(mapping.at(offset), length) }.to_vec()
}

#[test]
fn the_page_shows_the_bytes_that_are_there() {
    let request = AreaRequest {
        cpus: 2,
        points: 2048,
        catalogue: 8192,
        reserve: 1 << 20,
        pid: 4711,
        restartable: true,
        allows_blocking: false,
    };
    sordino_percpu::init(false);
    pin(0);
    let (area, file) = Area::create(&request).unwrap();
    let text = b"event\t0\t6\tmotor\tperiod\tmotor.c\t9\nfield\tu64\tcycle\nend\n";
    // SAFETY: this thread is the only caller, and the first tracepoint's count is not less than before.
    assert!(unsafe { area.append(text, 1) });
    let program = Program::open(&file).unwrap();
    let geometry = Geometry { bits: 14, count: 2, overwrite: false };
    let mut attached = program.attach(&options(geometry, 3)).unwrap();
    program.enable(attached.slot, PointId(0), EnableMode::Always);
    let mapping = Mapping::new(file.as_fd(), 0, 1 << 20).unwrap();

    let mut header = bytes_at(&mapping, 0, 384);
    // The mapping's address and the test's pid differ each time.
    header[16..24].fill(0xaa);
    header[260..264].fill(0xbb);
    assert_eq!(dump(&header), block("Header and slot 0"));

    let words = bytes_at(&mapping, Capacity { cpus: 2, points: 2048 }.points_offset(), 8);
    assert_eq!(dump(&words), block("The first enable word"));
    assert_eq!(dump(&bytes_at(&mapping, RINGS_OFFSET, size_of::<RingHeader>())), block("The ring of CPU 0"));

    let record = |payload: &[u8]| {
        let harness =
            Harness { area, file: file.try_clone().unwrap(), program: Program::open(&file).unwrap() };
        harness.write(attached.slot, 4712 << 32, payload);
    };
    record(&42u64.to_ne_bytes());
    record(b"off");
    let (_, content, mut bytes) =
        finish(&mut attached).into_iter().find(|(cpu, ..)| *cpu == Some(Cpu(0))).unwrap();
    for timestamp in [80, 104] {
        bytes[timestamp..timestamp + 8].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    }
    assert_eq!(dump(&bytes), block("Two records"));
    assert_eq!(content.end, 123);
}

#[test]
fn the_page_shows_what_is_left_behind() {
    pin(0);
    let harness = Harness::new();
    let geometry = Geometry { bits: 14, count: 2, overwrite: false };
    let mut attached = harness.attach(geometry, 3);
    (0..510).for_each(|_| harness.write(attached.slot, 1 << 32, &[0; 16]));
    let reader = attached.readers.iter_mut().find(|reader| reader.cpu() == Some(Cpu(0))).unwrap();
    let mut left = reader.get().unwrap().expect("a full sub-buffer").copy()[LEFT..LEFT + 24].to_vec();
    left[..8].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    assert_eq!(dump(&left), block("What is left behind"));
}
