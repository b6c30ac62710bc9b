//! The Common Trace Format 1.8, written ([`mod@write`]) and read ([`read`]).
//!
//! A trace is a directory: a file `metadata`, whose text (TSDL) describes the layout of everything else, and one file
//! per stream of events. A stream file is a sequence of packets. A packet's header has its sizes, its span of time and
//! the count of records that had been lost by its end. Several traces of one recording share a clock.
//!
//! `write` produces exactly one form of trace, sordino's. `read` accepts any CTF 1.8 trace, in particular LTTng's, and
//! trusts none: invalid data is reported at its place, and reading continues after it.
//!
//! | module | content |
//! |---|---|
//! | `write` | a trace in sordino's one form |
//! | `read` | any CTF 1.8 trace |
//! | `environment`, `clock`, `uuid` | the description of a recording, its clock, and its identity |
//! | `counter` | corrections of CPUs' counters that are a little apart |
//! | `packet_seqno` | the sequence number of a packet in its stream |
//! | `error` | errors with their places |
//!
//! ```
//! use sordino_ctf::{ClockDescription, Environment, Uuid, read, write};
//! use sordino_event::{Classes, Event, Field, Integer, Level, Scalar, Schema, Step, Ticks, Tid, Type, Width};
//!
//! let schema = Schema {
//!     provider: "motor".into(),
//!     name: "period".into(),
//!     level: Level::Info,
//!     location: None,
//!     fields: vec![Field {
//!         name: "cycle".into(),
//!         ty: Type::Scalar(Scalar::Integer(Integer::new(Width::W64, false))),
//!     }],
//! };
//! let uuid = Uuid([7; 16]);
//! let clock = ClockDescription { frequency: 2_000_000_000, ..ClockDescription::new("tsc") };
//! let mut metadata = write::preamble(uuid, &Environment::default(), &clock)?;
//! metadata += &write::stream_class(write::StreamClass::StateDump);
//! metadata += &write::event_class(write::StreamClass::StateDump, 3, "motor_period", &schema)?;
//!
//! let mut stream = write::StreamWriter::new(Vec::new(), uuid, write::StreamClass::StateDump, None, 4096)?;
//! let header = write::kernel_header(3, 0, 0);
//! let mut payload = Vec::new();
//! write::encode(&schema, &[42_u64.into()], &mut payload)?;
//! stream.append(Ticks(5_000), header, &7_i32.to_ne_bytes(), &payload)?;
//! let file = stream.finish()?;
//!
//! let mut classes = Classes::default();
//! let trace = read::Trace::from_memory(metadata.as_bytes(), vec![("dump".into(), file)], &mut classes)?;
//! let mut events = trace.streams()[0].events();
//! let mut event = Event::default();
//! assert_eq!(events.next(&mut event)?, Step::Event);
//! assert_eq!(classes[event.class].name, "motor_period");
//! assert_eq!((event.time.0, event.tid, event.integer(0)), (2_500, Some(Tid(7)), Some(42)));
//! assert_eq!(events.next(&mut event)?, Step::End);
//! # Ok::<(), sordino_ctf::Error>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
mod counter;
mod environment;
mod error;
mod packet_seqno;
pub mod read;
mod uuid;
pub mod write;

pub use clock::ClockDescription;
pub use counter::{CounterCorrections, CounterSample};
pub use environment::{Environment, Setting};
pub use error::{Error, Problem};
pub use packet_seqno::PacketSeqno;
pub use uuid::Uuid;

/// The first 32 bits of every packet of a stream, in the trace's byte order.
pub(crate) const PACKET_MAGIC: u32 = 0xc1fc_1fc1;
