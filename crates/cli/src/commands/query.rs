//! The command `sordino query`.

use crate::Failure;
use crate::commands::explain::{explain_survey, format};
use crate::commands::queries::Queries;
use crate::commands::refused::refused;
use crate::failure::UNUSABLE;
use crate::picture::PictureFile;
use crate::recording::{AlignOptions, OverheadOptions, Recording, report_misfits};
use crate::terminal::{is_terminal, layout_columns, print, show};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Command};
use sordino_analyze::{ExplainOptions, Findings};
use sordino_collect::names::meant;
use sordino_draw::{distributions, statistics_chart};
use sordino_event::Tid;
use sordino_event::text::printable;
use sordino_intervals::{Finder, FoundInterval, IntervalRule, Survey};
use sordino_quantity::duration;
use sordino_query::{
    MEASURES, Measure, MeasureEvents, Per, PeriodSample, Periods, Query, SpanCondition, SpanSelector,
    StatisticsTable,
};
use sordino_report::{
    TableFormat, write_findings, write_findings_json, write_statistics, write_statistics_json,
};
use sordino_selection::TimeOptions;
use sordino_timeline::{Moment, Priority};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// Measure a recording: how often and how long, by thread, CPU, interrupt, system call or field
///
/// Each measure is about spans: times from a begin to an end, such as the waits of a thread for a CPU. It prints a line
/// for each thread (or what --per names): number, total, min, median, mean, p90, p99, p99.9 and max of the spans'
/// lengths, with the time of the longest; 'sordino explain' or 'sordino events' with --around that time show why.
/// Quantiles of more than 512 spans are exact to 1 %. Spans that touch a loss, and those that the recording's begin or
/// end cuts, are counted apart.
///
/// Without a measure, it prints a page with the most telling ones: CPU use by thread, the worst wake-up latencies of
/// real-time threads, interrupts, losses.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino query
  sordino query latency --where '$prio < 100'
  sordino query active --per comm,cpu --from 10s --until 20s
  sordino query syscalls --where '$comm == \"motor\"' --top 5
  sordino query duration --begin net:request --end net:answer --by id
  sordino query jitter --event motor:period --every 1ms
  sordino query calls --top 10
  sordino query robot arm count --per host,event
  sordino query locks --per holder,address --explain 3
  sordino query latency --where '$prio < 100' --plot latency.svg
  sordino query period --event motor:period --json")]
pub(crate) struct Options {
    /// Directories of the recordings, which are merged [default: the newest in the current directory], before or after
    /// the name of the measure [default: a page with several]
    #[arg(value_name = "DIRECTORY|MEASURE", value_parser = Operand)]
    operands: Vec<PathBuf>,
    #[command(flatten)]
    align: AlignOptions,
    #[command(flatten)]
    selection: SpanOptions,
    /// Number of lines to print, 1 to 10000: those of the longest waits (latency, preemption, reactivity, jitter), the
    /// most events (count), or the greatest total (others)
    #[arg(short, long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    top: u32,
    /// Also explain the causes of the N longest spans, 1 to 1000, as 'sordino explain' does; with --json, in a second
    /// line
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    explain: Option<u32>,
    /// Also draw the distribution of the spans' lengths for each of the first 20 lines, into this file, replaced if it
    /// exists; its ending, .svg or .png, is its format
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print the tables as JSON, with all of their rows
    #[arg(long)]
    json: bool,
}

