//! The Common Trace Format, read back by sordino's reader, and its two versions compared.

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use serde_json::Value;
use sordino_ctf::read::Trace;
use sordino_event::{Class, ClassId, Classes, Cpu, Domain, Event, Loss, LossCause, Step, Time};
use sordino_export::{Ctf, CtfVersion, DirectoryExporter, Files};
use sordino_report::json_value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use support::{HOSTILE, Kinds, each, origin};

/// Returns the content of each file that an export of the source has.
fn exported<S: FnMut(&mut Event) -> Result<Step, Infallible>>(
    version: CtfVersion,
    classes: &Classes,
    source: S,
) -> BTreeMap<String, Vec<u8>> {
    let (mut exporter, mut files) = (Ctf::new(version, classes, origin()), Files::default());
    each(classes, [source], |item| exporter.take(item, &mut files));
    exporter.end(&mut files);
    let mut content: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    files.drain().for_each(|(name, bytes)| content.entry(name).or_default().extend(bytes));
    content
}

/// An event or a loss, as text.
type ItemTexts = Vec<String>;

/// Returns the events and losses of a trace's streams, and the classes.
fn read(content: &BTreeMap<String, Vec<u8>>, directory: &str) -> (ItemTexts, Classes) {
    let of = |name: &str| {
        name.strip_prefix(directory).and_then(|name| name.strip_prefix('/')).map(ToOwned::to_owned)
    };
    let streams = content.iter().filter_map(|(name, bytes)| Some((of(name)?, bytes.clone())));
    let streams = streams.filter(|(name, _)| name != "metadata").map(|(name, bytes)| (name.into(), bytes));
    let (mut classes, mut lines) = (Classes::default(), Vec::new());
    let metadata = &content[&format!("{directory}/metadata")];
    let trace = Trace::from_memory(metadata, streams.collect::<Vec<_>>(), &mut classes).unwrap();
    for stream in trace.streams() {
        let (mut events, mut event) = (stream.events(), Event::default());
        loop {
            match events.next(&mut event).unwrap() {
                Step::Event => lines.push(line(&event, &classes)),
                Step::Loss(loss) => lines.push(format!("lost {:?} from {}", loss.count, loss.from.0)),
                Step::End => break,
            }
        }
    }
    (lines, classes)
}

fn line(event: &Event, classes: &Classes) -> String {
    let mut fields = Vec::new();
    for (name, value) in event.fields(&classes[event.class]) {
        fields.extend_from_slice(format!(" {name}=").as_bytes());
        json_value(value, &mut fields);
    }
    let name = &classes[event.class].name;
    let fields = String::from_utf8_lossy(&fields).into_owned();
    format!("{} {:?} {:?} {:?} {name}{fields}", event.time.0, event.cpu, event.pid, event.tid)
}

#[test]
fn events_come_back_as_they_were() {
    let kinds = Kinds::new();
    let content = exported(CtfVersion::V1, &kinds.classes, kinds.rounds(500));
    let mut theirs = read(&content, "kernel").0;
    theirs.extend(read(&content, "ust/pid/100").0);
    let (mut ours, mut source, mut event) = (Vec::new(), kinds.rounds(500), Event::default());
    while source(&mut event).unwrap() == Step::Event {
        ours.push(line(&event, &kinds.classes));
    }
    theirs.sort();
    ours.sort();
    assert_eq!((theirs.len(), theirs == ours), (8000, true), "{} {}", theirs[0], ours[0]);
}

#[test]
fn hostile_names_and_values_are_there_and_losses_in_their_place() {
    let kinds = Kinds::new();
    let content = exported(CtfVersion::V1, &kinds.classes, kinds.hostile());
    let names: Vec<&str> =
        content.keys().map(String::as_str).filter(|name| name.ends_with("metadata")).collect();
    assert_eq!(names, ["kernel/metadata", "ust/pid/-2147483648/metadata", "ust/pid/7/metadata"]);
    let (lines, classes) = read(&content, "ust/pid/7");
    assert_eq!(lines.len(), 8);
    let name = String::from_utf8_lossy(HOSTILE[0]);
    assert!(classes.iter().all(|(_, class)| class.name == name && class.fields[0] == "two_lines__"));
    // A zero byte ends a text of the format.
    let expected = [b"zero\xef\xbf\xbdinside \\\\ <b>&amp;%n".as_slice()].concat();
    assert!(lines[7].contains(&*String::from_utf8_lossy(&expected)), "{}", lines[7]);
    assert!(lines[0].contains("18446744073709551615") && lines[0].contains("NaN"), "{}", lines[0]);
    let (lines, _) = read(&content, "kernel");
    let lost: Vec<_> = lines.iter().filter(|line| line.starts_with("lost")).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].starts_with("lost Some(9223372036854775807)"), "{lost:?}");
    assert_eq!(lines.len(), 10);
}

