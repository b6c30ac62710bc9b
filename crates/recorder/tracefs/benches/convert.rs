//! Measures parsing and conversion of pages of sched_switch: `cargo bench -p sordino-tracefs`.
#![expect(clippy::print_stdout, reason = "its result")]

use sordino_tracefs::{Converter, EventConversion, Format, Page, PageLayout, lttng};
use std::hint::black_box;
use std::time::Instant;

const PAGE: usize = 4096;
const ROUNDS: u32 = 20_000;

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../testdata/tracefs/formats/linux-4.9-rt/");
    let text = std::fs::read_to_string(format!("{folder}sched_switch")).expect("a sample format");
    let format = Format::parse("sched", &text).expect("a format");
    let layout = PageLayout::of_size(PAGE as u32).expect("a layout");
    let page = page(&format);
    for (name, mapping) in
        [("kernel's", EventConversion::unchanged(&format.schema())), ("LTTng's", lttng(&format.schema()))]
    {
        let converter = Converter::new([(&format, &mapping)]).expect("one event");
        let (mut payload, mut records) = (Vec::with_capacity(PAGE), 0u32);
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let page = Page::parse(black_box(&page), &layout).expect("a page");
            payload.clear();
            for record in page.records() {
                converter.convert(record.expect("a record").bytes, &mut payload).expect("a sched_switch");
                records += 1;
            }
            black_box(&payload);
        }
        let rate = f64::from(records) / start.elapsed().as_secs_f64();
        println!("sched_switch to the {name} payload: {:.1} million records/s", rate / 1e6);
    }
}

/// Returns a page full of records.
fn page(format: &Format) -> Vec<u8> {
    const RECORD: usize = 72;
    let records = (PAGE - 16) / (RECORD + 4);
    let mut page = 1_000u64.to_ne_bytes().to_vec();
    page.extend((records * (RECORD + 4)).to_ne_bytes());
    for number in 0..records {
        page.extend(((RECORD / 4) as u32 | 100 << 5).to_le_bytes());
        let mut record = vec![number as u8; RECORD];
        record[..2].copy_from_slice(&format.id.to_ne_bytes());
        page.extend(record);
    }
    page.resize(PAGE, 0);
    page
}
