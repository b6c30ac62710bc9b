//! The options that select events and a time: those of the command line, with its messages.

use clap::Parser;
use sordino_event::text::with_causes;
use sordino_reading::OpenRecording;
use sordino_selection::{EventOptions, TimeOptions};
use sordino_tables::RecordingSource;
use std::path::Path;

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct SelectionOptions {
    #[command(flatten)]
    selection: EventOptions,
    #[command(flatten)]
    within: TimeOptions,
}

/// Opens the recording with these options, or returns the reason in words.
pub(crate) fn open(path: Option<&Path>, words: Vec<String>) -> Result<RecordingSource, String> {
    let options = SelectionOptions::try_parse_from(words).map_err(|error| {
        // The usage of a command line is no help here.
        let text = error.render().to_string();
        let (text, _) = text.split_once("\n\nUsage").unwrap_or((text.trim_end(), ""));
        let (text, _) = text.split_once("\n\nFor more").unwrap_or((text, ""));
        text.strip_prefix("error: ").unwrap_or(text).to_owned()
    })?;
    let rules = options.selection.rules().map_err(|error| with_causes(&error))?;
    let mut recording = OpenRecording::open(path).map_err(|error| with_causes(&error))?;
    let within = options.within.resolve(recording.span()).map_err(|error| with_causes(&error))?;
    recording.narrow(within.0, within.1);
    RecordingSource::new(recording, rules).map_err(|error| with_causes(&error))
}
