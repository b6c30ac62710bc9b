//! Functions by their names, and their calls as spans, for formats that have them.

use sordino_event::functions::function;
use sordino_event::{Classes, Pid, Tid, Time};
use sordino_query::{NameAddress, Spans};
use sordino_timeline::{FiberId, Item, Moment};
use std::fmt;
use std::sync::Arc;

/// The functions of a trace's programs.
#[derive(Default)]
pub(crate) struct CallTracker {
    names: Option<NameAddress>,
    /// The calls so far; `None` in a trace without any.
    calls: Option<Spans>,
}

/// A call of a function, wholly known.
#[derive(Debug)]
pub(crate) struct Call {
    /// The function's name, or its address if it has none.
    pub(crate) name: Arc<str>,
    pub(crate) pid: Pid,
    pub(crate) tid: Tid,
    /// The fiber whose call it is, if it is not its thread's.
    pub(crate) fiber: Option<FiberId>,
    pub(crate) begin: Time,
    pub(crate) end: Time,
}

impl fmt::Debug for CallTracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTracker").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl CallTracker {
    /// Finds the calls of functions that have no names so far.
    pub(crate) fn new(classes: &Classes) -> Self {
        Self { names: None, calls: Spans::calls(classes) }
    }

    pub(crate) fn set_names(&mut self, names: NameAddress) {
        self.names = Some(names);
    }

    /// Returns the name of the function that an event is about.
    pub(crate) fn name(&self, moment: &Moment<'_>, classes: &Classes) -> Option<Arc<str>> {
        let names = self.names.as_ref()?;
        names(moment.pid()?, function(&classes[moment.event.class], moment.event)?)
    }

    /// Processes the next item of the trace. Returns the call that ends there.
    pub(crate) fn take(&mut self, item: &Item<'_>) -> Option<Call> {
        let (mut ended, calls) = (None, self.calls.as_mut()?);
        calls.take(item, |span| ended = span.or_else(|| ended.take()));
        let Item::Event(moment) = item else { return None };
        let (span, pid) = ended.zip(moment.pid())?;
        let address = span.address?;
        let named = self.names.as_ref().and_then(|names| names(pid, address));
        let name = named.unwrap_or_else(|| format!("{address:#x}").into());
        Some(Call { name, pid, tid: span.tid?, fiber: span.fiber, begin: span.from, end: span.to })
    }
}
