//! The view of a recording that grows: its figures, and their drawing for a terminal.
//!
//! A [`Tally`] takes the items of the super-trace as they come; its caller ends a stretch after each second.
//! [`Figures`] have all data that are shown at one moment: events by name, wake-up latencies by thread, each with the
//! worst and its cause, the latencies of the last ten stretches as a histogram, CPUs, interrupts, losses, the cost of
//! the tracer. A [`WatchView`] has the user's choices: the order, the thread, the page. [`draw()`] writes both into a
//! buffer.
//!
//! Nothing here does I/O or reads a clock.
//!
//! | module | content |
//! |---|---|
//! | `tally`, `stretch` | the sums over a trace that grows, and over one stretch of it |
//! | `busy`, `threads` | the time for which CPUs execute threads, and the threads' wake-up latencies |
//! | `figures` | all figures that are shown at one moment |
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
