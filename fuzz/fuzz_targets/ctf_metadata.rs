//! Fuzzes CTF metadata: it is rejected, or a packet of zeros can be read with it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_ctf::read::Trace;
use sordino_event::{Classes, Event, Step};

fuzz_target!(|metadata: &[u8]| {
    let mut classes = Classes::default();
    let Ok(trace) = Trace::from_memory(metadata, [("zeros".into(), vec![0; 64])], &mut classes) else { return };
    let mut event = Event::default();
    for stream in trace.streams() {
        let mut events = stream.events();
        while events.next(&mut event).expect("memory can be read") != Step::End {}
    }
});
