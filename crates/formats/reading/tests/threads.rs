//! The items of a pass do not depend on the threads that decode the streams, nor on the fields that are decoded.

use proptest::prelude::*;
use sordino_ctf::write::{StreamClass, StreamWriter, event_class, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{ClassId, Cpu, Field, FieldValues, Level, Schema, Ticks, Time};
use sordino_reading::{Demand, OpenRecording};
use sordino_timeline::{Consumer, Item};
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const CLASS: StreamClass = StreamClass::Cpu;

/// Writes the trace of a program with two events on each of three CPUs, with losses and packets of 4 KiB.
fn write(dir: &Path, counts: [u16; 3]) {
    let uuid = Uuid([7; 16]);
    let mut environment = Environment::default();
    environment.set("domain", "ust").set("vpid", 42);
    let mut metadata = preamble(uuid, &environment, &ClockDescription::new("tsc")).unwrap();
    metadata += &stream_class(CLASS);
    for (id, name, ty) in [(3, "t:number", "u64"), (4, "t:text", "string")] {
        let fields = vec![Field { name: "value".into(), ty: ty.parse().unwrap() }];
        let schema =
            Schema { provider: "t".into(), name: name.into(), level: Level::Info, location: None, fields };
        metadata += &event_class(CLASS, id, name, &schema).unwrap();
    }
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("metadata"), metadata).unwrap();
    for (cpu, count) in (0..).zip(counts) {
        let mut writer = StreamWriter::new(Vec::new(), uuid, CLASS, Some(Cpu(cpu)), 4096).unwrap();
        let mut lost = 0_u16;
        for event in 0..u64::from(count) {
            if event % 500 == 499 {
                writer.gap(Ticks(event * 10), 3).unwrap();
                lost += 3;
            }
            let payload = match event % 3 {
                0 => [&[b'x'; 20][..], &[0]].concat(),
                _ => event.to_ne_bytes().to_vec(),
            };
            let id: [u16; 2] = [lost, if event % 3 == 0 { 4 } else { 3 }];
            let header = [id[0].to_ne_bytes(), id[1].to_ne_bytes()].concat().try_into().unwrap();
            let tid = 100 + (event / 700) as i32;
            writer.append(Ticks(event * 10 + u64::from(cpu)), header, &tid.to_ne_bytes(), &payload).unwrap();
        }
        fs::write(dir.join(format!("cpu{cpu}")), writer.finish().unwrap()).unwrap();
    }
}

/// Returns the items of a pass, and its problems: events with their fields, or without any.
fn items(dir: &Path, threads: usize, demand: Option<&dyn Fn(&OpenRecording) -> Demand>) -> Vec<String> {
    let mut recording = OpenRecording::open(Some(dir)).unwrap();
    recording.decode_with(threads);
    let chosen = demand.map_or_else(Demand::default, |demand| demand(&recording));
    let mut seen = Vec::new();
    let passed: Result<(), Infallible> = recording.pass_of(&chosen, None, |item| {
        seen.push(match item {
            Item::Event(moment) => {
                let event = moment.event;
                let of = (
                    event.time,
                    event.class,
                    event.cpu,
                    event.pid,
                    event.tid,
                    moment.system.pid(event.tid.unwrap()),
                );
                match demand {
                    None => format!("{of:?} {:?} {:?}", event.integer(0), event.text(0)),
                    Some(_) => format!("{of:?}"),
                }
            }
            other => format!("{other:?}"),
        });
        Ok(true)
    });
    let Ok(()) = passed;
    seen.extend(recording.problems().iter().cloned());
    seen
}

#[test]
fn the_recording_is_read_whole() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2000, 3000, 1]);
    let seen = items(dir.path(), 1, None);
    assert_eq!(seen.iter().filter(|item| item.starts_with("Loss")).count(), 4 + 6);
    assert_eq!(seen.len(), 5001 + 10);
    assert!(seen.iter().any(|item| item.contains("Some(1999)")), "{:?}", seen.last());
}

#[test]
fn fields_that_nobody_reads_change_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2000, 3000, 1]);
    let bare = |recording: &OpenRecording| Demand::for_fields_of(&recording.classes, |_| false);
    let all = |recording: &OpenRecording| Demand::for_fields_of(&recording.classes, |_| true);
    assert_eq!(items(dir.path(), 1, Some(&bare)), items(dir.path(), 1, Some(&all)));
}

#[test]
fn a_pass_begins_at_the_time_to_which_it_is_limited_or_a_lead_before() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2000, 0, 0]);
    let mut recording = OpenRecording::open(Some(dir.path())).unwrap();
    let (first, last) = recording.span();
    let from = Time(first.0 + 10_000);
    recording.narrow(from, Time(last.0 - 5_000));
    let mut times = |demand: &Demand| {
        let mut times = Vec::new();
        let passed: Result<(), Infallible> = recording.pass_of(demand, None, |item| {
            times.extend(match item {
                Item::Event(moment) => Some(moment.event.time),
                _ => None,
            });
            Ok(true)
        });
        let Ok(()) = passed;
        times
    };
    let limited = times(&Demand::default());
    assert_eq!((limited[0], limited.last(), limited.len()), (from, Some(&Time(last.0 - 5_000)), 500));
    let with_lead = times(&Demand::default().with_lead());
    assert!(with_lead[0] == first && with_lead.ends_with(&limited), "{}", with_lead.len());
}

