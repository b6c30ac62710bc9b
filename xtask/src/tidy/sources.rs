//! Source files: constructs that are allowed in some of them alone.

use super::{Findings, Tree};

/// Folders whose code may be unsafe.
const UNSAFE: &[&str] = &[
    "crates/recording/clock/",
    "crates/recording/percpu/",
    "crates/recording/ring/",
    "crates/recording/probe/",
    "crates/recording/probe-c/",
    "crates/formats/otf2/",
    "crates/machine/sched/",
    "crates/machine/peers/",
    "tests/",
    "benches/",
    "fuzz/",
];
/// Crates that do no input or output and read neither clock nor environment.
const PURE: &[&str] = &[
    "crates/event/src",
    "crates/quantity/src",
    "crates/filter/src",
    "crates/recording/filter-vm/src",
    "crates/understanding/",
];
const IMPURE: &[&str] =
    &["std::fs", "std::net", "std::process", "std::env", "Instant::now", "SystemTime", "std::thread"];
/// Crates that run with all rights beside hostile programs: their writes go through `dirfd`.
const RECORDER: &[&str] = &[
    "crates/proc/src",
    "crates/recorder/collect/src",
    "crates/recorder/inspect/src",
    "crates/recorder/intake/src",
    "crates/recorder/grant/src",
    "crates/recorder/manager/src",
    "crates/recorder/session/src",
    "crates/recorder/stream/src",
    "crates/cli/src",
    "crates/machine/check/src",
    "crates/machine/disturb/src",
    "crates/machine/guard/src",
    "crates/machine/npt/src",
    "crates/machine/undo/src",
];
/// Calls that write, make or remove by path.
const BY_PATH: &[&str] = &[
    "fs::write(",
    "fs::rename(",
    "fs::copy(",
    "fs::hard_link(",
    "fs::remove_",
    "fs::create_dir",
    "fs::set_permissions(",
    "DirBuilder::new(",
    "File::create",
    "File::options(",
    "OpenOptions::new(",
];
/// Files that write by path nevertheless, each with the reason why no program can interfere.
const BY_FIXED_PATH: &[(&str, &str)] = &[
    ("crates/machine/disturb/src/packets.rs", "files of /sys"),
    ("crates/machine/check/src/steps/held_settings.rs", "a device in /dev"),
    ("crates/recorder/grant/src/lib.rs", "files of the kernel's tracer, and /run/sordino"),
    ("crates/machine/npt/src/marker.rs", "a file of the kernel's tracer"),
    ("crates/machine/npt/src/interrupts_off.rs", "the device of npt's kernel module"),
    ("crates/machine/undo/src/guard.rs", "a file of /proc"),
    ("crates/machine/undo/src/step.rs", "files of /proc, /sys and control groups"),
];
/// Only file that writes to standard output and standard error.
const TERMINAL: &str = "crates/terminal/src/lib.rs";
/// Crates of the command line, which write to these streams through it.
const COMMAND_LINE: &[&str] = &["crates/cli/src/", "crates/terminal/src/"];
/// Nouns that sordino counts: `event::text::count` writes them behind a number, in the singular for one.
const COUNTED: &[&str] = &[
    "chunks",
    "events",
    "processes",
    "programs",
    "recordings",
    "records",
    "snapshots",
    "steps",
    "sub-buffers",
    "threads",
    "tracepoints",
];
/// Constructs that few files have: a word in code, these files, and what others do.
const RARE: &[(&str, &[&str], &str)] = &[
    (
        " nix::",
        &[
            "crates/command/src/privilege.rs",
            "crates/command/src/signals.rs",
            "crates/machine/disturb/src/packets.rs",
            "crates/machine/undo/src/guard.rs",
        ],
        "call rustix, see docs/design/0033-system-calls.md",
    ),
    ("rsplit_once(')')", &["crates/proc/src/stat.rs"], "crates/proc reads a thread's stat"),
];
/// Lines of code in a file, without tests, above which the file should be split.
const LONGEST: usize = 450;

pub(super) fn check(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&["rs"]) {
        if file.starts_with("xtask/") {
            continue;
        }
        let code = without_tests(&text);
        let in_crate = (file.starts_with("crates/") || file.starts_with("tables/"))
            && file.contains("/src/")
            && !file.ends_with("/tests.rs");
        if in_crate && !text.trim_start().starts_with("//!") {
            findings.push(format!("{file} does not say what it is for"));
        }
        if in_crate && code.lines().count() > LONGEST {
            findings.push(format!("{file} has {} lines of code: two files?", code.lines().count()));
        }
        if has_code(&code, "asm!(")
            && !["rseq/", "arch/"]
                .iter()
                .any(|room| file.starts_with(&format!("crates/recording/percpu/src/{room}")))
            && !file.starts_with("tests/")
        {
            findings.push(format!(
                "{file} has assembly: it belongs into rseq/ or arch/ of crates/recording/percpu/src"
            ));
        }
        if in_crate
            && is_recording(file)
            && has_code(&code, "sync::atomic")
            && !file.ends_with("/primitive.rs")
        {
            findings.push(format!("{file} names atomics: take them from sordino_percpu::primitive"));
        }
        if in_crate {
            findings.extend(out_of_place(file, &code));
        }
        let is_exempt = BY_FIXED_PATH.iter().any(|(exempt, _)| file == *exempt);
        for call in
            BY_PATH.iter().filter(|_| RECORDER.iter().any(|room| file.starts_with(room)) && !is_exempt)
        {
            if has_code(&code, call) {
                findings.push(format!(
                    "{file} has {call}: root writes below a held directory, see crates/recorder/dirfd"
                ));
            }
        }
        let lines = code.lines().filter(|line| in_crate && counts_by_hand(line));
        findings.extend(
            lines.map(|line| format!("{file} has '1 events': use event::text::count: {}", line.trim())),
        );
        if COMMAND_LINE.iter().any(|room| file.starts_with(room)) && file != TERMINAL {
            let lines = code.lines().filter(|line| prints(line));
            findings.extend(lines.map(|line| format!("{file} prints past {TERMINAL}: {}", line.trim())));
        }
        for impure in IMPURE.iter().filter(|_| PURE.iter().any(|pure| file.starts_with(pure))) {
            if code.contains(impure) {
                findings.push(format!("{file} uses {impure}: its crate is pure"));
            }
        }
    }
    findings.extend(unforbidden(tree));
    findings
}

