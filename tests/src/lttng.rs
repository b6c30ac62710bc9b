//! LTTng's session daemon for the user `nobody`, whom no other daemon serves.

use crate::recording::all_below;
use crate::{NOBODY, RunningProcess, Scene, wait_until};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns true if a file in `/dev/shm` is LTTng's.
pub(crate) fn is_lttngs(file: &Path) -> bool {
    file.to_string_lossy().contains("/lttng-ust-")
}

fn shared_memory() -> Vec<PathBuf> {
    all_below("/dev/shm".as_ref()).into_iter().filter(|file| is_lttngs(file)).collect()
}

fn command_at(home: &Path, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).uid(NOBODY).gid(NOBODY).current_dir(home).env("HOME", home).env("LTTNG_HOME", home);
    // A program waits for as long as it takes to be registered.
    command.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
    command
}

/// LTTng's daemon and its home directory.
#[derive(Debug)]
pub struct LttngDaemon<'a> {
    scene: &'a Scene,
    /// Home directory, in which sessions without an output path record.
    pub home: PathBuf,
    daemon: RunningProcess,
    before: Vec<PathBuf>,
}

impl<'a> LttngDaemon<'a> {
    /// Starts the daemon, and waits until it answers.
    pub fn start(scene: &'a Scene) -> Self {
        let (home, before) = (scene.directory_of(NOBODY, "home"), shared_memory());
        let daemon = scene.start(&mut command_at(&home, "lttng-sessiond".as_ref(), &["--no-kernel"]));
        let started = Self { scene, home, daemon, before };
        let answers = || scene.run(&mut started.command("lttng".as_ref(), &["list"])).status == 0;
        wait_until("LTTng's daemon answers", answers);
        started
    }

    /// Returns a command that the daemon's user will run.
    pub fn command(&self, program: &Path, words: &[&str]) -> Command {
        command_at(&self.home, program, words)
    }

    /// Runs `lttng` with these words, which has to succeed.
    #[track_caller]
    pub fn tell(&self, words: &[&str]) {
        self.scene.run(&mut self.command("lttng".as_ref(), words)).succeeded();
    }

    /// Starts a session that records the events `tick:*` in [`trace`](Self::trace), with these contexts.
    pub fn record_ticks(&self, contexts: &[&str]) {
        self.tell(&["create", "session", "--output", "trace"]);
        self.tell(&["enable-event", "--userspace", "tick:*"]);
        let contexts = contexts.iter().flat_map(|context| ["--type", context]);
        self.tell(&["add-context", "--userspace"].into_iter().chain(contexts).collect::<Vec<_>>());
        self.tell(&["start"]);
    }

    /// The directory of a session with the output `trace`.
    pub fn trace(&self) -> PathBuf {
        self.home.join("trace")
    }

    /// Stops the daemon, and removes LTTng's files from `/dev/shm`.
    pub fn stop(self) {
        self.daemon.signal(Signal::TERM);
        self.daemon.end();
        let left = shared_memory().into_iter().filter(|file| !self.before.contains(file));
        left.for_each(|file| fs::remove_file(file).expect("a file of LTTng's"));
    }
}
