//! The time until which records are missing.

use sordino_event::{Loss, Time};

/// The end of the last loss so far. The records of other CPUs come on while those of one are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordGap(Option<Time>);

impl RecordGap {
    pub(crate) fn add(&mut self, loss: &Loss) {
        self.0 = self.0.max(Some(loss.to));
    }

    /// Returns true if records may be missing in a stretch that begins then.
    pub(crate) fn touches(self, from: Time) -> bool {
        self.0.is_some_and(|until| from < until)
    }
}
