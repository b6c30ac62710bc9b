//! Tracers in comparison, as in the papers' tables: npt's loop under one tracer after another.
//!
//! A [`LoopStage`] has the CPUs, the programs and the directories. On it tracers are compared in rounds ([`compare`]),
//! or the rate of hits is raised until a tracer loses events ([`highest_rates`]).
//!
//! | module | contents |
//! |---|---|
//! | `tracers` | the loop under one tracer |
//! | `contender` | a tracer's rounds and their figures |
//! | `rounds` | the rounds of all tracers, and their table |
//! | `plot` | the plot of the figures |
//! | `rates` | the search for the highest rate without a lost event |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod contender;
mod error;
mod plot;
mod rates;
mod rounds;
mod tracers;

pub use error::Error;
pub use rates::{DEFAULT_LENGTH, HighestRate, highest_rates, rates_json, rates_text};
pub use rounds::{ComparisonTable, Rounds, TracerComparison, compare};
pub use tracers::{ComparedTracer, CountEvents, LoopStage, tracer};
