//! The command `sordino recover`.

use crate::Failure;
use crate::commands::record::{report, summary_json};
use crate::privilege::{Target, target};
use crate::progress::Progress;
use crate::terminal::answer;
use clap::Args;
use sordino_collect::{Directory, Kind, State, Summary, recordings};
use sordino_dirfd::Dir;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Finish a recording whose recorder was killed or ran out of disk space, or that was received in part
///
/// Cuts off an incomplete end, converts the kernel's raw buffers to a trace, and prints the summary. In the directory
/// of a session, or of 'sordino record --from', it finishes every recording that is not finished.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino recover sordino-20260131-120000")]
pub(crate) struct Options {
    /// Directory of the recording, or of several [default: the newest recording in the current directory]
    directory: Option<PathBuf>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let recordings = match options.directory.as_deref() {
        Some(path) => parts(path),
        None => Vec::new(),
    };
    let (is_series, recordings) = match recordings.is_empty() {
        true => (None, vec![open(options.directory.as_deref())?]),
        false => (options.directory.as_deref(), recordings),
    };
    let (mut completed, mut failed) = (Vec::new(), Vec::new());
    for directory in recordings {
        match is_open(&directory).and_then(|is_open| is_open.then(|| recover(&directory)).transpose()) {
            Ok(Some(summary)) => completed.push((summary, directory)),
            Ok(None) if is_series.is_none() => {
                message!("{} is already finished", directory.path().display());
                show(options, &directory, &Summary::read(&directory)?)?;
            }
            Ok(None) => {}
            // The other recordings are finished all the same.
            Err(failure) => failed.push(failure),
        }
    }
    if let Some(path) = is_series.filter(|_| completed.is_empty() && failed.is_empty()) {
        message!("all recordings in {} are already finished", path.display());
    }
    if let Some(reader) = target(None)? {
        give(is_series, &completed, &reader);
    }
    completed.iter().try_for_each(|(summary, directory)| show(options, directory, summary))?;
    let last = failed.pop();
    failed.iter().for_each(|failure| message!("sordino: {}", failure.text()));
    last.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Returns the recordings in a directory that is no recording itself: a session's, or one that a stream was received
/// into.
fn parts(path: &Path) -> Vec<Directory> {
    let kinds = [Kind::Chunk, Kind::Snapshot];
    let parts = || kinds.into_iter().flat_map(|kind| recordings(path, kind)).collect();
    if Directory::open(path).is_ok() { Vec::new() } else { parts() }
}

fn is_open(directory: &Directory) -> Result<bool, Failure> {
    Ok(matches!(Summary::read(directory)?.state, State::Recording | State::Incomplete))
}

fn recover(directory: &Directory) -> Result<Summary, Failure> {
    let mut progress = Progress::new(true);
    Ok(sordino_collect::recover(directory, &mut progress)?)
}

/// Makes the user who called sudo the owner of the finished recordings. Before, they belonged to this process's user:
/// others are not finished. The owner is not changed if the recording was reached through a link, which another user
/// may have created.
fn give(series: Option<&Path>, completed: &[(Summary, Directory)], reader: &Target) {
    let (user, group) = reader.ids();
    if let Some(dir) = series.and_then(|path| Dir::open(path).ok()).filter(|dir| dir.lies_with(user)) {
        dir.give_alone(user, group);
    }
    for (_, directory) in completed.iter().filter(|(_, directory)| directory.dir().lies_with(user)) {
        directory.dir().give(user, group);
    }
}

fn show(options: &Options, directory: &Directory, summary: &Summary) -> Result<(), Failure> {
    let text = if options.json { summary_json(directory, summary)? } else { report(directory, summary) };
    Ok(answer(&text, options.json)?)
}

/// Returns the recording that was named, or the newest in the current directory.
pub(crate) fn open(named: Option<&Path>) -> Result<Directory, Failure> {
    Ok(match named {
        Some(path) => Directory::open(path)?,
        None => Directory::newest(&std::env::current_dir()?)?,
    })
}
