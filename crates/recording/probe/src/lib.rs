//! Static tracepoints for Rust programs, without a thread, a lock or a system call.
//!
//! ```
//! use sordino::{mark, tracepoint};
//!
//! fn control_period(cycle: u64, torque: f64, state: &str) {
//!     tracepoint!(motor:period, cycle: u64 = cycle, torque: f64 = torque, state: &str = state);
//! }
//!
//! control_period(1, 0.5, "running");
//! mark!("{} periods done", 1);
//! ```
//!
//! A tracepoint that no session enabled costs two loads and a branch. `sordino record` enables tracepoints when it
//! starts a program, or while the program runs; then each hit costs little more than reading the clock. Nothing here
//! blocks (unless the program allows it), allocates, or panics: a record that finds no room is counted as lost, and the
//! recording contains the count.
//!
//! # How it works
//! Before `main`, the program makes an *area* of memory that a recorder can find (`/proc/PID/fd`) and registers its
//! tracepoints there. The recorder makes rings in it, one per CPU, and sets the enable words that the tracepoints read.
//! `sordino_ring` defines the layout of the area; `sordino_percpu` writes a record in one restartable step.
//!
//! | module | content |
//! |---|---|
//! | `macros`, `point`, `mark` | macros that declare and hit tracepoints, what they declare, and lines of text |
//! | `emit`, `inline_filter`, `slow_path` | the way of a hit: the fast path, a session's comparison in it, the slow path |
//! | `stage`, `value` | payloads composed on the stack, and the layout of fields' values |
//! | `condition`, `wait` | the slow path's decision by a session's condition, and its wait for room |
//! | `context`, `counters` | annotations and performance counters of threads |
//! | `program` | the program's own state: its area, its lock, the child of a fork |
//! | `register`, `discovery`, `connection`, `prepared` | registration with recorders, and prepared areas |
//! | `system`, `text` | requests to the operating system, and text without an allocation |
//!
//! # Real-time
//! A hit makes no system call, takes no lock, allocates nothing, faults on no page that the recorder could make present
//! beforehand, and is bounded by the record's length (at most [`MAX_PAYLOAD`] bytes of payload) and a fixed number of
//! tries. The first hit of a thread calls `pthread_mutex_lock` on a lock of its own, from which it reads the thread's
//! id without a system call. The cost of a condition is bounded by the lengths of its code and of the payload. In a
//! thread that has opened [`counters()`], a hit reads them if a recorder requests them. A hit waits for room only if a
//! recorder requests it, in a program that was started with `SORDINO_ALLOW_BLOCKING=1`. Tracepoints work in signal
//! handlers, before `main`, in threads of any kind, and in plug-ins.
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `SORDINO_SESSION` | the socket of the recorder that started the program; set by `sordino record` |
//! | `SORDINO_RUNTIME_DIR` | the directory of the user's sessions, instead of the default ones |
//! | `SORDINO_RESERVE` | bytes of address space for rings; 0: the program can't be recorded |
//! | `SORDINO_RING=shared` | all threads use the shared ring, as if there were no rseq |
//! | `SORDINO_ALLOW_BLOCKING=1` | a recorder may make threads wait while a ring is full; else it is refused |
//!
//! The default directories are `/run/user/UID/sordino/sessions` and `/tmp/sordino-UID/sessions`. The default address
//! space is small enough that `mlockall` still succeeds.

mod condition;
mod connection;
mod context;
mod counters;
mod discovery;
mod emit;
mod inline_filter;
mod macros;
mod mark;
mod point;
mod prepared;
mod program;
mod register;
mod slow_path;
mod stage;
mod system;
mod text;
mod value;
mod wait;

pub use counters::{NoCounters, Paranoid, counters};
pub use mark::mark_text;
pub use point::{Container, Description, FieldDescription, Label, Tracepoint};
pub use sordino_event::Level;
pub use value::{Blob, Enumerated, Hex, Net, Recordable, ScalarValue};

/// The length of a record's longest payload, in bytes. A longer one is lost and counted as too large; so is one that
/// does not fit into the recorder's sub-buffers.
pub const MAX_PAYLOAD: usize = sordino_ring::write::MAX_PAYLOAD;

/// Items for the macros and the C interface; not for other use.
#[doc(hidden)]
pub mod internal {
    pub use crate::context::{ANNOTATION_SIZE, annotate};
    pub use crate::emit::emit;
    pub use crate::inline_filter::{is_filtered_out, is_rejected};
    pub use crate::point::register;
    pub use crate::program::ready;
    pub use crate::stage::{record, record_staged};
    pub use crate::value::{encoded_length, fixed_length};
    pub use sordino_percpu::Words;
    pub use sordino_percpu::vfork;
    pub use sordino_ring::area::enable::EnableMask;
    pub use sordino_ring::layout::VERSION as LAYOUT_VERSION;
    pub use sordino_ring::offset::EncodedLength;
    pub use sordino_ring::write::Staged;
}
