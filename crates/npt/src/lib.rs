//! The Non-Preempt Test of Beamonte and Dagenais ("Linux Low-Latency Tracing for Multicore Hard Real-Time Systems", 2015,
//! section 4.1): a thread that does nothing but read the clock, and notes how much time passes between two readings. On
//! a machine that is fit for real time that is always the time of one loop; whatever stops the thread shows as a gap.
//!
//! [`run`] pins a thread to a CPU, gives it a real-time policy, locks the process's memory and measures; [`Statistics`]
//! are pure arithmetic on what it noted, [`Counts`] say who interrupted. The loop can hit a tracepoint each time (`npt:loop`),
//! sordino's or another tracer's ([`run_watched`]), which makes npt also the test of what a tracer adds; [`run_on`] measures
//! several CPUs at once.
//!
//! ```no_run
//! use sordino_npt::{Plan, Statistics, run};
//! let measured = run(&Plan { cpu: Some(1), ..Plan::default() })?;
//! println!("max {:.0} ns", Statistics::of(&measured).maximum_ns);
//! # Ok::<(), sordino_npt::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bursts;
mod frequency;
mod histogram;
mod interrupters;
mod interrupts_off;
mod measure;
mod monitor;
mod notes;
mod plan;
mod statistics;
mod text;
mod turn;

pub use frequency::Frequency;
pub use histogram::{Bucket, Histogram};
pub use interrupters::{Counts, Interrupter};
pub use interrupts_off::{DEVICE, run_without_interrupts};
pub use measure::{Measured, hit, run, run_on, run_watched};
pub use monitor::Monitor;
pub use notes::Gap;
pub use plan::{Body, Error, Plan};
pub use statistics::{Percentile, Statistics};
pub use text::{ROW_TITLES, Unit, histogram as histogram_text, row, statistics as statistics_text};
