//! The command `sordino query`.

use crate::Failure;
use crate::commands::explain::format;
use crate::failure::UNUSABLE;
use crate::names::meant;
use crate::terminal::{is_terminal, layout_columns, print, show};
use crate::trace::{Recording, TimeOptions, report_misfits};
use clap::{Args, ValueEnum};
use sordino_analyze::{IntervalRule, Key, Point};
use sordino_event::Tid;
use sordino_query::{Error, IsSpanWanted, Measure, Per, Query, SpanCondition, StatisticsTable};
use sordino_report::{TableFormat, write_statistics, write_statistics_json};
use sordino_timeline::{Moment, Priority};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;

/// Measure a recording: how often and how long, by thread, CPU, interrupt, system call or field
///
/// Each measure cuts the recording into spans and prints a line for each thread (or what --per says): number, total,
/// min, median, mean, p90, p99, p99.9 and max, with the time of the longest; 'sordino explain' or 'sordino events' with
/// --around that time show why. Quantiles of more than 512 spans are exact to 1 %. Spans that touch a loss, and those that
/// the recording's begin or end cuts, are counted apart.
///
/// Without a measure, a page with the most telling ones: CPU use by thread, the worst wake-up latencies of real-time
/// threads, interrupts, losses.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino query
  sordino query latency --where '$prio < 100'
  sordino query active --per comm,cpu --from 10s --until 20s
  sordino query syscalls --where '$comm == \"motor\"' --top 5
  sordino query duration --begin net:request --end net:answer --by id
  sordino query period --event motor:period --json")]
pub(crate) struct Options {
    /// Directory of the recording [default: the newest in the current directory]
    directory: Option<PathBuf>,
    /// The measure [default: a page with several]
    #[arg(value_enum)]
    measure: Option<Name>,
    /// Take only spans that end with an event that meets this condition: bare names are its fields; $tid, $comm, $prio,
    /// $cpu, $time and the others are about the span's thread at that time
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Print a line for each thread, process, comm (all threads of a name), cpu, priority, event, irq, softirq, syscall,
    /// or field:NAME; several, separated by commas, for each combination [default: what suits the measure]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    per: Vec<Per>,
    /// Number of lines, the greatest first, 1 to 10000
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
    /// Name of the event that begins an interval of 'duration'
    #[arg(long, value_name = "EVENT", requires = "end")]
    begin: Option<String>,
    /// Name of the event that ends it
    #[arg(long, value_name = "EVENT", requires = "begin")]
    end: Option<String>,
    /// Pair begin and end events by this field, across threads [default: pair them within each thread]
    #[arg(long, value_name = "FIELD", requires = "begin")]
    by: Option<String>,
    /// Name of the event whose 'period' is measured, from each in a thread to the next one there
    #[arg(long, value_name = "EVENT", conflicts_with = "begin")]
    event: Option<String>,
    #[command(flatten)]
    within: TimeOptions,
    /// Print the tables as JSON, with all of their rows
    #[arg(long)]
    json: bool,
}

/// The measures, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Events, and their rate
    #[value(alias = "rate")]
    Count,
    /// Time for which threads have a CPU, and its share of the recording's
    Active,
    /// Stretches for which threads have a CPU
    Slices,
    /// Waits from a wake-up until the thread has a CPU
    Latency,
    /// Waits from a preemption until the thread has a CPU again
    Preemption,
    /// Sleeps until a wake-up
    Sleep,
    /// Intervals from --begin to --end
    Duration,
    /// Intervals from each --event to the next one in the same thread
    Period,
    /// System calls, from entry to exit
    Syscalls,
    /// Handlers of interrupts, from entry to exit
    Irqs,
    /// Handlers of softirqs, from entry to exit
    Softirqs,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (directory, name) = operands(options);
    let mut recording = Recording::open(directory)?;
    let tables = tables(&mut recording, name, options).map_err(|failure| recording.failing(failure))?;
    let mut text = Vec::new();
    if options.json {
        write_statistics_json(&tables, &mut text)?;
        print(&text)?;
    } else {
        let format = TableFormat {
            time: format(&recording).time,
            top: if name.is_some() { options.top as usize } else { options.top.min(5) as usize },
            brief: name.is_none(),
            histogram: name.is_some() && is_terminal(),
            width: layout_columns(),
        };
        for (number, table) in tables.iter().enumerate() {
            text.extend_from_slice(if number > 0 { b"\n" } else { b"" });
            write_statistics(table, format, &mut text)?;
        }
        show(&String::from_utf8_lossy(&text))?;
    }
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the directory and the measure. A single word that names a measure is one, unless it is a directory.
fn operands(options: &Options) -> (Option<&Path>, Option<Name>) {
    let directory = options.directory.as_deref();
    let word = directory.filter(|path| options.measure.is_none() && !path.exists());
    match word.and_then(|path| Name::from_str(path.to_str()?, false).ok()) {
        Some(name) => (None, Some(name)),
        None => (directory, options.measure),
    }
}

