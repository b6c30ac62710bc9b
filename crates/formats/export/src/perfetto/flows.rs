//! Flows from causes to their effects.

use sordino_event::{Cpu, Tid};
use std::collections::HashMap;

/// A cause whose effect follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FlowCause {
    /// A wake-up of this thread, which leads to a run.
    WakeUp(Tid),
    /// A softirq with this number that was raised on this CPU, which leads to its handler.
    Raise(Cpu, i64),
}

/// The end of a flow that an instant marks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flow {
    Begin(u64),
    End(u64),
}

/// The flows whose effect has not come yet.
#[derive(Debug, Default)]
pub(super) struct OpenFlows {
    numbers: HashMap<FlowCause, u64>,
    count: u64,
}

impl OpenFlows {
    pub(super) fn has(&self, cause: FlowCause) -> bool {
        self.numbers.contains_key(&cause)
    }

    pub(super) fn begin(&mut self, cause: FlowCause) -> Flow {
        self.count += 1;
        self.numbers.insert(cause, self.count);
        Flow::Begin(self.count)
    }

    /// Ends the flow; `None` if there is none.
    pub(super) fn end(&mut self, cause: FlowCause) -> Option<Flow> {
        self.numbers.remove(&cause).map(Flow::End)
    }

    /// Forgets all flows: their effects may be among lost records.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
    }
}
