//! Fuzzes a page of the kernel's trace buffer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_tracefs::{Converter, EventConversion, Format, Page, PageLayout};
use std::sync::LazyLock;

/// Events with fields of every kind.
static CONVERTER: LazyLock<Converter> = LazyLock::new(|| {
    let common = "field:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
field:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
field:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
field:int common_pid;\toffset:4;\tsize:4;\tsigned:1;";
    let texts = [
        format!(
            "name: a\nID: 1\n{common}\nfield:char a[16];\toffset:8;\tsize:16;\tsigned:0;\nprint fmt: \"\""
        ),
        format!(
            "name: b\nID: 2\n{common}\nfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\nprint fmt: \"\""
        ),
        format!(
            "name: c\nID: 3\n{common}\nfield:__rel_loc u64[] a;\toffset:8;\tsize:4;\tsigned:0;\nprint fmt: \"\""
        ),
        format!("name: d\nID: 4\n{common}\nfield:u32 a[];\toffset:8;\tsize:0;\tsigned:0;\nprint fmt: \"\""),
    ];
    let formats = texts.map(|text| Format::parse("test", &text).expect("a format"));
    let mappings = formats.each_ref().map(|format| EventConversion::unchanged(&format.schema()));
    Converter::new(formats.iter().zip(&mappings)).expect("common fields that agree")
});

fuzz_target!(|bytes: &[u8]| {
    let Ok(layout) = PageLayout::of_size(bytes.len() as u32) else { return };
    let Ok(page) = Page::parse(bytes, &layout) else { return };
    let mut payload = Vec::new();
    for record in page.records() {
        let Ok(record) = record else { break };
        payload.clear();
        if CONVERTER.convert(record.bytes, &mut payload).is_err() {
            assert!(payload.is_empty());
        }
    }
});
