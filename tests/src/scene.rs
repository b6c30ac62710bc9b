//! One test: its directory, its programs and recorders, and the machine's state before it.

use crate::install::{NativeCompiler, checked_sordino, compile, installed, library, sordino};
use crate::listing::items;
use crate::machine::MachineState;
use crate::recording::CompletedRecording;
use crate::running::{EndedProcess, RunningProcess};
use serde_json::Value;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number of the user `nobody`, who has no rights, and of that user's group.
pub const NOBODY: u32 = 65_534;
/// Number of the user `daemon`, another unprivileged one.
pub const DAEMON: u32 = 1;

/// Lock that runs one test at a time: two tests would disturb each other's measurements, and each checks the whole
/// machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A test with a directory. At its end, the machine's state has to be the same as before.
#[derive(Debug)]
pub struct Scene {
    directory: TempDir,
    before: MachineState,
    count: Cell<usize>,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// Creates the test's directory, which every user may read, with the installed sordino and its library in it.
    pub fn new() -> Self {
        Self::of(&sordino())
    }

    /// Creates the directory with a sordino that panics on arithmetic overflow, for tests with hostile input.
    pub fn checked() -> Self {
        Self::of(checked_sordino())
    }

    fn of(sordino: &Path) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::Builder::new().prefix("sordino-test-").tempdir().expect("a directory");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("permissions");
        for file in [sordino, &library()] {
            let here = directory.path().join(file.file_name().expect("a name"));
            // Where it is, others may not be allowed to look.
            let linked = fs::hard_link(file, &here).or_else(|_| fs::copy(file, &here).map(drop));
            linked.expect("a file of ours");
        }
        let before = MachineState::now(directory.path(), installed());
        Self { directory, before, count: Cell::new(0), _alone: alone }
    }

    /// Returns the scene if root runs the test, which otherwise has nothing to check.
    pub fn as_root(self) -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            Self::not_measured("it needs root");
        }
        is_root.then_some(self)
    }

    /// Returns a path in the test's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns a new path in the test's directory.
    pub fn fresh(&self, prefix: &str) -> PathBuf {
        self.count.set(self.count.get() + 1);
        self.path(&format!("{prefix}-{}", self.count.get()))
    }

    /// Creates a directory that belongs to `user`.
    pub fn directory_of(&self, user: u32, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).expect("a directory");
        chown(&path, Some(user), Some(user)).expect("another owner");
        path
    }

    /// Compiles one of the package's C or C++ programs.
    pub fn compile(&self, compiler: NativeCompiler, source: &str, flags: &[&str]) -> PathBuf {
        let stem = Path::new(source).file_stem().and_then(OsStr::to_str).unwrap_or("program");
        let output = self.fresh(stem);
        compile(compiler, source, &output, flags);
        output
    }

    /// Compiles one of the package's C programs with gcc.
    pub fn program(&self, source: &str) -> PathBuf {
        self.compile(NativeCompiler::Gcc, source, &[])
    }

    /// Returns the command `sordino` with these arguments, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("sordino"));
        command.args(arguments).current_dir(self.directory.path());
        // The user who called sudo for the tests must not become the recorder's.
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        command
    }

    /// Returns the command `sordino`, run by `user`, not yet started.
    pub fn command_of(&self, user: u32, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.uid(user).gid(user);
        command
    }

    /// Starts a command with its output in the test's directory.
    pub fn start(&self, command: &mut Command) -> RunningProcess {
        RunningProcess::start(command, &self.fresh("output"))
    }

    /// Runs a command to its end.
    pub fn run(&self, command: &mut Command) -> EndedProcess {
        self.start(command).end()
    }

    /// Runs sordino with these arguments to its end.
    pub fn sordino(&self, arguments: &[&str]) -> EndedProcess {
        self.run(&mut self.command(arguments))
    }

    /// Runs sordino, and asserts that it fails with `status` and writes `words` to standard error.
    #[track_caller]
    pub fn refuses(&self, status: i32, words: &[&str], arguments: &[&str]) {
        self.sordino(arguments).failed(status, words);
    }

    /// Returns the events that `sordino events --json --statedump` lists of a valid trace.
    #[track_caller]
    pub fn listed(&self, trace: &Path) -> Vec<Value> {
        items(self.run(self.command(&["events", "--json", "--statedump"]).arg(trace)).succeeded())
    }

    /// Returns a recorder that is not yet started, and its output directory: `sordino record --json -o ... ARGUMENTS`.
    pub fn recorder(&self, arguments: &[&str]) -> (Command, PathBuf) {
        let output = self.fresh("recording");
        let mut command = self.command(&["record", "--json", "-o"]);
        command.arg(&output).args(arguments);
        (command, output)
    }

    /// Records `command` with these options to its end.
    pub fn record(&self, options: &[&str], command: &[&str]) -> CompletedRecording {
        self.record_with(options, command, |_| {})
    }

    /// Records so many of npt's loops, as fast as they are, into rings too small for them: some records are lost.
    pub fn record_lossy(&self, loops: u64) -> CompletedRecording {
        let options = ["--subbuf-size", "16K", "--num-subbuf", "2", "--read-timer", "20ms"];
        let loops = loops.to_string();
        self.record(&options, &["./sordino", "npt", "--prio", "0", "--warm-up", "0", "--loops", &loops])
    }

    /// Records npt's loop on a CPU, for two seconds, with the kernel's events. A thread of a higher priority has the
    /// CPU for 20 ms of them.
    pub fn record_hog(&self, cpu: &str) -> CompletedRecording {
        let script = format!(
            "./sordino disturb hog --cpu {cpu} --prio 60 --at 1s --for 20ms & \
             ./sordino npt --cpu {cpu} --prio 50 --pace 10us --duration 2s >npt.out && wait $!"
        );
        self.record(&["--kernel", "sched,irq,irq_vectors,timer"], &["sh", "-c", &script])
    }

    /// Records `command` with a recorder that `change` has altered.
    pub fn record_with(
        &self,
        options: &[&str],
        command: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> CompletedRecording {
        let (mut recorder, output) = self.recorder(options);
        recorder.arg("--").args(command);
        change(&mut recorder);
        CompletedRecording::of(self.run(&mut recorder), output)
    }

    /// Starts a recorder of process `pid`, and waits until it records that process.
    pub fn attach(&self, pid: i32, options: &[&str]) -> AttachedRecorder {
        let pid_text = pid.to_string();
        let (mut recorder, output) = self.recorder(&["--pid", &pid_text]);
        let mut running = self.start(recorder.args(options));
        // The recorder declares the program's events in its metadata, then enables them.
        let user = output.join("user");
        let end = Instant::now() + Duration::from_secs(20);
        let has_begun = || {
            let mut programs = fs::read_dir(&user).into_iter().flatten().flatten();
            programs.any(|program| {
                let metadata = fs::read_to_string(program.path().join("metadata")).unwrap_or_default();
                metadata.contains("event {")
            })
        };
        while !has_begun() {
            let recorder_lives = running.is_running() && Instant::now() < end;
            assert!(recorder_lives || has_begun(), "process {pid} is not recorded: {}", running.errors());
            std::thread::sleep(Duration::from_millis(1));
        }
        AttachedRecorder { running, output }
    }

    /// Reports a measurement that this machine does not allow. The report passes by the test harness, which discards
    /// the output of tests that pass.
    pub fn not_measured(what: &str) {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        // A line break would hide what follows from the summary of `make test`.
        let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(std::io::stderr(), "not measured here: {what} (in {test})");
    }
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let now = || MachineState::now(self.directory.path(), installed());
        let end = Instant::now() + Duration::from_secs(5);
        while now() != self.before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(now(), self.before, "the test left the machine other than it found it");
    }
}

/// A recorder that records a running program.
#[derive(Debug)]
pub struct AttachedRecorder {
    /// Process of the recorder.
    pub running: RunningProcess,
    /// Directory of the recording.
    pub output: PathBuf,
}

impl AttachedRecorder {
    /// Interrupts the recorder as Ctrl-C does, and waits for its end.
    pub fn stop(self) -> CompletedRecording {
        CompletedRecording::of(self.running.interrupt(), self.output)
    }

    /// Waits for the recorder's end.
    pub fn end(self) -> CompletedRecording {
        CompletedRecording::of(self.running.end(), self.output)
    }
}
