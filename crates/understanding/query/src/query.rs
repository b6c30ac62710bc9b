//! One pass over a trace.

use crate::choice::finder;
use crate::durations::Durations;
use crate::error::Error;
use crate::fiber_names::FiberNames;
use crate::finder::SpanFinder;
use crate::key::{KeyValue, Per, PreparedKey};
use crate::measure::{Measure, PathOf};
use crate::row_sums::RowSums;
use crate::span::{FoundSpan, Span};
use crate::table::{Apart, StatisticsRow, StatisticsTable};
use foldhash::HashMap;
use sordino_event::{ClassId, Classes, Nanos, Pid, Tid, Time};
use sordino_intervals::{Survey, SurveyBuilder};
use sordino_timeline::{Consumer, FiberEvent, Host, Item, Kernel, Moment, Payer, Recorded, ThreadOrFiber};
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

/// The maximum number of rows. Each takes some kilobytes.
const ROWS_MAX: usize = 10_000;

/// Function that returns true if an event of a thread selects the span that ends there.
pub type SpanSelector = Box<dyn Fn(&Moment<'_>, Option<Tid>) -> bool>;

/// Function that returns the name of the symbol at an address of a process, if it has one.
pub type NameAddress = Box<dyn Fn(Pid, u64) -> Option<Arc<str>>>;

/// A measurement of a trace, item by item.
pub struct Query {
    measure: Measure,
    pers: Vec<Per>,
    keys: Vec<PreparedKey>,
    class_names: Vec<Arc<str>>,
    only: Option<SpanSelector>,
    names: Option<NameAddress>,
    /// The finders of the hosts, by their numbers; one for all hosts if spans may lie between hosts.
    finders: Vec<Box<dyn SpanFinder>>,
    /// The names of the hosts, by their numbers.
    hosts: Vec<Arc<str>>,
    /// The spans as intervals to explain, if they are collected.
    survey: Option<SurveyBuilder>,
    rows: HashMap<Vec<KeyValue>, RowSums>,
    /// Room for the values of a span's keys, empty between spans.
    values: Vec<KeyValue>,
    /// The names of fibers by the hosts' numbers, if rows are distinguished by them.
    fiber_names: Option<Vec<FiberNames>>,
    /// The keys and labels of the threads that have a CPU, if the measure needs them at the end of the trace.
    running: HashMap<(Host, Tid), ActiveThread>,
    all: Durations,
    /// The time of spans that recording took, as far as it is subtracted.
    overhead: Nanos,
    found: Vec<FoundSpan>,
    apart: Apart,
    crowded: u64,
    lost: u64,
    /// The time at which it begins to measure.
    begin: Time,
    /// The times of the first and the last event that each finder has processed.
    spans: Vec<Option<(Time, Time)>>,
}

/// A thread that has a CPU: the keys of its row, and the time that recording has taken of it up to its latest event.
struct ActiveThread {
    values: Vec<KeyValue>,
    labels: Vec<Arc<str>>,
    since: Time,
    overhead: Nanos,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Query")
            .field("measure", &self.measure)
            .field("pers", &self.pers)
            .finish_non_exhaustive()
    }
}

impl Query {
    /// Creates a query of a trace with these classes and kinds of the kernel's events. Without keys, the measure's
    /// default keys apply.
    ///
    /// # Errors
    /// The trace lacks events or a field, or a key does not fit the measure.
    pub fn new(classes: &Classes, recorded: Recorded, measure: Measure, pers: &[Per]) -> Result<Self, Error> {
        if let Some(missing) = measure.missing(recorded).into_iter().find(|missing| missing.is_needed) {
            return Err(Error::Kernel(missing.group));
        }
        let pers = if pers.is_empty() { measure.usual_keys() } else { pers.to_vec() };
        if let Some(per) = pers.iter().find(|per| !measure.fits(per)) {
            return Err(Error::Key(per.to_string()));
        }
        let keys: Vec<PreparedKey> = pers.iter().map(|per| PreparedKey::new(per, classes)).collect();
        if let Some((per, _)) = pers.iter().zip(&keys).find(|(_, key)| key.lacks_field()) {
            return Err(Error::Field(per.to_string()));
        }
        let finders = vec![finder(classes, &measure, &pers)?];
        let fiber_names = pers.contains(&Per::Fiber).then(|| vec![FiberNames::default()]);
        Ok(Self {
            class_names: classes.iter().map(|(_, class)| class.name.as_str().into()).collect(),
            measure,
            pers,
            keys,
            only: None,
            names: None,
            finders,
            hosts: Vec::new(),
            survey: None,
            rows: HashMap::default(),
            values: Vec::new(),
            fiber_names,
            running: HashMap::default(),
            all: Durations::default(),
            overhead: Nanos::ZERO,
            found: Vec::new(),
            apart: Apart::default(),
            crowded: 0,
            lost: 0,
            begin: Time::MIN,
            spans: vec![None],
        })
    }

