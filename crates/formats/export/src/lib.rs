//! Traces in the formats of other tools.
//!
//! An [`Exporter`] takes the items of a super-trace in their order, and appends bytes of its format to a buffer that
//! the caller writes. Its memory grows with the threads and CPUs of the machine, not with the trace.
//!
//! | module | format |
//! |---|---|
//! | `calls` | functions by their names, and their calls as spans |
//! | `ctf` | the Common Trace Format, a directory of traces |
//! | `files` | the files of a format that has several |
//! | `chrome` | Chrome's JSON |
//! | `lines` | CSV, and JSON lines |
//! | `paje` | Pajé's text: containers with states, links and events |
//! | `perfetto` | Perfetto's protobuf: scheduling, interrupts, events and wake-ups as tracks |
//! | `runs` | the spans in which threads ran and interrupts were handled, for formats without scheduling |
//! | `trace_dat` | trace-cmd's file of the kernel's events |
//! | `wakeups` | wake-ups and the runs that they cause |
//! | `wire` | the encoding of protobuf messages |
//!
//! Nothing here does I/O or reads a clock.
#![forbid(unsafe_code)]

mod calls;
mod chrome;
mod ctf;
mod files;
mod lines;
mod paje;
mod perfetto;
mod runs;
mod trace_dat;
mod wakeups;
mod wire;

pub use chrome::Chrome;
pub use ctf::{Ctf, CtfVersion};
pub use files::Files;
pub use lines::{Csv, Json};
pub use paje::Paje;
pub use perfetto::Perfetto;
pub use trace_dat::TraceDat;

use sordino_event::{PriorityNumbering, Time};
use sordino_query::NameAddress;
use sordino_timeline::Item;

/// A writer of one format.
pub trait Exporter {
    /// Appends what precedes all items.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Appends an item, or keeps it until later items complete it.
    fn take(&mut self, item: &Item<'_>, out: &mut Vec<u8>);

    /// Appends the kept items, and the end of the format.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Sets the names of functions, for formats that have them.
    fn name_functions(&mut self, _: NameAddress) {}
}

/// A writer of a format with several files, or with one file of several parts, which are joined in the order of their
/// names.
pub trait DirectoryExporter {
    /// Returns true if the format can have the item.
    fn can_take(&self, _: &Item<'_>) -> bool {
        true
    }

    /// Appends an item, or keeps it until later items complete it.
    fn take(&mut self, item: &Item<'_>, out: &mut Files);

    /// Appends the kept items, and the files that describe the others.
    fn end(&mut self, out: &mut Files);
}

/// Facts about a trace that its items do not have.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The time of the first item.
    pub begin: Time,
    /// The release of the traced kernel, such as `6.1.0-13-amd64`, if the trace has it.
    pub kernel_release: Option<String>,
    /// The architecture of the traced machine as `uname -m` prints it, if the trace has it: it decides the numbers of
    /// system calls.
    pub machine: Option<String>,
    /// The name of the traced machine, if the trace has it.
    pub host: Option<String>,
    /// The numbering of priorities in the kernel's events, if the trace states it.
    pub priorities: Option<PriorityNumbering>,
}
