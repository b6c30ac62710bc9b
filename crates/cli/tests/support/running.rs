//! A process that is killed when it takes too long, or when nobody wants it any more.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// No process of these tests runs for longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// A process whose output goes to files.
pub(crate) struct Running {
    child: Child,
    what: String,
    output: PathBuf,
    until: Instant,
}

/// How a process ended.
pub(crate) struct Ended {
    /// Its exit status; 128 and the signal's number if a signal ended it, as shells say it.
    pub(crate) status: i32,
    /// Its standard output.
    pub(crate) output: String,
    /// Its standard error.
    pub(crate) errors: String,
}

impl Running {
    /// Starts `command`; its output goes to the file `output`, its errors beside it.
    pub(crate) fn start(command: &mut Command, output: PathBuf) -> Self {
        let create = |path: PathBuf| File::create(path).unwrap();
        command.stdin(Stdio::null()).stderr(create(output.with_extension("errors")));
        let child = command.stdout(create(output.clone())).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, what: format!("{command:?}"), output, until: Instant::now() + LIMIT }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by now.
        let _ = kill_process(Pid::from_raw(self.pid()).unwrap(), signal);
    }

    /// Whether it is still running.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it has written to standard output so far.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// What it has written to standard error so far.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.output.with_extension("errors")).unwrap()
    }

    /// Waits until it has written `text` to standard output.
    pub(crate) fn says(&mut self, text: &str) {
        while !self.output().contains(text) {
            let is_running = self.is_running() && Instant::now() < self.until;
            assert!(is_running, "{} does not say '{text}': {}", self.what, self.errors());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                let (output, errors) = (self.output(), self.errors());
                return Ended { status, output, errors };
            }
            let is_late = Instant::now() >= self.until;
            assert!(!is_late, "{} hangs\n{}\n{}", self.what, self.output(), self.errors());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Interrupts it as Ctrl-C does, and waits for its end.
    pub(crate) fn interrupt(self) -> Ended {
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
    #[track_caller]
    pub(crate) fn succeeded(&self) -> &str {
        assert_eq!(self.status, 0, "{}\n{}", self.output, self.errors);
        &self.output
    }

    /// It ended with `status` and said `words` on standard error, and nothing on the other.
    #[track_caller]
    pub(crate) fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}\n{}", self.output, self.errors);
        assert!(!self.errors.contains("panicked"), "{}", self.errors);
        for word in words {
            assert!(self.errors.contains(word), "'{word}' is not in: {}", self.errors);
        }
    }
}
