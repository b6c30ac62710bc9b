//! Serialization of numbers that have types of their own, as plain integers; times are in
//! nanoseconds.

use serde::Serializer;
use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_timeline::Priority;

pub(crate) fn time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.0)
}

pub(crate) fn span<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(span.0)
}

pub(crate) fn optional_span<S: Serializer>(span: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(span.map(|span| span.0), serializer)
}

pub(crate) fn tid<S: Serializer>(tid: &Tid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(tid.0)
}

pub(crate) fn pid<S: Serializer>(pid: &Option<Pid>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(pid.map(|pid| i64::from(pid.0)), serializer)
}

pub(crate) fn cpu<S: Serializer>(cpu: &Option<Cpu>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(cpu.map(|cpu| i64::from(cpu.0)), serializer)
}

pub(crate) fn priority<S: Serializer>(priority: &Option<Priority>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(priority.map(|priority| i64::from(priority.0)), serializer)
}

fn serialize_option<S: Serializer>(number: Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.serialize_some(&number),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn text<S: Serializer>(text: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}
