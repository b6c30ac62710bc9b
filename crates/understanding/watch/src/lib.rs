//! The view of a recording that grows: its figures, and their drawing for a terminal.
//!
//! A [`Tally`] takes the items of the super-trace as they come, and is told where a stretch of it ends, a second later
//! each time. [`Figures`] are everything that is shown of it at one moment: events by name, wake-up latencies by thread
//! with their worst and its cause, the latencies of the last ten stretches as a histogram, CPUs, interrupts, losses,
//! the cost of the tracer. A [`WatchView`] is what the user chose: the order, the thread, the page. [`draw()`] writes
//! both into a buffer.
//!
//! Nothing here does I/O or reads a clock.
//!
//! | module | content |
//! |---|---|
//! | `tally`, `stretch` | the sums over a trace that grows, and over one stretch of it |
//! | `busy`, `threads` | the time for which CPUs execute threads, and the threads' wake-up latencies |
//! | `figures` | everything that is shown at one moment |
//! | `view`, `draw` | the user's choices, and the drawing for a terminal |
#![forbid(unsafe_code)]

mod busy;
mod draw;
mod figures;
mod stretch;
mod tally;
mod threads;
mod view;

pub use draw::{TerminalSupport, draw, text_of};
pub use figures::{
    Cost, CpuFigures, EventFigures, Figures, HandlerFigures, LossFigures, PeakFigures, SCHEMA_VERSION,
    ThreadCost, ThreadFigures,
};
pub use stretch::StretchTime;
pub use tally::Tally;
pub use threads::SortKey;
pub use view::{Action, PressedKey, WatchView};
