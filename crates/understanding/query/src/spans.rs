//! The spans of a measure, one by one, for a reader that sums them up itself.

use crate::finder::SpanFinder;
use crate::function_calls::FunctionCalls;
use crate::interrupts::Interrupts;
use crate::schedule::{ScheduleTracker, SpanKind};
use crate::span::{FoundSpan, Span};
use sordino_event::Classes;
use sordino_timeline::Item;

/// The spans of a trace that has no end yet: each is found at the event that ends it.
#[derive(Debug)]
pub struct Spans {
    finder: Box<dyn SpanFinder>,
    found: Vec<FoundSpan>,
}

impl Spans {
    /// Finds the waits of threads from a wake-up until they have a CPU, as
    /// [`Measure::Latency`](crate::Measure::Latency) does.
    pub fn latencies() -> Self {
        Self::new(ScheduleTracker::new(SpanKind::Latencies))
    }

    /// Finds the spans in which threads were in one state, which is in [`Span::state`]: runs, waits and sleeps.
    pub fn states() -> Self {
        Self::new(ScheduleTracker::new(SpanKind::States))
    }

    /// Finds handlers of interrupts, nested ones included.
    pub fn interrupts() -> Self {
        Self::new(Interrupts::new(false))
    }

    /// Finds handlers of softirqs, with the interrupts in them.
    pub fn softirqs() -> Self {
        Self::new(Interrupts::new(true))
    }

    /// Finds the calls of functions, as [`Measure::Calls`](crate::Measure::Calls) does; `None` if the trace has none.
    pub fn calls(classes: &Classes) -> Option<Self> {
        FunctionCalls::new(classes).map(Self::new)
    }

    fn new(finder: impl SpanFinder + 'static) -> Self {
        Self { finder: Box::new(finder), found: Vec::new() }
    }

    /// Processes the next item of the trace. Passes each span that ends there to `add`; `None` for one that is known in
    /// part only.
    pub fn take(&mut self, item: &Item<'_>, add: impl FnMut(Option<Span>)) {
        match item {
            Item::Event(moment) => self.finder.take(moment, &mut self.found),
            Item::Loss(loss, _) => self.finder.lose(loss, &mut self.found),
            Item::Disorder(_) => {}
        }
        let whole = |found| match found {
            FoundSpan::Whole(span) => Some(span),
            FoundSpan::Cut(_) | FoundSpan::Broken => None,
        };
        if !self.found.is_empty() {
            self.found.drain(..).map(whole).for_each(add);
        }
    }
}
