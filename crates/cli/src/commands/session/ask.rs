//! The commands that send a request to a session's recorder: `sordino snapshot`, `rotate`, `enable`, `disable`,
//! `attach`, `stop`, `destroy`.

use crate::Failure;
use crate::failure::{NO, UNUSABLE};
use crate::progress::Progress;
use crate::terminal::{answer, show};
use crate::words::pid;
use clap::Args;
use serde_json::json;
use sordino_collect::text::missing as missing_text;
use sordino_collect::{Kind, Shortfall, UnwrittenData};
use sordino_event::text::printable;
use sordino_manager::text::{lines, shown};
use sordino_manager::{Life, SessionPlace};
use sordino_quantity::duration;
use sordino_report::tied;
use sordino_session::{Reply, Request};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Write the events that a flight recorder has in memory, while it continues
///
/// A flight recorder is a session that was started with --overwrite. The newest events of all programs and of the
/// kernel's buffers become a complete recording, which 'sordino explain', 'sordino events' and babeltrace2 read.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sordino snapshot box\n  sordino snapshot box --last 100ms --why 'a click at 12:03'"
)]
pub(crate) struct SnapshotOptions {
    /// Name of the session
    name: String,
    /// Limit the snapshot to the events of this time before it, such as 100ms; memory is copied in whole parts
    /// (sub-buffers), so it may have older events, too [default: that of --last at 'sordino start']
    #[arg(long, value_name = "TIME", value_parser = duration)]
    last: Option<Duration>,
    /// Reason for the snapshot, which its summary and 'sordino status' show
    #[arg(long, value_name = "TEXT", default_value = "requested")]
    why: String,
    /// Print the snapshot's path and a count of missing data as JSON
    #[arg(long)]
    json: bool,
}

/// Complete the recording that a session writes (its current chunk), and continue in a new one
///
/// The completed chunk is a recording of its own, which 'sordino explain', 'sordino events' and babeltrace2 read. A
/// flight recorder (--overwrite) has no chunks: use 'sordino snapshot' for one.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino rotate motor")]
pub(crate) struct RotateOptions {
    /// Name of the session
    name: String,
    /// Print the chunk's path and a count of missing data as JSON
    #[arg(long)]
    json: bool,
}

/// Enables or disables tracepoints of a session while it records.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sordino enable motor 'motor:*, net:tx if len > 1500'\n  sordino disable motor 'motor:noise*'"
)]
pub(crate) struct EventsOptions {
    /// Name of the session
    name: String,
    /// Names or globs of tracepoints, such as 'motor:*'; 'enable' also accepts conditions, as --user of 'sordino
    /// record' does. The change takes effect at once, without a restart
    #[arg(required = true)]
    events: Vec<String>,
}

/// Record further processes in a running session
///
/// Needed in a session that was started with --pid or a COMMAND and records only those processes; any other session
/// finds programs by itself.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino attach motor 4711")]
pub(crate) struct AttachProcessOptions {
    /// Name of the session
    name: String,
    /// Ids of the processes, separated by spaces
    #[arg(required = true, value_parser = pid)]
    pids: Vec<i32>,
}

/// End a session
///
/// Completes its recordings; a flight recorder (--overwrite) takes a last snapshot first. 'sordino start NAME' starts
/// the session again.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino stop motor")]
pub(crate) struct StopOptions {
    /// Name of the session
    name: String,
    /// Take no last snapshot if the session is a flight recorder (--overwrite)
    #[arg(long)]
    no_snapshot: bool,
    /// Print the paths of the session's recordings, a count of missing data, and the rules that matched no tracepoint,
    /// as JSON
    #[arg(long)]
    json: bool,
}

