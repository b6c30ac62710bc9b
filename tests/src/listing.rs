//! A trace as `sordino events` and babeltrace2 list it.

use crate::running::Running;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The lines of `sordino events --json` but the first, which names the schema.
///
/// # Panics
/// If it names another, or a line is no JSON.
#[track_caller]
pub fn items(json: &str) -> Vec<Value> {
    let mut lines = json.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let head = lines.next().expect("a line that names the schema");
    assert_eq!((&head["schema"], &head["version"]), (&"sordino-events".into(), &1.into()));
    lines.collect()
}

/// Those of `items` that are called `name`.
pub fn named<'a>(items: &'a [Value], name: &str) -> Vec<&'a Value> {
    items.iter().filter(|item| item["name"] == name).collect()
}

/// The lines that babeltrace2 prints of the traces below `path`, and what it complains about.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn babeltrace(path: &Path) -> (Vec<String>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let ended = Running::start(Command::new("babeltrace2").arg(path), &directory.path().join("bt2")).end();
    assert_eq!(ended.status, 0, "babeltrace2 {}: {}", path.display(), ended.errors);
    (ended.output.lines().map(str::to_owned).collect(), ended.errors)
}

/// The name of the event in a line of babeltrace2's.
pub fn name_in(line: &str) -> &str {
    // [time] (+delta) host procname vpid name: { ... }
    line.split(": {").next().and_then(|head| head.split_whitespace().next_back()).unwrap_or_default()
}

/// How often each of `names` occurs.
pub fn counts<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name.to_owned()).or_default() += 1);
    counts
}
