//! The CTF trace: its metadata, and its one stream.

use crate::batch::UNIT;
use crate::import::ImportSummary;
use crate::record::{FiberRecord, TimedRecord};
use sordino_ctf::write::{Argument, StreamClass, StreamWriter, encode, event_class, preamble, stream_class};
use sordino_ctf::{ClockDescription, Environment, Error, Uuid};
use sordino_event::{Enumeration, Field, Integer, Level, Range, Scalar, Schema, Ticks, Type, Width};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

/// The size of a packet in bytes; no event is larger.
const PACKET: usize = 1 << 16;
const NANOS: i64 = 1_000_000_000;

/// The process that wrote a Go trace, and its machine, which the trace does not name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOrigin {
    /// The id of the process.
    pub pid: i32,
    /// The name of the program, empty if it is not known.
    pub program: String,
    /// The boot of the machine and its name, if they are known.
    pub host: Option<(String, String)>,
    /// The time of day at which `CLOCK_MONOTONIC` was 0 on that boot, in nanoseconds since the epoch, if it is known.
    pub monotonic_zero: Option<i64>,
}

/// Returns the text of the trace's metadata.
///
/// Ticks are nanoseconds of `CLOCK_MONOTONIC`. Their relation to the time of day is that of `origin`, or else that of
/// the first clock snapshot; without both, time counts from the machine's start.
///
/// # Errors
/// None that depends on the trace.
pub fn metadata(uuid: Uuid, summary: &ImportSummary, origin: &TraceOrigin) -> Result<String, Error> {
    let mut environment = Environment::default();
    environment.set("domain", "ust").set("tracer_name", "go").set("vpid", i64::from(origin.pid));
    environment.set("tracer_version", format!("1.{}", summary.version).as_str());
    environment.set("procname", origin.program.as_str());
    if let Some((boot, host)) = &origin.host {
        environment.set("boot_id", boot.as_str()).set("hostname", host.as_str());
    }
    let of_snapshot = || summary.snapshots.map(|[first, _]| first.monotonic_zero());
    let zero = origin.monotonic_zero.or_else(of_snapshot);
    if origin.host.is_some()
        && let Some(zero) = zero
    {
        environment.set("monotonic_offset_ns", zero);
    }
    let zero_or_start = zero.unwrap_or_default();
    let clock = ClockDescription {
        description: "CLOCK_MONOTONIC, in steps of 64 ns".into(),
        offset_seconds: zero_or_start.div_euclid(NANOS),
        offset_ticks: zero_or_start.rem_euclid(NANOS).unsigned_abs(),
        absolute: zero.is_some(),
        ..ClockDescription::new("monotonic")
    };
    let mut text = preamble(uuid, &environment, &clock)?;
    text += &stream_class(StreamClass::Imported);
    for (id, schema) in (0..).zip(schemas()) {
        text += &event_class(StreamClass::Imported, id, &schema.full_name(), &schema)?;
    }
    Ok(text)
}

const ENTER: usize = 0;
const NEW: usize = 1;
const PRESENT: usize = 2;
const SWITCH: usize = 3;
const END: usize = 4;
const WAKE: usize = 5;
const RENAME: usize = 6;

/// Returns the schemas of the events, by their numbers.
fn schemas() -> [Schema; 7] {
    let number = || Type::Scalar(Scalar::Integer(Integer::new(Width::W64, false)));
    let why = labels(&["unknown", "yielded", "slice over", "blocked", "ended", "resumed"]);
    let state = labels(&["unknown", "mounted", "ready", "blocked"]);
    [
        schema("thread_enter", [("scheduler", Type::String)]),
        schema("new", [("fiber", number()), ("name", Type::String)]),
        schema("present", [("fiber", number()), ("name", Type::String), ("state", state)]),
        schema("switch", [("from", number()), ("to", number()), ("why", why), ("on", Type::String)]),
        schema("end", [("fiber", number())]),
        schema("wake", [("fiber", number()), ("by", number())]),
        schema("rename", [("fiber", number()), ("name", Type::String)]),
    ]
}

fn schema<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Schema {
    let fields = fields.into_iter().map(|(name, ty)| Field { name: name.into(), ty }).collect();
    Schema { provider: "sordino_fiber".into(), name: name.into(), level: Level::Info, location: None, fields }
}

/// Returns the type of an enumeration with these labels, from 0 on.
fn labels(labels: &[&str]) -> Type {
    let label = |(value, label): (i64, &&str)| Range { label: (*label).into(), low: value, high: value };
    let ranges = (0..).zip(labels).map(label).collect();
    Type::Scalar(Scalar::Enumeration(Enumeration { integer: Integer::new(Width::W8, false), ranges }))
}

/// The stream of a trace.
#[derive(Debug)]
pub(crate) struct FiberTrace<W> {
    stream: StreamWriter<W>,
    schemas: [Schema; 7],
    payload: Vec<u8>,
    /// The time of the last record in nanoseconds.
    last: u64,
    records: u64,
}

impl<W: Write> FiberTrace<W> {
    pub(crate) fn new(out: W, uuid: Uuid) -> Result<Self, Error> {
        let stream = StreamWriter::new(out, uuid, StreamClass::Imported, None, PACKET)?;
        Ok(Self { stream, schemas: schemas(), payload: Vec::new(), last: 0, records: 0 })
    }

    /// Writes a record, not before the last one.
    pub(crate) fn write(&mut self, record: &TimedRecord) -> Result<(), Error> {
        self.last = self.last.max(record.time.saturating_mul(UNIT));
        self.payload.clear();
        fn text(text: &Option<Arc<str>>) -> Argument<'_> {
            text.as_deref().unwrap_or_default().into()
        }
        let mut put = |id: usize, values: &[Argument<'_>]| {
            encode(&self.schemas[id], values, &mut self.payload).map(|()| id)
        };
        let id = match &record.what {
            FiberRecord::Enter => put(ENTER, &["Go".into()]),
            FiberRecord::New { fiber, name } => put(NEW, &[(*fiber).into(), text(name)]),
            FiberRecord::Present { fiber, name, state } => {
                put(PRESENT, &[(*fiber).into(), text(name), (*state as u8).into()])
            }
            FiberRecord::Switch { from, to, why, on } => {
                put(SWITCH, &[(*from).into(), (*to).into(), (*why as u8).into(), text(on)])
            }
            FiberRecord::End { fiber } => put(END, &[(*fiber).into()]),
            FiberRecord::Wake { fiber, by } => put(WAKE, &[(*fiber).into(), (*by).into()]),
            FiberRecord::Rename { fiber, name } => put(RENAME, &[(*fiber).into(), (&**name).into()]),
        }?;
        let id = (id as u32).to_ne_bytes();
        self.records += 1;
        self.stream.append(Ticks(self.last), id, &record.thread.to_ne_bytes(), &self.payload)
    }

    /// Writes the last records, and a loss behind them if the trace is damaged there. Returns the number of all
    /// records, and the output.
    pub(crate) fn finish(mut self, rest: VecDeque<TimedRecord>, is_damaged: bool) -> Result<(u64, W), Error> {
        rest.iter().try_for_each(|record| self.write(record))?;
        if is_damaged {
            self.stream.skip(Ticks(self.last))?;
        }
        Ok((self.records, self.stream.finish()?))
    }
}