/// The options that choose the spans of a measure, and the lines of a table.
#[derive(Args, Debug)]
pub(crate) struct SpanOptions {
    /// Take only spans (times that a measure is about) that end with an event that meets this condition, such as '$comm
    /// == "motor" && $prio < 100': fields are those of the event; $tid, $comm (name), $prio (below 100: real-time),
    /// $cpu, $time and the others of 'sordino events --where' are about the span's thread at that time
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Print a line for each value of this, or of several such as comm,syscall for each combination: thread, process,
    /// comm (all threads of a name), cpu, priority, event, irq, softirq, syscall, fiber (user-level thread), host,
    /// holder (thread that ended the wait for a lock), address (of a lock), function, link (of a critical path), or
    /// field:NAME [default: what suits the measure]
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',')]
    per: Vec<Per>,
    /// Name of the event that begins an interval of 'duration' or 'path', such as net:request
    #[arg(long, value_name = "EVENT", requires = "end")]
    begin: Option<String>,
    /// Name of the event that ends an interval of 'duration' or 'path', such as net:answer
    #[arg(long, value_name = "EVENT", requires = "begin")]
    end: Option<String>,
    /// Pair begin and end events that have the same value in this field, such as id, also across threads [default: pair
    /// them within each thread]
    #[arg(long, value_name = "FIELD", requires = "begin")]
    by: Option<String>,
    /// Name of an event, such as motor:period: 'period', 'jitter' and 'path' measure from each one to the next in the
    /// same thread, 'jobs' from each one until the thread sleeps
    #[arg(long, value_name = "EVENT", conflicts_with = "begin")]
    event: Option<String>,
    /// Nominal period, such as 1ms, from which 'jitter' measures the deviations [default: the median of each thread's
    /// periods]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    #[command(flatten)]
    within: TimeOptions,
    #[command(flatten)]
    overhead: OverheadOptions,
}

/// Returns the parser of a measure's name, which lists them all.
pub(crate) fn measures() -> PossibleValuesParser {
    PossibleValuesParser::new(MEASURES.map(|(name, help)| PossibleValue::new(name).help(help)))
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (directories, name) = operands(options)?;
    let mut recording = Recording::open_all(directories, &options.align)?;
    let plot = PictureFile::of("--plot", options.plot.as_ref())?;
    let measured = tables(&mut recording, name, options)
        .and_then(|(tables, survey)| Ok((tables, explained(&mut recording, survey, options)?)));
    let (tables, findings) = measured.map_err(|failure| recording.failing(failure))?;
    let mut text = Vec::new();
    if options.json {
        write_statistics_json(&tables, &mut text)?;
        findings.iter().try_for_each(|findings| write_findings_json(findings, &mut text))?;
        print(&text)?;
    } else {
        let format = TableFormat {
            time: self::format(&recording).time,
            top: if name.is_some() { options.top as usize } else { options.top.min(5) as usize },
            brief: name.is_none(),
            histogram: name.is_some() && is_terminal(),
            width: layout_columns(),
        };
        for (number, table) in tables.iter().enumerate() {
            text.extend_from_slice(if number > 0 { b"\n" } else { b"" });
            write_statistics(table, format, &mut text)?;
        }
        if let Some(findings) = &findings {
            text.push(b'\n');
            write_findings(findings, self::format(&recording), &mut text)?;
        }
        show(&String::from_utf8_lossy(&text))?;
    }
    plot.into_iter()
        .try_for_each(|mut plot| plot.write(&picture(&recording, &tables, options.top as usize)?))?;
    recording.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the lengths of the tables' first rows as a picture.
///
/// # Errors
/// No table has lengths.
fn picture(recording: &Recording, tables: &[StatisticsTable], top: usize) -> Result<String, Failure> {
    let with_lengths = tables.iter().filter(|table| table.has_lengths);
    let charts: Vec<_> = with_lengths.map(|table| statistics_chart(table, top)).collect();
    let picture = distributions(&recording.title(), &["the recording"], &charts);
    if picture.is_empty() {
        let measures: Vec<&str> = tables.iter().map(|table| table.measure).collect();
        let text =
            format!("--plot: nothing to draw: {} has no spans with a length here", measures.join(", "));
        return Err(Failure::new(UNUSABLE, text));
    }
    Ok(picture)
}

/// Explains the longest spans, if they were collected.
fn explained(
    recording: &mut Recording,
    survey: Option<Survey>,
    options: &Options,
) -> Result<Option<Findings>, Failure> {
    let Some((survey, longest)) = survey.zip(options.explain) else { return Ok(None) };
    recording.require_one_host("--explain")?;
    let chosen = ExplainOptions { longest: longest as usize, ..ExplainOptions::default() };
    Ok(Some(explain_survey(recording, Some(survey), chosen.into())?.findings))
}

/// Returns the directories and the measure: the last word or the first, unless that is a directory.
///
/// # Errors
/// No word is a measure, and the last one is no directory either.
fn operands(options: &Options) -> Result<(&[PathBuf], Option<&str>), Failure> {
    let Some((last, before)) = options.operands.split_last() else { return Ok((&[], None)) };
    if let Some(name) = measure(last) {
        return Ok((before, Some(name)));
    }
    if let [first, directories @ ..] = &options.operands[..]
        && let Some(name) = measure(first)
    {
        return Ok((directories, Some(name)));
    }
    if last.exists() || last.components().count() > 1 {
        return Ok((&options.operands, None));
    }
    let word = last.to_string_lossy();
    let hint = meant(&word, MEASURES.map(|(name, _)| name)).map_or(String::new(), |hint| format!("; {hint}"));
    let text = format!("'{}' is neither a directory nor a measure{hint}", printable(&word));
    Err(Failure::new(UNUSABLE, text))
}

/// Returns the measure of this name, unless it is also the name of a file.
fn measure(word: &Path) -> Option<&'static str> {
    let mut names = MEASURES.iter().map(|(name, _)| *name);
    names.find(|name| Path::new(name) == word).filter(|_| !word.exists())
}

