//! The command `sordino status`.

use super::known::Known;
use super::place::{Life, Place};
use super::text;
use crate::Failure;
use crate::terminal::answer;
use clap::Args;
use serde_json::{Value, json};
use sordino_collect::{Directory, user_events_so_far};
use sordino_session::{Reply, Request};
use std::process::ExitCode;

/// Show the state of sessions
///
/// For each: whether it records, its programs and rings, losses, the cost of its recorder, its recordings.
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
        Some(name) => vec![counted(look(Place::of(name)?))],
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

/// Returns this user's sessions.
pub(crate) fn sessions() -> Vec<Known> {
    Place::all().into_iter().map(look).collect()
}

fn look(place: Place) -> Known {
    let life = place.life().unwrap_or(Life::Died);
    let reply = (life == Life::Running).then(|| place.ask(&Request::Status));
    let (status, silent) = match reply {
        Some(Ok(Reply::Status(status))) => (Some(*status), None),
        Some(Ok(other)) => {
            (None, Some(format!("its recorder is another version of sordino: it replied {other:?}")))
        }
        Some(Err(failure)) => (None, Some(failure.text().to_owned())),
        None => (None, None),
    };
    Known { place, life, status, silent }
}

/// Adds the number of events in the recording that is being written: it takes time, which only a user who asks for one
/// session waits for.
fn counted(mut known: Known) -> Known {
    let recordings = known.status.iter_mut().flat_map(|status| &mut status.recordings);
    for recording in recordings.filter(|recording| !recording.finished) {
        let directory = Directory::open(&recording.directory).ok();
        recording.user_events_so_far = directory.and_then(|directory| user_events_so_far(&directory));
    }
    known
}

pub(crate) fn as_json(known: &Known) -> Value {
    let state = match known.life {
        Life::Running => "running",
        Life::Stopped => "stopped",
        Life::Died => "died",
    };
    let output = known.place.definition().ok().map(|definition| definition.output);
    json!({ "name": known.place.name, "state": state, "output": output, "silent": known.silent, "status": known.status })
}
