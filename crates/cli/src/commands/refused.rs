//! The failure of a command that names something that the recording does not have.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::recording::Recording;
use sordino_collect::names::meant;
use sordino_query::Error;

/// Returns the failure with the nearest names, or with the options that record the missing events.
pub(crate) fn refused(error: &Error, recording: &Recording) -> Failure {
    let classes = || recording.classes.iter().map(|(_, class)| class);
    let near = match error {
        Error::Rule(sordino_intervals::Error::Event { event }) => {
            meant(event, classes().map(|class| class.name.as_str()))
        }
        Error::Rule(sordino_intervals::Error::Field { field, .. }) | Error::Field(field) => {
            meant(field, classes().flat_map(|class| class.fields.iter().map(String::as_str)))
        }
        _ => None,
    };
    let near = near.map_or(String::new(), |near| format!("; {near}"));
    Failure::new(UNUSABLE, Failure::text_of(error) + &near)
}
