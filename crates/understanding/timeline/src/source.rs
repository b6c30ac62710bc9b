//! The trait of event sources.

use sordino_event::{Event, Step};

/// A stream of events in the order of time.
///
/// Every closure with the signature of [`Source::next`] is a source, so that a reader does not depend on this crate.
pub trait Source {
    /// The error for a stream that cannot be read further.
    type Error;

    /// Decodes the next event into `event`, or returns a loss or the end. Not called again after [`Step::End`] or an
    /// error.
    ///
    /// # Errors
    /// When the stream cannot be read further.
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