/// A consumer that notes the times of events, and the number of events with fields.
#[derive(Default)]
struct NotedTimes {
    times: Vec<Time>,
    with_fields: usize,
    read: Option<ClassId>,
    needs_lead: bool,
}

impl Consumer for NotedTimes {
    fn take(&mut self, item: &Item<'_>) {
        if let Item::Event(moment) = item {
            self.times.push(moment.event.time);
            self.with_fields += usize::from(moment.event.value(0).is_some());
        }
    }

    fn reads_fields(&self, class: ClassId) -> bool {
        self.read == Some(class)
    }

    fn needs_lead(&self) -> bool {
        self.needs_lead
    }
}

#[test]
fn consumers_share_a_pass_with_what_each_of_them_needs() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2000, 0, 0]);
    let mut recording = OpenRecording::open(Some(dir.path())).unwrap();
    let (first, last) = recording.span();
    let from = Time(first.0 + 10_000);
    recording.narrow(from, last);
    let number = recording.classes.iter().find(|(_, class)| class.name == "t:number").unwrap().0;
    let mut limited = NotedTimes { read: Some(number), ..NotedTimes::default() };
    let mut with_lead = NotedTimes { needs_lead: true, ..NotedTimes::default() };
    recording.feed(None, &mut [&mut limited, &mut with_lead]);
    assert_eq!((limited.times[0], limited.times.len()), (from, 1000));
    assert_eq!((with_lead.times[0], with_lead.times.len()), (first, 2000));
    assert!(with_lead.times.ends_with(&limited.times));
    // One of them reads the number, so both get it.
    assert_eq!((limited.with_fields, with_lead.with_fields), (1000, 2000));
    let mut without_fields = NotedTimes::default();
    recording.feed(None, &mut [&mut without_fields]);
    // Texts, which are of no fixed length, are decoded even if nobody reads them.
    assert_eq!((without_fields.times.len(), without_fields.with_fields), (1000, 333));
}

#[test]
fn events_that_are_rejected_are_left_out_but_for_those_that_show_a_thread() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2000, 0, 0]);
    let odd = |recording: &OpenRecording| {
        Demand::default().without(
            &recording.classes,
            Arc::new(|_, event| event.integer(0).is_none_or(|value| value % 100 != 1)),
        )
    };
    let seen = items(dir.path(), 1, Some(&odd));
    let events = seen.iter().filter(|item| !item.starts_with("Loss")).count();
    // Of 20 numbers, a third are texts instead; three threads are shown by their first events.
    let expected = (0..2000).filter(|event| event % 3 != 0 && event % 100 == 1).count();
    assert_eq!((events, seen.len() - events), (expected + 3, 4));
}

#[test]
fn parts_of_a_stream_leave_out_the_same_events() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [30_000, 0, 10]);
    // The threads of packets, and of parts, change at other places.
    for each in [1000, 7] {
        let few = |recording: &OpenRecording| {
            let rejects =
                move |_, event: &dyn FieldValues| event.integer(0).is_none_or(|value| value % each != 1);
            Demand::default().without(&recording.classes, Arc::new(rejects))
        };
        let alone = items(dir.path(), 1, Some(&few));
        for threads in 2..4 {
            assert!(alone == items(dir.path(), threads, Some(&few)), "{threads} threads, one of {each}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn threads_change_nothing_even_where_files_are_spoilt(
        counts in prop::array::uniform3(0..3000_u16),
        spoilt in prop::collection::vec((0..3_usize, any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6),
        threads in 2..5_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), counts);
        for (cpu, place, value, kind) in spoilt {
            let path = dir.path().join(format!("cpu{cpu}"));
            let mut bytes = fs::read(&path).unwrap();
            if bytes.is_empty() {
                continue;
            }
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = value,
                1 => bytes.truncate(at),
                _ => {
                    let end = bytes.len().min(at + 5000);
                    bytes[at..end].fill(0);
                }
            }
            fs::write(&path, bytes).unwrap();
        }
        prop_assert_eq!(items(dir.path(), 1, None), items(dir.path(), threads, None));
    }
}

/// As the crash dumps of LTTng have them.
#[test]
fn a_packet_that_was_never_ended_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), [2, 5, 0]);
    let whole = items(dir.path(), 1, None);
    let span = || OpenRecording::open(Some(dir.path())).unwrap().span();
    assert_eq!((whole.len(), span()), (7, (Time(0), Time(41))));
    let path = dir.path().join("cpu1");
    let mut bytes = fs::read(&path).unwrap();
    // The times of the first and the last event, in the packet's header.
    let times = [1_u64, 41].map(u64::to_ne_bytes).concat();
    let header = bytes.windows(16).position(|bytes| bytes == times).unwrap();
    bytes[header + 8..header + 16].fill(0);
    fs::write(&path, bytes).unwrap();
    assert_eq!(items(dir.path(), 1, None), whole);
    // By it, --from is refused where no event follows.
    assert_eq!(span(), (Time(0), Time(41)));
}
