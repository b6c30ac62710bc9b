//! Where events come from.

use sordino_event::{Event, Step};

/// One stream of events in the order of time.
///
/// Any closure of the shape of [`Source::next`] is a source, so a reader needs to know nothing of this crate.
pub trait Source {
    /// Why a stream cannot be read on.
    type Error;

    /// Decodes the next event into `event`, or tells of a loss or the end. Not called again after
    /// [`Step::End`] or an error.
    ///
    /// # Errors
    /// When the stream cannot be read on.
    fn next(&mut self, event: &mut Event) -> Result<Step, Self::Error>;
}

impl<F, E> Source for F
where
    F: FnMut(&mut Event) -> Result<Step, E>,
{
    type Error = E;

    fn next(&mut self, event: &mut Event) -> Result<Step, E> {
        self(event)
    }
}
