//! `sordino recover`

use crate::Failure;
use crate::commands::record::{report, summary_json};
use crate::privilege::target;
use crate::progress::Progress;
use clap::Args;
use sordino_collect::{Directory, State, Summary};
use std::path::PathBuf;
use std::process::ExitCode;

/// Finish a recording whose recorder was killed
///
/// Cuts off what was being written at that moment, turns the kernel's pages into a trace, and says what is there.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino recover sordino-20260131-120000")]
pub(crate) struct Options {
    /// The recording's directory; the newest in this directory if none is named
    directory: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let directory = open(options.directory.as_deref())?;
    let is_finished = Summary::read(&directory)?.state != State::Recording;
    if is_finished {
        message!("{} is already finished", directory.path().display());
    }
    let summary = {
        let mut progress = Progress::new(true);
        sordino_collect::recover(&directory, &mut progress)?
    };
    // It was ours alone, or it would not have been completed. But whoever put a link to it where it was looked for is not to have it.
    let reader =
        target(None)?.filter(|reader| !is_finished && directory.dir().lies_with(reader.uid.as_raw()));
    if let Some(reader) = reader {
        directory.dir().give(reader.uid.as_raw(), reader.gid.as_raw());
    }
    let text = if options.json { summary_json(&directory, &summary)? } else { report(&directory, &summary) };
    crate::commands::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The recording that a command is about: the one that was named, or the newest here.
pub(crate) fn open(named: Option<&std::path::Path>) -> Result<Directory, Failure> {
    Ok(match named {
        Some(path) => Directory::open(path)?,
        None => Directory::newest(&std::env::current_dir()?)?,
    })
}
