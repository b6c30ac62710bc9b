//! The sums over a trace that grows.

use crate::busy::Busy;
use crate::stretch::{StretchSums, StretchTime};
use crate::threads::Threads;
use sordino_event::{Classes, Loss, LossCause, Tid, Time};
use sordino_query::{Span, SpanCondition, Spans};
use sordino_timeline::{Host, Item, Kernel, Moment, Recorded, is_added};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Number of stretches over which rates and the histogram reach.
pub(crate) const WINDOW: usize = 10;
/// Maximum number of names of events that are counted apart; events with further names count as one.
const NAMES_MAX: usize = 5000;

/// The sums over a trace that grows.
#[derive(Debug)]
pub struct Tally {
    latencies: Spans,
    interrupts: Spans,
    softirqs: Spans,
    busy: Busy,
    /// The classes of the present part of the trace, by index.
    classes: Vec<CountedClass>,
    /// The kinds of the kernel's events that the trace has.
    pub(crate) recorded: Recorded,
    present: StretchSums,
    pub(crate) past: VecDeque<StretchSums>,
    pub(crate) threads: Threads,
    /// The number of events by name since the begin.
    pub(crate) totals: BTreeMap<Arc<str>, u64>,
    /// The number of lost records by cause, and of the losses whose records could not be counted.
    pub(crate) losses: BTreeMap<LossCause, (u64, u64)>,
    /// The number of waits that are known in part only.
    pub(crate) broken: u64,
    /// The first and the last time of the trace.
    pub(crate) span: Option<(Time, Time)>,
}

/// A class, and the number of its events in this part of the trace.
#[derive(Debug)]
struct CountedClass {
    name: Arc<str>,
    /// True for an event of a state dump, which did not happen while it was recorded.
    is_added: bool,
    count: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            latencies: Spans::latencies(),
            interrupts: Spans::interrupts(),
            softirqs: Spans::softirqs(),
            busy: Busy::default(),
            classes: Vec::new(),
            recorded: Recorded::default(),
            present: StretchSums::default(),
            past: VecDeque::new(),
            threads: Threads::default(),
            totals: BTreeMap::new(),
            losses: BTreeMap::new(),
            broken: 0,
            span: None,
        }
    }
}

impl Tally {
    /// Begins a part of the trace whose events have these classes.
    pub fn begin_part(&mut self, classes: &Classes, recorded: Recorded) {
        self.count_classes();
        let counted = |class: &sordino_event::Class| CountedClass {
            name: class.name.as_str().into(),
            is_added: is_added(class),
            count: 0,
        };
        self.classes = classes.iter().map(|(_, class)| counted(class)).collect();
        self.recorded = recorded;
    }

    /// Adds the next item of the trace. Of events and waits, only those that meet the condition are counted.
    pub fn take(&mut self, item: &Item<'_>, condition: Option<&SpanCondition>) {
        match item {
            Item::Event(moment) => self.event(moment, condition),
            Item::Loss(loss, _) => {
                self.busy.lose(loss);
                let (count, uncounted) = self.losses.entry(loss.cause).or_default();
                match loss.count {
                    Some(more) => *count = count.saturating_add(more),
                    None => *uncounted += 1,
                }
            }
            Item::Disorder(_) => return,
        }
        self.spans(item, condition);
    }

    /// Passes over a gap with events that were left out to save time. The gap is no loss, but the state after it is
    /// unknown.
    pub fn skip(&mut self, from: Time, to: Time) {
        let cause = LossCause::Discarded;
        let gap = Loss { from, to, cpu: None, pid: None, count: None, cause, place: None };
        self.busy.lose(&gap);
        self.spans(&Item::Loss(&gap, Host::default()), None);
    }

    fn event(&mut self, moment: &Moment<'_>, condition: Option<&SpanCondition>) {
        let Some(class) = self.classes.get_mut(moment.event.class.index()) else { return };
        if class.is_added {
            return;
        }
        let now = moment.event.time;
        self.span = Some(self.span.map_or((now, now), |(first, last)| (first.min(now), last.max(now))));
        self.busy.take(moment);
        if condition.is_none_or(|condition| condition.is_met(moment, moment.tid)) {
            class.count += 1;
            if let Some(cpu) = moment.cpu {
                self.present.cpus.entry(cpu).or_default().events += 1;
            }
        }
    }

    fn spans(&mut self, item: &Item<'_>, condition: Option<&SpanCondition>) {
        let (present, threads, broken) = (&mut self.present, &mut self.threads, &mut self.broken);
        self.latencies.take(item, |span| match (span, item) {
            (Some(span), Item::Event(moment)) => add_wait(present, threads, &span, moment, condition),
            _ => *broken += 1,
        });
        for spans in [&mut self.interrupts, &mut self.softirqs] {
            spans.take(item, |span| {
                let Some((span, name)) = span.and_then(|span| Some((span.length(), span.name?))) else {
                    return;
                };
                let handler = present.handlers.entry(name).or_default();
                handler.count += 1;
                handler.total += span;
                handler.max = handler.max.max(span);
            });
        }
    }

    /// Returns the times of the first and the last event.
    pub fn span(&self) -> Option<(Time, Time)> {
        self.span
    }

    /// Ends a stretch at `end`.
    pub fn end_stretch(&mut self, end: Time, time: StretchTime) {
        self.count_classes();
        for (cpu, time) in self.busy.drain(end) {
            self.present.cpus.entry(cpu).or_default().time.add(time);
        }
        self.present.time = time;
        self.past.push_back(std::mem::take(&mut self.present));
        while self.past.len() > WINDOW {
            self.past.pop_front();
        }
        self.threads.next_stretch(WINDOW);
    }

    /// Forgets the threads' waits and all counts, but not the state of the machine.
    pub fn clear(&mut self) {
        self.classes.iter_mut().for_each(|class| class.count = 0);
        (self.present, self.past, self.threads) = Default::default();
        (self.totals, self.losses, self.broken) = Default::default();
    }

    fn count_classes(&mut self) {
        for class in self.classes.iter_mut().filter(|class| class.count > 0) {
            let is_known = self.totals.contains_key(&class.name);
            let name = match is_known || self.totals.len() < NAMES_MAX {
                true => Arc::clone(&class.name),
                false => "(others)".into(),
            };
            let count = std::mem::take(&mut class.count);
            *self.present.events.entry(Arc::clone(&name)).or_default() += count;
            *self.totals.entry(name).or_default() += count;
        }
    }
}

/// Adds a wait that ends with this event.
fn add_wait(
    present: &mut StretchSums,
    threads: &mut Threads,
    span: &Span,
    moment: &Moment<'_>,
    condition: Option<&SpanCondition>,
) {
    let Some(tid) = span.tid else { return };
    if !condition.is_none_or(|condition| condition.is_met(moment, Some(tid))) {
        return;
    }
    present.bars[StretchSums::bar(span.length())] += 1;
    let system = moment.system;
    let before = || match moment.kernel {
        Some(Kernel::Switch { prev, .. }) if prev.tid != Tid(0) => {
            Some(label(system.comm(prev.tid), prev.tid))
        }
        _ => None,
    };
    let priority = system.priority(tid).map(|priority| priority.to_string());
    threads.add(tid, span, system.comm(tid), priority, before);
}

/// Returns `NAME/TID`, or the id alone.
pub(crate) fn label(name: Option<&Arc<str>>, tid: Tid) -> Arc<str> {
    name.map_or_else(|| tid.0.to_string(), |name| format!("{name}/{}", tid.0)).into()
}
