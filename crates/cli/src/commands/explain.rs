//! `sordino explain`

use crate::Failure;
use crate::arguments::duration;
use crate::commands::events::Times;
use crate::failure::{NO, UNUSABLE};
use crate::terminal::{columns, is_terminal, print_in_color};
use crate::trace::Recording;
use clap::Args;
use sordino_analyze::{Explainer, Finder, Findings, Key, Options as Wanted, Point, Rule, Thread};
use sordino_event::{Classes, Domain, Nanos};
use sordino_report::{FindingsFormat, write_findings, write_findings_json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Say what took the time in the longest intervals of a recording
///
/// An interval lies between two events of one kind in one thread (npt's loop by default), or between a begin and an end
/// event of one thread or of the same value of a field. Its time is split by what took it: interrupts, softirqs, page
/// faults, system calls, other threads, sleep, the thread's own code. The parts are net and add up; what no event
/// explains is named as such.
///
/// Exit status: 1 if --over is given and an interval is longer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino explain
  sordino explain --event motor:period --over 50us
  sordino explain --begin net:request --end net:answer --by id --top 3 --json")]
pub(crate) struct Options {
    /// The recording's directory; the newest in this directory if none is named
    directory: Option<PathBuf>,
    /// The longest ones
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// All that are longer; the exit status is 1 if there are any
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with = "top")]
    over: Option<Duration>,
    /// From each of these events of a thread to its next one
    #[arg(short, long, value_name = "NAME", default_value = "npt:loop", conflicts_with_all = ["begin", "end"])]
    event: String,
    /// From this event
    #[arg(long, value_name = "EVENT", requires = "end")]
    begin: Option<String>,
    /// To this event
    #[arg(long, value_name = "EVENT", requires = "begin")]
    end: Option<String>,
    /// Begin and end belong together that have the same value in this field; across threads
    #[arg(long, value_name = "FIELD", requires = "begin")]
    by: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = Recording::open(options.directory.as_deref())?;
    let wanted = match options.over {
        Some(over) => Wanted { longest: usize::MAX, limit: Some(nanos(over)), ..Wanted::default() },
        None => Wanted { longest: options.top as usize, ..Wanted::default() },
    };
    let findings = explain(&mut recording, rule(options), wanted, None)?;
    let mut text = Vec::new();
    if options.json {
        write_findings_json(&findings, &mut text)?;
    } else {
        write_findings(&findings, format(&recording), &mut text)?;
    }
    print_in_color(&text)?;
    recording.close()?;
    let exceeded = options.over.is_some() && findings.ranked > 0;
    Ok(if exceeded { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn nanos(time: Duration) -> Nanos {
    Nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

fn rule(options: &Options) -> Rule {
    let (Some(begin), Some(end)) = (&options.begin, &options.end) else {
        return Rule::between(&options.event);
    };
    let key = || options.by.as_ref().map_or(Key::Thread, |field| Key::Field(field.clone()));
    let point = |event: &String| Point { event: event.clone(), key: key() };
    Rule { begin: point(begin), end: point(end) }
}

/// Two passes: which intervals there are, of `only` these threads if that is given, and what took the time in the longest.
pub(crate) fn explain(
    recording: &mut Recording,
    rule: Rule,
    wanted: Wanted,
    only: Option<fn(&Thread) -> bool>,
) -> Result<Findings, Failure> {
    let finder = Finder::new(&recording.classes, rule);
    let mut finder = finder.map_err(|error| unknown(&error, &recording.classes))?;
    if let Some(only) = only {
        finder = finder.only(only);
    }
    recording.pass(Some("looking for intervals"), |item| {
        finder.take(item);
        Ok(true)
    })?;
    let recorded = recording.super_trace().recorded();
    let mut explainer = Explainer::new(finder.finish(), recorded, wanted);
    recording.pass(Some("explaining them"), |item| {
        explainer.take(item);
        Ok(true)
    })?;
    Ok(explainer.finish())
}

/// How findings look on this terminal, or elsewhere.
pub(crate) fn format(recording: &Recording) -> FindingsFormat {
    FindingsFormat {
        time: Times::Clock.format(recording.span().0),
        color: is_terminal(),
        width: usize::from(columns().unwrap_or(100)).clamp(80, 120),
    }
}

/// The error with what could have been meant: the nearest names, or those of the programs.
fn unknown(error: &sordino_analyze::Error, classes: &Classes) -> Failure {
    let text = Failure::text_of(error);
    let names = |pick: &dyn Fn(&str, Domain) -> bool| {
        let all = classes.iter().filter(|(_, class)| pick(&class.name, class.domain));
        let mut names: Vec<&str> = all.map(|(_, class)| &*class.name).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(12);
        names.join(", ")
    };
    let sordino_analyze::Error::Event { event } = error else { return Failure::new(UNUSABLE, text) };
    let near = names(&|name, _| strsim::jaro_winkler(name, event) > 0.85);
    let hint = match (near.is_empty(), names(&|_, domain| domain == Domain::User)) {
        (false, _) => format!("did you mean {near}?"),
        (true, user) if user.is_empty() => {
            "it has the kernel's events only; name one with --event".to_owned()
        }
        (true, user) => format!("name one with --event: {user}"),
    };
    Failure::new(UNUSABLE, format!("{text}; {hint}"))
}
