//! Fuzzes a CTF stream file with one of two fixed metadata: time never goes back, and reading ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sordino_ctf::read::Trace;
use sordino_event::{Classes, Event, Step, Time};

const OTHER: &str = include_str!("../../testdata/ctf/every-kind.tsdl");
const OURS: &str = include_str!("../../testdata/ctf/user.tsdl");

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, file)) = bytes.split_first() else { return };
    let metadata = if choice % 2 == 0 { OTHER } else { OURS };
    let mut classes = Classes::default();
    let files = [("file".into(), file.to_vec())];
    let trace = Trace::from_memory(metadata.as_bytes(), files, &mut classes).expect("good metadata");
    let mut event = Event::default();
    for stream in trace.streams() {
        let (mut events, mut now) = (stream.events(), Time::MIN);
        loop {
            let time = match events.next(&mut event).expect("memory can be read") {
                Step::Event => {
                    let class = &classes[event.class];
                    assert_eq!(event.fields(class).count(), class.fields.len());
                    event.time
                }
                Step::Loss(loss) => {
                    assert!(loss.from <= loss.to);
                    loss.from
                }
                Step::End => break,
            };
            assert!(now <= time);
            now = time;
        }
    }
});
