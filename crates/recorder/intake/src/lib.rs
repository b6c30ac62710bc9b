//! Traced programs from registration to detachment: finds them, attaches to them, supplies their rings with memory.
//!
//! [`Intake`] is the way into a session, beside the session's loop: every step that a program can delay is done by a
//! thread of that program's user. A session hands each program as a [`Job`] to it, and gets it back with the areas that
//! it has attached to. [`Supply`] gives these areas' rings pages as long as they are recorded. A [`Detachment`] is the
//! end.
//!
//! | module | contents |
//! |---|---|
//! | `intake` | the jobs of all users |
//! | `lane` | one user's queue and its thread, which is given up when a program makes it hang |
//! | `job`, `work` | a process to examine; the steps for it |
//! | `hold` | attaching to one area |
//! | `accounts` | the user whose limits apply to a user id |
//! | `ledger`, `headroom` | the known areas, each user's limits; the memory that control groups leave |
//! | `pages`, `portion` | the pages of a program's rings, and the part of them with which rings begin |
//! | `prepared` | areas that are prepared for programs to come |
//! | `supply` | the threads that give rings their pages |
//! | `detachment` | the end of a program's recording |
//! | `catalogue` | a program's tracepoints, read in pieces |
//! | `code` | the code that a process has mapped |
//! | `list` | the programs that could be recorded |
//! | `listen`, `backlog` | programs that register; detects a full queue |
//! | `registration` | a program's registration, by which its area is found |
//! | `refused` | connections that were refused |
//! | [`runtime`] | the directories in which programs register with sessions |
//! | [`limits`] | the recorder's limits |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod accounts;
mod backlog;
mod catalogue;
mod code;
mod detachment;
mod error;
mod headroom;
mod hold;
mod intake;
mod job;
mod lane;
mod ledger;
pub mod limits;
mod list;
mod listen;
mod pages;
mod portion;
mod prepared;
mod refused;
mod registration;
pub mod runtime;
mod supply;
mod work;

pub use accounts::is_trusted;
pub use catalogue::{Catalogue, CatalogueReader, Declared, Learned, first_tracepoints};
pub use code::MappedCode;
pub use detachment::{Detachment, close};
pub use error::Error;
pub use hold::{Candidate, Taken, Wishes};
pub use intake::Intake;
pub use job::{FoundAreas, Job, JobSource};
pub use ledger::{Claim, IntakeLimits, Memory};
pub use list::{Listed, ProgramList, list};
pub use listen::Listener;
pub use prepared::PreparedAreas;
pub use registration::Registration;
pub use supply::{Supplied, Supply, SupplyWaker};
pub use work::LOOKS_UNTIL_MADE;
