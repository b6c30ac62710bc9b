//! The events about functions (`docs/functions.md`): entry and exit, with the same fields.
//!
//! The crate `sordino-function` and `sordino/function.h` record them, and spell these names out.

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
