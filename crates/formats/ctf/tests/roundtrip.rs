//! Written traces are read back equal, by sordino's reader and by babeltrace2.

mod support;

use sordino_ctf::write::{
    Argument, StreamClass, StreamWriter, encode, event_class, kernel_header, preamble, stream_class,
};
use sordino_ctf::{ClockDescription, Environment, Uuid, read::Trace};
use sordino_event::{
    Base, ByteOrder, Classes, Cpu, Domain, Enumeration, Event, Field, Integer, Level, LossCause, Range,
    Scalar, Schema, Step, Ticks, Tid, Time, Type, View, Width,
};
use std::fs;
use std::path::Path;
use support::packets::{self, WrittenPacket};
use support::{assert_same, babeltrace, read};

fn clock() -> ClockDescription {
    ClockDescription {
        uuid: Some(Uuid([0xc1; 16])),
        description: "time stamp counter".into(),
        offset_seconds: 1_700_000_000,
        offset_ticks: 123_456_789,
        ..ClockDescription::new("tsc")
    }
}

fn schema(name: &str, fields: Vec<Field>) -> Schema {
    Schema { provider: "test".into(), name: name.into(), level: Level::Debug, location: None, fields }
}

fn field(name: impl Into<String>, ty: &str) -> Field {
    Field { name: name.into(), ty: ty.parse().unwrap() }
}

fn labelled(name: &str, integer: &str, labels: &[(&str, i64, i64)]) -> Field {
    let Type::Scalar(Scalar::Integer(integer)) = integer.parse().unwrap() else { panic!("no integer") };
    let range = |&(label, low, high): &(&str, i64, i64)| Range { label: label.into(), low, high };
    let ranges = labels.iter().map(range).collect();
    Field { name: name.into(), ty: Type::Scalar(Scalar::Enumeration(Enumeration { integer, ranges })) }
}

/// Returns a schema with every integer type: 64 of them.
fn integers() -> Schema {
    let mut fields = Vec::new();
    for width in [Width::W8, Width::W16, Width::W32, Width::W64] {
        for signed in [false, true] {
            for base in [Base::Decimal, Base::Hexadecimal, Base::Octal, Base::Binary] {
                for order in [ByteOrder::Host, ByteOrder::Network] {
                    let ty = Type::Scalar(Scalar::Integer(Integer { width, signed, base, order }));
                    fields.push(Field { name: format!("f{}", fields.len()), ty });
                }
            }
        }
    }
    schema("integers", fields)
}

fn others() -> Schema {
    schema(
        "others",
        vec![
            field("single", "f32"),
            field("double", "f64"),
            field("no", "bool"),
            field("yes", "bool"),
            labelled(
                "kind",
                "u8",
                &[("none of \"them\"", 0, 0), ("som\u{1}e\n", 1, 9), ("som\u{1}e\n", 20, 20), ("é", -7, 300)],
            ),
            labelled("sign", "i64", &[("below", i64::MIN, -1), ("above", 1, i64::MAX)]),
            labelled("bare", "u16n", &[]),
            field("string", "string"),
            field("empty", "string"),
            field("text", "text:8"),
            field("full", "text:3"),
            field("no_text", "text:0"),
            field("array", "[i16n;3]"),
            field("no_array", "[u64;0]"),
            field("blob", "[u8x]"),
            field("blob_length", "u32"),
            field("floats", "[f64]"),
            field("bools", "[bool]"),
            field("nothing", "[u64]"),
            field("event", "u8"),
        ],
    )
}