    /// Limits the query to spans that end with an event, and in a thread, that `selector` accepts.
    #[must_use]
    pub fn only(self, selector: SpanSelector) -> Self {
        Self { only: Some(selector), ..self }
    }

    /// Sets the names of the hosts, by their numbers. Each of several hosts is measured by itself, unless spans may lie
    /// between hosts. Rows for ids, numbers and addresses then have the host as an additional key.
    ///
    /// # Errors
    /// As for [`new`](Self::new), with the same classes.
    pub fn of_hosts(mut self, classes: &Classes, names: &[String]) -> Result<Self, Error> {
        self.hosts = names.iter().map(|name| name.as_str().into()).collect();
        if names.len() < 2 {
            return Ok(self);
        }
        if self.pers.iter().any(Per::is_of_host) && !self.pers.contains(&Per::Host) {
            self.pers.insert(0, Per::Host);
            self.keys.insert(0, PreparedKey::new(&Per::Host, classes));
        }
        if !self.measure.is_between_hosts() {
            for _ in 1..names.len() {
                self.finders.push(finder(classes, &self.measure, &self.pers)?);
                self.spans.push(None);
            }
        }
        let count = names.len();
        self.fiber_names.iter_mut().for_each(|names| names.resize_with(count, FiberNames::default));
        Ok(self)
    }

    /// Sets the function that names addresses.
    pub fn set_names(&mut self, names: NameAddress) {
        self.names = Some(names);
    }

    /// Limits the measurement to the time from `begin` on. Earlier events still define the state of the machine at that
    /// time.
    #[must_use]
    pub fn since(self, begin: Time) -> Self {
        Self { begin, ..self }
    }

    /// Makes the query collect its spans, for an explanation of the longest.
    #[must_use]
    pub fn surveying(self) -> Self {
        Self { survey: Some(SurveyBuilder::new(self.measure.name())), ..self }
    }

    /// Counts a span that is known in part only.
    fn breaks(&mut self) {
        self.apart.broken += 1;
        self.survey.iter_mut().for_each(SurveyBuilder::add_broken);
    }

    fn event(&mut self, moment: &Moment<'_>) {
        self.fiber_names.iter_mut().for_each(|names| of_host(names, moment.host).take(moment));
        of_host(&mut self.finders, moment.host).take(moment, &mut self.found);
        if !self.found.is_empty() {
            let mut found = std::mem::take(&mut self.found);
            if moment.event.time >= self.begin {
                found.iter().for_each(|found| self.measure(found, moment));
            }
            found.clear();
            self.found = found;
        }
        if self.measure == Measure::Active {
            self.follow(moment);
        }
    }

    fn measure(&mut self, found: &FoundSpan, moment: &Moment<'_>) {
        match found {
            FoundSpan::Whole(span) | FoundSpan::Cut(span) if self.measure == Measure::Active => {
                self.add(&self.clipped(span), moment);
            }
            // Links that end together are found together: some lie before the begin.
            FoundSpan::Whole(span)
                if matches!(self.measure, Measure::Path(PathOf::Threads | PathOf::Fibers)) =>
            {
                if span.to > self.begin {
                    self.add(&self.clipped(span), moment);
                }
            }
            FoundSpan::Whole(span) => self.add(span, moment),
            FoundSpan::Cut(_) => self.apart.cut += 1,
            FoundSpan::Broken => self.breaks(),
        }
    }

