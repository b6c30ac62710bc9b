//! Manual pages and completion that `make install` generates from the command line.

use sordino_tests::install::{library, sordino};
use sordino_tests::terminal::commands_in;
use sordino_tests::{Scene, installed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Every command that help lists, with its subcommands, as pages are named.
fn commands(scene: &Scene, path: &[&str]) -> Vec<String> {
    let help = scene.run(scene.command(path).arg("--help"));
    let mut all = vec![["sordino"].iter().chain(path).copied().collect::<Vec<_>>().join("-")];
    for name in commands_in(help.succeeded()) {
        all.extend(commands(scene, &[path, &[name]].concat()));
    }
    all
}

#[test]
fn every_command_has_a_page_that_groff_reads_without_a_warning() {
    let scene = Scene::new();
    let pages = installed().join("share/man/man1");
    let mut expected = commands(&scene, &[]);
    let mut found: Vec<String> = fs::read_dir(&pages)
        .unwrap()
        .flatten()
        .map(|page| page.file_name().to_string_lossy().replace(".1", ""))
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    assert!(found.len() > 25, "{found:?}");
    for page in &found {
        let file = pages.join(format!("{page}.1"));
        let read = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&file).output().expect("groff");
        assert!(
            read.status.success() && read.stderr.is_empty(),
            "{page}: {}",
            String::from_utf8_lossy(&read.stderr)
        );
    }
    let all = fs::read_to_string(pages.join("sordino.1")).unwrap();
    for words in
        [".SH COMMANDS\n.SS Record\n.TP\nsordino\\-record(1)\n", ".SS Understand\n.TP\nsordino\\-events(1)\n"]
    {
        assert!(all.contains(words), "{words}: {all}");
    }
    let record = fs::read_to_string(pages.join("sordino-record.1")).unwrap();
    for words in [".SH EXAMPLES", "sudo sordino record \\-\\-kernel", "\\fB\\-\\-subbuf\\-size\\fR"] {
        assert!(record.contains(words), "{words}: {record}");
    }
}

#[test]
fn bash_completes_commands_options_and_values() {
    let _scene = Scene::new();
    let script = installed().join("share/bash-completion/completions/sordino");
    let complete = |words: &[&str]| {
        let line = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; $(complete -p sordino | sed 's/.*-F \\([^ ]*\\).*/\\1/') sordino '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let shown = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
        String::from_utf8(shown.stdout).unwrap()
    };
    assert_eq!(complete(&["sordino", "rec"]).trim(), "record recover");
    assert_eq!(complete(&["sordino", "record", "--kernel-b"]).trim(), "--kernel-buffer");
    assert_eq!(complete(&["sordino", "events", "--time", "si"]).trim(), "since");
    for other in ["share/zsh/site-functions/_sordino", "share/fish/vendor_completions.d/sordino.fish"] {
        let text = fs::read_to_string(installed().join(other)).unwrap();
        assert!(text.contains("kernel-buffer"), "{other}");
        assert!(!text.contains("undo-guard"), "{other}");
    }
    assert_eq!(complete(&["sordino", "un"]).trim(), "", "what help does not show is no command for people");
    assert_eq!(complete(&["sordino", "events", "--col"]).trim(), "--color");
}

#[test]
fn what_is_installed_has_no_debug_information_and_the_names_of_functions() {
    let _scene = Scene::new();
    let archive = installed().join("lib/libsordino.a");
    for (file, most) in [(sordino(), 20 << 20), (library(), 2 << 20), (archive, 3 << 20)] {
        let size = fs::metadata(&file).unwrap().len();
        assert!(size < most, "{} has {size} bytes", file.display());
    }
    for file in [sordino(), library()] {
        let sections = Command::new("readelf").arg("-SW").arg(file).output().unwrap();
        let sections = String::from_utf8_lossy(&sections.stdout).into_owned();
        assert!(!sections.contains(".debug_info") && sections.contains(".symtab"), "{sections}");
    }
    // A program in another language may bring its own copy of Rust's library.
    let mut symbols = Command::new("nm");
    symbols
        .args(["--extern-only", "--defined-only", "--format=posix"])
        .arg(installed().join("lib/libsordino.a"));
    let symbols = String::from_utf8(symbols.output().unwrap().stdout).unwrap();
    let names: Vec<&str> = symbols.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert!(
        names.len() > 5 && names.iter().all(|name| name.starts_with("sordino_") || *name == "vfork"),
        "{names:?}"
    );
}

#[test]
fn uninstalling_leaves_nothing() {
    let _scene = Scene::new();
    installed();
    let (directory, root) =
        (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
    let prefix = directory.path().join("usr");
    let release = installed().ancestors().nth(2).unwrap().join("release");
    for target in ["install", "uninstall"] {
        let mut make = Command::new("make");
        make.args(["--silent", "--no-print-directory", target]).current_dir(root);
        make.arg(format!("PREFIX={}", prefix.display())).arg(format!("RELEASE={}", release.display()));
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(prefix.join("bin/sordino").exists(), target == "install");
    }
    let left = Command::new("find").arg(&prefix).args(["!", "-type", "d"]).output().unwrap();
    assert_eq!(String::from_utf8(left.stdout).unwrap(), "");
}
