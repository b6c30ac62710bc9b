//! The command `sordino watch`.

use crate::Failure;
use crate::failure::INTERRUPTED;
use crate::progress::Progress;
use crate::signals::{self, is_readable};
use crate::terminal::{Input, Screen, answer, columns};
use clap::Args;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use sordino_collect::Watch as _;
use sordino_filter::condition::Expression;
use sordino_live::{Aside, Beside, Costs, GrowingRecording, ReadingProgress, RecorderId, SelectedWait};
use sordino_selection::parse_condition;
use sordino_watch::{Action, Figures, PressedKey, Tally, WatchView, draw, text_of};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval at which new events are read.
const EACH: Duration = Duration::from_secs(1);
/// Longest time until the result of work beside the view is shown.
const GLANCE: Duration = Duration::from_millis(100);
/// Columns and rows of a state that is printed to a file or a pipe.
const PRINTED: (u16, u16) = (100, 40);
/// The remedy if there is no terminal.
const INSTEAD: &str = "print one state with 'sordino watch --once' or --json, or use 'sordino query' or 'sordino events --follow'";

/// Watch a running session in the terminal
///
/// Shows, once a second: the wake-up latency of each thread with the worst and its cause, the latencies of the last ten
/// seconds as a histogram, events, interrupts and CPUs with their rates, losses, and the CPU time that the recorder and
/// this view take. '?' lists the keys. A recording in progress is shown as far as it is on disk, without the kernel's
/// events, which are converted at its end; a finished one is shown whole.
///
/// Several readers can follow a session at once, 'sordino events --follow' among them. With more than 50000 events a
/// second, only a part of the time is read, and the view says so; the recording is not affected.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino watch motor
  sordino watch motor --where '$comm == \"motor*\"'
  sordino watch sordino-20260131-120000
  sordino watch motor --json | jq '.threads[0].worst'")]
