//! Lists of a trace's events by `sordino events` and babeltrace2.

use crate::running::RunningProcess;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Parses the lines of `sordino events --json` behind the first, which names the schema.
///
/// # Panics
/// If the first line names another schema, or a line is no JSON.
#[track_caller]
pub fn items(json: &str) -> Vec<Value> {
    let mut lines = json.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let head = lines.next().expect("a line that names the schema");
    assert_eq!((&head["schema"], &head["version"]), (&"sordino-events".into(), &1.into()));
    lines.collect()
}

/// Returns the `items` that are called `name`.
pub fn named<'a>(items: &'a [Value], name: &str) -> Vec<&'a Value> {
    items.iter().filter(|item| item["name"] == name).collect()
}

/// Returns the lines that babeltrace2 prints for the traces below `path`, and its warnings.
///
/// # Panics
/// If babeltrace2 fails.
#[track_caller]
pub fn babeltrace(path: &Path) -> (Vec<String>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let ended =
        RunningProcess::start(Command::new("babeltrace2").arg(path), &directory.path().join("bt2")).end();
    assert_eq!(ended.status, 0, "babeltrace2 {}: {}", path.display(), ended.errors);
    (ended.output.lines().map(str::to_owned).collect(), ended.errors)
}

/// Returns the event's name in a line of babeltrace2's output.
pub fn name_in(line: &str) -> &str {
    // [time] (+delta) host procname vpid name: { ... }
    line.split(": {").next().and_then(|head| head.split_whitespace().next_back()).unwrap_or_default()
}

/// Returns the number of occurrences of each of `names`.
pub fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
    counts
}
