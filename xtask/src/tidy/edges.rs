//! Which crate may use which. Whatever is not listed is refused.

use super::{Findings, Tree};
use serde_json::Value;

/// A crate, by its folder, and what of ours it may use.
const ALLOWED: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("clock", &[]),
    ("percpu", &[]),
    ("registration", &[]),
    ("sched", &[]),
    ("dirfd", &[]),
    ("undo", &["sched"]),
    ("ring", &["percpu"]),
    ("probe", &["ring", "percpu", "clock", "event", "registration"]),
    ("probe-c", &["probe"]),
    ("ctf", &["event"]),
    ("tracefs", &["event", "sched"]),
    ("collect", &["ring", "tracefs", "ctf", "clock", "dirfd", "event", "registration", "sched", "undo"]),
    ("npt", &["clock", "event", "probe", "sched"]),
    ("peers", &[]),
    ("shield", &["sched", "undo"]),
    ("check", &["clock", "event", "npt", "sched", "shield"]),
    ("timeline", &["event"]),
    ("analyze", &["timeline", "event"]),
    ("report", &["analyze", "timeline", "event"]),
];

/// Those that only tests may use besides.
const ALLOWED_IN_TESTS: &[(&str, &[&str])] = &[("tracefs", &["undo"])];

/// Those that may use anything, but for the C interface; nothing may use them.
const FREE: &[&str] = &["cli", "tests", "xtask", "rust", "benches"];

/// What the recording crates may use of others': a traced program links it all.
const RECORDING: &[&str] = &["clock", "percpu", "registration", "ring", "probe", "probe-c", "event"];
const SHIM: &[&str] = &["libc"];

pub(super) fn check(tree: &Tree) -> Findings {
    let packages = &tree.packages;
    let folders: Vec<(String, String)> = packages
        .iter()
        .map(|package| (text(&package["name"]), folder(&text(&package["manifest_path"]))))
        .collect();
    let mut findings = Vec::new();
    for package in packages {
        let user = folder(&text(&package["manifest_path"]));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = text(&dependency["name"]);
            // What only the models of the code are built with (scripts/loom) is as little in a traced program as tests are.
            let in_tests = text(&dependency["kind"]) == "dev" || text(&dependency["target"]) == "cfg(loom)";
            let ours =
                folders.iter().find(|(package, _)| *package == name).map(|(_, folder)| folder.as_str());
            findings.extend(judge(&user, &name, ours, in_tests));
        }
    }
    findings
}

fn judge(user: &str, name: &str, ours: Option<&str>, in_tests: bool) -> Option<String> {
    let Some(used) = ours else {
        let refused = RECORDING.contains(&user) && !in_tests && !SHIM.contains(&name);
        return refused.then(|| format!("{user} is linked into traced programs and may not use {name}"));
    };
    if FREE.contains(&used) {
        return Some(format!("{user} uses {used}, which nothing may use"));
    }
    if FREE.contains(&user) {
        return (used == "probe-c").then(|| format!("{user} uses probe-c, which is for C programs"));
    }
    let allowed =
        |list: &[(&str, &[&str])]| list.iter().any(|(folder, uses)| *folder == user && uses.contains(&used));
    let fine = allowed(ALLOWED) || (in_tests && allowed(ALLOWED_IN_TESTS));
    (!fine).then(|| format!("{user} uses {used}: not an edge of ARCHITECTURE.md"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The last folder of a manifest's path.
fn folder(manifest: &str) -> String {
    manifest.trim_end_matches("/Cargo.toml").rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_refused() {
        assert!(judge("ring", "sordino-event", Some("event"), false).is_some());
        assert!(judge("ring", "sordino-percpu", Some("percpu"), false).is_none());
        assert!(judge("ring", "serde", None, false).is_some());
        assert!(judge("ring", "serde", None, true).is_none());
        assert!(judge("analyze", "sordino-cli", Some("cli"), false).is_some());
        assert!(judge("newcomer", "sordino-event", Some("event"), false).is_some());
    }
}
