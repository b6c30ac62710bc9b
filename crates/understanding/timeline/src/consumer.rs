//! Consumers of the super-trace, which share a pass.

use crate::Item;
use sordino_event::ClassId;

/// A consumer of the super-trace. A pass over a recording passes each item to all of its consumers, and reads the
/// fields that any of them needs.
pub trait Consumer {
    /// Processes the next item of the trace.
    fn take(&mut self, item: &Item<'_>);

    /// Returns true if it needs the fields of this class's events, beside those that the super-trace needs.
    fn reads_fields(&self, _class: ClassId) -> bool {
        true
    }

    /// Returns true if it needs the items shortly before the time to which a pass is limited: they show the state of
    /// the machine at its begin.
    fn needs_lead(&self) -> bool {
        false
    }
}
