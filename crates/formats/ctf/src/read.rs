//! Reading of any CTF 1.8 trace.
//!
//! | step | where |
//! |---|---|
//! | a directory to the traces in it | [`find()`] |
//! | bytes of the metadata file to text, to tokens, to blocks and types | `unpack`, `lex`, `parse`, `parse_type`, `attributes`, `types` |
//! | blocks to the content of the metadata | `metadata` |
//! | types to operations, and classes for users | `compile`, `compile_type`, `program`, `hidden`, `plain` |
//! | headers of packets to an index | `index` |
//! | paths to open files, regular ones only | `regular` |
//! | packets to events and losses | [`Events`], `decoder`, `registers`, `number`, `packet` |
//!
//! Nothing in a trace is trusted. A violation of the format is an error with its place (metadata) or a
//! [`Loss`](sordino_event::Loss) of cause [`Corrupt`](sordino_event::LossCause::Corrupt) (packets).

mod attributes;
mod compile;
mod compile_type;
mod decoder;
mod events;
mod find;
mod hidden;
mod index;
mod lex;
mod metadata;
mod number;
mod packet;
mod parse;
mod parse_type;
mod plain;
mod program;
mod registers;
mod regular;
mod source;
mod trace;
mod types;
mod unpack;

pub use events::Events;
pub use find::find;
pub use index::IndexedPacket;
pub use trace::{Stream, Trace};
