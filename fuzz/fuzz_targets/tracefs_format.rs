//! A format of the kernel's, as any text: whatever is accepted can be used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_tracefs::{Converter, Format, Mapping, lttng};

fuzz_target!(|text: &str| {
    // The group decides about LTTng's names.
    let (system, text) = text.split_once('\n').unwrap_or(("sched", text));
    let Ok(format) = Format::parse(system, text) else { return };
    let schema = format.schema();
    let record = [&format.id.to_ne_bytes()[..], &[0xa5; 200]].concat();
    for mapping in [Mapping::unchanged(&schema), lttng(&schema)] {
        if let Ok(converter) = Converter::new([(&format, &mapping)]) {
            let _ = converter.convert(&record, &mut Vec::new());
        }
    }
});
