//! What a recorder left behind, as babeltrace2 and sordino show it.

use super::running::Ended;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recording at rest.
pub(crate) struct Recording {
    /// Its directory.
    pub(crate) path: PathBuf,
    /// The recorder's summary.
    pub(crate) summary: Value,
    /// How the recorder ended.
    pub(crate) status: i32,
    /// What it said on standard error.
    pub(crate) errors: String,
}

impl Recording {
    /// What a recorder with `--json` left in `path`.
    #[track_caller]
    pub(crate) fn of(path: PathBuf, ended: &Ended) -> Self {
        // The command's own output comes before the summary.
        let line = ended.output.lines().rfind(|line| line.starts_with('{')).unwrap_or_default();
        let summary = serde_json::from_str(line).unwrap_or_else(|_| {
            panic!("no summary: status {}, {}\n{}", ended.status, ended.output, ended.errors)
        });
        Self { path, summary, status: ended.status, errors: ended.errors.clone() }
    }

    /// Its path, as an argument.
    pub(crate) fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// The programs that were recorded.
    pub(crate) fn programs(&self) -> &[Value] {
        self.summary["programs"].as_array().unwrap()
    }

    /// The summary of the program called `name`.
    pub(crate) fn program(&self, name: &str) -> &Value {
        let program = self.programs().iter().find(|program| program["name"] == name);
        program.unwrap_or_else(|| panic!("no program {name} in {}", self.summary))
    }

    /// The programs' events, as the recorder counted them.
    pub(crate) fn user_events(&self) -> u64 {
        self.programs().iter().map(events_of).sum()
    }

    /// The kernel's events, as the recorder counted them.
    pub(crate) fn kernel_events(&self) -> u64 {
        sum(&self.summary["kernel"], "events")
    }

    /// Records that are lost, as the recorder counted them.
    pub(crate) fn lost(&self) -> u64 {
        self.summary["lost"].as_u64().unwrap()
    }

    /// What the recorder noted: on the recording, on each program, on each ring.
    pub(crate) fn notes(&self) -> String {
        let notes = self.programs().iter().map(|program| &program["notes"]);
        let streams = self.programs().iter().flat_map(|program| program["streams"].as_array().unwrap());
        let problems = streams.filter_map(|stream| stream["problem"].as_str());
        let notes = notes.chain([&self.summary["notes"]]).flat_map(|notes| notes.as_array().unwrap());
        let texts: Vec<&str> = notes.filter_map(Value::as_str).chain(problems).collect();
        texts.join("\n")
    }
}

/// The events of one program of a summary.
pub(crate) fn events_of(program: &Value) -> u64 {
    sum(&program["streams"], "events")
}

fn sum(list: &Value, field: &str) -> u64 {
    list.as_array().unwrap().iter().map(|item| item[field].as_u64().unwrap()).sum()
}

/// The lines of `sordino events --json`, without the first, which names the schema.
#[track_caller]
pub(crate) fn items(json: &str) -> Vec<Value> {
    let mut lines = json.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let head = lines.next().unwrap();
    assert_eq!((&head["schema"], &head["version"]), (&"sordino-events".into(), &1.into()));
    lines.collect()
}

/// Those of `items` that are called `name`.
pub(crate) fn named<'a>(items: &'a [Value], name: &str) -> Vec<&'a Value> {
    items.iter().filter(|item| item["name"] == name).collect()
}

/// The lines that babeltrace2 prints of the traces below `path`, and what it complains about.
#[track_caller]
pub(crate) fn babeltrace(path: &Path) -> (Vec<String>, String) {
    let mut command = Command::new("timeout");
    let output = command.args(["60", "babeltrace2"]).arg(path).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "babeltrace2 {}: {}", path.display(), text(&output.stderr));
    (text(&output.stdout).lines().map(str::to_owned).collect(), text(&output.stderr))
}

/// The name of the event in a line of babeltrace2's.
pub(crate) fn name_in(line: &str) -> &str {
    // [time] (+delta) host procname vpid name: { ... }
    line.split(": {").next().and_then(|head| head.split_whitespace().next_back()).unwrap_or_default()
}

/// How often each of `names` occurs.
pub(crate) fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
    counts
}
