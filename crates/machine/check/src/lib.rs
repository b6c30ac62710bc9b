//! The check of a machine's fitness for real-time work, and of the sources that disturb it.
//!
//! A [`Report`] has one [`CheckStep`] for each question, in the order in which engineers ask them: how the machine is
//! set ([`table`]), how much time the hardware takes, for how long a thread is stopped, how late a thread wakes under
//! load, whether a thread preempts one of a lower priority. Each step has a [`Verdict`] with its reason and the next
//! thing to do. [`Limits`] are the user's requirements; without them, a measurement neither passes nor fails.
//!
//! A [`Check`] makes the steps: it holds settings of the machine meanwhile, runs the load and other programs, each with
//! a [`Keeper`] beside it, and writes the report after each step to its [`ReportDirectory`]. All else is pure: limits,
//! tables, reports, and the parsers of the output of other programs and of the kernel's tracers. Only [`preemption`]
//! measures by itself, and only [`SystemFiles`](sordino_proc::SystemFiles) reads the kernel's files.
//!
//! | module | content |
//! |---|---|
//! | `steps` | the steps that measure, one after the other |
//! | `limits`, `cpus`, `conditions` | the user's limits, the measured CPUs, and the conditions of a measurement |
//! | `table` | the table of the machine's settings, which the kernel's files show |
//! | `preemption` | the preempt-test of the papers |
//! | `loads`, `keep` | programs that run meanwhile, and the keeper that ends them in any case |
//! | `peers`, `tracers` | parsers for the output of rt-tests and of the kernel's tracers |
//! | `distribution`, `report` | the data of a report |
//! | `write`, `output` | a report as text, JSON and a page, and the directory for it |
//! | `compare` | reports side by side |
//! | `error` | errors of checks and of their helpers |

#![forbid(unsafe_code)]

mod compare;
mod conditions;
mod cpus;
mod distribution;
mod error;
mod keep;
mod limits;
pub mod loads;
mod output;
pub mod peers;
pub mod preemption;
mod report;
mod steps;
pub mod table;
pub mod tracers;
pub mod write;

pub use compare::{Comparison, Row, Trend, compare};
pub use conditions::{Held, MachineInfo, Settings};
pub use cpus::choose_cpus;
pub use distribution::{Bin, Distribution, DistributionPercentile, Samples};
pub use error::Error;
pub use keep::{Keeper, become_bound, keep};
pub use limits::{BadLimits, Limits, TimeLimit, duration, time};
pub use output::{ReportDirectory, read_report};
pub use report::{
    CheckStep, Command, Explained, InterruptionSource, Line, Measurement, Report, SCHEMA, Verdict,
};
pub use steps::{Check, CheckObserver, CheckRequest, is_source, read_limits, step_names};
