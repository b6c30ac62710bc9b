//! The Non-Preempt Test of Beamonte and Dagenais ("Linux Low-Latency Tracing for Multicore Hard Real-Time Systems",
//! 2015, section 4.1): a thread that only reads the clock, and records the time between two readings. On a machine that
//! is fit for real time, that is always the time of one loop; whatever stops the thread appears as a gap.
//!
//! [`run`] pins a thread to a CPU, sets a real-time policy, locks the process's memory and measures; [`GapStatistics`]
//! is computed from its results, and [`Counts`] and [`Switches`] have the sources of interruptions. The loop can hit a
//! tracepoint each time (`npt:loop`), sordino's or another tracer's ([`run_watched`]), so npt also measures the
//! overhead of a tracer; [`run_on`] measures several CPUs at once.
//!
//! | module | content |
//! |---|---|
//! | `plan`, `part`, `iteration` | the options of a measurement, and the work of one iteration |
//! | `measure`, `notes` | the threads that run the loop, and what each keeps |
//! | `sink`, `marker` | the tracepoint that the loop hits: sordino's, another tracer's, or ftrace's `trace_marker` |
//! | `interrupts_off` | the loop in a kernel module, with interrupts disabled |
//! | `bursts` | planned page faults, as known disturbances |
//! | `histogram`, `statistics` | pure: the measured times, and their figures |
//! | `frequency` | the processor's frequency as the kernel reports it |
//! | `interrupters`, `interruptions`, `switches` | the sources that interrupt a CPU, and the threads that took it |
//! | `trial`, `monitor` | a measurement from start to report, its progress, and a way to stop it |
//! | `report`, `text` | the results as text, as JSON and as a file for plots |

#![forbid(unsafe_code)]

mod bursts;
mod frequency;
mod histogram;
mod interrupters;
mod interruptions;
mod interrupts_off;
mod iteration;
mod marker;
mod measure;
mod monitor;
mod notes;
mod part;
mod plan;
mod report;
mod sink;
mod statistics;
mod switches;
mod text;
mod trial;

pub use frequency::Frequency;
pub use histogram::{Bucket, Histogram};
pub use interrupters::{Counts, Interrupter};
pub use interruptions::{CpuInterruptions, Interruptions};
pub use interrupts_off::{DEVICE, run_without_interrupts};
pub use measure::{Measured, hit, run, run_on, run_watched};
pub use monitor::Monitor;
pub use notes::Gap;
pub use part::{LoopPart, frequency};
pub use plan::{Body, Error, Plan};
pub use report::{CpuReport, NptReport};
pub use sink::Sink;
pub use statistics::{GapStatistics, Percentile};
pub use switches::Switches;
pub use text::{ROW_TITLES, Unit, row};
pub use trial::{LoopObserver, Trial, lift_throttle_for, may_lock_memory, permitted_policy};
