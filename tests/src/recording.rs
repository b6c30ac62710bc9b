//! A finished recording, read by sordino's reader and by babeltrace2.

use crate::install::succeed;
use crate::listing::{babeltrace, counts};
use crate::running::EndedProcess;
use serde_json::Value;
use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Event, Step, View};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A finished recording and its summary.
#[derive(Debug)]
pub struct CompletedRecording {
    /// Directory of the recording.
    pub path: PathBuf,
    /// Summary that the recorder printed as JSON.
    pub summary: Value,
    /// Exit status and output of the recorder.
    pub ended: EndedProcess,
}

/// One event of a program or of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// Full name of the tracepoint, `provider:name`.
    pub name: String,
    /// Time of the event, in nanoseconds since the epoch.
    pub time: i64,
    /// Thread id, 0 if the trace has none.
    pub tid: i32,
    /// Process id, if the trace has it.
    pub pid: Option<i32>,
    /// CPU number, if the trace has it.
    pub cpu: Option<u32>,
    /// Values of all fields in their order; 0 stands for a field that is no integer.
    pub numbers: Vec<i64>,
    /// Values of the text fields, in their order.
    pub texts: Vec<String>,
}

impl CompletedRecording {
    /// Reads the summary of a recorder that wrote to `path` and ran with `--json`.
    ///
    /// # Panics
    /// If the recorder printed no summary.
    pub fn of(ended: EndedProcess, path: PathBuf) -> Self {
        // The recorded command's own output comes before the summary.
        let line = ended.output.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        let summary = serde_json::from_str(line).unwrap_or_else(|_| {
            panic!("no summary: status {}, {}\n{}", ended.status, ended.output, ended.errors)
        });
        Self { path, summary, ended }
    }

    /// Returns the recording's path as a command-line argument.
    pub fn name(&self) -> &str {
        self.path.to_str().expect("a path of characters")
    }

    /// Returns the sum of a number over all rings of all programs.
    pub fn sum(&self, field: &str) -> u64 {
        sum(self.streams(), field)
    }

    /// Returns the recorder's count of the programs' events.
    pub fn user_events(&self) -> u64 {
        self.sum("events")
    }

    /// Returns the recorder's count of the kernel's events.
    pub fn kernel_events(&self) -> u64 {
        sum(list(&self.summary["kernel"]), "events")
    }

    /// Returns the recorder's count of all lost records.
    pub fn lost(&self) -> u64 {
        self.summary["lost"].as_u64().expect("a count of lost records")
    }

    /// Returns the summary's entries of programs.
    pub fn programs(&self) -> &[Value] {
        list(&self.summary["programs"])
    }

    /// Returns the summary's entry of the program `name`.
    ///
    /// # Panics
    /// If the summary has no such program.
    #[track_caller]
    pub fn program(&self, name: &str) -> &Value {
        let program = self.programs().iter().find(|program| program["name"] == name);
        program.unwrap_or_else(|| panic!("no program {name} in {}", self.summary))
    }

    /// Returns the summary's entries of the programs' rings.
    pub fn streams(&self) -> impl Iterator<Item = &Value> {
        self.programs().iter().flat_map(|program| list(&program["streams"]))
    }

    /// Returns the recorder's notes on the recording, on each program and on each ring, one a line.
    pub fn notes(&self) -> String {
        let all = [&self.summary].into_iter().chain(self.programs()).flat_map(|of| list(&of["notes"]));
        let problems = self.streams().map(|stream| &stream["problem"]);
        all.chain(problems).filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Returns the programs' events from sordino's reader, trace by trace and stream by stream.
    ///
    /// # Panics
    /// If the reader reports an error.
    pub fn events(&self) -> Vec<RecordedEvent> {
        let mut events = Vec::new();
        self.read("user", |event| events.push(event));
        events
    }

    /// Returns the number of lost records of programs from sordino's reader.
    pub fn losses(&self) -> u64 {
        self.read("user", drop)
    }

    /// Returns the kernel's events from sordino's reader, including the state dump at the start.
    pub fn events_of_kernel(&self) -> Vec<RecordedEvent> {
        let mut events = Vec::new();
        self.read("kernel", |event| events.push(event));
        events
    }

    /// Passes all events of a part of the recording to `see`, and returns the number of lost records.
    fn read(&self, part: &str, mut see: impl FnMut(RecordedEvent)) -> u64 {
        let mut lost = 0;
        for path in find(self.path.join(part).as_path()).expect("traces") {
            let mut classes = Classes::default();
            let trace = Trace::open(&path, &mut classes).unwrap_or_else(|error| panic!("{error}"));
            let vpid = trace.environment().integer("vpid").map(|pid| pid as i32);
            for stream in trace.streams() {
                let (mut events, mut event) = (stream.events(), Event::default());
                loop {
                    match events.next(&mut event).unwrap_or_else(|error| panic!("{error}")) {
                        Step::Event => see(RecordedEvent::of(&event, &classes, vpid)),
                        Step::Loss(loss) => lost += loss.count.expect("a loss that is counted"),
                        Step::End => break,
                    }
                }
            }
        }
        lost
    }

    /// Returns the number of occurrences of each of the programs' events.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        counts(self.events().iter().map(|event| event.name.as_str()))
    }

    /// Returns the lines that babeltrace2 prints for the programs' events.
    ///
    /// # Panics
    /// If babeltrace2 prints a warning or an error.
    pub fn babeltrace(&self) -> Vec<String> {
        let (lines, warnings) = self.babeltrace_and_warnings();
        assert_eq!(warnings, "", "babeltrace2 complains");
        lines
    }

    /// Returns babeltrace2's lines for the programs' events, and its warnings.
    pub fn babeltrace_and_warnings(&self) -> (Vec<String>, String) {
        babeltrace(&self.path.join("user"))
    }

    /// Asserts that the recorder's count, sordino's reader and babeltrace2 (without a warning) agree on the number of
    /// events.
    pub fn assert_count(&self, expected: usize) {
        assert_eq!(self.user_events() as usize, expected, "the recorder's count; {}", self.notes());
        assert_eq!(self.events().len(), expected, "sordino's reader");
        assert_eq!(self.babeltrace().len(), expected, "babeltrace2");
    }

    /// Returns the number of discarded events that babeltrace2 reports.
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

    /// Converts the whole recording with babeltrace2, discards the output, and fails on an error.
    pub fn babeltrace_reads_all(&self) {
        succeed(Command::new("babeltrace2").args(["-o", "dummy"]).arg(&self.path));
    }
}

impl RecordedEvent {
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

/// Returns the recorder's count of one program's events.
pub fn events_of(program: &Value) -> u64 {
    sum(list(&program["streams"]), "events")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn sum<'a>(items: impl IntoIterator<Item = &'a Value>, field: &str) -> u64 {
    items.into_iter().map(|item| item[field].as_u64().unwrap_or_else(|| panic!("no {field} in {item}"))).sum()
}

/// Returns the files and directories below `path`.
pub fn all_below(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    let below = entries.iter().filter(|path| path.is_dir() && !path.is_symlink());
    below.flat_map(|path| all_below(path)).chain(entries.iter().cloned()).collect()
}

/// Returns the files below `path` that hold packets of events.
pub fn packet_files(path: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let holds_packets = |path: &PathBuf| name(path).starts_with("cpu") || name(path) == "shared";
    all_below(path).into_iter().filter(|path| path.is_file() && holds_packets(path)).collect()
}
