//! The command `sordino status`.

use crate::Failure;
use crate::terminal::answer;
use clap::Args;
use serde_json::json;
use sordino_manager::{SessionPlace, as_json, counted, look, sessions, text};
use std::process::ExitCode;

/// Show the state of sessions
///
/// Shows for each session whether it records, its programs and the memory of their events, losses, the cost of its
/// recorder, and its recordings.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  sordino status\n  sordino status motor --json")]
pub(crate) struct Options {
    /// Session to show in detail [default: all sessions, one line each]
    name: Option<String>,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let known = match &options.name {
        Some(name) => vec![counted(look(SessionPlace::of(name)?))],
        None => sessions(),
    };
    let text = if options.json {
        json!({ "schema": 1, "sessions": known.iter().map(as_json).collect::<Vec<_>>() }).to_string() + "\n"
    } else if known.is_empty() {
        "there is no session; begin one with: sordino start NAME\n".to_owned()
    } else if options.name.is_some() {
        known.iter().map(text::whole).collect()
    } else {
        known.iter().map(text::line).collect()
    };
    answer(&text, options.json)?;
    Ok(ExitCode::SUCCESS)
}
