//! One test: its directory, what it starts there, and the machine as it was before.

// Each test program uses a part of this.
#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod machine;
pub(crate) mod programs;
pub(crate) mod recording;
pub(crate) mod running;

use machine::Machine;
use recording::{Recording, items};
use running::{Ended, Running};
use serde_json::Value;
use std::cell::Cell;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user and the group `nobody`: whoever has no rights.
pub(crate) const NOBODY: u32 = 65_534;

/// One test at a time: each looks at the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

/// One test. When it is over, the machine has to be as it was before.
pub(crate) struct Scene {
    directory: TempDir,
    before: Machine,
    started: Cell<usize>,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// A directory that every user may write to, with sordino in it.
    pub(crate) fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::Builder::new().prefix("sordino-cli-").tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let (built, here) = (env!("CARGO_BIN_EXE_sordino"), directory.path().join("sordino"));
        // Where it was built, others may not be allowed to look.
        fs::hard_link(built, &here).or_else(|_| fs::copy(built, &here).map(drop)).unwrap();
        let before = Machine::now(directory.path());
        Self { directory, before, started: Cell::new(0), _alone: alone }
    }

    /// The same, for a test of what only root may do.
    pub(crate) fn as_root() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("not measured here: it needs root");
        }
        is_root.then(Self::new)
    }

    /// A path in the test's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new directory that belongs to nobody.
    pub(crate) fn directory_of_nobody(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        path
    }

    /// `sordino` with these arguments, not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("sordino"));
        command.args(arguments).current_dir(self.directory.path());
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
    }

    /// The same, run by nobody.
    pub(crate) fn command_of_nobody(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    /// Starts any command.
    pub(crate) fn start(&self, command: &mut Command) -> Running {
        self.started.set(self.started.get() + 1);
        Running::start(command, self.path(&format!("output-{}", self.started.get())))
    }

    /// Runs any command to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Ended {
        self.start(command).end()
    }

    /// Runs sordino with these arguments to its end.
    pub(crate) fn sordino(&self, arguments: &[&str]) -> Ended {
        self.run(&mut self.command(arguments))
    }

    /// Runs sordino, which has to fail with `status` and say `words`.
    pub(crate) fn refuses(&self, status: i32, words: &[&str], arguments: &[&str]) {
        let ended = self.sordino(arguments);
        ended.failed(status, words);
    }

    /// Compiles one of the programs in `tests/programs/`.
    pub(crate) fn compile(&self, name: &str) -> PathBuf {
        let output = self.path(name);
        programs::compile(name, &output);
        output
    }

    /// Runs `sordino record --json -o NAME OPTIONS -- COMMAND` to its end.
    pub(crate) fn record(&self, name: &str, options: &[&str], command: &[&str]) -> Recording {
        let ended = self.sordino(&[&["record", "--json", "-o", name], options, &["--"], command].concat());
        Recording::of(self.path(name), &ended)
    }

    /// What `sordino events --json` lists of a recording that has nothing wrong with it.
    #[track_caller]
    pub(crate) fn listed(&self, name: &str) -> Vec<Value> {
        items(self.sordino(&["events", "--json", name]).succeeded())
    }

    /// Starts `sordino record --json -o NAME --pid PID OPTIONS` and waits until it records.
    pub(crate) fn attach(&self, name: &str, pid: i32, options: &[&str]) -> Running {
        let pid = pid.to_string();
        let words = [&["record", "--json", "-o", name, "--pid", &pid], options].concat();
        let mut recorder = self.start(&mut self.command(&words));
        self.wait_for_program(&mut recorder, name);
        recorder
    }

    /// Waits until `recorder` has a program in the recording `name`.
    pub(crate) fn wait_for_program(&self, recorder: &mut Running, name: &str) {
        let user = self.path(name).join("user");
        let has_program = || {
            let mut programs = fs::read_dir(&user).into_iter().flatten().flatten();
            programs.any(|program| program.path().join("metadata").exists())
        };
        wait_until("a program is recorded", || {
            assert!(recorder.is_running() || has_program(), "nothing is recorded: {}", recorder.errors());
            has_program()
        });
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let end = Instant::now() + Duration::from_secs(5);
        while Machine::now(self.directory.path()) != self.before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        let now = Machine::now(self.directory.path());
        assert_eq!(now, self.before, "the test left the machine other than it found it");
    }
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "it never happens that {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The files and directories below `path`.
pub(crate) fn all_below(path: &Path) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    let below = entries.iter().filter(|path| path.is_dir()).flat_map(|path| all_below(path));
    below.chain(entries.iter().cloned()).collect()
}