pub(crate) struct Options {
    /// Name of a session, or directory of a recording
    #[arg(value_name = "SESSION|DIR")]
    what: String,
    /// Count only events that meet this condition, such as '$comm == "motor*"', written as for 'sordino events', and
    /// wake-up latencies that end with such an event
    #[arg(short = 'w', long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Print the view once, after one second of a session, and end
    #[arg(long)]
    once: bool,
    /// Print the figures of the view once as JSON, and end
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let condition = options.condition.as_deref().map(parse_condition).transpose()?;
    let stop = signals::stop()?;
    if options.once || options.json {
        return once(options, condition, stop.as_fd());
    }
    let watched = WatchedRecording::open(&options.what, condition, options.condition.as_deref())?;
    let mut screen = Screen::open(INSTEAD)?;
    let name = watched.name.clone();
    let ended = watched.show(&mut screen, stop.as_fd());
    drop(screen);
    if ended? == ReadingProgress::Ended {
        message!("sordino: session '{name}' has ended");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints one state of the recording.
fn once(options: &Options, condition: Option<Expression>, stop: BorrowedFd<'_>) -> Result<ExitCode, Failure> {
    let mut watched = WatchedRecording::open(&options.what, condition, options.condition.as_deref())?;
    let mut progress = Progress::new(false);
    let is_stopped = || is_readable(stop, Duration::ZERO);
    let mut reading = |done, total| {
        progress.working("reading", done, total);
        is_stopped()
    };
    if watched.advance(&mut reading)? == ReadingProgress::Growing && !is_readable(stop, EACH) {
        watched.advance(&mut reading)?;
    }
    drop(progress);
    if is_stopped() {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if options.json {
        answer(&(serde_json::to_string(&watched.figures)? + "\n"), true)?;
    } else {
        let width = columns().map_or(PRINTED.0, |columns| columns.clamp(40, 500) as u16);
        let area = Rect::new(0, 0, width, PRINTED.1);
        let mut buffer = Buffer::empty(area);
        let support = sordino_watch::TerminalSupport { has_colors: false, ..Screen::support() };
        draw(&watched.figures, &watched.view, support, area, &mut buffer);
        answer(&text_of(&buffer), false)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A recording that is watched, with its figures.
struct WatchedRecording {
    name: String,
    source: GrowingRecording,
    tally: Tally,
    costs: Costs,
    /// The process id of the session's recorder, once it is known.
    recorder: RecorderId,
    figures: Figures,
    view: WatchView,
    condition: Option<Expression>,
    progress: ReadingProgress,
    beside: Option<Beside>,
}

impl WatchedRecording {
    fn open(what: &str, condition: Option<Expression>, text: Option<&str>) -> Result<Self, Failure> {
        let source = GrowingRecording::open(what)?;
        let mut tally = Tally::default();
        let view = WatchView::of(text.unwrap_or_default());
        let figures = Figures::of(&mut tally, view.sort);
        let costs = Costs::begin(None);
        let (name, progress) = (what.to_owned(), ReadingProgress::Growing);
        let (recorder, beside) = (RecorderId::default(), None);
        Ok(Self { name, source, tally, costs, recorder, figures, view, condition, progress, beside })
    }

    /// Reads the new events, until `is_stopped` returns true.
    fn advance(&mut self, is_stopped: &mut dyn FnMut(u64, u64) -> bool) -> Result<ReadingProgress, Failure> {
        if self.progress == ReadingProgress::Growing {
            self.progress = self.source.advance(&mut self.tally, self.condition.as_ref(), is_stopped)?;
        }
        let recorder = self.source.session().and_then(|session| self.recorder.of(session));
        let cost = self.costs.since(recorder);
        self.refresh();
        self.figures.cost = cost;
        Ok(self.progress)
    }

    /// Computes the figures again.
    fn refresh(&mut self) {
        let cost = std::mem::take(&mut self.figures.cost);
        let mut figures = Figures::of(&mut self.tally, self.view.sort);
        let state = match (self.progress, self.source.session()) {
            (ReadingProgress::Growing, Some(_)) if self.source.has_no_answer() => "no answer",
            (ReadingProgress::Growing, Some(_)) => "running",
            (ReadingProgress::Growing, None) => "being recorded",
            (ReadingProgress::Ended, _) => "ended",
            (ReadingProgress::Complete, _) => "complete",
            (ReadingProgress::Interrupted, _) => "not read to its end",
        };
        (figures.name, figures.state) = (self.name.clone(), state.to_owned());
        figures.condition = Some(self.view.condition.clone()).filter(|text| !text.is_empty());
        if (self.progress, self.source.session().is_some()) == (ReadingProgress::Growing, false) {
            figures.notes = vec!["the kernel's events are shown when it is complete".to_owned()];
        }
        // Before what is never recorded: a narrow terminal cuts the line.
        figures.notes.splice(0..0, self.source.notes());
        figures.cost = cost;
        self.figures = figures;
    }

    /// Shows the recording until the user ends it, or the session ends.
    fn show(mut self, screen: &mut Screen, stop: BorrowedFd<'_>) -> Result<ReadingProgress, Failure> {
        let mut due = Instant::now();
        self.view.notice = "reading ...".to_owned();
        self.draw(screen)?;
        self.view.notice.clear();
        loop {
            if Instant::now() >= due {
                due = Instant::now() + EACH;
                // In a terminal that a view has, Ctrl-C is a key.
                let ends = |input: &Input| matches!(input, Input::End | Input::Key(PressedKey::Char('q')));
                let mut is_stopped = |_, _| {
                    let inputs = screen.wait(stop, Duration::ZERO);
                    inputs.is_ok_and(|inputs| inputs.iter().any(ends))
                };
                let progress = self.advance(&mut is_stopped)?;
                if matches!(progress, ReadingProgress::Ended | ReadingProgress::Interrupted) {
                    return Ok(progress);
                }
            }
            let width = self.draw(screen)?;
            let rest = due.saturating_duration_since(Instant::now());
            let longest = if self.beside.is_some() { rest.min(GLANCE) } else { rest };
            for input in screen.wait(stop, longest)? {
                let Input::Key(key) = input else { return Ok(self.progress) };
                match self.view.press(key, &self.figures) {
                    Some(Action::Quit) => return Ok(self.progress),
                    Some(action) => self.act(action, width),
                    None => {}
                }
                self.refresh();
            }
            if let Some(made) = self.beside.as_ref().and_then(Beside::made) {
                self.beside = None;
                self.present(made);
            }
        }
    }

    /// Draws the figures, and returns the number of columns.
    fn draw(&self, screen: &mut Screen) -> Result<u16, Failure> {
        let mut width = 0;
        screen.draw(|area, buffer| {
            width = area.width;
            draw(&self.figures, &self.view, Screen::support(), area, buffer);
        })?;
        Ok(width)
    }

    fn act(&mut self, action: Action, columns: u16) {
        match action {
            Action::Quit => {}
            Action::Clear if self.progress == ReadingProgress::Complete => {}
            Action::Clear => self.tally.clear(),
            Action::Filter(text) => self.filter(text),
            Action::Snapshot | Action::Explain { .. } if self.beside.is_some() => {
                self.view.notice = "it is still at work: wait a moment".to_owned();
            }
            Action::Snapshot => match self.source.session() {
                Some(session) => {
                    self.beside = Some(Beside::snapshot(session.clone()));
                    self.view.notice = "the session writes ...".to_owned();
                }
                None => self.view.notice = "only a session can take a snapshot".to_owned(),
            },
            Action::Explain { tid, at_ns, length_ns } => {
                let wait = SelectedWait { tid, at_ns, length_ns, columns };
                let directory = self.source.directory().map(ToOwned::to_owned);
                self.beside = Some(Beside::explain(self.source.session().cloned(), directory, wait));
                self.view.notice = "explaining ...".to_owned();
            }
        }
    }

    /// From now on, counts only events that meet the condition.
    fn filter(&mut self, text: String) {
        let parsed = match text.trim() {
            "" => Ok(None),
            text => parse_condition(text).map(Some).map_err(Failure::from),
        };
        match parsed {
            Ok(condition) => {
                (self.condition, self.view.condition) = (condition, text.trim().to_owned());
                self.tally.clear();
                if self.progress == ReadingProgress::Complete {
                    self.progress = ReadingProgress::Growing;
                }
            }
            Err(failure) => {
                self.view.notice = failure.text().lines().next().unwrap_or_default().to_owned();
            }
        }
    }

    fn present(&mut self, made: Aside) {
        match made {
            Aside::Snapshot(directory) => self.view.notice = format!("written: {}", directory.display()),
            Aside::Explanation(text) => {
                self.view.notice.clear();
                self.view.show_text("Explanation", &text);
            }
            Aside::Failed(reason) => self.view.notice = reason,
        }
    }
}
