//! The command `sordino explain`.

use crate::Failure;
use crate::commands::events::TimeStyle;
use crate::commands::queries::PageTables;
use crate::commands::refused::{refused, unknown};
use crate::failure::{NO, UNUSABLE};
use crate::recording::{AlignOptions, OverheadOptions, Recording, report_misfits};
use crate::terminal::{has_colors, layout_columns, print, show};
use crate::words::quoted;
use clap::Args;
use sordino_analyze::{ExplainOptions, Explainer, Findings};
use sordino_event::{Domain, Tid};
use sordino_intervals::{
    Census, Choice, Finder, IntervalRule, IntervalSelector, Key, LengthDistribution, Other, Point, Survey,
    SurveyBuilder, Why,
};
use sordino_lanes::{Lanes, Painter, Window};
use sordino_quantity::duration;
use sordino_query::{FiberLives, Measure, Query, SpanCondition, StatisticsTable};
use sordino_report::{
    AllThreads, FindingsFormat, misplaced_directory, none_was_woken, nothing_to_choose, write_findings,
    write_findings_json,
};
use sordino_selection::TimeOptions;
use sordino_timeline::{Consumer, Moment};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

/// The event that each loop of `sordino npt` hits.
const NPT: &str = "npt:loop";

/// Explain the causes of the longest intervals between events of a recording
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
/// Without an option that chooses intervals, these are chosen from the recording, and the choice is printed with
/// alternatives: npt:loop, the tracepoint of 'sordino npt'; or else the two events of one provider whose names form a
/// pair (begin and end, start and stop, enter and exit, request and answer, put and get, ...) and that have most
/// intervals; or else the event that is most frequent in one thread, preferably at regular intervals. A pair is passed
/// over if that event has more than ten times as many intervals.
///
/// Exit status: 1 if --over or --deadline is given and an interval is longer.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino explain
  sordino explain --event motor:period --over 50us
  sordino explain --thread irq/36-eth0
  sordino explain --thread --where '$prio < 100'
  sordino explain --syscalls --where '$comm == \"motor\"'
  sordino explain --deadline sched_waking=1ms --thread motor
  sordino explain --event motor:period --where '$prio < 100 && late > 5us' --from 10s --until 20s
  sordino explain --begin net:request --end net:answer --by id --top 3 --json")]
pub(crate) struct Options {
    #[command(flatten)]
    intervals: Intervals,
    /// Number of longest intervals to explain, 1 to 100000
    #[arg(short, long, value_name = "N", default_value_t = 5, conflicts_with = "deadline", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Explain all intervals longer than this, such as 50us; exit with status 1 if there are any
    #[arg(short, long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["top", "deadline"])]
    over: Option<Duration>,
    /// Print the explanations as JSON
    #[arg(long)]
    json: bool,
}

/// The recording, and the selection of its intervals.
#[derive(Args, Debug)]
pub(crate) struct Intervals {
    /// Directories of the recordings of one host, which are merged [default: the newest in the current directory]
    #[arg(value_name = "DIRECTORY")]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    align: AlignOptions,
    /// Choose the intervals from each event of this name, such as motor:period, to the next one in the same thread
    /// [default: chosen from the recording]
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["begin", "end"])]
    event: Option<String>,
    /// Name of the event that begins an interval, such as net:request
    #[arg(long, value_name = "EVENT", requires = "end")]
    begin: Option<String>,
    /// Name of the event that ends an interval, such as net:answer
    #[arg(long, value_name = "EVENT", requires = "begin")]
    end: Option<String>,
    /// Pair begin and end events that have the same value in this field, such as id, also across threads [default: pair
    /// them within each thread]
    ///
    /// Other events with that value in between are the stages of the request, each explained by its own thread.
    #[arg(long, value_name = "FIELD", requires = "begin")]
    by: Option<String>,
    /// Choose wake-up latencies, from each wake-up until the thread has a CPU: of this thread, given by name or id, or
    /// of all threads. Needs no tracepoint, but kernel events (sordino record --kernel rt)
    ///
    /// Without a name, the directory must stand before the option, and threads of sordino's recorder are left out.
    #[arg(long, value_name = "NAME|TID", num_args = 0..=1, conflicts_with_all = ["event", "begin", "end"])]
    thread: Option<Option<String>>,
    /// Choose system calls, from entry to exit; needs 'sordino record --kernel syscalls'
    #[arg(long, group = "measured", conflicts_with_all = ["event", "begin", "end"])]
    syscalls: bool,
    /// Choose interrupt handlers that interrupt a thread, from entry to exit, without those on an idle CPU; needs
    /// 'sordino record --kernel irq'
    #[arg(long, group = "measured", conflicts_with_all = ["event", "begin", "end"])]
    irqs: bool,
    /// Choose the waits of this fiber (a user-level thread, task or coroutine of a program), given by name or number:
    /// from when it is ready until a thread executes it
    #[arg(long, value_name = "NAME", group = "measured", conflicts_with_all = ["event", "begin", "end", "thread"])]
    fiber: Option<String>,
    /// Choose all jobs (from EVENT in a thread until the thread sleeps) longer than TIME, such as sched_waking=1ms, of
    /// --thread or all threads; 'sordino explain' exits with status 1 if there are any
    ///
    /// If EVENT is a wake-up, such as sched_waking, a job begins when the thread is woken.
    #[arg(long, value_name = "EVENT=TIME", group = "measured", conflicts_with_all = ["event", "begin", "end"], value_parser = deadline)]
    deadline: Option<(String, Duration)>,
    /// Choose only intervals that meet this condition, such as 'late > 5us && $prio < 100': fields are those of the
    /// event that ends an interval; $tid, $comm (name), $prio (below 100: real-time), $cpu, $time and the others of
    /// 'sordino events --where' are about its thread at that time
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    #[command(flatten)]
    pub(crate) within: TimeOptions,
    #[command(flatten)]
    overhead: OverheadOptions,
}

