//! A process that is killed when it takes too long, or when nobody wants it any more.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No program of these tests runs for longer than this.
const LIMIT: Duration = Duration::from_secs(100);

/// A process whose output goes to files.
#[derive(Debug)]
pub struct Running {
    child: Child,
    what: String,
    output: PathBuf,
    errors: PathBuf,
    until: Instant,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status; 128 and the signal's number if a signal ended it, as shells say it.
    pub status: i32,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl Running {
    /// Starts `command`; its output goes to two files beside each other, `files`.out and `files`.err.
    pub fn start(command: &mut Command, files: &Path) -> Self {
        let (output, errors) = (files.with_extension("out"), files.with_extension("err"));
        let create = |path: &Path| File::create(path).expect("a file for output");
        command.stdin(Stdio::null()).stdout(create(&output)).stderr(create(&errors));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let what = format!("{command:?}");
        Self { child, what, output, errors, until: Instant::now() + LIMIT }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a pid");
        // It may have ended by now.
        let _ = kill_process(pid, signal);
    }

    /// Sends a signal to its group, whose leader it has to be.
    pub fn signal_group(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a pid");
        // They may have ended by now.
        let _ = kill_process_group(pid, signal);
    }

    /// Lets it take this long from now on.
    pub fn within(mut self, limit: Duration) -> Self {
        self.until = Instant::now() + limit;
        self
    }

    /// The file that has its standard output.
    pub fn output_file(&self) -> &Path {
        &self.output
    }

    /// Whether it is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// What it has written to standard output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// What it has written to standard error so far.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until it has written `text` to standard output.
    ///
    /// # Panics
    /// If it ends without, or takes too long.
    pub fn says(&mut self, text: &str) {
        while !self.output().contains(text) {
            let running = self.is_running();
            assert!(
                running || self.output().contains(text),
                "{} ended without saying '{text}': {}",
                self.what,
                self.errors()
            );
            assert!(Instant::now() < self.until, "{} does not say '{text}'", self.what);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it takes too long; it is killed then.
    pub fn end(self) -> Ended {
        self.end_or_hang().unwrap_or_else(|hang| panic!("{hang}"))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it takes too long, what it has printed; it is killed then.
    pub fn end_or_hang(mut self) -> Result<Ended, String> {
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                return Ok(Ended { status, output: self.output(), errors: self.errors() });
            }
            if Instant::now() >= self.until {
                return Err(format!("{} hangs\n{}\n{}", self.what, self.output(), self.errors()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Interrupts it as Ctrl-C does, and waits for its end.
    pub fn interrupt(self) -> Ended {
        self.signal(Signal::INT);
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// It was successful; its standard output.
    ///
    /// # Panics
    /// If it was not.
    #[track_caller]
    pub fn succeeded(&self) -> &str {
        assert_eq!(self.status, 0, "{}\n{}", self.output, self.errors);
        &self.output
    }

    /// It failed with `status`, and said all of `words` on standard error.
    ///
    /// # Panics
    /// If it did not, or panicked.
    #[track_caller]
    pub fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}\n{}", self.output, self.errors);
        assert!(!self.errors.contains("panicked"), "{}", self.errors);
        for word in words {
            assert!(self.errors.contains(word), "'{word}' is not in: {}", self.errors);
        }
    }
}
