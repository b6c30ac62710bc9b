//! Writing of traces, in sordino's one form.
//!
//! A trace has one of two sets of stream classes: [`StreamClass::Cpu`] and [`StreamClass::Shared`] in the trace of a
//! program, [`StreamClass::Kernel`] and [`StreamClass::StateDump`] in the kernel's. Its metadata is text that grows:
//! [`preamble`], then [`stream_class`] for each, then [`event_class`] as events become known. Every packet consists of
//!
//! | bytes | what |
//! |---|---|
//! | 0 .. 80 | a [`PacketHeader`] |
//! | 80 .. | events, each at a multiple of 8: header (12 bytes), context, payload as its schema says |
//! | .. a multiple of 4096 | padding |
//!
//! in the machine's byte order. The packets of rings are copied unchanged from memory: `sordino_collect`, which copies
//! them, asserts that the ring's sizes are [`FIRST_EVENT`] and [`StreamClass::record_header`]. Other streams are
//! written by a [`StreamWriter`].

mod metadata;
mod packet;
mod payload;
mod stream;

pub use metadata::{StreamClass, event_class, event_classes, preamble, quoted, stream_class};
pub use packet::{FIRST_EVENT, PacketHeader};
pub use payload::{Argument, encode};
pub use stream::{StreamWriter, kernel_header};
