//! Changes to the machine that end with sordino's process, however that ends.
//!
//! A process that makes such a change starts a guardian of its own ([`start`]): sordino's program with the argument
//! `undo-guard`, which calls [`serve`]. The guardian undoes what `undo` can describe: files of the kernel's, instances
//! of its tracer, directories.
//!
//! | module | contents |
//! |---|---|
//! | `bind` | a process that ends with its parent |
//! | `guardian` | the guardian's process, and the steps that it carries out |
//! | `throttle` | the kernel's limit on real-time threads, lifted for a while |
//! | `scratch` | temporary directories |
//! | [`temporary`] | the directory for temporary files, and the check that it can be trusted |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod bind;
mod error;
mod guardian;
mod scratch;
pub mod temporary;
mod throttle;

pub use bind::bind;
pub use error::Error;
pub use guardian::{OWN_PROGRAM, carry_out, expect_own_program, serve, start};
pub use scratch::Scratch;
pub use throttle::{THROTTLE, Throttle, lift, lift_and_report};
