//! The command `sordino list`.

use crate::Failure;
use crate::terminal::{columns as terminal_columns, print, show};
use clap::Args;
use serde_json::{Value, json};
use sordino_event::text::{count, printable};
use sordino_intake::ProgramList;
use sordino_manager::text::line;
use sordino_manager::{as_json as as_json_of, program_json, program_text, sessions};
use sordino_report::{columns, tied};
use sordino_sched::Right;
use sordino_tracefs::{EventName, Tracefs};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// List kernel events, sessions, programs that can be recorded, and their tracepoints
///
/// Lists, as root, the groups of kernel events, or with -v each event; sessions; then every running program that is
/// linked with sordino, or the reason why it can't be recorded, with its tracepoints, their levels and fields.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  sordino list\n  sudo sordino list -v | grep sched_\n  sordino list --json"
)]
pub(crate) struct Options {
    /// List every kernel event, instead of the groups
    #[arg(short, long)]
    verbose: bool,
    /// Print the lists as JSON, with every kernel event
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let listing = sordino_intake::list();
    let kernel =
        Tracefs::open().and_then(|tracefs| tracefs.events()).map_err(|error| Failure::text_of(&error));
    if options.json {
        print(as_json(&listing, &kernel).to_string() + "\n")?;
    } else {
        show(&as_text(&listing, &kernel, options.verbose))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The longest list comes first, so that the programs, which interest most users, stay in view at the end.
fn as_text(listing: &ProgramList, kernel: &Result<Vec<EventName>, String>, verbose: bool) -> String {
    let mut text = match kernel {
        Ok(events) => kernel_text(events, verbose),
        Err(reason) => format!("Kernel\n  not available: {}\n", printable(reason)),
    };
    let sessions: String = sessions().iter().map(|known| format!("  {}", line(known))).collect();
    if !sessions.is_empty() {
        text += &format!("\nSessions\n{sessions}");
    }
    text += "\nPrograms\n";
    for program in &listing.programs {
        text += &program_text(program);
    }
    if listing.programs.is_empty() {
        text += "  no running program is linked with sordino\n";
    }
    if listing.hidden > 0 {
        let hidden = count(listing.hidden, "process");
        text += &format!("  {hidden} of other users can't be looked into: {}\n", Right::Trace.remedy());
    }
    text
}

fn kernel_text(events: &[EventName], verbose: bool) -> String {
    if verbose {
        return "Kernel\n".to_owned()
            + &events.iter().map(|event| format!("  {event}\n")).collect::<String>();
    }
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        *groups.entry(&event.system).or_default() += 1;
    }
    let cells: Vec<String> = groups.iter().map(|(system, count)| format!("{system} {count}")).collect();
    // As from ls, one entry in each line where the output is a pipe.
    let cells = columns(&cells, terminal_columns().unwrap_or(0));
    format!(
        "Kernel: groups of events, with their sizes ({} lists the events)\n{cells}",
        tied("sordino list -v")
    )
}

fn as_json(listing: &ProgramList, kernel: &Result<Vec<EventName>, String>) -> Value {
    let programs: Vec<Value> = listing.programs.iter().map(program_json).collect();
    let (events, problem) = match kernel {
        Ok(events) => (events.iter().map(ToString::to_string).collect(), None),
        Err(problem) => (Vec::new(), Some(problem)),
    };
    json!({
        "schema": 1,
        "sessions": sessions().iter().map(as_json_of).collect::<Vec<_>>(),
        "programs": programs,
        "hidden_processes": listing.hidden,
        "kernel": { "events": events, "problem": problem },
    })
}