fn tables(
    recording: &mut Recording,
    name: Option<Name>,
    options: &Options,
) -> Result<Vec<StatisticsTable>, Failure> {
    recording.limit(&options.within)?;
    let ends = options.end.as_deref().or(options.event.as_deref());
    let condition = options.condition.as_deref().map(|text| recording.condition(text, ends.as_slice()));
    let condition = condition.transpose()?;
    let mut queries = match name {
        Some(name) => vec![query(recording, measure(name, options)?, options, condition.as_ref(), None)?],
        None => page(recording, options, condition.as_ref())?,
    };
    recording.pass_with_lead(Some("measuring"), |item| {
        queries.iter_mut().for_each(|query| query.take(item));
        Ok(true)
    })?;
    condition.iter().for_each(|condition| report_misfits(condition));
    Ok(queries.into_iter().map(Query::finish).collect())
}

/// Returns the queries of the page: those for which the recording has events.
fn page(
    recording: &Recording,
    options: &Options,
    condition: Option<&Rc<SpanCondition>>,
) -> Result<Vec<Query>, Failure> {
    let recorded = recording.super_trace().recorded();
    let is_real_time: IsReal =
        |moment, tid| tid.and_then(|tid| moment.system.priority(tid)).is_some_and(Priority::is_real_time);
    let measures = [(Measure::Active, None), (Measure::Latency, Some(is_real_time)), (Measure::Irqs, None)];
    let mut queries = Vec::new();
    let mut lacking = BTreeSet::new();
    for (measure, only) in measures {
        let missing = measure.missing(recorded);
        lacking.extend(missing.iter().map(|missing| missing.group));
        if missing.iter().all(|missing| !missing.is_needed) {
            queries.push(query(recording, measure, options, condition, only)?);
        }
    }
    if !lacking.is_empty() {
        let groups = lacking.into_iter().collect::<Vec<_>>().join(",");
        message!(
            "sordino: more is measured where the kernel's events are recorded: sudo sordino record --kernel {groups}"
        );
    }
    if queries.is_empty() {
        queries.push(query(recording, Measure::Count, options, condition, None)?);
    }
    Ok(queries)
}

/// A function that returns true for the spans of real-time threads.
type IsReal = fn(&Moment<'_>, Option<Tid>) -> bool;

fn query(
    recording: &Recording,
    measure: Measure,
    options: &Options,
    condition: Option<&Rc<SpanCondition>>,
    only: Option<IsReal>,
) -> Result<Query, Failure> {
    let recorded = recording.super_trace().recorded();
    for missing in measure.missing(recorded).iter().filter(|missing| !missing.is_needed) {
        message!("sordino: some parts are unknown: record with --kernel {}, too", missing.group);
    }
    let query = Query::new(&recording.classes, recorded, measure, &options.per);
    let query = query.map_err(|error| refused(&error, recording))?.since(recording.begin());
    let condition = condition.cloned();
    Ok(match (condition, only) {
        (None, None) => query,
        (condition, only) => {
            let is_wanted: IsSpanWanted = Box::new(move |moment, tid| {
                condition.as_ref().is_none_or(|condition| condition.is_met(moment, tid))
                    && only.is_none_or(|only| only(moment, tid))
            });
            query.only(is_wanted)
        }
    })
}

fn measure(name: Name, options: &Options) -> Result<Measure, Failure> {
    let needs = |what: &str| Failure::new(UNUSABLE, format!("the measure needs {what}"));
    Ok(match name {
        Name::Count => Measure::Count,
        Name::Active => Measure::Active,
        Name::Slices => Measure::Slices,
        Name::Latency => Measure::Latency,
        Name::Preemption => Measure::Preemption,
        Name::Sleep => Measure::Sleep,
        Name::Syscalls => Measure::Syscalls,
        Name::Irqs => Measure::Irqs,
        Name::Softirqs => Measure::Softirqs,
        Name::Period => {
            let event = options.event.as_deref().ok_or_else(|| needs("--event"))?;
            Measure::Duration(IntervalRule::between(event))
        }
        Name::Duration => {
            let both = options.begin.as_ref().zip(options.end.as_ref());
            let (begin, end) = both.ok_or_else(|| needs("--begin and --end"))?;
            let key = || options.by.as_ref().map_or(Key::Thread, |field| Key::Field(field.clone()));
            let point = |event: &String| Point { event: event.clone(), key: key() };
            Measure::Duration(IntervalRule { begin: point(begin), end: point(end) })
        }
    })
}

/// Returns the failure with the nearest names, or with the way to record what is missing.
fn refused(error: &Error, recording: &Recording) -> Failure {
    let classes = || recording.classes.iter().map(|(_, class)| class);
    let near = match error {
        Error::Rule(sordino_analyze::Error::Event { event }) => {
            meant(event, classes().map(|class| class.name.as_str()))
        }
        Error::Rule(sordino_analyze::Error::Field { field, .. }) | Error::Field(field) => {
            meant(field, classes().flat_map(|class| class.fields.iter().map(String::as_str)))
        }
        _ => None,
    };
    let near = near.map_or(String::new(), |near| format!("; {near}"));
    Failure::new(UNUSABLE, Failure::text_of(error) + &near)
}
