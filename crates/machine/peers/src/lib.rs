//! Other tracers with which sordino is compared.
//!
//! | module | content |
//! |---|---|
//! | [`provider`] | npt's tracepoint for another tracer: built with the C compiler, loaded, hit |
//! | [`sordino`] | programs under `sordino record` |
//! | [`lttng`] | LTTng's daemons and sessions |
//! | [`bpftrace`] | a counter of the hits of a statically defined tracepoint |
//! | `command` | runs the programs of other tracers, and keeps what they print when they fail |
//! | [`rate`] | the search for the highest rate without a lost event |
//!
//! This crate is linked with no other tracer: if one is not installed, an [`Error`] names the package.

pub mod bpftrace;
mod command;
pub mod lttng;
pub mod provider;
pub mod rate;
pub mod sordino;

pub use command::{Error, output_of};

/// Way in which a collector notices full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectorPolling {
    /// The collector checks every 200 us.
    Timer,
    /// The collector checks rarely, with rings that hold a whole burst, so that writers and collector do not work at
    /// the same time.
    Between,
    /// Writers wake the collector.
    Wakeup,
    /// The collector polls without a pause.
    Busy,
    /// The default: sordino's timer depends on the size of the rings; LTTng-UST's consumer is woken by the program.
    Default,
}

/// Kernel events that are recorded as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelEvents {
    /// No events of the kernel.
    Nothing,
    /// Events of system calls only.
    SystemCalls,
    /// All events of the kernel.
    Everything,
}
