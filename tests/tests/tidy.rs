//! `cargo run -p xtask -- tidy` in a clone with uncommitted work.

use sordino_tests::install::{installed, root, succeed};
use sordino_tests::recording::packet_files;
use sordino_tests::{EndedProcess, Scene};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Clones the committed sources; `None` where there is no repository.
fn clone(scene: &Scene) -> Option<PathBuf> {
    if !root().join(".git").exists() {
        Scene::not_measured("tidy in a clone, for this is no git repository");
        return None;
    }
    let path = scene.path("clone");
    // The user who runs the tests need not be the repository's owner.
    let safe = format!("safe.directory={}", root().display());
    succeed(
        Command::new("git").args(["-c", &safe, "clone", "--quiet", "--no-hardlinks"]).arg(root()).arg(&path),
    );
    fs::copy(root().join(".gitignore"), path.join(".gitignore")).expect("a copy");
    Some(path)
}

/// This workspace's tidy, in another directory.
fn tidy(scene: &Scene, directory: &Path) -> EndedProcess {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["run", "--quiet", "--locked", "-p", "xtask", "--manifest-path"])
        .arg(root().join("Cargo.toml"));
    scene.run(command.args(["--", "tidy"]).current_dir(directory))
}

/// Git's `add` or another command in a clone.
fn git(clone: &Path, arguments: &[&str]) {
    succeed(Command::new("git").arg("-C").arg(clone).args(arguments));
}

#[test]
fn a_recording_that_lies_in_a_clone_is_none_of_tidys_business() {
    let scene = Scene::new();
    let Some(clone) = clone(&scene) else { return };
    let program = installed().join("bin/pipeline");
    let mut record = scene.command(&["record", "--"]);
    scene.run(record.arg(program).arg("60000").current_dir(&clone)).succeeded();
    let entries = fs::read_dir(&clone).expect("a directory").flatten().map(|entry| entry.path());
    let is_recording = |path: &PathBuf| path.join("recording.json").exists();
    let recording =
        entries.into_iter().find(is_recording).expect("a recording with the name that 'record' chose");
    let large = packet_files(&recording).into_iter().find(|file| file.metadata().unwrap().len() > 1_000_000);
    large.expect("a file of more than 1 MB");

    assert!(!tidy(&scene, &clone).succeeded().contains("untracked"), "git ignores recordings");
    let renamed = clone.join("trace");
    fs::rename(&recording, &renamed).expect("another name");
    let text = tidy(&scene, &clone);
    assert!(
        text.succeeded().contains("tidy: untracked, not looked at (git add): \"trace/"),
        "{}",
        text.output
    );

    git(&clone, &["add", "trace"]);
    let refused = tidy(&scene, &clone);
    assert_eq!(refused.status, 1, "{}{}", refused.output, refused.errors);
    assert!(refused.output.contains("  trace/user/"), "{}", refused.output);
    assert!(refused.output.contains(" is larger than 1 MB"), "{}", refused.output);
}

#[test]
fn what_a_commit_would_hold_is_looked_at_also_before_it_is_committed() {
    let scene = Scene::new();
    let Some(clone) = clone(&scene) else { return };
    let mark = ["TO", "DO"].concat();
    fs::write(clone.join("docs/new.md"), format!("{mark}: [link](nowhere.md)\n")).expect("a file");
    tidy(&scene, &clone).succeeded();
    git(&clone, &["add", "docs/new.md"]);
    let refused = tidy(&scene, &clone);
    assert_eq!(refused.status, 1, "{}{}", refused.output, refused.errors);
    assert!(refused.output.contains(&format!("docs/new.md has a {mark}")), "{}", refused.output);
    assert!(refused.output.contains("docs/new.md links to nowhere.md"), "{}", refused.output);
}

#[test]
fn outside_of_a_repository_git_says_so() {
    let scene = Scene::new();
    let Some(clone) = clone(&scene) else { return };
    fs::remove_dir_all(clone.join(".git")).expect("no repository");
    tidy(&scene, &clone).failed(2, &["git", "not a git repository"]);
}
