//! The failure of a command that names something that the recording does not have.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::recording::Recording;
use sordino_collect::names::{list, meant};
use sordino_collect::similar;
use sordino_event::{Class, Classes, Domain};
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

/// Returns the failure of an explanation with the nearest names, or else with those of the programs.
pub(crate) fn unknown(error: &sordino_intervals::Error, classes: &Classes) -> Failure {
    let text = Failure::text_of(error);
    let sordino_intervals::Error::Event { event } = error else { return Failure::new(UNUSABLE, text) };
    let names = classes.iter().map(|(_, class)| &*class.name);
    let near = similar(event, names);
    let mut user: Vec<&str> =
        classes.iter().map(|(_, class)| class).filter(is_user).map(|class| &*class.name).collect();
    user.sort_unstable();
    user.dedup();
    let hint = match (near.is_empty(), user.is_empty()) {
        (false, _) => format!("did you mean {}?", list(&near)),
        (true, true) => "it has the kernel's events only; name one with --event".to_owned(),
        (true, false) => format!("name one with --event: {}", list(&user)),
    };
    Failure::new(UNUSABLE, format!("{text}; {hint}"))
}

fn is_user(class: &&Class) -> bool {
    class.domain == Domain::User
}
