//! `sordino snapshot`, `rotate`, `enable`, `disable`, `attach`, `stop`, `destroy`

use super::place::{Life, Place};
use super::text::{lines, recordings};
use crate::Failure;
use crate::arguments::{duration, pid};
use crate::failure::{NO, UNUSABLE};
use crate::missing;
use crate::progress::Progress;
use crate::terminal::{answer, show};
use clap::Args;
use serde_json::json;
use sordino_collect::{Kind, Missing, Reply, Request, Shortfall};
use sordino_event::text::printable;
use sordino_report::tied;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Write what a flight recorder has in memory, while it goes on
///
/// The newest data of all rings and of the kernel's buffers becomes a complete recording: 'sordino explain' and babeltrace2 read it.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sordino snapshot box\n  sordino snapshot box --last 100ms --why 'a click at 12:03'"
)]
pub(crate) struct SnapshotOptions {
    /// The session
    name: String,
    /// So much of the time before [default: as the session was started]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    last: Option<Duration>,
    /// What the snapshot says of why it was taken
    #[arg(long, value_name = "TEXT", default_value = "asked for")]
    why: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Complete what a session has written, and go on in another chunk
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino rotate motor")]
pub(crate) struct RotateOptions {
    /// The session
    name: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// The tracepoints that a session is to record, or no longer
///
/// Takes effect with the programs' next hits; nothing is started anew.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sordino enable motor 'motor:*, net:tx if len > 1500'\n  sordino disable motor 'motor:noise*'"
)]
pub(crate) struct EventsOptions {
    /// The session
    name: String,
    /// Rules as for --user; names and globs alone to disable
    #[arg(required = true)]
    events: Vec<String>,
}

/// Have a session record running processes too
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino attach motor 4711")]
pub(crate) struct AttachOptions {
    /// The session
    name: String,
    /// Their numbers
    #[arg(required = true, value_parser = pid)]
    pids: Vec<i32>,
}

/// End a session
///
/// What it recorded is complete then; a flight recorder takes a last snapshot. 'sordino start NAME' goes on with it.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino stop motor")]
pub(crate) struct StopOptions {
    /// The session
    name: String,
    /// Without the last snapshot
    #[arg(long)]
    no_snapshot: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// End a session and forget it; its recordings stay
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino destroy motor")]
pub(crate) struct DestroyOptions {
    /// The session
    name: String,
    /// Without the last snapshot
    #[arg(long)]
    no_snapshot: bool,
}

pub(crate) fn snapshot(options: &SnapshotOptions) -> Result<ExitCode, Failure> {
    let last_ns = options.last.map(|last| u64::try_from(last.as_nanos()).unwrap_or(u64::MAX));
    written(&options.name, &Request::Snapshot { last_ns, why: options.why.clone() }, options.json)
}

pub(crate) fn rotate(options: &RotateOptions) -> Result<ExitCode, Failure> {
    written(&options.name, &Request::Rotate, options.json)
}

/// Asks for a recording to be completed, which takes its time, so first whether anybody answers at all; says where it is.
fn written(name: &str, request: &Request, json: bool) -> Result<ExitCode, Failure> {
    let place = Place::of(name)?;
    place.ask(&Request::Status)?;
    let reply = {
        let mut progress = Progress::new(true);
        progress.doing("the session writes");
        place.ask(request)?
    };
    let Reply::Written { directory, missing } = reply else { return Err(unexpected(&reply)) };
    let path = directory.to_string_lossy();
    let path = printable(&path);
    let text = if json {
        let reply = json!({ "schema": 1, "session": name, "directory": directory, "missing": missing });
        reply.to_string() + "\n"
    } else {
        let read = tied(&format!("sordino explain {path}"));
        format!("{}{path}\n  read it with: {read}\n", missing::line(&missing))
    };
    answer(&text, json)?;
    Ok(verdict(&missing))
}

/// Exit status 1 if something could not be written.
fn verdict(missing: &Missing) -> ExitCode {
    if missing.is_any() { ExitCode::from(NO) } else { ExitCode::SUCCESS }
}

pub(crate) fn enable(options: &EventsOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Enable { events: options.events.join(",") })
}

pub(crate) fn disable(options: &EventsOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Disable { events: options.events.join(",") })
}

pub(crate) fn attach(options: &AttachOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Attach { pids: options.pids.clone() })
}

fn done(name: &str, request: &Request) -> Result<ExitCode, Failure> {
    match Place::of(name)?.ask(request)? {
        Reply::Done => Ok(ExitCode::SUCCESS),
        // Programs that start later may have what is missing.
        Reply::Changed { rules } => {
            rules.iter().for_each(|problem| message!("so far, {problem}"));
            Ok(ExitCode::SUCCESS)
        }
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::new(UNUSABLE, format!("the session's recorder is another sordino: it answered {reply:?}"))
}

pub(crate) fn stop(options: &StopOptions) -> Result<ExitCode, Failure> {
    let place = Place::of(&options.name)?;
    let (missing, shortfall) = end(&place, !options.no_snapshot)?;
    let output = place.definition()?.output;
    let written: Vec<PathBuf> = [Kind::Chunk, Kind::Snapshot]
        .iter()
        .flat_map(|&kind| sordino_collect::recordings(&output, kind))
        .map(|directory| directory.path().to_owned())
        .collect();
    let text = if options.json {
        json!({
            "schema": 1, "session": place.name, "output": output, "recordings": written, "missing": missing,
            "shortfall": shortfall,
        })
        .to_string()
            + "\n"
    } else {
        missing::line(&missing) + &recordings(&place.name, &output, &written) + &lines(&shortfall)
    };
    answer(&text, options.json)?;
    Ok(verdict(&missing))
}

/// Ends the recorder and waits until all is written; what could not be, and what the session was to record and did not.
fn end(place: &Place, snapshot: bool) -> Result<(Missing, Shortfall), Failure> {
    place.ask(&Request::Status)?;
    let mut progress = Progress::new(true);
    progress.doing("completing what was recorded");
    let ended = place.ask(&Request::Stop { snapshot });
    place.wait()?;
    match ended? {
        Reply::Ended { missing, shortfall } => Ok((missing, shortfall)),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn destroy(options: &DestroyOptions) -> Result<ExitCode, Failure> {
    let place = Place::of(&options.name)?;
    let missing = match place.life()? {
        Life::Running => end(&place, !options.no_snapshot)?.0,
        _ => Missing::default(),
    };
    let Some(_lock) = place.lock()? else {
        return Err(Failure::new(UNUSABLE, format!("session '{}' was started again meanwhile", place.name)));
    };
    place.remove()?;
    show(&missing::line(&missing))?;
    Ok(verdict(&missing))
}
