//! The command `sordino record`.

mod options;
mod stream;

pub(crate) use options::Options;

use crate::Failure;
use crate::failure::NO;
use crate::privilege::target;
use crate::progress::Progress;
use crate::signals;
use crate::terminal::{is_terminal, remark, show_as_message};
use crate::words::quoted;
use sordino_collect::text::{missing, summary as summary_text};
use sordino_collect::{Directory, PREFIX, Summary};
use sordino_report::tied;
use sordino_session::{FinishedRecording, Programs, record};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let output = options.output.clone().unwrap_or_else(default_output);
    if let Some(from) = &options.from {
        return stream::receive(from, &output);
    }
    sordino_guard::expect_own_program()?;
    sordino_inspect::rights::keep_needed_rights();
    if output == Path::new("-") {
        return stream::send(options);
    }
    let what = &options.what;
    let owner = target(what.as_user.as_deref())?;
    let mut session = what.options(output, &options.name, owner.as_ref())?;
    let back = sordino_shield::keep_off(what.collector_cpu, &remark)?;
    if let Programs::Command(command) = &mut session.programs {
        command.prefix.splice(0..0, back);
    }
    let stop = signals::stop()?;
    let mut guardian = if session.recording.kernel.is_empty() { None } else { Some(sordino_guard::start()?) };
    let shares_terminal = !what.command.is_empty() && is_terminal();
    let result = {
        let mut progress = Progress::new(shares_terminal);
        record(&session, guardian.as_mut(), stop.as_fd(), &mut progress)
    };
    let recorded = result?;
    if options.json {
        show_as_message(&missing(&recorded.summary.missing()));
        crate::commands::print(&summary_json(&recorded.directory, &recorded.summary)?)?;
    } else {
        show_as_message(&report(&recorded.directory, &recorded.summary));
    }
    if let Some(pid) = recorded.running {
        message!("the command (process {pid}) is still running; it is no longer recorded");
    }
    Ok(exit_code(options, &recorded))
}

fn exit_code(options: &Options, recorded: &FinishedRecording) -> ExitCode {
    let summary = &recorded.summary;
    if options.fail_on_loss && (summary.lost() > 0 || summary.has_uncounted_loss()) {
        return ExitCode::from(NO);
    }
    let status = recorded.status.map_or(0, sordino_sched::shell_status);
    let is_incomplete = summary.missing().is_any();
    ExitCode::from(if status == 0 && is_incomplete { NO } else { status })
}

/// Returns the default directory: `sordino-` and the local time; followed by a number if two recordings begin in the
/// same second.
pub(crate) fn default_output() -> PathBuf {
    let name = PathBuf::from(format!("{PREFIX}{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")));
    let others = (2..).map(|number| PathBuf::from(format!("{}-{number}", name.display())));
    let free = std::iter::once(name.clone()).chain(others).find(|path| !path.exists());
    free.unwrap_or(name)
}

/// Returns the summary as JSON, with the recording's directory.
pub(crate) fn summary_json(directory: &Directory, summary: &Summary) -> Result<String, Failure> {
    let mut value = serde_json::to_value(summary)?;
    value["directory"] = directory.path().to_string_lossy().into();
    value["lost"] = summary.lost().into();
    value["missing"] = serde_json::to_value(summary.missing())?;
    Ok(value.to_string() + "\n")
}

/// Returns the summary as text, with the commands that read the recording.
pub(crate) fn report(directory: &Directory, summary: &Summary) -> String {
    summary_text(directory.path(), summary, &next_steps(&directory.path().to_string_lossy()))
}

/// Returns the commands that read a recording, as a user can type them.
fn next_steps(path: &str) -> String {
    let path = quoted([path]);
    let commands = ["sordino events", "sordino explain", "babeltrace2"];
    let [events, explain, other] = commands.map(|command| tied(&format!("{command} {path}")));
    format!("look at it with: {events}, {explain} (or {other})")
}
