//! Changing to another user, then to another program.

use crate::Failure;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::privilege::become_user;
use crate::terminal::remark;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sordino_registration::environment::{RESERVE, SESSION, SESSION_OF_COMMAND};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Runs a command as another user.
#[derive(Args, Debug)]
pub(crate) struct Options {
    uid: u32,
    gid: u32,
    name: String,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Raises the limit of locked memory by the size that the recorder maps into the program, so that its `mlockall`
/// succeeds as it does without recording. Needs `CAP_SYS_RESOURCE`; without it, the limit stays.
fn allow_rings_to_be_locked() {
    let reserve = std::env::var(RESERVE).ok().and_then(|text| text.parse::<u64>().ok());
    let more = |limit: Option<u64>| limit.map(|limit| limit.saturating_add(reserve.unwrap_or(0)));
    let Rlimit { current, maximum } = getrlimit(Resource::Memlock);
    let _ = setrlimit(Resource::Memlock, Rlimit { current: more(current), maximum: more(maximum) });
}

/// Passes the session to the recorded command, and to nothing that was started before it.
pub(crate) fn hand_over(command: &mut Command) {
    command.env_remove(SESSION_OF_COMMAND);
    if let Some(session) = std::env::var_os(SESSION_OF_COMMAND) {
        command.env(SESSION, session);
    }
}

/// Changes to the user and replaces this process by the command; returns only if that fails.
pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    allow_rings_to_be_locked();
    if options.uid != 0 {
        let forbidden = sordino_sched::forbid_typing_where_shared();
        forbidden.unwrap_or_else(|error| remark(&error.to_string()));
    }
    become_user(options.uid, options.gid, &options.name)?;
    let (program, arguments) =
        options.command.split_first().ok_or_else(|| Failure::new(UNUSABLE, "no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    hand_over(&mut command);
    let error = command.exec();
    Err(Failure::new(NOT_FOUND, format!("can't start {}: {error}", program.display())))
}
