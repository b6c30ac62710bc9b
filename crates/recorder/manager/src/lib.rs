//! Sessions by their names: recordings that outlive the shell.
//!
//! A [`SessionPlace`] is the directory of a session below the user's runtime directory, with its [`Definition`] and its
//! locks. The recorder is a process of its own ([`begin`], [`become_recorder`]), which answers
//! [`SessionPlace::request`].
//!
//! | module | contents |
//! |---|---|
//! | `files` | the files of a session, which belong to its user alone |
//! | `place` | the directory of a session, and requests to its recorder |
//! | `recorder` | the recorder's process |
//! | `known` | the known facts about a session |
//! | [`text`] | reports on sessions |
//! | `programs` | programs that can be recorded, as text and JSON |
//! | `error` | errors |
#![forbid(unsafe_code)]

mod error;
mod files;
mod known;
mod place;
mod programs;
mod recorder;
pub mod text;

pub use error::Error;
pub use known::{KnownSession, as_json, counted, look, sessions};
pub use place::{Definition, Life, SessionPlace};
pub use programs::{program_json, program_text};
pub use recorder::{READY, become_recorder, begin};
