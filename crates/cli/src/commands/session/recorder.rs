//! The recorder of a session: `sordino session-recorder`, which `sordino start` runs.

use super::place::Place;
use super::start::{Options, READY};
use crate::commands::{guard, shield};
use crate::failure::UNUSABLE;
use crate::privilege::target;
use crate::{Failure, signals};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::dup2_stdout;
use sordino_collect::{Programs, keep_session};
use std::fs::File;
use std::io::{Write, stdout};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

/// Records until it is told to stop. Standard output is a pipe to whoever started it, and told once how that went.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let starter = fcntl_dupfd_cloexec(stdout(), 3)?;
    let place = Place::make(&options.name)?;
    // A command that is started has its output there, too, and nothing of the shell's.
    let log = File::options().create(true).append(true).open(place.log())?;
    dup2_stdout(&log)?;
    // Fails for who leads a session already.
    let _ = rustix::process::setsid();
    let mut starter = Some(File::from(starter));
    let result = record(options, &place, &mut starter);
    if let (Err(failure), Some(mut starter)) = (&result, starter) {
        // Who started it may be gone.
        let _ = writeln!(starter, "{}", failure.text());
    }
    result.map(|()| ExitCode::SUCCESS)
}

fn record(options: &Options, place: &Place, starter: &mut Option<File>) -> Result<(), Failure> {
    let _lock = lock(place)?;
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
    keep_session(&recording, guardian.as_mut(), stop.as_fd(), ready)?;
    if let Some(reader) = target(None)?.or(owner) {
        reader.give(&recording.output);
    }
    Ok(())
}

/// The session's lock: whoever has it is its recorder. The one who started us may still have it for a moment.
fn lock(place: &Place) -> Result<File, Failure> {
    for _ in 0..50 {
        if let Some(lock) = place.lock()? {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Failure::new(UNUSABLE, format!("session '{}' has a recorder", place.name)))
}
