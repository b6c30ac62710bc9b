//! Valid catalogues, and catalogues that no correct program writes.

use super::*;
use crate::catalogue::Writer;
use crate::{Scalar, Width};
use proptest::prelude::*;

fn kind(text: &str) -> ErrorKind {
    parse(text.as_bytes()).unwrap_err().kind
}

#[test]
fn what_is_written_is_read_back() {
    let mut text = String::new();
    let mut writer = Writer::new(&mut text);
    writer.event(7, Level::Debug, "net", "packet", "a b.c", 9).unwrap();
    writer.field(&"enum:u8", "kind").unwrap();
    writer.label(0, 0, "none of them").unwrap();
    writer.label(1, 9, "some").unwrap();
    writer.field(&"[u8x]", "bytes").unwrap();
    writer.end().unwrap();
    let (tracepoints, consumed) = parse(text.as_bytes()).unwrap();
    assert_eq!(consumed, text.len());
    let (id, schema) = &tracepoints[0];
    assert_eq!((*id, schema.full_name().as_str(), schema.level), (7, "net:packet", Level::Debug));
    assert_eq!(schema.location, Some(("a b.c".to_owned(), 9)));
    let Type::Scalar(Scalar::Enumeration(kind)) = &schema.fields[0].ty else { panic!("no enumeration") };
    assert_eq!(kind.integer.width, Width::W8);
    assert_eq!(kind.ranges[1], Range { label: "some".to_owned(), low: 1, high: 9 });
}

#[test]
fn a_tracepoint_that_is_still_being_written_waits() {
    let text = "event\t1\t6\ta\tb\t\t0\nend\nevent\t2\t6\ta\tc\t\t0\nfield\tu8";
    let (tracepoints, consumed) = parse(text.as_bytes()).unwrap();
    assert_eq!((tracepoints.len(), &text[..consumed]), (1, "event\t1\t6\ta\tb\t\t0\nend\n"));
}

#[test]
fn control_characters_never_break_a_line() {
    let mut text = String::new();
    let mut writer = Writer::new(&mut text);
    writer.event(1, Level::Info, "p", "n", "odd\tfile\n.c", 1).unwrap();
    writer.end().unwrap();
    let (tracepoints, _) = parse(text.as_bytes()).unwrap();
    assert_eq!(tracepoints[0].1.location, Some(("odd?file?.c".to_owned(), 1)));
}

#[test]
fn nonsense_is_refused_by_its_kind() {
    let event = "event\t1\t6\tp\tn\tf\t1\n";
    let number = |text: &str| ErrorKind::Number(text.to_owned());
    let name = |text: &str| ErrorKind::Name(text.to_owned());
    for (tail, expected) in [
        ("nonsense\n", ErrorKind::Malformed),
        ("field\tu9\tx\n", ErrorKind::Type("u9".to_owned())),
        ("field\tu8\tno identifier\n", name("no identifier")),
        ("field\tu8\tx\nfield\tu8\tx\n", ErrorKind::FieldTwice("x".to_owned())),
        ("field\tu8\tx\nlabel\t0\t1\ta\n", ErrorKind::Misplaced),
        ("field\tenum:u8\tx\nlabel\t2\t1\ta\n", number("1")),
        ("field\tenum:u8\tx\nlabel\t0\t1\t\n", name("")),
        ("refused\troom\ta\tb\n", ErrorKind::Misplaced),
        ("end\tof\tall\n", ErrorKind::Malformed),
        ("1\t2\t3\t4\t5\t6\t7\t8\n", ErrorKind::Malformed),
        (event, ErrorKind::Misplaced),
    ] {
        assert_eq!(kind(&format!("{event}{tail}end\n")), expected, "{tail}");
    }
    assert_eq!(kind("end\n"), ErrorKind::Misplaced);
    assert_eq!(kind("field\tu8\tx\n"), ErrorKind::Misplaced);
    assert_eq!(kind("event\t65536\t6\tp\tn\tf\t1\nend\n"), number("65536"));
    assert_eq!(kind("event\t1\t15\tp\tn\tf\t1\nend\n"), number("15"));
    assert_eq!(kind("event\t1\t6\t\tn\tf\t1\nend\n"), name(""));
    assert_eq!(kind("event\t1\nend\n"), ErrorKind::Malformed);
    assert_eq!(parse(b"\xff\n").unwrap_err().kind, ErrorKind::NotText);
    assert_eq!(read(b"event\t1\t6\tp\t\xff\tf\t1\nend\n").refused[0].to_string(), "p:\u{fffd}: not text");
}

