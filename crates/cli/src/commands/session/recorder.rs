//! The recorder of a session: `sordino session-recorder`, which `sordino start` runs.

use super::place::Place;
use super::start::{Options, READY};
use crate::commands::{guard, shield};
use crate::privilege::target;
use crate::{Failure, signals};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use sordino_collect::{Programs, keep_needed_rights, keep_session};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

/// Records until it is told to stop. Standard output is a pipe to whoever started it, and told once how that went; standard input
/// is the session's lock: whoever has it is its recorder.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    keep_needed_rights();
    // Before there is another thread, which a signal would end all of them in.
    let write_now = signals::write_now()?;
    let starter = fcntl_dupfd_cloexec(stdout(), 3)?;
    // Ours alone: a command that is started may live longer.
    let _lock = fcntl_dupfd_cloexec(stdin(), 3)?;
    dup2_stdin(File::open("/dev/null")?)?;
    let place = Place::make(&options.name)?;
    // A command that is started has its output there, too, and nothing of the shell's.
    let log = place.log()?;
    dup2_stdout(&log)?;
    // Fails for who leads a session already.
    let _ = rustix::process::setsid();
    let mut starter = Some(File::from(starter));
    let result = record(options, &place, write_now.as_fd(), &mut starter);
    if let (Err(failure), Some(mut starter)) = (&result, starter) {
        // Who started it may be gone.
        let _ = writeln!(starter, "{}", failure.text());
    }
    result.map(|()| ExitCode::SUCCESS)
}

fn record(
    options: &Options,
    place: &Place,
    write_now: BorrowedFd<'_>,
    starter: &mut Option<File>,
) -> Result<(), Failure> {
    let owner = target(options.what.as_user.as_deref())?;
    let mut recording = options.recording(place, owner.as_ref())?;
    let back = shield::keep_off(options.what.collector_cpu)?;
    if let Programs::Command(command) = &mut recording.programs {
        command.prefix.splice(0..0, back);
    }
    let stop: OwnedFd = signals::stop()?;
    let mut guardian = if recording.kernel.is_empty() { None } else { Some(guard::start()?) };
    let ready = || {
        if let Some(mut starter) = starter.take() {
            let _ = starter.write_all(READY.as_bytes());
        }
    };
    let kept = keep_session(&recording, guardian.as_mut(), stop.as_fd(), Some(write_now), ready);
    let kept = kept?;
    kept.problems.iter().for_each(|problem| message!("sordino: {problem}"));
    if let Some(status) = kept.status {
        message!("sordino: the command has ended, {status}");
    }
    Ok(())
}
