//! Events, before and after they are recorded.
//!
//! Two views of an event live here:
//! * the **writer's**: a [`Schema`] describes the layout of a tracepoint's records. A traced program publishes its
//!   schemas as text ([`catalogue`]);
//! * the **reader's**: an [`Event`] is one decoded record, its [`Class`] has the names of the fields, and a [`Loss`]
//!   takes the place of missing records.
//!
//! The module [`functions`] has the names of the events about functions. The module [`text`] makes names and strings
//! from outside safe for a terminal.
//!
//! Nothing here does I/O, reads a clock or is unsafe.
//!
//! | module | content |
//! |---|---|
//! | `schema`, `level`, `catalogue` | the writer's view: layouts of records, log levels, the published tracepoints |
//! | `class`, `record`, `loss` | the reader's view: classes, decoded events, and gaps in a stream |
//! | `id`, `numbering` | ids as types of their own, and the numbers of priorities |
//! | `cost` | the time that the record of an event takes |
//! | `ticks`, `time` | timestamps as they are recorded, and times in nanoseconds |
//! | `functions` | the events about functions |
//! | `text` | text from outside, made safe for a terminal |
//!
//! ```
//! use sordino_event::{Classes, Class, Domain, Event, Value, Time};
//! let mut classes = Classes::default();
//! let class = classes.add(Class::new(Domain::User, "motor:period", ["cycle"]));
//! let mut event = Event::default();
//! event.begin(Time(1_000), class);
//! event.push(Value::unsigned(42));
//! assert_eq!(event.integer(classes[class].field("cycle").unwrap()), Some(42));
//! ```
#![forbid(unsafe_code)]

pub mod catalogue;
mod class;
mod cost;
pub mod functions;
mod id;
mod level;
mod loss;
mod numbering;
mod record;
mod schema;
pub mod text;
mod ticks;
mod time;

pub use class::{Class, ClassId, Classes, Domain};
pub use cost::EventCosts;
pub use id::{Cpu, Pid, Tid};
pub use level::Level;
pub use loss::{Loss, LossCause, Step};
pub use numbering::PriorityNumbering;
pub use record::{Entries, Event, EventBatch, EventHead, FieldValues, Fields, Value, View};
pub use schema::{
    Base, ByteOrder, Enumeration, Field, FloatWidth, Integer, MAX_FIELDS, MAX_NAME, Range, Scalar, Schema,
    Type, Width,
};
pub use ticks::Ticks;
pub use time::{Nanos, Time, fractional_span};