/// The results of both passes over a recording.
pub(crate) struct ExplainedRecording {
    pub(crate) findings: Findings,
    pub(crate) distribution: LengthDistribution,
    /// The lanes around the first of the findings' intervals.
    pub(crate) lanes: Vec<Lanes>,
    /// Tables of the whole recording by title, if they were collected.
    pub(crate) tables: Vec<(&'static str, StatisticsTable)>,
}

/// The selection of intervals to explain, and to draw.
#[derive(Clone, Copy)]
pub(crate) struct ExplainScope {
    pub(crate) chosen: ExplainOptions,
    /// The number of longest intervals whose lanes are collected.
    pub(crate) pictures: usize,
    /// True if the tables of a page are collected.
    pub(crate) has_tables: bool,
}

impl From<ExplainOptions> for ExplainScope {
    fn from(chosen: ExplainOptions) -> Self {
        Self { chosen, pictures: 0, has_tables: false }
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let mut recording = options.intervals.open()?;
    let deadline = options.intervals.deadline.as_ref().map(|(_, time)| *time);
    let over = options.over.or(deadline);
    let longest = over.map_or(options.top as usize, |_| usize::MAX);
    let chosen = ExplainOptions { longest, limit: over.map(Into::into), ..ExplainOptions::default() };
    let findings = options.intervals.explain(&mut recording, chosen.into())?.findings;
    let mut text = Vec::new();
    if options.json {
        write_findings_json(&findings, &mut text)?;
        print(&text)?;
    } else {
        write_findings(&findings, format(&recording), &mut text)?;
        show(&String::from_utf8_lossy(&text))?;
    }
    recording.close()?;
    Ok(if over.is_some() && findings.ranked > 0 { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// The predicate for the intervals that are found; all if there is none.
type Only = Option<IntervalSelector>;

/// Returns the predicate for intervals with an end that meets the condition.
fn selected_by(condition: Rc<SpanCondition>) -> IntervalSelector {
    Box::new(move |moment, tid| condition.is_met(moment, Some(tid)))
}

impl Intervals {
    /// Opens the recording for a pass over it.
    pub(crate) fn open(&self) -> Result<Recording, Failure> {
        let opened = Recording::open_all(&self.directories, &self.align);
        let opened =
            opened.and_then(|recording| recording.require_one_host("an explanation").map(|()| recording));
        opened.map_err(|failure| match self.name().filter(|(_, name)| self.is_misplaced(name)) {
            Some((kind, name)) => {
                Failure::new(UNUSABLE, format!("{}; {}", failure.text(), misplaced_directory(kind, name)))
            }
            None => failure,
        })
    }

    /// Returns the name of the chosen thread or fiber, after the word "thread" or "fiber".
    fn name(&self) -> Option<(&'static str, &str)> {
        let thread = self.thread.iter().flatten().map(|name| ("thread", &**name));
        thread.chain(self.fiber.iter().map(|name| ("fiber", &**name))).next()
    }

    /// Returns true if this name seems to be the directory, which has to stand before the option.
    fn is_misplaced(&self, name: &str) -> bool {
        self.directories.is_empty() && Path::new(name).is_dir()
    }

    /// Finds the intervals and explains the longest.
    pub(crate) fn explain(
        &self,
        recording: &mut Recording,
        scope: ExplainScope,
    ) -> Result<ExplainedRecording, Failure> {
        let explained = self.try_to_explain(recording, scope);
        explained.map_err(|failure| recording.failing(failure))
    }

    fn try_to_explain(
        &self,
        recording: &mut Recording,
        scope: ExplainScope,
    ) -> Result<ExplainedRecording, Failure> {
        let fibers = self.fiber.as_deref().map(|name| lives(recording, name)).transpose()?;
        recording.limit(&self.within)?;
        self.overhead.apply(recording)?;
        let condition = self.condition(recording)?;
        let only = condition.clone().map(selected_by);
        let explained = match (self.measure(), self.rule()) {
            (Some(measure), _) => {
                self.explain_measured(recording, (measure, fibers), scope, condition.as_ref())
            }
            (None, Some(rule)) => pass_twice(recording, rule, scope, only),
            (None, None) => explain_chosen(recording, scope, condition.as_ref()),
        }?;
        condition.iter().for_each(|condition| report_misfits(condition));
        Ok(explained)
    }

    /// Returns the condition on the events that end intervals, if there is one.
    fn condition(&self, recording: &mut Recording) -> Result<Option<Rc<SpanCondition>>, Failure> {
        let end = self.event.as_deref().or(self.end.as_deref());
        let end = end.or(self.thread.as_ref().filter(|_| self.deadline.is_none()).map(|_| "sched_switch"));
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

impl Intervals {
    /// Returns the measure whose spans the options name; `None` if they name none.
    fn measure(&self) -> Option<Measure> {
        match self {
            Self { syscalls: true, .. } => Some(Measure::Syscalls),
            Self { irqs: true, .. } => Some(Measure::Irqs),
            Self { fiber: Some(_), .. } => Some(Measure::FiberWaits),
            Self { deadline: Some((event, _)), .. } => Some(Measure::Jobs(event.clone())),
            Self { thread: Some(_), .. } => Some(Measure::Latency),
            _ => None,
        }
    }

    /// Explains the longest spans of a measure, of the thread or the fiber that the options name.
    fn explain_measured(
        &self,
        recording: &mut Recording,
        (measure, fibers): (Measure, Option<FiberLives>),
        scope: ExplainScope,
        condition: Option<&Rc<SpanCondition>>,
    ) -> Result<ExplainedRecording, Failure> {
        let (thread, condition) = (self.thread.clone(), condition.cloned());
        let all_threads = matches!(thread, Some(None)).then(|| Rc::new(AllThreads::default()));
        let all = all_threads.clone();
        let selector = move |moment: &Moment<'_>, tid: Option<Tid>| {
            let is_thread = |name: &String| tid.is_some_and(|tid| is_named(name, tid, moment));
            thread.iter().flatten().all(is_thread)
                && fibers.as_ref().is_none_or(|fibers| fibers.have_thread(moment))
                && condition.as_ref().is_none_or(|condition| condition.is_met(moment, tid))
                && all.as_ref().is_none_or(|all| all.takes(moment, tid))
        };
        let recorded = recording.recorded();
        let query = Query::new(&recording.classes, recorded, measure, &[]);
        let query = query.map_err(|error| refused(&error, recording))?;
        let mut query = query.since(recording.begin()).only(Box::new(selector)).surveying();
        recording.feed("looking for intervals", &mut [&mut query]);
        let explained = explain_survey(recording, query.finish_with_survey().1, scope)?;
        let count = explained.findings.statistics.count;
        let notes = all_threads.iter().flat_map(|all| all.notes(count));
        notes.for_each(|note| message!("sordino: {note}"));
        match self.name() {
            Some((kind, name)) if count == 0 => {
                let is_directory = self.is_misplaced(name);
                let path = recording.path.to_string_lossy();
                Err(Failure::new(UNUSABLE, none_was_woken(&path, kind, name, is_directory)))
            }
            _ => Ok(explained),
        }
    }
}

/// Returns true if this is the thread's id or its name.
fn is_named(name: &str, tid: Tid, moment: &Moment<'_>) -> bool {
    name.parse() == Ok(tid.0) || moment.system.comm(tid).is_some_and(|comm| **comm == *name)
}

/// Finds the fibers of a name. A library may name a fiber after its first wait.
fn lives(recording: &mut Recording, name: &str) -> Result<FiberLives, Failure> {
    let mut lives = FiberLives::of(name);
    recording.pass(Some("looking for the fiber"), |item| {
        lives.take(item);
        Ok(true)
    })?;
    Ok(lives.finish())
}

/// Parses a deadline, `EVENT=TIME`.
fn deadline(text: &str) -> Result<(String, Duration), String> {
    let (event, time) = text.split_once('=').ok_or("expected EVENT=TIME, for example sched_waking=1ms")?;
    Ok((event.to_owned(), duration(time)?))
}

/// Explains npt's loop if it was recorded, or else intervals that a pass over the recording chooses.
fn explain_chosen(
    recording: &mut Recording,
    scope: ExplainScope,
    condition: Option<&Rc<SpanCondition>>,
) -> Result<ExplainedRecording, Failure> {
    let only = || condition.cloned().map(selected_by);
    if recording.classes.iter().any(|(_, class)| class.name == NPT) {
        let survey = survey(recording, IntervalRule::between(NPT), only())?;
        // A program can declare the tracepoint and never hit it.
        if survey.statistics.count > 0 {
            let mut explained = explain_survey(recording, Some(survey), scope)?;
            explained.findings.choice = Some(Choice { why: Why::Npt, others: Vec::new() });
            return Ok(explained);
        }
    }
    let mut census = Census::new(&recording.classes);
    recording.feed("looking for a loop", &mut [&mut census]);
    let (rule, choice) = census.choose().map_err(|kernel| refuse_to_choose(recording, &kernel))?;
    let mut explained = pass_twice(recording, rule, scope, only())?;
    explained.findings.choice = Some(choice);
    Ok(explained)
}

fn refuse_to_choose(recording: &Recording, kernel: &[Other]) -> Failure {
    let path = quoted([&*recording.path.to_string_lossy()]);
    let has_programs = recording.classes.iter().any(|(_, class)| class.domain == Domain::User);
    Failure::new(UNUSABLE, nothing_to_choose(&path, has_programs, kernel))
}

/// Explains the longest intervals of a rule, `only` these if given.
pub(crate) fn explain(
    recording: &mut Recording,
    rule: IntervalRule,
    chosen: ExplainOptions,
    only: Only,
) -> Result<Findings, Failure> {
    Ok(pass_twice(recording, rule, chosen.into(), only)?.findings)
}

/// Makes two passes: the first finds the intervals, of `only` these threads if given; the second explains the longest,
/// and collects the other data of `scope`.
pub(crate) fn pass_twice(
    recording: &mut Recording,
    rule: IntervalRule,
    scope: ExplainScope,
    only: Only,
) -> Result<ExplainedRecording, Failure> {
    let survey = survey(recording, rule, only)?;
    explain_survey(recording, Some(survey), scope)
}

/// Makes the first pass: finds the intervals, of `only` these threads if given.
fn survey(recording: &mut Recording, rule: IntervalRule, only: Only) -> Result<Survey, Failure> {
    let finder =
        Finder::new(&recording.classes, rule).map_err(|error| unknown(&error, &recording.classes))?;
    let mut finder = only.into_iter().fold(finder, Finder::only);
    recording.feed("looking for intervals", &mut [&mut finder]);
    Ok(finder.finish())
}

/// Makes the second pass: explains the longest intervals that were found, and collects the other data of `scope`.
pub(crate) fn explain_survey(
    recording: &mut Recording,
    survey: Option<Survey>,
    scope: ExplainScope,
) -> Result<ExplainedRecording, Failure> {
    let recorded = recording.recorded();
    let survey = survey.unwrap_or_else(|| SurveyBuilder::new("nothing").finish());
    let distribution = survey.distribution.clone();
    let drawn = survey.longest.iter().take(scope.pictures);
    let mut painter = Painter::new(&recording.classes, recorded, drawn.map(Window::around));
    let mut explainer = Explainer::new(survey, recorded, scope.chosen).with_quotas(recording.quotas());
    let mut tables = scope.has_tables.then(|| PageTables::of(recording)).transpose()?;
    let mut consumers: Vec<&mut dyn Consumer> = vec![&mut explainer, &mut painter];
    consumers.extend(tables.iter_mut().map(|tables| tables.queries() as &mut dyn Consumer));
    recording.feed("explaining them", &mut consumers);
    Ok(ExplainedRecording {
        findings: explainer.finish(),
        distribution,
        lanes: painter.finish(),
        tables: tables.map(PageTables::finish).unwrap_or_default(),
    })
}

/// Returns the format of findings for standard output.
pub(crate) fn format(recording: &Recording) -> FindingsFormat {
    FindingsFormat {
        time: TimeStyle::Clock.format(recording.span().0),
        color: has_colors(),
        width: layout_columns(),
    }
}
