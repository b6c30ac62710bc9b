//! What a recorder left behind, read by sordino's reader and by babeltrace2.

use crate::install::succeed;
use crate::running::{Ended, Running};
use serde_json::Value;
use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Event, Step, View};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// A finished recording.
#[derive(Debug)]
pub struct Recording {
    /// Its directory.
    pub path: PathBuf,
    /// The recorder's summary.
    pub summary: Value,
    /// How the recorder ended.
    pub ended: Ended,
}

/// One event of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// `provider:name`.
    pub name: String,
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// The thread.
    pub tid: i32,
    /// The process, if the trace says it.
    pub pid: Option<i32>,
    /// The CPU, if the trace says it.
    pub cpu: Option<u32>,
    /// Its integer fields, in their order; others are 0.
    pub numbers: Vec<i64>,
    /// Its text fields, in their order.
    pub texts: Vec<String>,
}

impl Recording {
    /// What a recorder with `--json` left in `path`.
    ///
    /// # Panics
    /// If it wrote no summary.
    pub fn of(ended: Ended, path: PathBuf) -> Self {
        // The command's own output comes before the summary.
        let line = ended.output.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        let summary = serde_json::from_str(line).unwrap_or_else(|_| {
            panic!("no summary: status {}, {}\n{}", ended.status, ended.output, ended.errors)
        });
        Self { path, summary, ended }
    }

    /// The sum of a number over all rings of all programs.
    pub fn sum(&self, field: &str) -> u64 {
        self.streams().map(|stream| stream[field].as_u64().unwrap_or(0)).sum()
    }

    /// The programs' events by the recorder's count.
    pub fn user_events(&self) -> u64 {
        self.sum("events")
    }

    /// All lost records by the recorder's count.
    pub fn lost(&self) -> u64 {
        self.summary["lost"].as_u64().expect("a count of lost records")
    }

    /// The programs.
    pub fn programs(&self) -> &[Value] {
        self.summary["programs"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The programs' rings.
    pub fn streams(&self) -> impl Iterator<Item = &Value> {
        self.programs().iter().flat_map(|program| program["streams"].as_array().into_iter().flatten())
    }

    /// All notes, as one text.
    pub fn notes(&self) -> String {
        let of = |value: &Value| value["notes"].as_array().cloned().unwrap_or_default();
        let all = of(&self.summary).into_iter().chain(self.programs().iter().flat_map(of));
        let problems = self.streams().filter_map(|stream| stream["problem"].as_str());
        let texts: Vec<String> =
            all.map(|note| note.to_string()).chain(problems.map(str::to_owned)).collect();
        texts.join("\n")
    }

    /// The programs' events as sordino's reader sees them: trace by trace, and stream by stream.
    ///
    /// # Panics
    /// If anything makes no sense to it.
    pub fn events(&self) -> Vec<Seen> {
        let mut events = Vec::new();
        self.read("user", |event| events.push(event));
        events
    }

    /// How many records of programs sordino's reader finds to be lost.
    pub fn losses(&self) -> u64 {
        self.read("user", drop)
    }

    /// The kernel's events, the state at the start among them.
    pub fn kernel_events(&self) -> Vec<Seen> {
        let mut events = Vec::new();
        self.read("kernel", |event| events.push(event));
        events
    }

    /// Shows `see` all events of a part of the recording; how many records were lost.
    fn read(&self, part: &str, mut see: impl FnMut(Seen)) -> u64 {
        let mut lost = 0;
        for path in find(self.path.join(part).as_path()).expect("traces") {
            let mut classes = Classes::default();
            let trace = Trace::open(&path, &mut classes).unwrap_or_else(|error| panic!("{error}"));
            let vpid = trace.environment().integer("vpid").map(|pid| pid as i32);
            for stream in trace.streams() {
                let (mut events, mut event) = (stream.events(), Event::default());
                loop {
                    match events.next(&mut event).unwrap_or_else(|error| panic!("{error}")) {
                        Step::Event => see(Seen::of(&event, &classes, vpid)),
                        Step::Loss(loss) => lost += loss.count.expect("a loss that is counted"),
                        Step::End => break,
                    }
                }
            }
        }
        lost
    }

    /// How often each event occurs, by its name.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.events().into_iter().for_each(|event| *counts.entry(event.name).or_default() += 1);
        counts
    }

    /// The lines that babeltrace2 prints of the programs' events.
    ///
    /// # Panics
    /// If it has anything to complain about.
    pub fn babeltrace(&self) -> Vec<String> {
        let (lines, warnings) = self.babeltrace_and_warnings();
        assert_eq!(warnings, "", "babeltrace2 complains");
        lines
    }

    /// The same, and what it complains about.
    pub fn babeltrace_and_warnings(&self) -> (Vec<String>, String) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("babeltrace2");
        let ended = Running::start(command.arg(self.path.join("user")), directory.path(), "bt2").end();
        assert_eq!(ended.status, 0, "{}", ended.errors);
        (ended.output.lines().map(str::to_owned).collect(), ended.errors)
    }

    /// Three readers agree: the recorder's count, sordino's reader, and babeltrace2, which has nothing to complain about.
    pub fn assert_count(&self, expected: usize) {
        assert_eq!(self.user_events() as usize, expected, "the recorder's count; {}", self.notes());
        assert_eq!(self.events().len(), expected, "sordino's reader");
        assert_eq!(self.babeltrace().len(), expected, "babeltrace2");
    }

    /// How many events babeltrace2 says were discarded.
    pub fn babeltrace_discarded(&self) -> u64 {
        let (_, warnings) = self.babeltrace_and_warnings();
        let mut counts = Vec::new();
        for line in warnings.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let place = words.iter().position(|word| *word == "discarded");
            if let Some(count) = place.and_then(|place| words.get(place + 1)?.parse::<u64>().ok()) {
                counts.push(count);
            }
        }
        counts.into_iter().sum()
    }

    /// Converts the whole recording with babeltrace2 and throws the result away; its complaints.
    pub fn babeltrace_reads_all(&self) {
        succeed(Command::new("babeltrace2").args(["-o", "dummy"]).arg(&self.path));
    }
}

impl Seen {
    fn of(event: &Event, classes: &Classes, vpid: Option<i32>) -> Self {
        let class = &classes[event.class];
        let fields: Vec<(&str, View<'_>)> = event.fields(class).collect();
        let number = |view: &View<'_>| match *view {
            View::Unsigned(value, _) => value as i64,
            View::Signed(value, _) | View::Label(value, _) => value,
            _ => 0,
        };
        let text = |view: &View<'_>| match view {
            View::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        Self {
            name: class.name.clone(),
            time: event.time.0,
            tid: event.tid.map_or(0, |tid| tid.0),
            pid: event.pid.map(|pid| pid.0).or(vpid),
            cpu: event.cpu.map(|cpu| cpu.0),
            numbers: fields.iter().map(|(_, view)| number(view)).collect(),
            texts: fields.iter().filter_map(|(_, view)| text(view)).collect(),
        }
    }
}
