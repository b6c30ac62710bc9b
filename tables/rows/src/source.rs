//! A recording as the source of tables: its rows, batch by batch.

use crate::events::{ClassColumns, EventColumns, UNKNOWN_HOST};
use crate::intervals::{IntervalFinder, IntervalRow, WOKEN};
use crate::names::NameForm;
use crate::progress::PassProgress;
use crate::rows::{IntervalColumns, LossColumns};
use crate::schema::TableKind;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use sordino_ctf::read::Stream;
use sordino_event::text::with_causes;
use sordino_event::{Event, Loss, Step, Time};
use sordino_reading::{Demand, OpenRecording, describes_state};
use sordino_selection::{EventFilter, EventRules, SelectionError};
use sordino_timeline::Item;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of rows in a batch.
const ROWS: usize = 8192;
/// Number of events between two updates of the progress.
const EACH: u64 = 1 << 16;

/// The part of a recording that a query reads.
#[derive(Clone, Debug)]
pub struct PassLimits {
    /// The first and the last time.
    pub within: (Time, Time),
    /// The names of the selected events; `None` for all.
    pub names: Option<BTreeSet<String>>,
}

impl PassLimits {
    /// The limits of a query that reads the whole recording.
    pub const NONE: Self = Self { within: (Time::MIN, Time::MAX), names: None };
}

/// An open recording, with the selection of its events.
pub struct RecordingSource {
    recording: OpenRecording,
    rules: EventRules,
    /// The columns that depend on an event's class only.
    classes: Arc<ClassColumns>,
    /// The form of the names of events.
    form: NameForm,
    host: Arc<str>,
    findings: Mutex<PassFindings>,
    progress: PassProgress,
}

/// The findings of passes over a recording, besides its rows.
#[derive(Debug, Default)]
struct PassFindings {
    problems: BTreeSet<String>,
    /// The number of places where records are missing, and the known number of these records, from the pass that found
    /// most.
    losses: (u64, u64),
}

impl RecordingSource {
    /// Creates the source of a recording, or of several of one host that are read as one.
    ///
    /// # Errors
    /// The rules fit no event of the recording.
    pub fn new(mut recording: OpenRecording, rules: EventRules) -> Result<Self, SelectionError> {
        rules.check(&recording.classes)?;
        rules.condition().into_iter().for_each(|condition| recording.limit_to(condition));
        let classes = Arc::new(ClassColumns::new(&recording.classes, &recording.facts));
        let host = recording.host.as_deref().unwrap_or(UNKNOWN_HOST).into();
        Ok(Self {
            recording,
            rules,
            classes,
            form: NameForm::Texts,
            host,
            findings: Mutex::default(),
            progress: PassProgress::default(),
        })
    }

    /// Makes dictionaries of the columns of names in batches of `events`, except that of the host.
    #[must_use]
    pub fn with_dictionaries(self) -> Self {
        Self { form: NameForm::Dictionary, ..self }
    }

    /// Returns the times of the recording's first and last event.
    pub fn span(&self) -> (Time, Time) {
        self.recording.span()
    }

    /// Returns the directory of the recording.
    pub fn path(&self) -> &Path {
        &self.recording.path
    }

    /// Returns the name of the machine that the rows without an event of their own belong to.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the progress of all passes.
    pub fn progress(&self) -> &PassProgress {
        &self.progress
    }

    /// Returns the problems of reading, and the losses as a message if there are any.
    pub fn findings(&self) -> (Vec<String>, Option<(u64, u64)>) {
        let findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.recording.problems().iter().cloned();
        let problems = known.chain(findings.problems.iter().cloned()).collect::<BTreeSet<_>>();
        (problems.into_iter().collect(), Some(findings.losses).filter(|(places, _)| *places > 0))
    }

    fn find(&self, problems: &[String], losses: (u64, u64)) {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.problems.extend(problems.iter().cloned());
        findings.losses = findings.losses.max(losses);
    }

    /// Returns true if the table also has events that no rule chooses.
    pub fn is_whole(&self) -> bool {
        self.rules.selects_all()
    }

    /// Returns, for each class, true if its events can pass the filter and are in the names of `limits`.
    fn selected(&self, limits: &PassLimits, filter: &EventFilter) -> Vec<bool> {
        let names = limits.names.as_ref();
        let is_named = |name: &str| names.is_none_or(|names| names.contains(name));
        let classes = self.recording.classes.iter();
        classes.map(|(id, class)| is_named(&class.name) && filter.chooses(id)).collect()
    }

