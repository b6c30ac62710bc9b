//! The options that select events and a time of a recording, for every program that reads one.
//!
//! | module | contents |
//! |---|---|
//! | `sql` | the options of `sordino sql` |
//! | `event_filter` | `--event`, `--where`, `--statedump`: the rules, and the filter that they make |
//! | `within` | `--from`, `--until`, `--around` |
#![forbid(unsafe_code)]

mod event_filter;
mod sql;
mod within;

pub use event_filter::{EventFilter, EventOptions, EventRules, check_fields, parse_condition};
pub use sql::{ResultFormat, SqlOptions};
pub use within::TimeOptions;

/// An option that is invalid, or that selects nothing in the recording; the text has the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SelectionError(pub(crate) String);
