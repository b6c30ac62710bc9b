//! Common parts of the tests that compare with babeltrace2: both sides are converted to one canonical text per event.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod packets;

use sordino_ctf::read::{Stream, Trace, find};
use sordino_event::{Base, Class, Classes, Event, EventHead, FieldValues, Loss, Step, Time, View};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// Prints the reason why something was not tested.
pub(crate) fn not_measured(why: &str) {
    let _ = writeln!(std::io::stderr(), "not measured here: {why}");
}

/// The content of all traces at or below a directory.
#[derive(Default)]
pub(crate) struct DirectoryContent {
    /// The time and the canonical text of each event, sorted.
    pub(crate) events: Vec<(Time, String)>,
    pub(crate) losses: Vec<Loss>,
}

pub(crate) fn read(dir: &Path) -> DirectoryContent {
    let mut reading = DirectoryContent::default();
    for path in find(dir).unwrap() {
        let mut classes = Classes::default();
        let trace = Trace::open(path, &mut classes).unwrap();
        read_trace(&trace, &classes, &mut reading);
    }
    reading.events.sort();
    reading
}

pub(crate) fn read_trace(trace: &Trace, classes: &Classes, reading: &mut DirectoryContent) {
    for stream in trace.streams() {
        let (mut events, mut event, mut last) = (stream.events(), Event::default(), None);
        let mut undecoded = Vec::new();
        loop {
            let mut keep = |head: &EventHead, values: &dyn FieldValues| {
                undecoded = single_values(values, &classes[head.class]);
                false
            };
            match events.next_unless(&mut event, &mut keep).unwrap() {
                Step::Event => {
                    assert_eq!(undecoded, single_values(&event, &classes[event.class]));
                    assert!(last <= Some(event.time), "time went back");
                    last = Some(event.time);
                    assert_eq!(event.len(), classes[event.class].fields.len());
                    reading.events.push((event.time, canonical(&event, &classes[event.class])));
                }
                Step::Loss(loss) => {
                    assert!(loss.from <= loss.to, "{loss:?}");
                    reading.losses.push(loss);
                }
                Step::End => break,
            }
        }
        assert_rejected_events_alone_are_missing(stream);
    }
}

/// Returns the fields that have one value, and whether it is an integer.
fn single_values(values: &dyn FieldValues, class: &Class) -> Vec<(Option<String>, Option<i64>)> {
    let text = |field| match values.value(field)? {
        View::List(_) | View::Group(_) => None,
        single => Some(format!("{single:?}")),
    };
    (0..class.fields.len()).map(|field| (text(field), values.integer(field))).collect()
}

/// Reads a stream with and without a filter on the time, which rejects two of three events.
fn assert_rejected_events_alone_are_missing(stream: &Stream) {
    let is_rejected: fn(Time) -> bool = |time| time.0 % 3 != 0;
    let read = |rejects: fn(Time) -> bool| {
        let (mut events, mut event, mut items) = (stream.events(), Event::default(), Vec::new());
        loop {
            match events.next_unless(&mut event, &mut |head, _| rejects(head.time)).unwrap() {
                Step::End => return items,
                Step::Loss(loss) => items.push((loss.from, format!("{loss:?}"))),
                Step::Event => {
                    let values: Vec<_> = (0..event.len()).map(|field| event.value(field)).collect();
                    items.push((event.time, format!("{:?} {values:?} {:?}", event.head(), events.payload())));
                }
            }
        }
    };
    let mut all = read(|_| false);
    all.retain(|(time, item)| item.starts_with("Loss") || !is_rejected(*time));
    assert_eq!(read(is_rejected), all);
}

/// Returns `name cpu pid tid {payload} {other contexts}`.
fn canonical(event: &Event, class: &Class) -> String {
    let number = |id: Option<i64>| id.map_or("-".to_owned(), |id| id.to_string());
    let mut text = class.name.clone();
    let cpu = number(event.cpu.map(|cpu| cpu.0.into()));
    // The number of a program may come from the environment, which babeltrace2 does not show with events.
    let tid = number(event.tid.map(|tid| tid.0.into()));
    write!(text, " {cpu} {tid}").unwrap();
    let (mut payload, mut context) = (Vec::new(), Vec::new());
    for (name, view) in event.fields(class) {
        match name.strip_prefix("$ctx.") {
            Some(name) => context.push((name.to_owned(), ComparableValue::from_view(view))),
            None => payload.push((name.to_owned(), ComparableValue::from_view(view))),
        }
    }
    write!(text, " {} {}", ComparableValue::Group(payload).text(), ComparableValue::Group(context).text())
        .unwrap();
    text
}