    /// Passes over the recording in order of time, and passes the rows of the tables to `sink` until that returns
    /// false. `projection` has the indexes of the columns of `events`.
    ///
    /// # Errors
    /// A batch could not be made; problems of reading are among the findings.
    pub fn pass(
        &self,
        tables: &[TableKind],
        projection: &[usize],
        limits: &PassLimits,
        sink: impl FnMut(TableKind, RecordBatch) -> bool,
    ) -> Result<EventFilter, ArrowError> {
        let mut recording = self.recording.clone();
        recording.narrow(limits.within.0, limits.within.1);
        let filter = self.rules.filter_of(&recording.classes, recording.facts.clone());
        let mut pass = Pass::new(self, tables, projection, limits, filter, sink)?;
        let has_lead =
            tables.iter().any(|table| matches!(table, TableKind::Intervals | TableKind::Latencies));
        let begin = recording.begin();
        let demand = if has_lead { Demand::default().with_lead() } else { Demand::default() };
        let mut share = self.progress.begin();
        recording.pass_of(&demand, Some(("reading", &mut share)), |item| pass.take(item, begin))?;
        self.find(recording.problems(), pass.lost);
        pass.end()
    }

    /// Returns the streams in groups of nearly the same size, for [`pass_plainly`](Self::pass_plainly) of each.
    pub fn groups(&self, number: usize) -> Vec<Vec<Stream>> {
        let size = |stream: &Stream| stream.packets().iter().map(|packet| packet.content_bits).sum::<u64>();
        let mut streams: Vec<(u64, &Stream)> =
            self.recording.streams().iter().map(|s| (size(s), s)).collect();
        streams.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        let mut groups = vec![(0, Vec::new()); number.max(1)];
        for (size, stream) in streams {
            if let Some(smallest) = groups.iter_mut().min_by_key(|(size, _)| *size) {
                smallest.0 += size;
                smallest.1.push(stream.clone());
            }
        }
        groups.into_iter().map(|(_, streams)| streams).collect()
    }

    /// Passes the events of some streams to `sink`, one stream after the other, until that returns false. Columns that
    /// need the state of the machine are empty.
    ///
    /// # Errors
    /// A batch could not be made; problems of reading are among the findings.
    pub fn pass_plainly(
        &self,
        streams: &[Stream],
        projection: &[usize],
        limits: &PassLimits,
        mut sink: impl FnMut(TableKind, RecordBatch) -> bool,
    ) -> Result<(), ArrowError> {
        let filter = self.rules.filter_of(&self.recording.classes, self.recording.facts.clone());
        let selected = self.selected(limits, &filter);
        let within = self.recording.within();
        let (from, to) = (within.0.max(limits.within.0), within.1.min(limits.within.1));
        let mut columns = EventColumns::new(&self.classes, projection, self.form)?;
        let (mut event, mut problems, mut lost) = (Event::default(), Vec::new(), (0, 0));
        let mut share = self.progress.begin();
        let mut read = 0;
        for (index, stream) in streams.iter().enumerate() {
            let span = stream.span().unwrap_or_default();
            let mut events = stream.events();
            if from > Time::MIN && !describes_state(stream) {
                events.skip_to(from);
            }
            loop {
                read += 1;
                if read % EACH == 0 {
                    share.reach(steps_of(index, span, event.time), steps_of(streams.len(), span, span.0));
                }
                match events.next(&mut event) {
                    Ok(Step::Event) if event.time > to => break,
                    Ok(Step::Event) if event.time < from || !selected[event.class.index()] => {}
                    Ok(Step::Event) => {
                        columns.push(&event, None)?;
                        if columns.len() == ROWS && !sink(TableKind::Events, columns.finish()?) {
                            return Ok(());
                        }
                    }
                    Ok(Step::Loss(loss)) => count(&mut lost, &loss),
                    Ok(Step::End) => break,
                    Err(error) => problems.push(with_causes(&error)),
                }
            }
        }
        if columns.len() > 0 {
            sink(TableKind::Events, columns.finish()?);
        }
        self.find(&problems, lost);
        Ok(())
    }
}

/// Returns the progress at a time within the stream with this index, for streams that count the same.
fn steps_of(index: usize, (from, to): (Time, Time), now: Time) -> u64 {
    const STEPS: u64 = 1 << 16;
    let part = (now - from).0.max(0) as f64 / (to - from).0.max(1) as f64;
    index as u64 * STEPS + (part.min(1.0) * STEPS as f64) as u64
}