    /// Notes the keys of a thread that gets a CPU, or another fiber, and what its events cost.
    fn follow(&mut self, moment: &Moment<'_>) {
        if let Some(tid) = moment.tid.filter(|_| moment.system.subtracts_overhead())
            && let Some(running) = self.running.get_mut(&(moment.host, tid))
        {
            let payer = Payer::Owner(ThreadOrFiber::Thread(tid));
            let since = running.since.max(self.begin);
            running.overhead = moment.system.overhead(payer, since, moment.event.time);
        }
        let comes = match (moment.kernel, moment.about_fibers()) {
            (Some(Kernel::Switch { prev, next, .. }), _) => {
                self.running.remove(&(moment.host, prev.tid));
                Some(next.tid)
            }
            (_, Some(FiberEvent::Switch { .. })) => moment.tid,
            _ => None,
        };
        let Some(tid) = comes.filter(|tid| *tid != Tid(0)) else { return };
        let system = moment.system;
        let fiber = system.pid(tid).and_then(|pid| system.fibers().mounted(pid, tid).fiber());
        let at = moment.event.time;
        let span = Span { tid: Some(tid), cpu: moment.cpu, fiber, ..Span::between(at, at) };
        if self.selects(&span, moment) {
            let mut values: Vec<_> = self.values(&span, moment).collect();
            if fiber.is_none() {
                // The event's fiber is the one that leaves.
                values
                    .iter_mut()
                    .filter(|value| matches!(value, KeyValue::Fiber(_)))
                    .for_each(|value| *value = KeyValue::Unknown);
            }
            let labels = self.labels(&values, &span, moment);
            self.running.insert(
                (moment.host, tid),
                ActiveThread { values, labels, since: at, overhead: Nanos::ZERO },
            );
        }
    }

    /// Returns the part of a span that is measured.
    fn clipped(&self, span: &Span) -> Span {
        Span { from: span.from.max(self.begin), ..span.clone() }
    }

    fn selects(&self, span: &Span, moment: &Moment<'_>) -> bool {
        self.only.as_ref().is_none_or(|only| only(moment, span.tid))
    }

    fn values<'a>(&'a self, span: &'a Span, moment: &'a Moment<'_>) -> impl Iterator<Item = KeyValue> + 'a {
        let both = self.pers.iter().zip(&self.keys);
        both.map(|(per, key)| match key.value(span, moment) {
            // One row for a function of several processes, which have it at different addresses.
            KeyValue::Address(Some(pid), address) if *per == Per::Function => {
                let name = self.names.as_ref().and_then(|names| names(pid, address));
                name.map_or(KeyValue::Address(Some(pid), address), KeyValue::Text)
            }
            value => value,
        })
    }

    fn labels(&self, values: &[KeyValue], span: &Span, moment: &Moment<'_>) -> Vec<Arc<str>> {
        let both = self.keys.iter().zip(values);
        let label = |(key, value): (&PreparedKey, &KeyValue)| {
            let label = key.label(value, span, moment, &self.class_names);
            let name = match (value, &self.names) {
                (KeyValue::Host(host), _) => {
                    return self.hosts.get(usize::from(host.0)).cloned().unwrap_or(label);
                }
                (KeyValue::Address(Some(pid), address), Some(names)) => names(*pid, *address),
                _ => None,
            };
            name.map_or_else(|| Arc::clone(&label), |name| format!("{label} {name}").into())
        };
        both.map(label).collect()
    }

    fn add(&mut self, span: &Span, moment: &Moment<'_>) {
        if !self.selects(span, moment) {
            return;
        }
        if moment.system.subtracts_overhead() {
            let overhead = self
                .measure
                .payer(span)
                .map_or(Nanos::ZERO, |payer| moment.system.overhead(payer, span.from, span.to));
            self.enter(&span.without(overhead, self.measure.parts()), moment);
        } else {
            self.enter(span, moment);
        }
    }

    /// Adds a span to its row.
    fn enter(&mut self, span: &Span, moment: &Moment<'_>) {
        // A span without a row is explained nevertheless.
        if let Some((survey, interval)) = self.survey.as_mut().zip(span.interval(moment.system)) {
            survey.add(interval);
        }
        let mut values = std::mem::take(&mut self.values);
        values.extend(self.values(span, moment));
        if let Some(row) = self.rows.get_mut(&values) {
            row.add(span);
            values.clear();
            self.values = values;
        } else if self.rows.len() == ROWS_MAX {
            self.crowded += 1;
            return;
        } else {
            let mut row = RowSums::new(self.labels(&values, span, moment));
            row.add(span);
            self.rows.insert(values, row);
        }
        self.all.add(span.length(), span.from);
        self.overhead += span.overhead;
    }