fn others_values() -> Vec<Argument<'static>> {
    const ARRAY: &[Argument<'_>] = &[Argument::Integer(-1), Argument::Integer(0), Argument::Integer(258)];
    const BLOB: &[Argument<'_>] = &[Argument::Integer(0), Argument::Integer(255), Argument::Integer(16)];
    const FLOATS: &[Argument<'_>] = &[Argument::Float(1.5), Argument::Float(-0.25)];
    const BOOLS: &[Argument<'_>] = &[Argument::Integer(1), Argument::Integer(0)];
    vec![
        0.5.into(),
        (-2.25).into(),
        false.into(),
        true.into(),
        20.into(),
        (-3).into(),
        513.into(),
        "tab\t\"quoted\" \\ é\u{1}".into(),
        "".into(),
        "ab".into(),
        "abc".into(),
        "".into(),
        Argument::List(ARRAY),
        Argument::List(&[]),
        Argument::List(BLOB),
        9.into(),
        Argument::List(FLOATS),
        Argument::List(BOOLS),
        Argument::List(&[]),
        1.into(),
    ]
}

/// Returns true if the event contains the written value.
fn same(view: View<'_>, value: &Argument<'_>) -> bool {
    match (view, value) {
        (View::Unsigned(found, _), Argument::Integer(written)) => i128::from(found) == *written,
        (View::Signed(found, _) | View::Label(found, _), Argument::Integer(written)) => {
            i128::from(found) == *written
        }
        (View::Float(found), Argument::Float(written)) => found == *written,
        (View::Text(found), Argument::Text(written)) => found == *written,
        (View::List(found), Argument::List(written)) => {
            found.count() == written.len() && found.zip(*written).all(|(found, written)| same(found, written))
        }
        _ => false,
    }
}

/// Writes a trace to `dir` with the schemas as events 0, 1, ..., and one file, which `fill` writes.
fn record(
    dir: &Path,
    class: StreamClass,
    schemas: &[&Schema],
    environment: &Environment,
    fill: impl FnOnce(&mut StreamWriter<Vec<u8>>),
) {
    fs::create_dir_all(dir).unwrap();
    // babeltrace2 takes traces with the same UUID for parts of one trace.
    let uuid = Uuid([class as u8; 16]);
    let mut metadata = preamble(uuid, environment, &clock()).unwrap() + &stream_class(class);
    for (id, schema) in (0..).zip(schemas) {
        metadata += &event_class(class, id, &schema.full_name(), schema).unwrap();
    }
    fs::write(dir.join("metadata"), metadata).unwrap();
    let cpu = matches!(class, StreamClass::Cpu | StreamClass::Kernel).then_some(Cpu(3));
    let mut writer = StreamWriter::new(Vec::new(), uuid, class, cpu, 8192).unwrap();
    fill(&mut writer);
    fs::write(dir.join("stream"), writer.finish().unwrap()).unwrap();
}

fn append(writer: &mut StreamWriter<Vec<u8>>, ticks: u64, id: u16, schema: &Schema, values: &[Argument<'_>]) {
    let mut payload = Vec::new();
    encode(schema, values, &mut payload).unwrap();
    writer.append(Ticks(ticks), kernel_header(id, 7, 1), &(-4_i32).to_ne_bytes(), &payload).unwrap();
}

#[test]
fn every_type_is_read_back() {
    let root = tempfile::tempdir().unwrap();
    let (integers, others, empty) = (integers(), others(), schema("empty", vec![]));
    let extremes: Vec<Vec<Argument<'_>>> = [false, true]
        .map(|least| {
            let value = |field: &Field| match field.ty {
                Type::Scalar(Scalar::Integer(Integer { width, signed: true, .. })) if least => {
                    -1 << (width.bits() - 1)
                }
                Type::Scalar(Scalar::Integer(_)) if least => 0,
                Type::Scalar(Scalar::Integer(Integer { width, signed, .. })) => {
                    (1 << (width.bits() - u32::from(signed))) - 1
                }
                _ => panic!("no integer"),
            };
            integers.fields.iter().map(|field| Argument::Integer(value(field))).collect()
        })
        .into();
    let all = [
        (0, &integers, extremes[0].clone()),
        (0, &integers, extremes[1].clone()),
        (1, &others, others_values()),
        (2, &empty, vec![]),
    ];
    let mut environment = Environment::default();
    environment.set("domain", "kernel").set("hostname", "odd \"name\"\n\\é\u{7f}").set("vpid", -1);
    record(root.path(), StreamClass::Kernel, &[&integers, &others, &empty], &environment, |writer| {
        for round in 0..100 {
            for (offset, (id, schema, values)) in (0..).zip(&all) {
                append(writer, 1_000_000_000 + round * 10 + offset, *id, schema, values);
            }
        }
    });

    let mut classes = Classes::default();
    let trace = Trace::open(root.path(), &mut classes).unwrap();
    assert_eq!(trace.environment(), &environment);
    assert_eq!((trace.uuid(), trace.clocks()), (Some(Uuid([StreamClass::Kernel as u8; 16])), &[clock()][..]));
    let stream = &trace.streams()[0];
    assert!(stream.packets().len() > 4, "several packets");
    let (mut events, mut event) = (stream.events(), Event::default());
    for round in 0..100 {
        for (offset, (_, schema, values)) in (0..).zip(&all) {
            assert_eq!(events.next(&mut event).unwrap(), Step::Event);
            let class = &classes[event.class];
            assert_eq!((class.domain, class.level), (Domain::Kernel, Some(Level::Debug)));
            assert_eq!(class.name, schema.full_name());
            let names = schema.fields.iter().map(|field| field.name.as_str());
            assert!(class.fields.iter().eq(names.chain(["$ctx.flags", "$ctx.preempt_count"])));
            assert_eq!(event.time, Time(1_700_000_001_123_456_789 + round * 10 + offset));
            assert_eq!((event.cpu, event.tid), (Some(Cpu(3)), Some(Tid(-4))));
            for (index, value) in values.iter().enumerate() {
                let view = event.value(index).unwrap();
                assert!(same(view, value), "{}: {view:?} is not {value:?}", class.fields[index]);
            }
            let context = class.field("$ctx.flags").unwrap();
            assert_eq!((event.integer(context), event.integer(context + 1)), (Some(7), Some(1)));
        }
    }
    assert_eq!(events.next(&mut event).unwrap(), Step::End);
}

#[test]
fn labels_and_bases_are_read_back() {
    let root = tempfile::tempdir().unwrap();
    let (integers, others) = (integers(), others());
    record(root.path(), StreamClass::Kernel, &[&integers, &others], &Environment::default(), |writer| {
        append(writer, 0, 0, &integers, &[Argument::Integer(1); 64]);
        append(writer, 0, 1, &others, &others_values());
    });
    let mut classes = Classes::default();
    let trace = Trace::open(root.path(), &mut classes).unwrap();
    let (mut events, mut event) = (trace.streams()[0].events(), Event::default());
    events.next(&mut event).unwrap();
    for (index, field) in integers.fields.iter().enumerate() {
        let Type::Scalar(Scalar::Integer(ty)) = field.ty else { panic!("no integer") };
        match event.value(index) {
            Some(View::Unsigned(1, base)) => assert_eq!((false, base), (ty.signed, ty.base)),
            Some(View::Signed(1, base)) => assert_eq!((true, base), (ty.signed, ty.base)),
            other => panic!("{other:?}"),
        }
    }
    events.next(&mut event).unwrap();
    let field = |name| event.value(classes[event.class].field(name).unwrap());
    assert!(matches!(field("no"), Some(View::Label(0, Some(b"false")))));
    assert!(matches!(field("yes"), Some(View::Label(1, Some(b"true")))));
    assert!(matches!(field("kind"), Some(View::Label(20, Some(b"som\x01e\n")))));
    assert!(matches!(field("sign"), Some(View::Label(-3, Some(b"below")))));
    assert!(matches!(field("bare"), Some(View::Unsigned(513, _))));
}

/// A recording has the traces of the kernel and of two programs.
#[test]
fn babeltrace2_reads_a_recording_without_a_warning() {
    let root = tempfile::tempdir().unwrap();
    let (integers, others, empty) = (integers(), others(), schema("empty", vec![]));
    let values: Vec<_> = (1..=64).map(Argument::Integer).collect();
    for (index, class) in [StreamClass::Kernel, StreamClass::StateDump, StreamClass::Cpu, StreamClass::Shared]
        .into_iter()
        .enumerate()
    {
        let mut environment = Environment::default();
        environment
            .set("domain", "ust")
            .set("tracer_name", "sordino")
            .set("hostname", "odd \"name\"\n\\é\u{7f}");
        record(
            &root.path().join(index.to_string()),
            class,
            &[&integers, &others, &empty],
            &environment,
            |writer| {
                for ticks in 0..300 {
                    let (id, schema, values) = match ticks % 3 {
                        0 => (0, &integers, &values),
                        1 => (1, &others, &others_values()),
                        _ => (2, &empty, &vec![]),
                    };
                    let mut payload = Vec::new();
                    encode(schema, values, &mut payload).unwrap();
                    let (header, context) = match class {
                        StreamClass::Cpu => (user_header(0, id), 77_i32.to_ne_bytes().to_vec()),
                        StreamClass::Shared => (
                            user_header(0, id),
                            shared_context(77, if ticks == 5 { u32::MAX } else { 1 }, payload.len()),
                        ),
                        _ => (kernel_header(id, 0, 0), 77_i32.to_ne_bytes().to_vec()),
                    };
                    writer.append(Ticks(ticks), header, &context, &payload).unwrap();
                }
            },
        );
    }
    let ours = read(root.path());
    assert_eq!((ours.events.len(), ours.losses.len()), (1200, 0));
    let Some(theirs) = babeltrace(root.path()) else { return };
    assert_eq!(theirs.complaints, "");
    assert_same(&ours.events, &theirs.events);
    for expected in [
        "[1700000000.123456790] ust test:others: { cpu_id = 3, too_large = 0 }, { vtid = 77 }, { single = 0.5, double = -2.25,",
        "yes = ( \"true\" : container = 1 )",
        "string = \"tab\\t\\\"quoted\\\" \\\\ é",
        "blob = [ [0] = 0x0, [1] = 0xFF, [2] = 0x10 ]",
    ] {
        assert!(theirs.text.contains(expected), "{expected} is not in\n{}", theirs.text);
    }
}

fn user_header(lost: u16, id: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (lost.to_ne_bytes(), id.to_ne_bytes());
    [a, b, c, d]
}

fn shared_context(tid: i32, cpu: u32, payload: usize) -> Vec<u8> {
    [tid.to_ne_bytes(), cpu.to_ne_bytes(), (24 + payload as u32).to_ne_bytes()].concat()
}

#[test]
fn gaps_lie_where_they_were_written() {
    let root = tempfile::tempdir().unwrap();
    let empty = schema("empty", vec![]);
    record(root.path(), StreamClass::Kernel, &[&empty], &Environment::default(), |writer| {
        writer.gap(Ticks(10), 5).unwrap();
        append(writer, 20, 0, &empty, &[]);
        append(writer, 30, 0, &empty, &[]);
        writer.gap(Ticks(50), 7).unwrap();
        append(writer, 50, 0, &empty, &[]);
    });
    let ours = read(root.path());
    let base = 1_700_000_000_123_456_789;
    let losses: Vec<_> = ours
        .losses
        .iter()
        .map(|loss| (loss.from.0 - base, loss.to.0 - base, loss.count, loss.cause, loss.cpu))
        .collect();
    assert_eq!(
        losses,
        [
            (10, 10, Some(5), LossCause::KernelOverrun, Some(Cpu(3))),
            (30, 50, Some(7), LossCause::KernelOverrun, Some(Cpu(3)))
        ]
    );
    let Some(theirs) = babeltrace(root.path()) else { return };
    assert_same(&ours.events, &theirs.events);
    let complaints: Vec<_> = theirs.complaints.lines().filter(|line| line.contains("WARNING")).collect();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    let second = "discarded 7 events between [1700000000.123456819] and [1700000000.123456839]";
    assert!(complaints[1].contains(second), "{complaints:?}");
}

#[test]
fn names_that_babeltrace2_confuses_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let names = ["_a", "a", "b", "_b", "__c", "c", "_c", "_d_length", "d_length"];
    let mut fields: Vec<_> = names.into_iter().map(|name| field(name, "u8")).collect();
    fields.insert(7, field("d", "[u8]"));
    let schema = schema("names", fields);
    record(root.path(), StreamClass::Kernel, &[&schema], &Environment::default(), |writer| {
        let mut values: Vec<_> = (1..=10).map(Argument::Integer).collect();
        values[7] = Argument::List(&[Argument::Integer(0)]);
        append(writer, 1, 0, &schema, &values);
    });
    let mut classes = Classes::default();
    Trace::open(root.path(), &mut classes).unwrap();
    let (_, class) = classes.iter().next().unwrap();
    assert_eq!(
        class.fields[..10],
        ["_a", "__a", "b", "_b", "__c", "c", "___c", "d", "_d_length", "__d_length"]
    );
    let Some(theirs) = babeltrace(root.path()) else { return };
    assert_eq!((theirs.complaints.as_str(), theirs.events), ("", read(root.path()).events));
}

#[test]
fn metadata_that_readers_would_refuse_is_not_written() {
    let complaint =
        |fields| event_class(StreamClass::Cpu, 0, "t:e", &schema("e", fields)).unwrap_err().to_string();
    assert_eq!(complaint(vec![field("a b", "u8")]), "field name \"a b\" is no C identifier");
    assert_eq!(complaint(vec![field("", "u8")]), "field name \"\" is no C identifier");
    assert_eq!(complaint(vec![field("1", "u8")]), "field name \"1\" is no C identifier");
    assert_eq!(complaint(vec![field("a", "u8"), field("a", "u8")]), "test:e has two fields called a");
    let refuse = |environment: &Environment, clock: &ClockDescription| {
        preamble(Uuid([0; 16]), environment, clock).unwrap_err().to_string()
    };
    let mut environment = Environment::default();
    assert_eq!(refuse(&environment, &ClockDescription::new("")), "clock name \"\" is no C identifier");
    let still = ClockDescription { frequency: 0, ..ClockDescription::new("c") };
    assert_eq!(refuse(&environment, &still), "clock \"c\" has a frequency of 0");
    environment.set("host-name", "x");
    assert_eq!(
        refuse(&environment, &ClockDescription::new("c")),
        "environment name \"host-name\" is no C identifier"
    );
}

/// A recording of many short programs has more streams than a process may have files open.
#[test]
fn ten_thousand_streams_are_read_at_once() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("metadata"), packets::metadata()).unwrap();
    let bytes = WrittenPacket { seqno: 0, span: (1, 2), lost: (0, 0), events: &[(1, 0), (2, 0)] }.bytes();
    for stream in 0..10_000 {
        fs::write(root.path().join(format!("stream{stream}")), &bytes[..200]).unwrap();
    }
    let trace = Trace::open(root.path(), &mut Classes::default()).unwrap();
    let mut streams: Vec<_> = trace.streams().iter().map(|stream| stream.events()).collect();
    assert_eq!(streams.len(), 10_000);
    let mut event = Event::default();
    for step in [Step::Event, Step::Event, Step::End] {
        assert!(streams.iter_mut().all(|stream| stream.next(&mut event).unwrap() == step));
        let open = fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < 100, "{open} descriptors");
    }
}
