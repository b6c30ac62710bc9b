//! Serialization of numbers that have types of their own, as plain integers; times are in nanoseconds.

use serde::Serializer;
use sordino_event::{Cpu, Nanos, Pid, Tid, Time};
use sordino_timeline::Priority;

/// Serializes a time as nanoseconds.
///
/// # Errors
/// The serializer's.
pub fn time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.0)
}

/// Serializes a span as nanoseconds.
///
/// # Errors
/// The serializer's.
pub fn span<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(span.0)
}

/// Serializes a span, if there is one, as nanoseconds.
///
/// # Errors
/// The serializer's.
pub fn optional_span<S: Serializer>(span: &Option<Nanos>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(span.map(|span| span.0), serializer)
}

/// Serializes a thread's id.
///
/// # Errors
/// The serializer's.
pub fn tid<S: Serializer>(tid: &Tid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(tid.0)
}

/// Serializes a process's id, if known.
///
/// # Errors
/// The serializer's.
pub fn pid<S: Serializer>(pid: &Option<Pid>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(pid.map(|pid| i64::from(pid.0)), serializer)
}

/// Serializes a CPU's number, if known.
///
/// # Errors
/// The serializer's.
pub fn cpu<S: Serializer>(cpu: &Option<Cpu>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(cpu.map(|cpu| i64::from(cpu.0)), serializer)
}

/// Serializes a priority by the kernel's numbering, if known.
///
/// # Errors
/// The serializer's.
pub fn priority<S: Serializer>(priority: &Option<Priority>, serializer: S) -> Result<S::Ok, S::Error> {
    serialize_option(priority.map(|priority| i64::from(priority.0)), serializer)
}

fn serialize_option<S: Serializer>(number: Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.serialize_some(&number),
        None => serializer.serialize_none(),
    }
}

/// Serializes the text that a value displays.
///
/// # Errors
/// The serializer's.
pub fn text<S: Serializer>(text: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(text)
}
