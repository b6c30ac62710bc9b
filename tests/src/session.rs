//! A session of `sordino start`, which ends with the test.

use crate::running::{Ended, Running};
use crate::scene::Scene;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A session.
#[derive(Debug)]
pub struct Session<'a> {
    scene: &'a Scene,
    name: String,
    /// Where its recordings go.
    pub output: PathBuf,
    destroyed: bool,
}

impl<'a> Session<'a> {
    /// Starts one that is called `name`: `sordino start NAME -o ... ARGUMENTS`.
    #[track_caller]
    pub fn start(scene: &'a Scene, name: &str, arguments: &[&str]) -> Self {
        let session = Self {
            scene,
            name: name.to_owned(),
            output: scene.path(&format!("of-{name}")),
            destroyed: false,
        };
        let output = session.output.to_str().expect("a path of characters");
        session.ask(&[&["start", name, "-o", output], arguments].concat()).succeeded();
        session
    }

    /// The environment that leads programs and commands to the test's sessions.
    pub fn environment(scene: &Scene) -> (&'static str, PathBuf) {
        ("SORDINO_RUNTIME_DIR", scene.path("runtime"))
    }

    /// Starts a program that is to find the test's sessions.
    pub fn join(scene: &Scene, program: &mut Command) -> Running {
        let (name, path) = Self::environment(scene);
        scene.start(program.env(name, path))
    }

    /// Runs sordino with the test's sessions.
    pub fn sordino(scene: &Scene, arguments: &[&str]) -> Ended {
        let (name, path) = Self::environment(scene);
        scene.run(scene.command(arguments).env(name, path))
    }

    /// The same.
    pub fn ask(&self, arguments: &[&str]) -> Ended {
        Self::sordino(self.scene, arguments)
    }

    /// What it answers as JSON.
    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(self.ask(arguments).succeeded()).expect("JSON")
    }

    /// `sordino COMMAND NAME`, which has to succeed.
    #[track_caller]
    pub fn does(&self, command: &str, arguments: &[&str]) {
        self.ask(&[&[command, &self.name], arguments].concat()).succeeded();
    }

    /// What `status --json` says of it.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.answer(&["status", &self.name, "--json"])["sessions"][0].clone()
    }

    /// Its recorder.
    #[track_caller]
    pub fn recorder(&self) -> i32 {
        self.status()["status"]["recorder"].as_i64().expect("a running recorder") as i32
    }

    /// Waits until it records process `pid`; that program's status.
    ///
    /// # Panics
    /// If that takes too long.
    #[track_caller]
    pub fn records(&self, pid: i32) -> Value {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.status();
            let programs = status["status"]["programs"].as_array().cloned().unwrap_or_default();
            if let Some(program) = programs.into_iter().find(|program| program["pid"] == pid) {
                return program;
            }
            assert!(Instant::now() < end, "process {pid} is not recorded: {status}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it records process `pid`.
    #[track_caller]
    pub fn has(&self, pid: i32) -> bool {
        let status = self.status();
        let programs = status["status"]["programs"].as_array().cloned().unwrap_or_default();
        programs.iter().any(|program| program["pid"] == pid)
    }

    /// Takes a snapshot; where it lies.
    #[track_caller]
    pub fn snapshot(&self, arguments: &[&str]) -> PathBuf {
        self.written("snapshot", arguments)
    }

    /// Completes a chunk; where it lies.
    #[track_caller]
    pub fn rotate(&self) -> PathBuf {
        self.written("rotate", &[])
    }

    #[track_caller]
    fn written(&self, command: &str, arguments: &[&str]) -> PathBuf {
        let reply = self.answer(&[&[command, &self.name, "--json"], arguments].concat());
        reply["directory"].as_str().expect("a directory").into()
    }

    /// Ends it; its recordings, oldest first.
    #[track_caller]
    pub fn stop(&self) -> Vec<PathBuf> {
        let reply = self.answer(&["stop", &self.name, "--json"]);
        let paths = reply["recordings"].as_array().expect("recordings");
        paths.iter().filter_map(Value::as_str).map(PathBuf::from).collect()
    }

    /// Ends it and has it forgotten.
    #[track_caller]
    pub fn destroy(mut self) {
        self.destroyed = true;
        self.does("destroy", &[]);
        assert!(!Self::environment(self.scene).1.join(&self.name).exists(), "its place is still there");
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if !self.destroyed {
            let _ = self.ask(&["destroy", &self.name, "--no-snapshot"]);
        }
    }
}

/// The summary of a recording.
///
/// # Panics
/// If it has none.
pub fn summary(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("recording.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}