#[test]
fn there_is_a_limit_to_fields() {
    let mut text = String::from("event\t1\t6\tp\tn\tf\t1\n");
    for number in 0..=MAX_FIELDS {
        text += &format!("field\tu8\tf{number}\n");
    }
    assert_eq!(kind(&(text + "end\n")), ErrorKind::TooManyFields);
}

#[test]
fn what_is_refused_is_named_and_its_neighbours_are_read() {
    let good = |id: u16| format!("event\t{id}\t6\tp\te{id}\t\t0\nfield\tu8\tx\nend\n");
    for (bad, expected) in [
        (
            "event\t1\t6\tp\ttwice\t\t0\nfield\tu8\tx\nfield\tu8\tx\nend\n",
            "p:twice: two fields of the name 'x'",
        ),
        (
            "event\t1\t6\tp\t1st\t\t0\nend\n",
            "p:1st: bad name '1st': letters, digits and _ make a name, at most 255",
        ),
        ("event\t1\t6\tp\tunfinished\t\t0\nfield\tu8\tx\n", "p:unfinished: misplaced line"),
        ("refused\tlevel\tp\tloud\n", "p:loud: unknown level"),
        ("refused\tno reason\tp\tloud\n", "p:loud: malformed"),
        ("\u{1b}[2J\nx\ny\n", "line 4 of the program's catalogue: malformed"),
    ] {
        let text = [&good(0), bad, &good(2)].concat();
        let Read { tracepoints, refused, consumed } = read(text.as_bytes());
        let ids: Vec<u16> = tracepoints.iter().map(|(id, _)| *id).collect();
        assert_eq!((ids, consumed), (vec![0, 2], text.len()), "{bad}");
        assert_eq!(refused.iter().map(RejectedTracepoint::to_string).collect::<Vec<_>>(), [expected]);
    }
    let long = format!("event\t1\t6\tp\t{}\t\t0\nend\n", "\u{202e}".repeat(90_000));
    let refused = &read(long.as_bytes()).refused[0];
    assert!(refused.name.len() < 256 && refused.to_string().is_ascii(), "{refused}");
}

#[test]
fn what_could_not_be_registered_is_read_back() {
    for reason in Unregistered::ALL {
        let mut text = String::new();
        Writer::new(&mut text).refused(reason, "p", "odd\nname").unwrap();
        let Read { refused, consumed, .. } = read(text.as_bytes());
        assert_eq!(consumed, text.len());
        assert_eq!(refused[0].error.kind, ErrorKind::Unregistered(reason));
        assert_eq!(refused[0].name, "p:odd?name");
    }
}

/// A catalogue whose lines are valid, invalid, or valid in another place.
fn any_catalogue() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "event\t[0-9]{1,5}\t[0-9]{1,2}\tp\t[a-c1$]{1,2}\tf?\t[0-9]{0,3}",
        4 => "field\t(u8|\\[u8\\]|enum:i8|string|u9)\t[a-c]",
        2 => "label\t-?[0-9]\t[0-9]\t[a-c]?",
        4 => Just("end".to_owned()),
        1 => "refused\t(level|text|room|none)\tp\t[a-c]",
        1 => "[a-z\t]{0,20}",
    ];
    let text =
        proptest::collection::vec(line, 0..60).prop_map(|lines| (lines.join("\n") + "\n").into_bytes());
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (text, flips).prop_map(|(mut text, flips)| {
        flips.into_iter().for_each(|(at, byte)| *at.get_mut(&mut text) = byte);
        text
    })
}

proptest! {
    #[test]
    fn any_text_is_read_in_pieces_as_at_once(text in any_catalogue(), cut in any::<prop::sample::Index>()) {
        let whole = read(&text);
        prop_assert!(whole.consumed <= text.len());
        for (_, schema) in &whole.tracepoints {
            prop_assert!(schema.fields.len() <= MAX_FIELDS);
        }
        let first = read(&text[..cut.index(text.len() + 1)]);
        let rest = read(&text[first.consumed..]);
        prop_assert_eq!([first.tracepoints, rest.tracepoints].concat(), whole.tracepoints);
        prop_assert_eq!(first.consumed + rest.consumed, whole.consumed);
    }

    #[test]
    fn nonsense_between_two_tracepoints_leaves_the_first_and_what_follows_its_next_begin(
        nonsense in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        let tracepoint = |id: u16| format!("event\t{id}\t6\tp\te{id}\t\t0\nend\n").into_bytes();
        let text = [tracepoint(0), nonsense, b"\n".to_vec(), tracepoint(1)].concat();
        let ids: Vec<u16> = read(&text).tracepoints.iter().map(|(id, _)| *id).collect();
        prop_assert!(ids.first() == Some(&0) && ids.last() == Some(&1));
    }
}
