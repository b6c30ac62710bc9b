//! Running another program until it ends, or until the user interrupts the check.

use super::progress::MeasurementProgress;
use crate::Command;
use crate::Error;
use crate::keep;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read, Seek, SeekFrom};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Most time for a program to end after the signal to end: it has results to write.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most time by which a program may end later than planned, besides a tenth of its duration.
const GRACE: Duration = Duration::from_secs(60);

/// The result of running a program.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The last line that it wrote to standard error, or else to standard output.
    pub(crate) last_words: String,
    pub(crate) command: Command,
    /// True if it did not end in time and was sent a signal to end.
    pub(crate) was_stuck: bool,
}

/// Returns the reason that a program is missing, and the command that installs its Debian package; `None` if it is
/// installed.
pub(crate) fn missing(program: &str, package: &str) -> Option<(String, Option<String>)> {
    let is_there = sordino_sched::find_program(program.as_ref()).is_ok();
    (!is_there).then(|| (format!("{program} is not installed"), Some(format!("apt-get install {package}"))))
}

/// Returns a command line, quoted for a shell.
pub(crate) fn line(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let is_plain = !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=./,:+@%".contains(&byte));
        if is_plain { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Makes a directory for a program's files, which is removed with the check, also if the check is killed meanwhile.
pub(crate) fn scratch() -> Result<TempDir, Error> {
    Ok(tempfile::Builder::new().prefix("sordino-check-").tempdir_in(sordino_guard::temporary::directory()?)?)
}

/// Returns the keeper's option that removes the directory.
pub(crate) fn keeps(scratch: &TempDir) -> String {
    format!("--scratch={}", scratch.path().display())
}

/// Runs a program for about `time`, and passes each line that it prints to `on_line`.
pub(crate) fn run(
    words: &[String],
    scratch: Option<&TempDir>,
    time: Duration,
    progress: &mut MeasurementProgress<'_>,
    mut on_line: impl FnMut(&str, &mut MeasurementProgress<'_>),
) -> Result<Ended, Error> {
    let mut errors = tempfile::tempfile()?;
    let patience = format!("--patience={}", PATIENCE.as_millis());
    let options: Vec<String> = scratch.map(keeps).into_iter().chain([patience]).collect();
    let mut child = keep::command(&options, words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors.try_clone()?)
        .spawn()?;
    let mut stdout = child.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
    let deadline = Instant::now() + time + time / 10 + GRACE;
    let (mut printed, mut rest, mut was_stuck, mut is_signalled) = (String::new(), Vec::new(), false, false);
    loop {
        let mut ready = [PollFd::new(&stdout, PollFlags::IN)];
        let _ = poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 200_000_000 }));
        if !ready[0].revents().is_empty() {
            let mut buffer = [0; 8192];
            let read = stdout.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            rest.extend_from_slice(&buffer[..read]);
            while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                on_line(&line, progress);
                if !line.trim().is_empty() {
                    line.trim().clone_into(&mut printed);
                }
            }
        }
        was_stuck |= Instant::now() > deadline;
        if (progress.is_interrupted() || was_stuck) && !is_signalled {
            is_signalled = true;
            signal_end(&child);
        }
        progress.tick();
    }
    let status = child.wait()?;
    let mut printed_errors = String::new();
    errors.seek(SeekFrom::Start(0))?;
    errors.by_ref().take(1 << 16).read_to_string(&mut printed_errors).unwrap_or_default();
    let last_words = printed_errors
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or(&printed)
        .to_owned();
    let failed = (!status.success()).then(|| format!("{status}: {last_words}"));
    Ok(Ended { status, last_words, command: Command { line: line(words), failed }, was_stuck })
}

/// Sends SIGTERM to the program's keeper, which ends the program.
pub(crate) fn signal_end(child: &Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_what_a_shell_takes() {
        let words = ["sh", "-c", "echo 'a' b", "x=1", ""].map(str::to_owned);
        assert_eq!(line(&words), r"sh -c 'echo '\''a'\'' b' x=1 ''");
    }
}