/// The parser of a directory or a measure, which lists the measures.
#[derive(Clone)]
struct Operand;

impl TypedValueParser for Operand {
    type Value = PathBuf;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, value: &OsStr) -> Result<PathBuf, clap::Error> {
        Ok(value.into())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(MEASURES.into_iter().map(|(name, help)| PossibleValue::new(name).help(help))))
    }
}

fn tables(
    recording: &mut Recording,
    name: Option<&str>,
    options: &Options,
) -> Result<(Vec<StatisticsTable>, Option<Survey>), Failure> {
    let selection = &options.selection;
    let condition = selection.apply(recording)?;
    let queries = match name {
        Some(name) => {
            let measure = selection.measure(recording, name)?;
            let query = query(recording, measure, &selection.per, condition.as_ref(), None)?;
            vec![if options.explain.is_some() { query.surveying() } else { query }]
        }
        None => page(recording, &selection.per, condition.as_ref())?,
    };
    let queries = pass(recording, queries, condition.as_ref());
    let (tables, surveys): (Vec<_>, Vec<_>) = queries.into_iter().map(Query::finish_with_survey).unzip();
    Ok((tables, surveys.into_iter().flatten().next()))
}

/// Passes the items of a recording to queries, and returns the queries.
fn pass(recording: &mut Recording, queries: Vec<Query>, condition: Option<&Rc<SpanCondition>>) -> Vec<Query> {
    let mut queries = Queries::new(recording, queries);
    recording.feed("measuring", &mut [&mut queries]);
    condition.into_iter().for_each(|condition| report_misfits(condition));
    queries.finish()
}

/// Takes these measures of a recording, or the usual ones as far as the recording has them. Threads are grouped by
/// name, as their ids differ between recordings.
pub(crate) fn tables_of(
    path: &Path,
    names: &[String],
    selection: &SpanOptions,
) -> Result<Vec<StatisticsTable>, Failure> {
    let mut recording = Recording::open(Some(path))?;
    let condition = selection.apply(&mut recording)?;
    let recorded = recording.recorded();
    let mut queries = Vec::new();
    let usual = USUAL.map(str::to_owned);
    for name in if names.is_empty() { &usual[..] } else { names } {
        let measure = selection.measure(&mut recording, name)?;
        let is_there = measure.missing(recorded).iter().all(|missing| !missing.is_needed);
        if is_there || !names.is_empty() {
            // Ids and addresses are others in another recording.
            let by_name = |per| match per {
                Per::Thread => Some(Per::Comm),
                Per::Holder | Per::Address | Per::Link => None,
                other => Some(other),
            };
            let per = match selection.per.is_empty() {
                true => measure.usual_keys().into_iter().filter_map(by_name).collect(),
                false => selection.per.clone(),
            };
            queries.push(query(&recording, measure, &per, condition.as_ref(), None)?);
        }
    }
    let queries = pass(&mut recording, queries, condition.as_ref());
    recording.close()?;
    Ok(queries.into_iter().map(Query::finish).collect())
}

/// The measures by which recordings are compared.
const USUAL: [&str; 4] = ["latency", "syscalls", "irqs", "softirqs"];