/// End a session and remove its definition
///
/// Its recordings stay; its options are removed, so that 'sordino start NAME' would begin a new session.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  sordino destroy motor")]
pub(crate) struct DestroyOptions {
    /// Name of the session
    name: String,
    /// Take no last snapshot if the session is a flight recorder (--overwrite)
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

/// Requests the completion of a recording, and prints its path. The completion may take long, so the recorder first has
/// to reply to another request.
fn written(name: &str, request: &Request, json: bool) -> Result<ExitCode, Failure> {
    let place = SessionPlace::of(name)?;
    place.request(&Request::Status)?;
    let reply = {
        let mut progress = Progress::new(true);
        progress.doing("the session writes");
        place.request(request)?
    };
    let Reply::Written { directory, missing } = reply else { return Err(unexpected(&reply)) };
    let path = directory.to_string_lossy();
    let path = printable(&path);
    let text = if json {
        let reply = json!({ "schema": 1, "session": name, "directory": directory, "missing": missing });
        reply.to_string() + "\n"
    } else {
        let read = tied(&format!("sordino explain {path}"));
        format!("{}{path}\n  read it with: {read}\n", missing_text(&missing))
    };
    answer(&text, json)?;
    Ok(verdict(&missing))
}

/// Returns exit status 1 if any data could not be written.
fn verdict(missing: &UnwrittenData) -> ExitCode {
    if missing.is_any() { ExitCode::from(NO) } else { ExitCode::SUCCESS }
}

pub(crate) fn enable(options: &EventsOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Enable { events: options.events.join(",") })
}

pub(crate) fn disable(options: &EventsOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Disable { events: options.events.join(",") })
}

pub(crate) fn attach(options: &AttachProcessOptions) -> Result<ExitCode, Failure> {
    done(&options.name, &Request::Attach { pids: options.pids.clone() })
}

fn done(name: &str, request: &Request) -> Result<ExitCode, Failure> {
    match SessionPlace::of(name)?.request(request)? {
        Reply::Done => Ok(ExitCode::SUCCESS),
        // Programs that start later may have the missing tracepoints or fields.
        Reply::Changed { rules } => {
            rules.iter().for_each(|problem| message!("so far, {problem}"));
            Ok(ExitCode::SUCCESS)
        }
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Failure {
    Failure::new(
        UNUSABLE,
        format!("the session's recorder is another version of sordino: it replied {reply:?}"),
    )
}

pub(crate) fn stop(options: &StopOptions) -> Result<ExitCode, Failure> {
    let place = SessionPlace::of(&options.name)?;
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
        missing_text(&missing) + &recordings(&place.name, &output, &written) + &lines(&shortfall)
    };
    answer(&text, options.json)?;
    Ok(verdict(&missing))
}

/// Returns the recordings of a session that has ended, with its directory.
fn recordings(name: &str, output: &Path, recordings: &[PathBuf]) -> String {
    let mut text = format!("session '{name}' is stopped; in {}:\n", shown(output));
    for path in recordings {
        text += &format!("  {}\n", shown(Path::new(path.file_name().unwrap_or_default())));
    }
    match recordings.last() {
        Some(last) => {
            text + &format!("read the last with: {}\n", tied(&format!("sordino explain {}", shown(last))))
        }
        None => text + "  nothing\n",
    }
}

/// Ends the recorder and waits until everything is written. Returns the data that could not be written, and the
/// shortfall of the session.
fn end(place: &SessionPlace, snapshot: bool) -> Result<(UnwrittenData, Shortfall), Failure> {
    place.request(&Request::Status)?;
    let mut progress = Progress::new(true);
    progress.doing("completing the recordings");
    let ended = place.request(&Request::Stop { snapshot });
    place.wait()?;
    match ended? {
        Reply::Ended { missing, shortfall } => Ok((missing, shortfall)),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn destroy(options: &DestroyOptions) -> Result<ExitCode, Failure> {
    let place = SessionPlace::of(&options.name)?;
    let missing = match place.life()? {
        Life::Running => end(&place, !options.no_snapshot)?.0,
        _ => UnwrittenData::default(),
    };
    let Some(_lock) = place.lock()? else {
        return Err(Failure::new(UNUSABLE, format!("session '{}' was started again meanwhile", place.name)));
    };
    place.remove()?;
    show(&missing_text(&missing))?;
    Ok(verdict(&missing))
}