/// A value as either side shows it.
#[derive(Clone, Debug, PartialEq)]
enum ComparableValue {
    Number(i128),
    Float(f64),
    Text(String),
    Label(Option<String>, i128),
    List(Vec<Self>),
    Group(Vec<(String, Self)>),
}

impl ComparableValue {
    fn from_view(view: View<'_>) -> Self {
        match view {
            View::Unsigned(number, _) => Self::Number(number.into()),
            // babeltrace2 shows as many bits of a negative number as its type has; 32 in all traces here.
            View::Signed(number @ ..0, Base::Hexadecimal | Base::Octal) => {
                Self::Number((number as u32).into())
            }
            View::Signed(number, _) => Self::Number(number.into()),
            View::Float(number) => Self::Float(number),
            View::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            View::Label(number, label) => {
                Self::Label(label.map(|label| String::from_utf8_lossy(label).into_owned()), number.into())
            }
            View::List(entries) => Self::List(entries.map(Self::from_view).collect()),
            View::Group(mut entries) => {
                let mut members = Vec::new();
                while let (Some(View::Text(name)), Some(value)) = (entries.next(), entries.next()) {
                    members.push((String::from_utf8_lossy(name).into_owned(), Self::from_view(value)));
                }
                Self::Group(members)
            }
        }
    }

