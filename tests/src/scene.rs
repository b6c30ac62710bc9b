//! One test: its directory, the programs and recorders it starts, the machine as it was before.

use crate::install::{Compiler, compile, installed, sordino};
use crate::machine::Machine;
use crate::recording::Recording;
use crate::running::{Ended, Running};
use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One test at a time: two of them on two CPUs would measure each other, and each looks at the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

/// One test. When it is over, the machine has to be as it was before.
#[derive(Debug)]
pub struct Scene {
    directory: TempDir,
    before: Machine,
    count: Cell<usize>,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// An empty directory that every user may look into, and sordino installed.
    pub fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let installed = installed();
        let directory = tempfile::Builder::new().prefix("sordino-test-").tempdir().expect("a directory");
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), everybody).expect("permissions");
        let before = Machine::now(directory.path(), installed);
        Self { directory, before, count: Cell::new(0), _alone: alone }
    }

    /// A path in the test's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A path that was not there before.
    pub fn fresh(&self, prefix: &str) -> PathBuf {
        self.count.set(self.count.get() + 1);
        self.path(&format!("{prefix}-{}", self.count.get()))
    }

    /// Compiles one of the package's C or C++ programs.
    pub fn compile(&self, compiler: Compiler, source: &str, flags: &[&str]) -> PathBuf {
        let stem = Path::new(source).file_stem().and_then(OsStr::to_str).unwrap_or("program");
        let output = self.fresh(stem);
        compile(compiler, source, &output, flags);
        output
    }

    /// Compiles one of the package's C programs with gcc.
    pub fn program(&self, source: &str) -> PathBuf {
        self.compile(Compiler::Gcc, source, &[])
    }

    /// Starts any command.
    pub fn start(&self, command: &mut Command) -> Running {
        let name = self.fresh("output");
        Running::start(
            command,
            self.directory.path(),
            &name.file_name().unwrap_or_default().to_string_lossy(),
        )
    }

    /// Runs any command to its end.
    pub fn run(&self, command: &mut Command) -> Ended {
        self.start(command).end()
    }

    /// Runs sordino with these arguments to its end.
    pub fn sordino(&self, arguments: &[&str]) -> Ended {
        self.run(Command::new(sordino()).args(arguments).current_dir(self.directory.path()))
    }

    /// A recorder that is about to be started, and where it will record to: `sordino record --json -o ... ARGUMENTS`.
    pub fn recorder(&self, arguments: &[&str]) -> (Command, PathBuf) {
        let output = self.fresh("recording");
        let mut command = Command::new(sordino());
        command.args(["record", "--json", "-o"]).arg(&output).args(arguments);
        command.current_dir(self.directory.path());
        (command, output)
    }

    /// Records `command` with these options to its end.
    pub fn record(&self, options: &[&str], command: &[&str]) -> Recording {
        self.record_with(options, command, |_| {})
    }

    /// Records `command` after `change`d the recorder's own.
    pub fn record_with(
        &self,
        options: &[&str],
        command: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Recording {
        let (mut recorder, output) = self.recorder(options);
        recorder.arg("--").args(command);
        change(&mut recorder);
        Recording::of(self.run(&mut recorder), output)
    }

    /// Starts a recorder of process `pid`, and waits until that is being recorded.
    pub fn attach(&self, pid: i32, options: &[&str]) -> Attached {
        let pid_text = pid.to_string();
        let (mut recorder, output) = self.recorder(&["--pid", &pid_text]);
        let mut running = self.start(recorder.args(options));
        // The recorder declares the program's events in its metadata, then enables them.
        let user = output.join("user");
        let end = Instant::now() + Duration::from_secs(20);
        let has_begun = || {
            let mut programs = std::fs::read_dir(&user).into_iter().flatten().flatten();
            programs.any(|program| {
                let metadata = std::fs::read_to_string(program.path().join("metadata")).unwrap_or_default();
                metadata.contains("event {")
            })
        };
        while !has_begun() {
            let recorder_lives = running.is_running() && Instant::now() < end;
            assert!(recorder_lives || has_begun(), "process {pid} is not recorded: {}", running.errors());
            std::thread::sleep(Duration::from_millis(1));
        }
        Attached { running, output }
    }

    /// Says why something could not be measured on this machine.
    #[allow(clippy::print_stderr, reason = "a test's last word")]
    pub fn not_measured(what: &str) {
        eprintln!("not measured here: {what}");
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
        let now = || Machine::now(self.directory.path(), installed());
        let end = Instant::now() + Duration::from_secs(5);
        while now() != self.before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(now(), self.before, "the test left the machine other than it found it");
    }
}

/// A recorder that records a running program.
#[derive(Debug)]
pub struct Attached {
    /// The recorder.
    pub running: Running,
    /// Where it records to.
    pub output: PathBuf,
}

impl Attached {
    /// Interrupts the recorder as Ctrl-C does, and waits for its end.
    pub fn stop(self) -> Recording {
        self.running.signal(rustix::process::Signal::INT);
        self.end()
    }

    /// Waits for the recorder's end.
    pub fn end(self) -> Recording {
        Recording::of(self.running.end(), self.output)
    }
}