fn count(lost: &mut (u64, u64), loss: &Loss) {
    lost.0 += 1;
    lost.1 = lost.1.saturating_add(loss.count.unwrap_or(0));
}

impl std::fmt::Debug for RecordingSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingSource").field("path", &self.recording.path).finish_non_exhaustive()
    }
}

/// A pass over a recording, and the batches that it fills.
struct Pass<S> {
    /// The receiver of batches, which returns false to end the pass.
    sink: S,
    selected: Vec<bool>,
    filter: EventFilter,
    host: Arc<str>,
    events: Option<EventColumns>,
    intervals: Option<IntervalColumns>,
    latencies: Option<IntervalColumns>,
    losses: Option<LossColumns>,
    finder: Option<IntervalFinder>,
    /// The spans that the last item ended.
    found: Vec<IntervalRow>,
    lost: (u64, u64),
}

impl<S: FnMut(TableKind, RecordBatch) -> bool> Pass<S> {
    fn new(
        source: &RecordingSource,
        tables: &[TableKind],
        projection: &[usize],
        limits: &PassLimits,
        filter: EventFilter,
        sink: S,
    ) -> Result<Self, ArrowError> {
        let has = |table| tables.contains(&table);
        let columns = |table| has(table).then(|| IntervalColumns::new(table));
        let finder = match (has(TableKind::Intervals), has(TableKind::Latencies)) {
            (true, _) => Some(IntervalFinder::all()),
            (false, true) => Some(IntervalFinder::latencies()),
            (false, false) => None,
        };
        let events = has(TableKind::Events)
            .then(|| EventColumns::new(&source.classes, projection, source.form))
            .transpose()?;
        Ok(Self {
            sink,
            selected: source.selected(limits, &filter),
            filter,
            host: Arc::clone(&source.host),
            events,
            intervals: columns(TableKind::Intervals),
            latencies: columns(TableKind::Latencies),
            losses: has(TableKind::Losses).then(LossColumns::default),
            finder,
            found: Vec::new(),
            lost: (0, 0),
        })
    }

    /// Adds the rows of an item. Returns false if the receiver takes no more.
    fn take(&mut self, item: &Item<'_>, begin: Time) -> Result<bool, ArrowError> {
        let mut goes_on = true;
        match item {
            Item::Event(moment) if moment.event.time >= begin => {
                if let Some(events) = &mut self.events
                    && self.selected[moment.event.class.index()]
                    && self.filter.passes(item)
                {
                    events.push(moment.event, Some(moment))?;
                    if events.len() >= ROWS {
                        goes_on = (self.sink)(TableKind::Events, events.finish()?);
                    }
                }
            }
            Item::Loss(loss, _) if loss.to >= begin => {
                count(&mut self.lost, loss);
                if let Some(losses) = &mut self.losses {
                    losses.push(loss, &self.host);
                    if losses.len() >= ROWS {
                        goes_on &= (self.sink)(TableKind::Losses, losses.finish()?);
                    }
                }
            }
            _ => {}
        }
        if let Some(finder) = &mut self.finder {
            finder.take(item, |interval| self.found.push(interval));
            if !self.found.is_empty() {
                goes_on &= self.add_found(begin)?;
            }
        }
        Ok(goes_on)
    }

    fn add_found(&mut self, begin: Time) -> Result<bool, ArrowError> {
        let mut goes_on = true;
        for interval in self.found.drain(..).filter(|interval| interval.to >= begin) {
            let is_latency = interval.state == WOKEN;
            for columns in [self.intervals.as_mut(), self.latencies.as_mut().filter(|_| is_latency)] {
                let Some(columns) = columns else { continue };
                columns.push(&interval, &self.host);
                if columns.len() >= ROWS {
                    goes_on &= (self.sink)(columns.table(), columns.finish()?);
                }
            }
        }
        Ok(goes_on)
    }

    /// Passes on the remaining rows.
    fn end(mut self) -> Result<EventFilter, ArrowError> {
        if let Some(events) = self.events.as_mut().filter(|events| events.len() > 0) {
            (self.sink)(TableKind::Events, events.finish()?);
        }
        for columns in [&mut self.intervals, &mut self.latencies].into_iter().flatten() {
            if columns.len() > 0 {
                (self.sink)(columns.table(), columns.finish()?);
            }
        }
        if let Some(losses) = self.losses.as_mut().filter(|losses| losses.len() > 0) {
            (self.sink)(TableKind::Losses, losses.finish()?);
        }
        Ok(self.filter)
    }
}