/// Constructs of [`RARE`] in a file that may not have them.
fn out_of_place(file: &str, code: &str) -> Findings {
    let found =
        RARE.iter().filter(|(construct, files, _)| has_code(code, construct) && !files.contains(&file));
    found.map(|(construct, _, remedy)| format!("{file} has '{}': {remedy}", construct.trim())).collect()
}

/// Returns true for a line of code that writes to standard output or standard error, or gets hold of them. The
/// descriptors of `rustix::stdio`, which are duplicated and redirected, are not meant.
fn prints(line: &str) -> bool {
    let code = line.trim_start();
    let is_word = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let has = |word: &str| code.match_indices(word).any(|(at, _)| is_word(at));
    let has_macro = ["print!", "println!", "eprint!", "eprintln!"].into_iter().any(has);
    let imports = ["use std::io::", "use std::{"].iter().any(|import| code.starts_with(import));
    let names = |stream: &str| has(&format!("io::{stream}")) || imports && has(stream);
    !code.starts_with("//") && (has_macro || ["stdout", "stderr"].into_iter().any(names))
}

/// Returns true for a line of code that puts a number in front of a noun in the plural.
fn counts_by_hand(line: &str) -> bool {
    let mut rest = line.trim_start();
    if rest.starts_with("//") {
        return false;
    }
    while let Some((before, behind)) = rest.split_once("} ") {
        let number = before.rsplit('{').next().unwrap_or_default();
        let is_constant = number.starts_with(|c: char| c.is_ascii_uppercase());
        let end = behind.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(behind.len());
        // `{name} records{how}` is a verb.
        let is_noun = COUNTED.contains(&&behind[..end]) && !behind[end..].starts_with('{');
        if is_noun && !is_constant {
            return true;
        }
        rest = behind;
    }
    false
}

fn is_recording(file: &str) -> bool {
    file.starts_with("crates/recording/")
}

/// Crates without unsafe code that lack `#![forbid(unsafe_code)]`.
fn unforbidden(tree: &Tree) -> Findings {
    let mut findings = Vec::new();
    for name in tree.crates() {
        let name = format!("crates/{name}/");
        if UNSAFE.contains(&name.as_str()) {
            continue;
        }
        let forbids = tree.read(&format!("{name}src/lib.rs")).contains("#![forbid(unsafe_code)]")
            || tree.read(&format!("{name}Cargo.toml")).contains("unsafe_code = \"forbid\"");
        if !forbids {
            findings.push(format!("{name} does not forbid unsafe code"));
        }
    }
    findings
}

/// The text up to its unit tests.
fn without_tests(text: &str) -> String {
    text.split("\n#[cfg(test)]\n").next().unwrap_or_default().to_owned()
}

/// Returns true if the word occurs outside of comments.
fn has_code(text: &str, word: &str) -> bool {
    text.lines().map(str::trim_start).any(|line| !line.starts_with("//") && line.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_before_plurals_are_found() {
        assert!(counts_by_hand(r#"format!("{count} events lost")"#));
        assert!(counts_by_hand(r#"    text += &format!("{place}: {} sub-buffers overwritten", n);"#));
        for line in [
            r#"format!("{} kernel events")"#,
            "// `{count} events`",
            r#""{name} records{how} for""#,
            r#""{MOST} programs""#,
            r#"format!("{}", count(n, "event"))"#,
        ] {
            assert!(!counts_by_hand(line), "{line}");
        }
    }

    #[test]
    fn constructs_of_few_files_are_found_in_others() {
        let close = "    let _ = nix::unistd::close(descriptor);\n";
        assert_eq!(out_of_place("crates/machine/undo/src/guard.rs", close), [""; 0]);
        let found = out_of_place("crates/machine/undo/src/step.rs", close);
        assert!(found.len() == 1 && found[0].contains("step.rs has 'nix::': call rustix"), "{found:?}");
        let stat = "text.rsplit_once(')')";
        assert_eq!(out_of_place("crates/machine/shield/src/machine.rs", stat).len(), 1);
        for harmless in ["use std::os::unix::fs::MetadataExt;", "// use nix::unistd", "text.rsplit_once(':')"]
        {
            assert_eq!(out_of_place("crates/cli/src/main.rs", harmless), [""; 0]);
        }
    }

    #[test]
    fn who_prints_is_found_and_who_redirects_is_not() {
        for line in [
            "    println!(\"x\");",
            "eprint!(\"{x}\")",
            "let out = io::stdout().lock();",
            "std::io::stderr().write_all(b\"x\")",
            "use std::io::{Write, stdout};",
            "use std::io::stderr;",
        ] {
            assert!(prints(line), "{line}");
        }
        for line in [
            "// println!(\"x\")",
            "message!(\"sordino: {x}\");",
            "use rustix::stdio::{dup2_stdout, stdout};",
            "dup2_stdout(&log)?;",
            "command.stdout(Stdio::piped()).stderr(log)",
            "use std::io::{Read, Write};",
        ] {
            assert!(!prints(line), "{line}");
        }
    }
}
