//! Other tracers, as sordino is measured beside them.
//!
//! | module | what it is |
//! |---|---|
//! | [`provider`] | npt's tracepoint in the form of another tracer: built with the C compiler, loaded, hit |
//! | [`sordino`] | a program under `sordino record` |
//! | [`lttng`] | LTTng's daemons and sessions |
//! | [`bpftrace`] | what counts the hits of a statically defined tracepoint |
//! | [`rate`] | the search for the highest rate without a lost event |
//!
//! Nothing here is linked with another tracer: what is not installed is an [`Error`] that names the package.

pub mod bpftrace;
mod command;
pub mod lttng;
pub mod provider;
pub mod rate;
pub mod sordino;

pub use command::{Error, output_of};

/// How a collector learns of full sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// It looks every 200 us.
    Timer,
    /// It looks seldom, with rings that hold a whole burst: writers and the collector are not at work at the same time.
    Between,
    /// Writers wake it.
    Wakeup,
    /// It looks all the time.
    Busy,
    /// As when nothing is said: sordino on a timer that follows the size of the rings, LTTng-UST woken by the program.
    Default,
}

/// Which of the kernel's events are recorded, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// None.
    Nothing,
    /// System calls.
    SystemCalls,
    /// All that there are.
    Everything,
}
