//! A recording as tables of Arrow: batches of rows, made in one pass in bounded memory. The crate does not use
//! DataFusion, so that the Python package is small and builds quickly.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | the tables and their columns |
//! | `source`, `progress` | a recording as batches of rows; the progress of reading it |
//! | `events`, `fields`, `rows`, `names` | columns that are filled row by row |
//! | `intervals` | the spans of states |

mod events;
mod fields;
mod intervals;
mod names;
mod progress;
mod rows;
mod schema;
mod source;

pub use events::is_plain;
pub use names::{hour_name, hour_of};
pub use progress::PassProgress;
pub use schema::{PARTITIONS, TableKind};
pub use source::{PassLimits, RecordingSource};
