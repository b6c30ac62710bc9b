//! A session of `sordino start` that ends with the test.

use crate::running::{EndedProcess, RunningProcess};
use crate::scene::Scene;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A session that ends with the test.
#[derive(Debug)]
pub struct ScopedSession<'a> {
    scene: &'a Scene,
    name: String,
    /// Directory of the session's recordings.
    pub output: PathBuf,
    destroyed: bool,
}

impl<'a> ScopedSession<'a> {
    /// Starts a session: `sordino start NAME -o ... ARGUMENTS`.
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

    /// Returns the environment variable by which programs and commands find the test's sessions.
    pub fn environment(scene: &Scene) -> (&'static str, PathBuf) {
        ("SORDINO_RUNTIME_DIR", scene.path("runtime"))
    }

    /// Starts a program that finds the test's sessions.
    pub fn join(scene: &Scene, program: &mut Command) -> RunningProcess {
        let (name, path) = Self::environment(scene);
        scene.start(program.env(name, path))
    }

    /// Runs sordino with the test's sessions.
    pub fn sordino(scene: &Scene, arguments: &[&str]) -> EndedProcess {
        let (name, path) = Self::environment(scene);
        scene.run(scene.command(arguments).env(name, path))
    }

    /// Runs sordino with the test's sessions.
    pub fn ask(&self, arguments: &[&str]) -> EndedProcess {
        Self::sordino(self.scene, arguments)
    }

    /// Runs sordino, and parses its output as JSON.
    #[track_caller]
    fn answer(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(self.ask(arguments).succeeded()).expect("JSON")
    }

    /// Runs `sordino COMMAND NAME ARGUMENTS`, which has to succeed.
    #[track_caller]
    pub fn does(&self, command: &str, arguments: &[&str]) {
        self.ask(&[&[command, &self.name], arguments].concat()).succeeded();
    }

    /// Returns the session's part of `sordino status --json`.
    #[track_caller]
    pub fn status(&self) -> Value {
        self.answer(&["status", &self.name, "--json"])["sessions"][0].clone()
    }

    /// Returns the process id of the session's recorder.
    #[track_caller]
    pub fn recorder(&self) -> i32 {
        self.status()["status"]["recorder"].as_i64().expect("a running recorder") as i32
    }

    /// Waits until the session records process `pid`, and returns that program's status.
    ///
    /// # Panics
    /// If the program is not recorded within 20 seconds.
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

    /// Returns true if the session records process `pid`.
    #[track_caller]
    pub fn has(&self, pid: i32) -> bool {
        let status = self.status();
        let programs = status["status"]["programs"].as_array().cloned().unwrap_or_default();
        programs.iter().any(|program| program["pid"] == pid)
    }

    /// Takes a snapshot, and returns its directory.
    #[track_caller]
    pub fn snapshot(&self, arguments: &[&str]) -> PathBuf {
        self.written("snapshot", arguments)
    }

    /// Completes a chunk, and returns its directory.
    #[track_caller]
    pub fn rotate(&self) -> PathBuf {
        self.written("rotate", &[])
    }

    #[track_caller]
    fn written(&self, command: &str, arguments: &[&str]) -> PathBuf {
        let reply = self.answer(&[&[command, &self.name, "--json"], arguments].concat());
        reply["directory"].as_str().expect("a directory").into()
    }

    /// Stops the session, and returns its recordings, oldest first.
    #[track_caller]
    pub fn stop(&self) -> Vec<PathBuf> {
        let reply = self.answer(&["stop", &self.name, "--json"]);
        let paths = reply["recordings"].as_array().expect("recordings");
        paths.iter().filter_map(Value::as_str).map(PathBuf::from).collect()
    }

    /// Destroys the session, and asserts that its directory is gone.
    #[track_caller]
    pub fn destroy(mut self) {
        self.destroyed = true;
        self.does("destroy", &[]);
        assert!(!Self::environment(self.scene).1.join(&self.name).exists(), "its place is still there");
    }
}

impl Drop for ScopedSession<'_> {
    fn drop(&mut self) {
        if !self.destroyed {
            let _ = self.ask(&["destroy", &self.name, "--no-snapshot"]);
        }
    }
}

/// Reads the summary of a recording.
///
/// # Panics
/// If the recording has no summary.
pub fn summary(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("recording.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// Returns the memory of a program's area in bytes.
pub fn memory_of(pid: i32) -> u64 {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let areas = files.filter(|file| {
        fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().contains("memfd:sordino"))
    });
    areas.filter_map(|area| fs::metadata(area.path()).ok()).map(|area| area.blocks() * 512).sum()
}