/// Returns the queries of the page: those for which the recording has events.
fn page(
    recording: &Recording,
    pers: &[Per],
    condition: Option<&Rc<SpanCondition>>,
) -> Result<Vec<Query>, Failure> {
    let recorded = recording.recorded();
    let is_real_time: IsReal =
        |moment, tid| tid.and_then(|tid| moment.system.priority(tid)).is_some_and(Priority::is_real_time);
    let measures = [(Measure::Active, None), (Measure::Latency, Some(is_real_time)), (Measure::Irqs, None)];
    let mut queries = Vec::new();
    let mut lacking = BTreeSet::new();
    for (measure, only) in measures {
        let missing = measure.missing(recorded);
        lacking.extend(missing.iter().map(|missing| missing.group));
        if missing.iter().all(|missing| !missing.is_needed) {
            queries.push(query(recording, measure, pers, condition, only)?);
        }
    }
    if !lacking.is_empty() {
        let groups = lacking.into_iter().collect::<Vec<_>>().join(",");
        message!(
            "sordino: more is measured where the kernel's events are recorded: sudo sordino record --kernel {groups}"
        );
    }
    if queries.is_empty() {
        queries.push(query(recording, Measure::Count, pers, condition, None)?);
    }
    Ok(queries)
}

/// A function that returns true for the spans of real-time threads.
type IsReal = fn(&Moment<'_>, Option<Tid>) -> bool;

fn query(
    recording: &Recording,
    measure: Measure,
    pers: &[Per],
    condition: Option<&Rc<SpanCondition>>,
    only: Option<IsReal>,
) -> Result<Query, Failure> {
    let recorded = recording.recorded();
    for missing in measure.missing(recorded).iter().filter(|missing| !missing.is_needed) {
        message!("sordino: some parts are unknown: record with --kernel {}, too", missing.group);
    }
    let query = Query::new(&recording.classes, recorded, measure, pers);
    let query = query.and_then(|query| query.of_hosts(&recording.classes, &recording.host_labels()));
    let query = query.map_err(|error| refused(&error, recording))?.since(recording.begin());
    let condition = condition.cloned();
    Ok(match (condition, only) {
        (None, None) => query,
        (condition, only) => {
            let selector: SpanSelector = Box::new(move |moment, tid| {
                condition.as_ref().is_none_or(|condition| condition.is_met(moment, tid))
                    && only.is_none_or(|only| only(moment, tid))
            });
            query.only(selector)
        }
    })
}

impl SpanOptions {
    /// Limits the recording to the selected time. Returns the condition on spans, if there is one.
    fn apply(&self, recording: &mut Recording) -> Result<Option<Rc<SpanCondition>>, Failure> {
        recording.limit(&self.within)?;
        self.overhead.apply(recording)?;
        let ends = self.end.as_deref().or(self.event.as_deref());
        self.condition.as_deref().map(|text| recording.condition(text, ends.as_slice())).transpose()
    }

    /// Returns the measure of this name, of the events that the options name.
    fn measure(&self, recording: &mut Recording, name: &str) -> Result<Measure, Failure> {
        let ends = self.begin.as_deref().zip(self.end.as_deref()).map(|(begin, end)| [begin, end]);
        let events = MeasureEvents { event: self.event.as_deref(), ends, by: self.by.as_deref() };
        Measure::named(name, events, |event| self.periods(recording, event))
    }

    /// Returns the usual periods of an event: the option's, or the ones that a pass over the recording finds.
    fn periods(&self, recording: &mut Recording, event: &str) -> Result<Periods, Failure> {
        if let Some(every) = self.every {
            return Ok(Periods::every(every.into()));
        }
        recording.require_one_host("a usual period, which --every sets,")?;
        let finder = Finder::new(&recording.classes, IntervalRule::between(event));
        let mut finder = finder.map_err(|error| refused(&error.into(), recording))?;
        let mut sample = PeriodSample::default();
        recording.pass(Some("looking for periods"), |item| {
            if let Some(FoundInterval::Whole(interval)) = finder.find(item) {
                sample.add(interval.tid, interval.length());
            }
            Ok(true)
        })?;
        Ok(sample.finish())
    }
}
