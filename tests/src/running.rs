//! A process that is killed when it takes too long, or when the test drops it.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a test's program.
const LIMIT: Duration = Duration::from_secs(100);

/// A process with its output in files.
#[derive(Debug)]
pub struct RunningProcess {
    child: Child,
    what: String,
    output: PathBuf,
    errors: PathBuf,
    until: Instant,
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct EndedProcess {
    /// Exit status; 128 plus the signal's number if a signal ended the process, as in a shell.
    pub status: i32,
    /// Text written to standard output.
    pub output: String,
    /// Text written to standard error.
    pub errors: String,
}

/// A process that is stopped until this is dropped.
#[derive(Debug)]
pub struct Stopped(Pid);

impl Stopped {
    /// Stops process `pid`.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn now(pid: i32) -> Self {
        let pid = Pid::from_raw(pid).expect("a pid");
        kill_process(pid, Signal::STOP).expect("a process");
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have been killed.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl RunningProcess {
    /// Starts `command` with its output in the files `files`.out and `files`.err.
    pub fn start(command: &mut Command, files: &Path) -> Self {
        let (output, errors) = (files.with_extension("out"), files.with_extension("err"));
        let create = |path: &Path| File::create(path).expect("a file for output");
        command.stdin(Stdio::null()).stdout(create(&output)).stderr(create(&errors));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let what = format!("{command:?}");
        Self { child, what, output, errors, until: Instant::now() + LIMIT }
    }

    /// Returns the process id.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a pid");
        // The process may have ended by now.
        let _ = kill_process(pid, signal);
    }

    /// Sends a signal to the group of the process, which has to be its leader.
    pub fn signal_group(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).expect("a pid");
        // The processes may have ended by now.
        let _ = kill_process_group(pid, signal);
    }

    /// Sets the time limit to `limit` from now on.
    pub fn within(mut self, limit: Duration) -> Self {
        self.until = Instant::now() + limit;
        self
    }

    /// Returns the file that receives standard output.
    pub fn output_file(&self) -> &Path {
        &self.output
    }

    /// Returns true if the process is still running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_none()
    }

    /// Returns the standard output so far.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Returns the standard error so far.
    pub fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }

    /// Waits until the process has written `text` to standard output.
    ///
    /// # Panics
    /// If the process ends without writing it, or exceeds its time limit.
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

    /// Waits until the process ends.
    ///
    /// # Panics
    /// If the process exceeds its time limit. It is killed then.
    pub fn end(self) -> EndedProcess {
        self.end_or_hang().unwrap_or_else(|hang| panic!("{hang}"))
    }

    /// Waits until the process ends.
    ///
    /// # Errors
    /// The output so far, if the process exceeds its time limit. It is killed then.
    pub fn end_or_hang(mut self) -> Result<EndedProcess, String> {
        loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
                return Ok(EndedProcess { status, output: self.output(), errors: self.errors() });
            }
            if Instant::now() >= self.until {
                return Err(format!("{} hangs\n{}\n{}", self.what, self.output(), self.errors()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Interrupts the process as Ctrl-C does, and waits until it ends.
    pub fn interrupt(self) -> EndedProcess {
        self.signal(Signal::INT);
        self.end()
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl EndedProcess {
    /// Asserts that the process succeeded, and returns its standard output.
    ///
    /// # Panics
    /// If the exit status is not 0.
    #[track_caller]
    pub fn succeeded(&self) -> &str {
        assert_eq!(self.status, 0, "{}\n{}", self.output, self.errors);
        &self.output
    }

    /// Asserts that the process failed with `status` and wrote all of `words` to standard error.
    ///
    /// # Panics
    /// If it did not, or if it panicked.
    #[track_caller]
    pub fn failed(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{}\n{}", self.output, self.errors);
        assert!(!self.errors.contains("panicked"), "{}", self.errors);
        for word in words {
            assert!(self.errors.contains(word), "'{word}' is not in: {}", self.errors);
        }
    }
}