#[test]
fn version_2_has_the_same_packets_and_metadata_of_json() {
    let kinds = Kinds::new();
    let of = |version| exported(version, &kinds.classes, kinds.hostile());
    let (first, second) = (of(CtfVersion::V1), of(CtfVersion::V2));
    for ((name, first), (other, second)) in first.iter().zip(&second) {
        assert_eq!((name, name.ends_with("metadata") || first == second), (other, true));
    }
    let metadata = String::from_utf8(second["ust/pid/7/metadata"].clone()).unwrap();
    let fragments: Vec<Value> = metadata
        .split_terminator('\n')
        .map(|fragment| serde_json::from_str(fragment.strip_prefix('\u{1e}').unwrap()).unwrap())
        .collect();
    assert_eq!((&fragments[0]["type"], &fragments[0]["version"]), (&"preamble".into(), &2.into()));
    let event = fragments.iter().find(|fragment| fragment["type"] == "event-record-class").unwrap();
    assert_eq!(event["name"], *String::from_utf8_lossy(HOSTILE[0]));
    let members = event["payload-field-class"]["member-classes"].as_array().unwrap();
    assert_eq!(members[0]["name"], *String::from_utf8_lossy(HOSTILE[1]));
    assert_eq!(members.len(), 10);
}

/// Returns a source of these steps: losses from, to and their numbers of records, or the time of an event of `class`.
fn steps(
    class: ClassId,
    steps: impl IntoIterator<Item = Result<i64, (i64, i64, Option<u64>)>>,
) -> impl FnMut(&mut Event) -> Result<Step, Infallible> {
    let mut steps = steps.into_iter();
    move |event| {
        Ok(match steps.next() {
            Some(Ok(time)) => {
                event.begin(Time(1_000_000_000 + time), class);
                event.cpu = Some(Cpu(0));
                event.push(sordino_event::Value::signed(time));
                Step::Event
            }
            Some(Err((from, to, count))) => Step::Loss(Loss {
                from: Time(1_000_000_000 + from),
                to: Time(1_000_000_000 + to),
                cpu: Some(Cpu(0)),
                pid: None,
                count,
                cause: LossCause::KernelOverrun,
                place: None,
            }),
            None => Step::End,
        })
    }
}

#[test]
fn a_loss_that_ends_within_another_is_there_too() {
    let mut classes = Classes::default();
    let class = classes.add(Class::new(Domain::Kernel, "tick", ["number"]));
    let items = [Ok(5), Err((10, 50, Some(3))), Err((12, 40, Some(2))), Err((13, 30, None)), Ok(60)];
    let content = exported(CtfVersion::V1, &classes, steps(class, items));
    let lines = read(&content, "kernel").0;
    let lost: Vec<_> = lines.iter().filter(|line| line.starts_with("lost")).collect();
    assert_eq!((lost.len(), lines.len()), (3, 5), "{lines:?}");
    for (lost, count) in lost.iter().zip(["Some(3)", "Some(2)", "None"]) {
        assert!(lost.starts_with(&format!("lost {count} ")), "{lines:?}");
    }
}

#[test]
fn values_that_fit_no_type_leave_the_labels_to_others() {
    let mut classes = Classes::default();
    let nested = classes.add(Class::new(Domain::Kernel, "nested", ["labels", "lists"]));
    let plain = classes.add(Class::new(Domain::Kernel, "plain", ["label"]));
    let mut rounds = 0..=70;
    let source = |event: &mut Event| {
        let Some(round) = rounds.next() else { return Ok(Step::End) };
        let label = |event: &mut Event, value: i64| {
            let label = event.intern(format!("label {value}").as_bytes());
            event.push(sordino_event::Value::Label(value, Some(label)));
        };
        event.begin(Time(1_000_000_000 + round), if round < 70 { nested } else { plain });
        if round < 70 {
            event.push(sordino_event::Value::List(1000));
            (0..1000).for_each(|number| label(event, 1000 * round + number));
            [1, 1, 0].into_iter().for_each(|length| event.push(sordino_event::Value::List(length)));
        } else {
            label(event, -1);
        }
        Ok(Step::Event)
    };
    let content = exported(CtfVersion::V1, &classes, source);
    let metadata = String::from_utf8_lossy(&content["kernel/metadata"]);
    assert!(metadata.contains("\"label -1\" = -1"), "{metadata}");
    assert_eq!(read(&content, "kernel").0.len(), 71);
}

#[test]
fn fields_differ_from_the_lengths_of_lists() {
    let mut classes = Classes::default();
    let fields = ["_x_length", "x", "y", "_y_length", "y_length"];
    let class = classes.add(Class::new(Domain::Kernel, "lengths", fields));
    let mut rounds = 0..1;
    let source = |event: &mut Event| {
        let Some(round) = rounds.next() else { return Ok(Step::End) };
        let signed = |event: &mut Event, numbers: &[i64]| {
            numbers.iter().for_each(|number| event.push(sordino_event::Value::signed(*number)));
        };
        event.begin(Time(1_000_000_000 + round), class);
        signed(event, &[70]);
        event.push(sordino_event::Value::List(2));
        signed(event, &[1, 2]);
        event.push(sordino_event::Value::List(1));
        signed(event, &[3, 71, 72]);
        Ok(Step::Event)
    };
    let content = exported(CtfVersion::V1, &classes, source);
    let (lines, read_back) = read(&content, "kernel");
    let values: Vec<&str> =
        lines[0].split_whitespace().filter_map(|word| Some(word.split_once('=')?.1)).collect();
    assert_eq!(values, ["70", "[1,2]", "[3]", "71", "72"], "{lines:?}");
    let metadata = String::from_utf8_lossy(&content["kernel/metadata"]);
    let fields = metadata.split_once("fields := struct {").unwrap().1;
    let mut names: Vec<&str> =
        fields.lines().filter_map(|line| line.strip_suffix(';')?.rsplit(' ').next()).collect();
    names.retain(|name| name.starts_with('_'));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), count, read_back.len()), (7, 7, 1), "{metadata}");
}
