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
//! A tracepoint that nobody records costs two loads and a branch. `sordino record` enables it, in this program when it
//! is started or while it runs; then each hit costs little more than reading the clock. Nothing here blocks (unless the program
//! allows it), allocates or fails loudly: a record that finds no room is counted as lost, and the recording says so.
//!
//! # How it works
//! Before `main`, the program makes an *area* of memory that a recorder can find (`/proc/PID/fd`) and registers its
//! tracepoints there. The recorder makes rings in it, one per CPU, and changes words that the tracepoints look at.
//! `sordino_ring` says what lies where, `sordino_percpu` how a record gets there in one restartable step.
//!
//! # Real-time
//! A hit makes no system call, takes no lock, allocates nothing, faults on no page that the recorder could make present
//! beforehand, and is bounded by the record's length (at most [`MAX_PAYLOAD`] bytes of payload) and a fixed number of
//! tries. The first hit of a thread calls `pthread_mutex_lock` on a lock of its own, which tells the thread's id without
//! a system call. A condition costs what its code and the payload's length say. In a thread that has opened [`counters()`], a hit reads them if a
//! recorder wants them. A hit waits for room only in a program that was
//! started with `SORDINO_ALLOW_BLOCKING=1`, if a recorder asks for it. Tracepoints work in signal handlers, before `main`, in threads of any kind, and in plug-ins.
//!
//! # Environment
//! | variable | meaning |
//! |---|---|
//! | `SORDINO_SESSION` | the socket of a recorder that wants to know of this program; set by `sordino record` |
//! | `SORDINO_RUNTIME_DIR` | the directory of the user's sessions, if it is not `/run/user/UID/sordino/sessions` or `/tmp/sordino-UID/sessions` |
//! | `SORDINO_RESERVE` | address space for rings, in bytes; by default chosen so that `mlockall` still succeeds. 0: the program can't be recorded |
//! | `SORDINO_RING=shared` | all threads use the shared ring, as where the kernel or C library has no rseq |
//! | `SORDINO_ALLOW_BLOCKING=1` | a recorder may have threads wait when a ring is full; else it is refused |

mod condition;
mod context;
mod counters;
mod discovery;
mod emit;
mod gate;
mod long;
mod macros;
mod mark;
mod point;
mod program;
mod register;
mod stage;
mod system;
mod text;
mod value;
mod wait;

pub use counters::{NoCounters, Paranoid, counters};
pub use mark::mark_text;
pub use point::{Description, Field, Label, Shape, Tracepoint};
pub use sordino_event::Level;
pub use value::{Blob, Enumerated, Hex, Net, Scalar, Value};

/// The longest payload of a record, in bytes. A longer one is lost and counted as too large; so is one that does not fit
/// into the recorder's sub-buffers.
pub const MAX_PAYLOAD: usize = sordino_ring::layout::MAX_RECORD - 64;

/// What the macros and the C interface need; not for other use.
#[doc(hidden)]
pub mod internal {
    pub use crate::context::{SAID, say};
    pub use crate::emit::{Staged, emit};
    pub use crate::gate::{is_one, is_rejected, turned_away};
    pub use crate::point::register;
    pub use crate::program::ready;
    pub use crate::stage::{record, record_staged};
    pub use crate::value::{extent, fixed_extent};
    pub use sordino_percpu::Words;
    pub use sordino_percpu::vfork;
    pub use sordino_ring::layout::VERSION as LAYOUT_VERSION;
    pub use sordino_ring::position::Shape;
}