    /// Returns the canonical text. Members of groups of one have no name, as babeltrace2 does not name a variant's
    /// option.
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Label(label, number) => format!("({label:?} {number})"),
            Self::List(values) => {
                format!("[{}]", values.iter().map(Self::text).collect::<Vec<_>>().join(" "))
            }
            Self::Group(members) => {
                let one = members.len() == 1;
                let members = members
                    .iter()
                    .map(|(name, value)| format!("{}{}", if one { "" } else { name }, value.text()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// The output of babeltrace2 for a directory: the events in the form of [`DirectoryContent`], and its complaints.
pub(crate) struct Babeltrace {
    pub(crate) events: Vec<(Time, String)>,
    pub(crate) complaints: String,
    pub(crate) text: String,
}

/// Runs babeltrace2; `None` if it is not installed.
pub(crate) fn babeltrace(dir: &Path) -> Option<Babeltrace> {
    let arguments = ["--no-delta", "--clock-seconds", "--fields=trace:domain"];
    let output = match Command::new("babeltrace2").args(arguments).arg(dir).output() {
        Ok(output) => output,
        Err(error) => {
            not_measured(&format!("babeltrace2: {error}"));
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut events: Vec<_> = text.lines().map(|line| PrintedLine(line).parse()).collect();
    events.sort();
    Some(Babeltrace { events, complaints: String::from_utf8_lossy(&output.stderr).into_owned(), text })
}

/// The unparsed rest of a line in babeltrace2's output.
struct PrintedLine<'a>(&'a str);

impl<'a> PrintedLine<'a> {
    fn parse(mut self) -> (Time, String) {
        let mut time = Time(0);
        if self.accept("[") {
            let (seconds, nanos) = (self.until("."), self.until("] "));
            time = Time(seconds.parse::<i64>().unwrap() * 1_000_000_000 + nanos.parse::<i64>().unwrap());
        }
        let head = self.until(": ");
        let name = head.rsplit(' ').next().unwrap();
        let mut groups = Vec::new();
        while self.accept("{ ") {
            groups.push(self.members("}"));
            self.accept(", ");
        }
        assert_eq!(self.0, "", "of a line on {name}");
        let payload = without_lengths(groups.pop().unwrap_or_default());
        let (mut cpu, mut tid, mut context) = ("-".to_owned(), "-".to_owned(), Vec::new());
        for (name, value) in groups.into_iter().flatten() {
            match name.as_str() {
                "cpu_id" if value == ComparableValue::Number(u32::MAX.into()) => cpu = "-".to_owned(),
                "cpu_id" => cpu = value.text(),
                "vtid" | "tid" => tid = value.text(),
                "vpid" | "pid" | "reserved" | "too_large" | "length" => {}
                _ => context.push((name, value)),
            }
        }
        let (payload, context) =
            (ComparableValue::Group(payload).text(), ComparableValue::Group(context).text());
        (time, format!("{name} {cpu} {tid} {payload} {context}"))
    }

    fn accept(&mut self, text: &str) -> bool {
        let rest = self.0.strip_prefix(text);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn until(&mut self, text: &str) -> &'a str {
        let (before, behind) = self.0.split_once(text).unwrap_or((self.0, ""));
        self.0 = behind;
        before
    }

    /// Parses members up to a closing bracket: `name = value`, `[3] = value` or only `value`.
    fn members(&mut self, close: &str) -> Vec<(String, ComparableValue)> {
        let mut members = Vec::new();
        while !self.accept(close) {
            let name_end = self.0.find([' ', '"', '{', '(']).unwrap_or(0);
            let named = self.0[name_end..].starts_with(" = ");
            let name = if named { self.until(" = ").to_owned() } else { String::new() };
            members.push((name, self.value()));
            if !self.accept(", ") {
                assert!(self.accept(" "), "expected a separator at {}", self.0);
            }
        }
        members
    }

    fn value(&mut self) -> ComparableValue {
        if self.accept("{ ") {
            return ComparableValue::Group(self.members("}"));
        }
        if self.accept("[ ") {
            return ComparableValue::List(self.members("]").into_iter().map(|(_, value)| value).collect());
        }
        if self.accept("( ") {
            let label = if self.accept("<unknown>") { None } else { Some(self.quoted()) };
            // The first of several labels is the one that is compared.
            while self.accept(", ") {
                self.quoted();
            }
            assert!(self.accept(" : container = "));
            let number = self.number();
            assert!(self.accept(" )"));
            return match number {
                ComparableValue::Number(number) => ComparableValue::Label(label, number),
                _ => panic!("a label of no integer"),
            };
        }
        if self.0.starts_with('"') {
            return ComparableValue::Text(self.quoted());
        }
        self.number()
    }

    fn number(&mut self) -> ComparableValue {
        let end = self.0.find([',', ' ']).unwrap_or(self.0.len());
        let (text, rest) = self.0.split_at(end);
        self.0 = rest;
        let (radix, digits) = match text {
            _ if text.starts_with("0x") => (16, &text[2..]),
            _ if text.starts_with("0b") => (2, &text[2..]),
            _ if text.len() > 1 && text.starts_with('0') && !text.contains('.') => (8, &text[1..]),
            _ => (10, text),
        };
        match i128::from_str_radix(digits, radix) {
            Ok(number) => ComparableValue::Number(number),
            Err(_) => ComparableValue::Float(text.parse().unwrap_or_else(|_| panic!("number {text:?}"))),
        }
    }

    fn quoted(&mut self) -> String {
        assert!(self.accept("\""), "expected text at {}", self.0);
        let mut text = String::new();
        let mut characters = self.0.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.0 = &self.0[at + 1..];
                    return text;
                }
                '\\' => text.push(match characters.next().expect("an escaped character").1 {
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'v' => '\u{b}',
                    'x' => {
                        let digits: String = characters.by_ref().take(2).map(|(_, digit)| digit).collect();
                        u8::from_str_radix(&digits, 16).expect("two digits").into()
                    }
                    other => other,
                }),
                other => text.push(other),
            }
        }
        panic!("text without an end");
    }
}

/// Removes the lengths that tracers generate, as sordino's reader does.
fn without_lengths(members: Vec<(String, ComparableValue)>) -> Vec<(String, ComparableValue)> {
    let is_length = |index: usize| {
        let (length, sequence) = (&members[index], members.get(index + 1)?);
        let stem = length.0.trim_start_matches('_').strip_suffix("_length")?;
        (stem == sequence.0 && matches!(sequence.1, ComparableValue::List(_) | ComparableValue::Text(_)))
            .then_some(())
    };
    let kept = (0..members.len()).filter(|&index| is_length(index).is_none());
    kept.map(|index| members[index].clone()).collect()
}

/// Fails at the first event that differs.
pub(crate) fn assert_same(ours: &[(Time, String)], theirs: &[(Time, String)]) {
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        if ours.0 != theirs.0 || !same_but_for_stale_text(&ours.1, &theirs.1) {
            assert_eq!(ours, theirs, "event {index}");
        }
    }
    assert_eq!(ours.len(), theirs.len(), "number of events");
}

/// Compares two texts, in which an empty text of ours may be any text of theirs. babeltrace2 2.0.4 reuses its string
/// fields without emptying them, so where the file holds an empty string it can show the field's content from before.
fn same_but_for_stale_text(ours: &str, theirs: &str) -> bool {
    let mut rest = PrintedLine(theirs);
    ours.split("\"\"").enumerate().all(|(index, piece)| {
        if index > 0 {
            rest.quoted();
        }
        rest.accept(piece)
    }) && rest.0.is_empty()
}
