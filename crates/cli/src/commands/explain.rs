//! The command `sordino explain`.

use crate::Failure;
use crate::commands::events::Times;
use crate::failure::{NO, UNUSABLE};
use crate::names::list;
use crate::quantities::duration;
use crate::terminal::{has_colors, layout_columns, print, show};
use crate::trace::{Recording, TimeOptions, report_misfits};
use crate::words::quoted;
use clap::Args;
use sordino_analyze::{
    Census, Choice, ExplainOptions as Wanted, Explainer, Finder, Findings, IntervalRule, IsWanted, Key,
    Lanes, LengthDistribution, Other, Painter, Point, Thread, Why, Window,
};
use sordino_collect::similar;
use sordino_event::{Class, Classes, Domain, Nanos, Tid};
use sordino_query::SpanCondition;
use sordino_report::{FindingsFormat, rule_arguments, write_findings, write_findings_json};
use sordino_timeline::Moment;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// The event that each loop of `sordino npt` hits.
const NPT: &str = "npt:loop";

/// Explain the causes of the longest intervals in a recording
///
/// An interval lies between two events of one name in one thread, or between a begin and an end event of one thread or
/// with the same value of a field. Its time is divided among its causes: interrupts, softirqs, page faults, system
/// calls, other threads, sleep, the thread's own code. The parts are net times and add up to the interval; time that no
/// event explains is a part of its own. Without kernel events (sordino record --kernel) only the lengths of intervals
/// are known.
///
/// The headline names the part that exceeds its usual time (its median over a sample of the intervals) by most, so the
/// sleep of a periodic thread is not blamed for a late period. In an interval of usual length, it names the longest
/// part.
///
/// Without --event and --begin, the intervals are chosen from the recording, and the choice is printed with
/// alternatives: npt:loop; or else the two events of one provider whose names form a pair (begin and end, start and
/// stop, enter and exit, request and answer, put and get, ...) and that have most intervals; or else the event that one
/// thread hits most often, preferably at regular intervals. A pair is passed over if that event has more than ten times
/// as many intervals.
///
/// Exit status: 1 if --over is given and an interval is longer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino explain
  sordino explain --event motor:period --over 50us
  sordino explain --thread irq/36-eth0
  sordino explain --event motor:period --where '$prio < 100 && late > 5us' --from 10s --until 20s
  sordino explain --begin net:request --end net:answer --by id --top 3 --json")]
pub(crate) struct Options {
    #[command(flatten)]
    intervals: Intervals,
    /// Number of longest intervals to explain, 1 to 100000
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Explain all intervals longer than this, such as 50us; exit with status 1 if there are any
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with = "top")]
    over: Option<Duration>,
    /// Print the explanations as JSON
    #[arg(long)]
    json: bool,
}

/// The recording, and the intervals of it that a command is about.
#[derive(Args, Debug)]
pub(crate) struct Intervals {
    /// Directory of the recording [default: the newest in the current directory]
    directory: Option<PathBuf>,
    /// Explain the intervals from each event of this name to the next one in the same thread [default: chosen from the
    /// recording]
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["begin", "end"])]
    event: Option<String>,
    /// Name of the event that begins an interval
    #[arg(long, value_name = "EVENT", requires = "end")]
    begin: Option<String>,
    /// Name of the event that ends an interval
    #[arg(long, value_name = "EVENT", requires = "begin")]
    end: Option<String>,
    /// Pair begin and end events by this field, across threads; other events with the same value in between are the
    /// stages of the request, each explained by its own thread [default: pair them within each thread]
    #[arg(long, value_name = "FIELD", requires = "begin")]
    by: Option<String>,
    /// Explain the wake-up latency of this thread, given by name or id: from each wake-up until it has a CPU. Needs no
    /// tracepoint, but kernel events (sordino record --kernel rt)
    #[arg(long, value_name = "NAME|TID", conflicts_with_all = ["event", "begin", "end"])]
    thread: Option<String>,
    /// Explain only intervals that meet this condition: bare names are fields of the event that ends an interval, and
    /// $tid, $comm, $prio, $cpu, $time and the others are about its thread at that time
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    #[command(flatten)]
    within: TimeOptions,
}

/// The intervals of a recording, in all forms.
pub(crate) struct Explained {
    pub(crate) findings: Findings,
    pub(crate) distribution: LengthDistribution,
    /// The lanes around the first of the findings' intervals.
    pub(crate) lanes: Vec<Lanes>,
}

/// The selection of intervals to explain, and to draw.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) wanted: Wanted,
    /// The number of longest intervals whose lanes are collected.
    pub(crate) pictures: usize,
}

impl From<Wanted> for Extent {
    fn from(wanted: Wanted) -> Self {
        Self { wanted, pictures: 0 }
    }
}

