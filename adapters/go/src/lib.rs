//! Import of Go's execution traces (`runtime/trace`, and snapshots of its flight recorder) as recordings about fibers.
//!
//! A goroutine is a fiber, and the thread of a batch is the Linux thread that wrote it. The result is a CTF trace with
//! the events of the provider `sordino_fiber`, which `docs/fibers.md` describes.
//!
//! A trace is untrusted input. Damage ends the import at its place ([`ImportSummary::end`]) with a marked loss, and
//! memory is bounded by the constants of `generation`, `scheduler` and `import`.
//!
//! | module | contents |
//! |---|---|
//! | `error` | errors and damage, with their places |
//! | `cursor` | integers of variable length |
//! | `format` | versions and the events that each has |
//! | `batch` | batches of one thread's events or of one table |
//! | `generation` | the batches of one generation, its names and its clock |
//! | `order` | the events of all threads in one order |
//! | `scheduler` | the goroutines and threads by the events so far |
//! | `record` | events about fibers |
//! | `trace` | the CTF trace |
//! | `import` | all generations, one after the other |
//!
//! ```
//! let unknown = sordino_go::import(&b"go 1.99 trace\0\0\0"[..], sordino_ctf::Uuid::default(), Vec::new());
//! assert!(unknown.unwrap_err().to_string().starts_with("a trace of Go's format 1.99"));
//! ```
#![forbid(unsafe_code)]

mod batch;
mod cursor;
mod error;
mod format;
mod generation;
mod import;
mod order;
mod record;
mod scheduler;
mod trace;

pub use error::{Error, TraceDamage, TraceFault};
pub use generation::ClockSnapshot;
pub use import::{ImportSummary, import};
pub use trace::{TraceOrigin, metadata};
