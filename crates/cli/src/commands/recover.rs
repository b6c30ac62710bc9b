//! `sordino recover`

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

/// Finish a recording whose recorder was killed, had no room, or of which only a part arrived
///
/// Cuts off what was being written at that moment, turns the kernel's pages into a trace, and says what is there. Of a session's
/// directory, or one that 'sordino record --from' received into, every recording that is not finished.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino recover sordino-20260131-120000")]
pub(crate) struct Options {
    /// The recording's directory, or one with several; the newest in this directory if none is named
    directory: Option<PathBuf>,
    /// As JSON
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
            // The others do not wait for this one.
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

/// The recordings in a directory that is none itself: a session's, or one that a stream was received into.
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

/// Gives what was completed to its reader. It was ours alone, or it would not have been completed. But whoever put a link to it where
/// it was looked for is not to have it.
fn give(series: Option<&Path>, completed: &[(Summary, Directory)], reader: &Target) {
    let (user, group) = (reader.uid.as_raw(), reader.gid.as_raw());
    if let Some(dir) = series.and_then(|path| Dir::open(path).ok()).filter(|dir| dir.lies_with(user)) {
        dir.give_alone(user, group);
    }
    for (_, directory) in completed.iter().filter(|(_, directory)| directory.dir().lies_with(user)) {
        directory.dir().give(user, group);
    }
}

fn show(options: &Options, directory: &Directory, summary: &Summary) -> Result<(), Failure> {
    let text = if options.json { summary_json(directory, summary)? } else { report(directory, summary) };
    answer(&text, options.json)
}

/// The recording that a command is about: the one that was named, or the newest here.
pub(crate) fn open(named: Option<&Path>) -> Result<Directory, Failure> {
    Ok(match named {
        Some(path) => Directory::open(path)?,
        None => Directory::newest(&std::env::current_dir()?)?,
    })
}
