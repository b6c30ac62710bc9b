//! The rate at which events are decoded from files in the page cache, on one thread: `cargo bench -p sordino-ctf`.
//!
//! Arguments are directories of traces to read in addition to those that the benchmark writes.

use sordino_ctf::read::{Trace, find};
use sordino_ctf::write::{StreamClass, StreamWriter, event_class, kernel_header, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{Classes, Cpu, Event, Field, Level, Schema, Step, Ticks};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

const EVENTS: u64 = 4_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = tempfile::tempdir()?;
    let cases: [(&str, StreamClass, usize, &[&str]); 5] = [
        ("two u64, packets of 256 KiB", StreamClass::Cpu, 256 << 10, &["u64", "u64"]),
        ("two u64, packets of 4 KiB", StreamClass::Cpu, 4 << 10, &["u64", "u64"]),
        ("no field", StreamClass::Cpu, 256 << 10, &[]),
        (
            "ten fields of all kinds",
            StreamClass::Cpu,
            256 << 10,
            &["u8", "u16n", "i32", "f64", "bool", "text:16", "string", "[u8;6]", "[u16]", "u64x"],
        ),
        (
            "sched_switch",
            StreamClass::Kernel,
            256 << 10,
            &["text:16", "i32", "i32", "i64", "text:16", "i32", "i32"],
        ),
    ];
    for (name, class, packet_bytes, fields) in cases {
        let dir = root.path().join("trace");
        write(&dir, class, packet_bytes, fields)?;
        read(name, &dir)?;
        fs::remove_dir_all(&dir)?;
    }
    for dir in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
        read(&dir, Path::new(&dir))?;
    }
    Ok(())
}

fn write(
    dir: &Path,
    class: StreamClass,
    packet_bytes: usize,
    types: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir(dir)?;
    let field =
        |(index, ty): (usize, &&str)| Field { name: format!("f{index}"), ty: ty.parse().expect("a type") };
    let fields: Vec<_> = types.iter().enumerate().map(field).collect();
    let schema =
        Schema { provider: "bench".into(), name: "event".into(), level: Level::Info, location: None, fields };
    let uuid = Uuid([1; 16]);
    let clock = ClockDescription {
        frequency: 2_596_136_000,
        offset_seconds: 1_700_000_000,
        ..ClockDescription::new("tsc")
    };
    let mut metadata = preamble(uuid, &Environment::default(), &clock)?;
    metadata += &stream_class(class);
    for id in 0..10 {
        metadata += &event_class(class, id, "bench:event", &schema)?;
    }
    fs::write(dir.join("metadata"), metadata)?;

    let file = BufWriter::new(fs::File::create(dir.join("cpu0"))?);
    let mut writer = StreamWriter::new(file, uuid, class, Some(Cpu(0)), packet_bytes)?;
    let id = match class {
        StreamClass::Cpu | StreamClass::Shared => [0, 0, 7, 0],
        StreamClass::Kernel | StreamClass::StateDump | StreamClass::Unanswered => kernel_header(7, 0, 0),
        StreamClass::Exported | StreamClass::Imported => 7_u32.to_ne_bytes(),
    };
    let mut payload = Vec::new();
    for field in &schema.fields {
        match field.ty.bytes() {
            Some(bytes) => payload.extend((1..=bytes as u8).rev()),
            None if field.ty.to_string() == "string" => payload.extend(b"some text\0"),
            None => payload.extend([2, 0, 1, 1, 1, 1]),
        }
    }
    for event in 0..EVENTS {
        writer.append(Ticks(1_000_000 + event * 260), id, &77_i32.to_ne_bytes(), &payload)?;
    }
    writer.finish()?;
    Ok(())
}

/// Measures the best of three runs, the one that other load disturbed least.
fn read(name: &str, dir: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut best = f64::INFINITY;
    let mut count = 0_u64;
    for _ in 0..3 {
        let begin = Instant::now();
        count = 0;
        for path in find(dir)? {
            let mut classes = Classes::default();
            let trace = Trace::open(path, &mut classes)?;
            let mut event = Event::default();
            for stream in trace.streams() {
                let mut events = stream.events();
                loop {
                    match events.next(&mut event)? {
                        Step::Event => count += 1,
                        Step::Loss(_) => {}
                        Step::End => break,
                    }
                }
            }
        }
        best = best.min(begin.elapsed().as_secs_f64());
    }
    let (million, nanos) = (count as f64 / best / 1e6, best / count as f64 * 1e9);
    writeln!(io::stdout(), "{name:40} {count:>9} events  {million:6.1} M/s  {nanos:6.1} ns each")?;
    Ok(())
}
