//! The events about functions (`docs/functions.md`): entry and exit, with the same fields.
//!
//! The crate `sordino-function` and `sordino/function.h` record them, and spell these names out.

use crate::{Class, Event, View};

/// The provider of the events.
pub const PROVIDER: &str = "sordino_function";
/// The event at the entry to a function.
pub const ENTRY: &str = "sordino_function:entry";
/// The event at the exit from a function.
pub const EXIT: &str = "sordino_function:exit";
/// The field with the address of the function.
pub const FUNCTION: &str = "function";
/// The field with the address behind the call; 0 if it is not known.
pub const CALL_SITE: &str = "call_site";

/// Returns the index of the field with a function's address, of an event about functions.
pub fn function_field(class: &Class) -> Option<usize> {
    class.field(FUNCTION).filter(|_| [ENTRY, EXIT].contains(&&*class.name))
}

/// Returns the address of the function that an event of this class is about.
pub fn function(class: &Class, event: &Event) -> Option<u64> {
    match event.value(function_field(class)?) {
        Some(View::Unsigned(address, _)) => Some(address),
        _ => None,
    }
}