/// The intervals from a thread's wake-up until it has a CPU.
const WAKE_UPS: [&str; 2] =
    ["sched_waking@tid..sched_switch@next_tid", "sched_wakeup@tid..sched_switch@next_tid"];

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    let wanted = match options.over {
        Some(over) => Wanted { longest: usize::MAX, limit: Some(nanos(over)), ..Wanted::default() },
        None => Wanted { longest: options.top as usize, ..Wanted::default() },
    };
    let findings = options.intervals.explain(&mut recording, wanted.into())?.findings;
    let mut text = Vec::new();
    if options.json {
        write_findings_json(&findings, &mut text)?;
        print(&text)?;
    } else {
        write_findings(&findings, format(&recording), &mut text)?;
        show(&String::from_utf8_lossy(&text))?;
    }
    recording.close()?;
    let exceeded = options.over.is_some() && findings.ranked > 0;
    Ok(if exceeded { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Returns the predicate for intervals that end as the condition says.
fn wanted_by(condition: Rc<SpanCondition>) -> IsWanted {
    Box::new(move |moment, thread| condition.is_met(moment, Some(thread.tid)))
}

fn nanos(time: Duration) -> Nanos {
    Nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}

impl Intervals {
    /// Opens the recording for a pass over it.
    pub(crate) fn open(&self) -> Result<Recording, Failure> {
        Recording::open(self.directory.as_deref())
    }

    /// Finds the intervals and explains the longest.
    pub(crate) fn explain(&self, recording: &mut Recording, extent: Extent) -> Result<Explained, Failure> {
        let explained = self.try_to_explain(recording, extent);
        explained.map_err(|failure| recording.failing(failure))
    }

    fn try_to_explain(&self, recording: &mut Recording, extent: Extent) -> Result<Explained, Failure> {
        recording.limit(&self.within)?;
        let condition = self.condition(recording)?;
        let only = condition.clone().map(wanted_by);
        let explained = match (&self.thread, self.rule()) {
            (Some(thread), _) => explain_wake_ups(recording, thread, extent, only),
            (None, Some(rule)) => pass_twice(recording, rule, extent, only),
            (None, None) => explain_chosen(recording, extent, condition.as_ref()),
        }?;
        condition.iter().for_each(|condition| report_misfits(condition));
        Ok(explained)
    }

    /// Returns the condition on the events that end intervals, if there is one.
    fn condition(&self, recording: &mut Recording) -> Result<Option<Rc<SpanCondition>>, Failure> {
        let end = self.event.as_deref().or(self.end.as_deref());
        let end = end.or(self.thread.as_ref().map(|_| "sched_switch"));
        self.condition.as_deref().map(|text| recording.condition(text, end.as_slice())).transpose()
    }

    /// Returns the rule that the options name; `None` if they name none.
    fn rule(&self) -> Option<IntervalRule> {
        if let Some(event) = &self.event {
            return Some(IntervalRule::between(event));
        }
        let (begin, end) = self.begin.as_ref().zip(self.end.as_ref())?;
        let key = || self.by.as_ref().map_or(Key::Thread, |field| Key::Field(field.clone()));
        let point = |event: &String| Point { event: event.clone(), key: key() };
        Some(IntervalRule { begin: point(begin), end: point(end) })
    }
}

/// Explains the intervals from each wake-up of a thread until it has a CPU.
fn explain_wake_ups(
    recording: &mut Recording,
    thread: &str,
    extent: Extent,
    only: Option<IsWanted>,
) -> Result<Explained, Failure> {
    let has = |event: &str| recording.classes.iter().any(|(_, class)| class.name == event);
    let rule = WAKE_UPS.into_iter().find(|rule| rule.split('@').next().is_some_and(has));
    let Some(rule) = rule.filter(|_| has("sched_switch")) else {
        let text = format!(
            "{}: the wake-ups of threads are not recorded; record them: sudo sordino record --kernel rt",
            recording.path.display()
        );
        return Err(Failure::new(UNUSABLE, text));
    };
    let (name, tid) = (thread.to_owned(), thread.parse().ok().map(Tid));
    let is_it = move |moment: &Moment<'_>, thread: &Thread| {
        (Some(thread.tid) == tid || thread.comm.as_deref() == Some(&*name))
            && only.as_ref().is_none_or(|only| only(moment, thread))
    };
    let rule = rule.parse().map_err(|error| Failure::new(UNUSABLE, Failure::text_of(&error)))?;
    let explained = pass_twice(recording, rule, extent, Some(Box::new(is_it)))?;
    if explained.findings.statistics.count == 0 {
        let path = recording.path.display();
        let text = format!(
            "{path}: no thread '{thread}' was woken and then ran; 'sordino events {path} --event sched_switch' lists the threads that ran"
        );
        return Err(Failure::new(UNUSABLE, text));
    }
    Ok(explained)
}

/// Explains npt's loop if it was recorded, or else the intervals that a pass over the recording chooses.
fn explain_chosen(
    recording: &mut Recording,
    extent: Extent,
    condition: Option<&Rc<SpanCondition>>,
) -> Result<Explained, Failure> {
    let only = || condition.cloned().map(wanted_by);
    if recording.classes.iter().any(|(_, class)| class.name == NPT) {
        let mut explained = pass_twice(recording, IntervalRule::between(NPT), extent, only())?;
        // A program can declare the tracepoint and never hit it.
        if explained.findings.statistics.count > 0 {
            explained.findings.choice = Some(Choice { why: Why::Npt, others: Vec::new() });
            return Ok(explained);
        }
    }
    let mut census = Census::new(&recording.classes);
    recording.pass(Some("looking for a loop"), |item| {
        census.take(item);
        Ok(true)
    })?;
    let (rule, choice) = census.choose().map_err(|kernel| nothing_to_choose(recording, &kernel))?;
    let mut explained = pass_twice(recording, rule, extent, only())?;
    explained.findings.choice = Some(choice);
    Ok(explained)
}

fn nothing_to_choose(recording: &Recording, kernel: &[Other]) -> Failure {
    let path = quoted([&*recording.path.to_string_lossy()]);
    let has = |wanted| recording.classes.iter().any(|(_, class)| class.domain == wanted);
    let pairs: Vec<String> =
        kernel.iter().map(|other| format!("  {}", rule_arguments(&other.rule))).collect();
    let text = match (has(Domain::User), pairs.is_empty()) {
        (true, _) => format!(
            "{path}: nothing to choose: no event of a program happens twice in a thread whose id is recorded (LTTng records it \
             with: lttng add-context -u -t vtid); name the intervals with --event, or with --begin and --end ('sordino events \
             {path}' lists the events)"
        ),
        (false, true) => format!(
            "{path}: nothing to choose: no event of a program is recorded; record a program that is linked with sordino: \
             sordino record -- PROGRAM"
        ),
        (false, false) => format!(
            "{path}: nothing to choose: the kernel's events only; record a program's tracepoints with them (sudo sordino \
             record --kernel ... -- PROGRAM), or name the kernel's own intervals:\n{}",
            pairs.join("\n")
        ),
    };
    Failure::new(UNUSABLE, text)
}

/// Explains the longest intervals of a rule, `only` these if given.
pub(crate) fn explain(
    recording: &mut Recording,
    rule: IntervalRule,
    wanted: Wanted,
    only: Option<IsWanted>,
) -> Result<Findings, Failure> {
    Ok(pass_twice(recording, rule, wanted.into(), only)?.findings)
}

/// Makes two passes: the first finds the intervals, of `only` these threads if given; the second explains the longest,
/// and collects their lanes.
pub(crate) fn pass_twice(
    recording: &mut Recording,
    rule: IntervalRule,
    extent: Extent,
    only: Option<IsWanted>,
) -> Result<Explained, Failure> {
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
    let survey = finder.finish();
    let distribution = survey.distribution.clone();
    let drawn = survey.longest.iter().take(extent.pictures);
    let mut painter = Painter::new(&recording.classes, recorded, drawn.map(Window::around));
    let mut explainer = Explainer::new(survey, recorded, extent.wanted).with_quotas(recording.quotas());
    recording.pass_with_lead(Some("explaining them"), |item| {
        explainer.take(item);
        painter.take(item);
        Ok(true)
    })?;
    Ok(Explained { findings: explainer.finish(), distribution, lanes: painter.finish() })
}

/// Returns the format of findings for standard output.
pub(crate) fn format(recording: &Recording) -> FindingsFormat {
    FindingsFormat {
        time: Times::Clock.format(recording.span().0),
        color: has_colors(),
        width: layout_columns(),
    }
}

/// Returns the error with a hint: the nearest names, or else those of the programs.
fn unknown(error: &sordino_analyze::Error, classes: &Classes) -> Failure {
    let text = Failure::text_of(error);
    let sordino_analyze::Error::Event { event } = error else { return Failure::new(UNUSABLE, text) };
    let names = classes.iter().map(|(_, class)| &*class.name);
    let near = similar(event, names);
    let mut user: Vec<&str> =
        classes.iter().map(|(_, class)| class).filter(is_user).map(|class| &*class.name).collect();
    user.sort_unstable();
    user.dedup();
    let hint = match (near.is_empty(), user.is_empty()) {
        (false, _) => format!("did you mean {}?", list(&near)),
        (true, true) => "it has the kernel's events only; name one with --event".to_owned(),
        (true, false) => format!("name one with --event: {}", list(&user)),
    };
    Failure::new(UNUSABLE, format!("{text}; {hint}"))
}

fn is_user(class: &&Class) -> bool {
    class.domain == Domain::User
}
