//! Pages that a kernel wrote, compared with that kernel's own output.

use sordino_tracefs::{Converter, EventConversion, Format, Missed, Page, PageLayout};
use std::path::PathBuf;

fn sample(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../../testdata/tracefs", path].iter().collect()
}

fn page(name: &str) -> Vec<u8> {
    std::fs::read(sample("pages").join(name)).unwrap()
}

fn layout() -> PageLayout {
    PageLayout::of_size(4096).unwrap()
}

#[test]
fn records_are_read_as_the_kernel_prints_them() {
    let formats = ["sys_enter", "sys_exit"].map(|event| {
        let text = std::fs::read_to_string(sample("formats/linux-6.18").join(event)).unwrap();
        Format::parse("raw_syscalls", &text).unwrap()
    });
    let mappings = [0, 1].map(|event| EventConversion::unchanged(&formats[event].schema()));
    let converter = Converter::new(formats.iter().zip(&mappings)).unwrap();
    let mut text = String::new();
    let bytes = page("system-calls.page");
    for record in Page::parse(&bytes, &layout()).unwrap().records() {
        let (record, mut payload) = (record.unwrap(), Vec::new());
        let header = converter.convert(record.bytes, &mut payload).unwrap();
        let numbers: Vec<i64> =
            payload.as_chunks().0.iter().map(|number| i64::from_ne_bytes(*number)).collect();
        let event = &formats[header.event].event.name;
        text += &format!("{} {}: {event}: NR {}", header.tid, record.ticks.0, numbers[0]);
        let arguments = || numbers[1..].iter().map(|number| format!("{number:x}")).collect::<Vec<_>>();
        match event.as_str() {
            "sys_enter" => text += &format!(" ({})\n", arguments().join(", ")),
            _ => text += &format!(" = {}\n", numbers[1]),
        }
    }
    // The lines lack the program's name, the CPU and the flags: `python3-4931    [000] .....`.
    let printed = std::fs::read_to_string(sample("pages/system-calls.txt")).unwrap();
    let lines = printed.lines().map(|line| {
        let (thread, rest) = line.trim().split_once(' ').unwrap();
        let (_, rest) = rest.split_once("..... ").unwrap();
        format!("{} {rest}\n", thread.rsplit('-').next().unwrap())
    });
    assert_eq!(text, lines.collect::<String>());
    assert_eq!(text.lines().count(), 18);
}

#[test]
fn overwritten_records_are_reported() {
    let read = |name: &str| {
        let bytes = page(name);
        let page = Page::parse(&bytes, &layout()).unwrap();
        (page.missed, page.records().map(Result::unwrap).count())
    };
    assert_eq!(read("overwritten.page"), (Missed::Count(580), 145));
    assert_eq!(read("overwritten-uncounted.page"), (Missed::Unknown, 60));
    assert_eq!(read("system-calls.page"), (Missed::None, 18));
}

#[test]
fn a_page_cut_anywhere_is_refused() {
    let bytes = page("system-calls.page");
    for length in 0..bytes.len() {
        assert!(Page::parse(&bytes[..length], &layout()).is_err());
    }
}

#[test]
fn a_page_with_any_byte_changed_is_read_without_harm() {
    let bytes = page("system-calls.page");
    for place in 0..1024 {
        for value in [0, 0x7f, 0xff, bytes[place] ^ 1] {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            if let Ok(page) = Page::parse(&bytes, &layout()) {
                assert!(page.records().count() <= 4080 / 4);
            }
        }
    }
}
