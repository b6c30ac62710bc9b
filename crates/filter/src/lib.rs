//! The selection of events, in one language for the recorder and for readers of traces.
//!
//! A [`rule`] chooses tracepoints by their names, a [`condition`] records by their values. A recorder compiles both for
//! the tracepoints of a program; in the program, `sordino-filter-vm` runs the code. A reader of a trace evaluates the
//! same text on decoded events.
//!
//! Nothing here does I/O, reads a clock or is unsafe.
//!
//! | module | content |
//! |---|---|
//! | `rule` | rules that choose tracepoints by their names |
//! | `condition` | conditions on the fields of records |
//! | `invalid` | faults in the text of either |
#![forbid(unsafe_code)]

pub mod condition;
mod invalid;
pub mod rule;

pub use invalid::Invalid;