    /// Returns the table after the last item, and the intervals to explain if they were collected. The time of an idle
    /// CPU belongs to no thread, and is not explained.
    pub fn finish_with_survey(mut self) -> (StatisticsTable, Option<Survey>) {
        let survey = self.survey.take().map(SurveyBuilder::finish);
        let table = self.finish();
        let survey = survey.map(|mut survey| {
            survey.unpaired.begins = table.apart.cut;
            survey
        });
        (table, survey)
    }

    /// Returns the table after the last item.
    pub fn finish(mut self) -> StatisticsTable {
        let spans = self.spans.iter().flatten().copied();
        let whole = spans.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)));
        let (first, last) = whole.unwrap_or_default();
        let mut found = Vec::new();
        for ((host, finder), span) in (0..).map(Host).zip(&mut self.finders).zip(&self.spans) {
            let mut of_host = Vec::new();
            self.apart.cut += finder.finish(span.unwrap_or_default().1, &mut of_host);
            found.extend(of_host.into_iter().map(|found| (host, found)));
        }
        for (host, found) in found {
            match found {
                FoundSpan::Cut(span) if self.measure == Measure::Active => {
                    let running = span.tid.and_then(|tid| self.running.remove(&(host, tid)));
                    let Some(ActiveThread { values, labels, overhead, .. }) = running else { continue };
                    let span = Span { from: span.from.max(self.begin), ..span };
                    let span = span.without(overhead.min(span.length()), &[]);
                    self.rows.entry(values).or_insert_with(|| RowSums::new(labels)).add(&span);
                    self.all.add(span.length(), span.from);
                    self.overhead += span.overhead;
                }
                _ => self.apart.cut += 1,
            }
        }
        let names = self.measure.parts();
        let fiber_names = self.fiber_names.unwrap_or_default();
        let close = |(values, mut sums): (Vec<KeyValue>, RowSums)| {
            sums.rename(&values, &fiber_names);
            sums.close(names)
        };
        let mut rows: Vec<StatisticsRow> = self.rows.into_iter().filter_map(close).collect();
        rows.sort_by(|a, b| a.labels.cmp(&b.labels));
        match self.measure {
            Measure::Count => rows.sort_by_key(|row| Reverse(row.summary.count)),
            Measure::Latency | Measure::Preemption | Measure::Reactivity | Measure::Jitter(..) => {
                rows.sort_by_key(|row| Reverse(row.summary.max))
            }
            _ => rows.sort_by_key(|row| Reverse(row.summary.total)),
        }
        StatisticsTable {
            measure: self.measure.name(),
            unit: self.measure.unit(),
            has_lengths: self.measure != Measure::Count,
            is_share_of_wall: matches!(
                self.measure,
                Measure::Active
                    | Measure::Irqs
                    | Measure::Softirqs
                    | Measure::Path(PathOf::Threads | PathOf::Fibers)
            ),
            keys: self.pers.iter().map(Per::to_string).collect(),
            wall: last - first,
            overhead: self.overhead,
            rows,
            all: self.all.summary(),
            apart: self.apart,
            crowded: self.crowded,
            lost: self.lost,
        }
    }
}

impl Consumer for Query {
    fn take(&mut self, item: &Item<'_>) {
        match item {
            Item::Event(moment) => {
                let now = moment.event.time;
                if now >= self.begin {
                    let span = of_host(&mut self.spans, moment.host);
                    *span = Some((span.map_or(now, |(first, _)| first), now));
                }
                self.event(moment);
            }
            Item::Loss(loss, host) => {
                if loss.to >= self.begin {
                    self.lost += loss.count.unwrap_or(0);
                }
                of_host(&mut self.finders, *host).lose(loss, &mut self.found);
                if let Some((names, pid)) = self.fiber_names.as_mut().zip(loss.pid) {
                    of_host(names, *host).lose(pid);
                }
                let broken = self.found.drain(..).count() as u64;
                if loss.to >= self.begin {
                    (0..broken).for_each(|_| self.breaks());
                }
            }
            Item::Disorder(_) => {}
        }
    }

    fn reads_fields(&self, class: ClassId) -> bool {
        let has_none = self.only.is_none() && self.survey.is_none() && !self.measure.reads_fields();
        !has_none || self.keys.iter().any(|key| key.reads_field(class))
    }

    fn needs_lead(&self) -> bool {
        true
    }
}

/// Returns the element of a host, or the last one, which is for all others.
fn of_host<T>(elements: &mut [T], host: Host) -> &mut T {
    let last = elements.len() - 1;
    &mut elements[usize::from(host.0).min(last)]
}
