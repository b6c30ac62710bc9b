//! The recorder of a session, `sordino session-recorder`, which `sordino start` runs.

use super::start::{Options, recording};
use crate::privilege::target;
use crate::terminal::{remark, show_as_message};
use crate::{Failure, signals};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use sd_notify::{NotifyState, notify};
use sordino_collect::text::missing;
use sordino_inspect::rights::keep_needed_rights;
use sordino_manager::{READY, SessionPlace};
use sordino_session::{Programs, keep_session};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;

/// The receiver of the message that a recorder has begun to record. The message is sent once.
enum Starter {
    /// A pipe to `sordino start`, which waits for the message.
    Shell(File),
    /// A service manager that requested a notification, or a person who reads standard error.
    Foreground,
}

/// Records until it is requested to stop. Standard input is the session's locked file: the process that holds the lock
/// is the session's recorder. Standard output is a pipe to `sordino start`, which receives one message: recording has
/// begun, or the reason why it has not. With `--foreground`, `sordino start` has itself become this recorder.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    keep_needed_rights();
    // Before other threads exist: a signal that one of them does not block would end the process.
    let write_now = signals::write_now()?;
    // This process holds the lock alone: a command that it starts may outlive it.
    let _lock = fcntl_dupfd_cloexec(stdin(), 3)?;
    dup2_stdin(File::open("/dev/null")?)?;
    let place = SessionPlace::make(&options.name)?;
    let mut starter = Some(match options.foreground {
        true => Starter::Foreground,
        false => Starter::Shell(go_to_the_background(&place)?),
    });
    let result = record(options, &place, write_now.as_fd(), &mut starter);
    if let (Err(failure), Some(Starter::Shell(mut shell))) = (&result, starter) {
        // The process that started the recorder may have ended.
        let _ = writeln!(shell, "{}", failure.text());
    }
    result.map(|()| ExitCode::SUCCESS)
}

/// Leaves the shell's session, its terminal and its output. Returns the previous standard output, the pipe to
/// `sordino start`.
fn go_to_the_background(place: &SessionPlace) -> Result<File, Failure> {
    let starter = fcntl_dupfd_cloexec(stdout(), 3)?;
    // A command that it starts has its output there, too, and none of the shell's files.
    dup2_stdout(&place.log()?)?;
    // It fails if this process leads a session already.
    let _ = rustix::process::setsid();
    Ok(File::from(starter))
}

impl Starter {
    fn ready(self, options: &Options) {
        match self {
            Self::Shell(mut shell) => {
                let _ = shell.write_all(READY.as_bytes());
            }
            Self::Foreground => {
                let text = recording(options);
                if let Err(error) = notify(&[NotifyState::Ready, NotifyState::Status(&text)]) {
                    message!(
                        "sordino: the service manager could not be notified that the session records: {error}"
                    );
                }
                message!("{text}");
            }
        }
    }
}

fn record(
    options: &Options,
    place: &SessionPlace,
    write_now: BorrowedFd<'_>,
    starter: &mut Option<Starter>,
) -> Result<(), Failure> {
    let owner = target(options.what.as_user.as_deref())?;
    let mut session = options.session(place, owner.as_ref())?;
    let back = sordino_shield::keep_off(options.what.collector_cpu, &remark)?;
    if let Programs::Command(command) = &mut session.programs {
        command.prefix.splice(0..0, back);
    }
    let stop: OwnedFd = signals::stop()?;
    let mut guardian = if session.recording.kernel.is_empty() { None } else { Some(sordino_guard::start()?) };
    let ready = || starter.take().into_iter().for_each(|starter| starter.ready(options));
    let kept = keep_session(&session, guardian.as_mut(), stop.as_fd(), Some(write_now), ready);
    let kept = kept?;
    kept.problems.iter().for_each(|problem| message!("sordino: {problem}"));
    show_as_message(&missing(&kept.missing));
    kept.shortfall.lines().iter().for_each(|line| message!("sordino: {line}"));
    if let Some(status) = kept.status {
        message!("sordino: the command has ended, {status}");
    }
    Ok(())
}
