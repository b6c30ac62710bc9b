//! The Common Trace Format, 1.8 and 2: a directory with a trace of the kernel's events and one of each program's.
//!
//! Both versions have the same packets and differ in their metadata, which is written at the end: the types of fields
//! are those of the recorded values. Times are nanoseconds, by a clock that all traces share.
//!
//! | module | content |
//! |---|---|
//! | `json` | the metadata of CTF 2 |
//! | `classes` | the event classes of a trace |
//! | `exported_type` | types of values, and their encoding |
//! | `trace` | one trace: its streams and their losses |
//! | `tsdl` | the metadata of CTF 1.8 |

mod classes;
mod exported_type;
mod json;
mod trace;
mod tsdl;

use crate::{DirectoryExporter, Files, Origin};
use sordino_ctf::{ClockDescription, Environment, Uuid};
use sordino_event::{Classes, Domain, Pid, PriorityNumbering, Time};
use sordino_timeline::{Item, Moment};
use std::collections::BTreeMap;
use trace::ExportedTrace;

/// Maximum number of programs with a trace of their own; all others share one.
const PROGRAMS_MAX: usize = 128;
/// Maximum number of labels of enumerations that are kept; other values are written as numbers.
const LABELS_MAX: usize = 1 << 16;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtfVersion {
    /// CTF 1.8, whose metadata is TSDL.
    V1,
    /// CTF 2, whose metadata is JSON.
    V2,
}

/// A writer of the Common Trace Format.
#[derive(Debug)]
pub struct Ctf {
    version: CtfVersion,
    origin: Origin,
    classes: Classes,
    clock: ClockDescription,
    /// The time of the last item.
    now: Time,
    traces: BTreeMap<TraceKey, ExportedTrace>,
    labels_left: usize,
}

/// The identity of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TraceKey {
    Kernel,
    Program(Pid),
    /// The programs without a trace of their own.
    Others,
}

impl Ctf {
    /// Creates a writer of events of `classes`.
    pub fn new(version: CtfVersion, classes: &Classes, origin: Origin) -> Self {
        // Ticks have no sign: a clock that begins before the epoch has an offset.
        let seconds = origin.begin.0.min(0).div_euclid(1_000_000_000);
        let clock = ClockDescription {
            uuid: Some(uuid(&origin, 0)),
            offset_seconds: seconds,
            description: "nanoseconds since the epoch".into(),
            ..ClockDescription::new("time")
        };
        Self {
            version,
            now: Time(seconds.saturating_mul(1_000_000_000)),
            clock,
            origin,
            classes: classes.clone(),
            traces: BTreeMap::new(),
            labels_left: LABELS_MAX,
        }
    }

    fn ticks(&self, time: Time) -> u64 {
        let since = i128::from(time.0) - i128::from(self.clock.offset_seconds) * 1_000_000_000;
        u64::try_from(since).unwrap_or(0)
    }

    /// Returns the trace of a domain and a process. `moment` has the program's name.
    fn trace(&mut self, domain: Domain, pid: Option<Pid>, moment: Option<&Moment<'_>>) -> &mut ExportedTrace {
        let key = match (domain, pid) {
            (Domain::Kernel, _) => TraceKey::Kernel,
            (Domain::User, Some(pid))
                if self.traces.contains_key(&TraceKey::Program(pid)) || self.traces.len() < PROGRAMS_MAX =>
            {
                TraceKey::Program(pid)
            }
            (Domain::User, _) => TraceKey::Others,
        };
        let Self { traces, origin, classes, .. } = self;
        traces.entry(key).or_insert_with(|| {
            let mut environment = environment(origin, key);
            let name = moment.and_then(|moment| moment.program()).filter(|_| key != TraceKey::Kernel);
            if let (TraceKey::Program(_), Some(name)) = (key, name) {
                environment.set("procname", &**name);
            }
            let (directory, number) = match key {
                TraceKey::Kernel => ("kernel".to_owned(), 1),
                TraceKey::Others => ("ust/uid/0/64-bit".to_owned(), 2),
                TraceKey::Program(pid) => {
                    (format!("ust/pid/{}", pid.0), 3 + u64::from(pid.0.cast_unsigned()))
                }
            };
            ExportedTrace::new(
                directory,
                uuid(origin, number),
                environment,
                classes,
                matches!(key, TraceKey::Program(_)),
            )
        })
    }
}

impl DirectoryExporter for Ctf {
    fn take(&mut self, item: &Item<'_>, out: &mut Files) {
        match item {
            Item::Event(moment) => {
                self.now = self.now.max(moment.event.time);
                let (ticks, mut labels) = (self.ticks(self.now), self.labels_left);
                let trace = self.trace(moment.domain, moment.event.pid, Some(moment));
                trace.event(ticks, moment, &mut labels, out);
                self.labels_left = labels;
            }
            Item::Loss(loss, _) => {
                self.now = self.now.max(loss.from);
                let span = (self.ticks(self.now), self.ticks(loss.to.max(self.now)));
                let has_kernel = self.classes.iter().any(|(_, class)| class.domain == Domain::Kernel);
                let domain = if loss.pid.is_none() && has_kernel { Domain::Kernel } else { Domain::User };
                self.trace(domain, loss.pid, None).lose(span, loss.cpu, loss.count);
            }
            // The events themselves are in the order of time.
            Item::Disorder(_) => {}
        }
    }

    fn end(&mut self, out: &mut Files) {
        if self.traces.is_empty() {
            // Readers take a directory without a trace for an error.
            self.trace(Domain::User, None, None);
        }
        for trace in std::mem::take(&mut self.traces).into_values() {
            trace.end(self.version, &self.clock, out);
        }
    }
}

fn environment(origin: &Origin, key: TraceKey) -> Environment {
    let mut environment = Environment::default();
    let texts = [
        ("hostname", &origin.host),
        ("kernel_release", &origin.kernel_release),
        ("machine", &origin.machine),
    ];
    for (name, text) in texts {
        text.iter().for_each(|text| _ = environment.set(name, text.as_str()));
    }
    match (key, origin.priorities) {
        (TraceKey::Kernel, Some(numbering)) => {
            environment.set("domain", "kernel").set("tracer_name", "sordino");
            environment.set(PriorityNumbering::ENTRY, numbering.name());
        }
        (TraceKey::Kernel, None) => _ = environment.set("domain", "kernel"),
        (TraceKey::Program(pid), _) => _ = environment.set("domain", "ust").set("vpid", i64::from(pid.0)),
        (TraceKey::Others, _) => _ = environment.set("domain", "ust"),
    }
    environment
}

/// Returns an identity from the recording's begin and a number: the same recording has the same ones.
fn uuid(origin: &Origin, number: u64) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&origin.begin.0.to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    // Version 8 of RFC 9562: the content is the application's own.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}
