//! Whether a machine is fit for real time, and what disturbs it.
//!
//! A [`Report`] has one [`Step`] for each question, in the order in which engineers ask them: how the machine is set
//! ([`table`]), what the hardware takes, for how long a thread is stopped, how late a thread wakes under load, whether a higher
//! priority preempts a lower one. Each step has a [`Verdict`] with its reason and what to do next. [`Limits`] are what the user
//! asks for; without any, figures are figures and nothing passes or fails.
//!
//! Steps, limits, tables, the readers of what other programs and the kernel's tracers print, and the reports are pure: text to
//! data, data to text. Only [`preemption`] measures by itself, and [`Sources`] reads the kernel's files.

#![forbid(unsafe_code)]

mod compare;
mod conditions;
mod distribution;
mod limits;
pub mod loads;
pub mod peers;
pub mod preemption;
mod report;
mod sources;
pub mod table;
pub mod tracers;
pub mod write;

pub use compare::{Change, Comparison, Row, compare};
pub use conditions::{Held, MachineInfo, Settings};
pub use distribution::{Bin, Distribution, Percentile, Samples};
pub use limits::{BadLimits, Limit, Limits, duration, time};
pub use report::{Command, Explained, Interrupter, Line, Measurement, Report, SCHEMA, Step, Verdict};
pub use sources::Sources;
