//! Fuzzes a format file of the kernel's: an accepted format can be used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_tracefs::{Converter, EventConversion, Format, lttng};

fuzz_target!(|text: &str| {
    // LTTng's names depend on the event's group.
    let (system, text) = text.split_once('\n').unwrap_or(("sched", text));
    let Ok(format) = Format::parse(system, text) else { return };
    let schema = format.schema();
    let record = [&format.id.to_ne_bytes()[..], &[0xa5; 200]].concat();
    for mapping in [EventConversion::unchanged(&schema), lttng(&schema)] {
        if let Ok(converter) = Converter::new([(&format, &mapping)]) {
            let _ = converter.convert(&record, &mut Vec::new());
        }
    }
});
