//! Converts records to payloads with a [`Schema`](sordino_event::Schema).
//!
//! The kernel aligns fields and stores dynamic ones at the end; a payload is packed. The steps of the conversion are
//! computed once for each event.

use crate::format::{FieldKind, RecordField};
use crate::lttng::{Conversion, EventConversion, PRIORITIES, request_flags};
use crate::page::Damage;
use crate::{Error, Format};
use sordino_event::{Tid, Type};

/// Values of a record besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Index of the event among those that the [`Converter`] was created with.
    pub event: usize,
    /// Id of the thread that ran or was interrupted.
    pub tid: Tid,
    /// The kernel's `TRACE_FLAG_*`: 1 interrupts disabled, 4 rescheduling pending, 8 in an interrupt, 16 in a softirq,
    /// 32 preemption pending, 64 in a non-maskable interrupt.
    pub flags: u8,
    /// Nesting depth of disabled preemption (lower four bits) and of disabled migration (upper four bits).
    pub preempt_count: u8,
}

/// Converts the records of a set of events.
#[derive(Clone, Debug)]
pub struct Converter {
    common: Common,
    /// Index and plan of each event, by event number.
    plans: Vec<Option<(usize, ConversionPlan)>>,
}

impl Converter {
    /// Creates a converter for these events, each with its mapping.
    ///
    /// # Errors
    /// [`Error::Format`] if the common fields of an event are not those that all kernels have, or differ from the other
    /// events'.
    pub fn new<'a>(
        events: impl IntoIterator<Item = (&'a Format, &'a EventConversion)>,
    ) -> Result<Self, Error> {
        let mut converter = Self { common: Common::default(), plans: Vec::new() };
        for (place, (format, mapping)) in events.into_iter().enumerate() {
            let wrong = |expected| Error::Format {
                event: format.event.to_string(),
                line: 4,
                expected,
                found: format.common.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(", "),
            };
            let common =
                Common::of(format).ok_or_else(|| wrong("common type, flags, preempt_count and pid"))?;
            if place > 0 && common != converter.common {
                return Err(wrong("the common fields of the other events"));
            }
            converter.common = common;
            let id = usize::from(format.id);
            if converter.plans.len() <= id {
                converter.plans.resize_with(id + 1, || None);
            }
            converter.plans[id] = Some((place, ConversionPlan::new(format, mapping)));
        }
        Ok(converter)
    }

    /// Parses a record's header and appends its payload to `payload`, which is unchanged if the record is damaged.
    ///
    /// # Errors
    /// [`Damage`] if the record belongs to none of the events, or has no room for its fields. The record is untrusted.
    #[inline]
    pub fn convert(&self, record: &[u8], payload: &mut Vec<u8>) -> Result<RecordHeader, Damage> {
        let common = &self.common;
        let id = u16::from_ne_bytes(chunk(record, common.id)?);
        let Some(Some((event, plan))) = self.plans.get(usize::from(id)) else {
            return Err(Damage::UnknownEvent(id));
        };
        let [flags] = chunk(record, common.flags)?;
        let [preempt_count] = chunk(record, common.preempt_count)?;
        let tid = Tid(i32::from_ne_bytes(chunk(record, common.tid)?));
        let before = payload.len();
        plan.run(record, payload).inspect_err(|_| payload.truncate(before))?;
        Ok(RecordHeader { event: *event, tid, flags, preempt_count })
    }
}

/// Offsets of the common fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Common {
    id: usize,
    flags: usize,
    preempt_count: usize,
    tid: usize,
}

impl Common {
    fn of(format: &Format) -> Option<Self> {
        let find = |name: &str, size| {
            let field = format.common.iter().find(|field| field.name == name && field.size == size)?;
            usize::try_from(field.offset).ok()
        };
        Some(Self {
            id: find("common_type", 2)?,
            flags: find("common_flags", 1)?,
            preempt_count: find("common_preempt_count", 1)?,
            tid: find("common_pid", 4)?,
        })
    }
}

/// Conversion of one event's records: the steps append to the payload one after the other.
#[derive(Clone, Debug)]
struct ConversionPlan(Vec<ConversionStep>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConversionStep {
    /// Appends these bytes unchanged.
    Copy { from: usize, to: usize },
    /// Appends the text up to its zero byte, and a zero byte.
    Text(ContentLocation),
    /// Appends the number of elements of this size, and the elements.
    Elements(ContentLocation, usize),
    /// Appends the integer at this offset, converted from the kernel's priority.
    Priority(usize),
    /// Converts the letters in these bytes to flags of a block request.
    RequestFlags { from: usize, to: usize },
}

/// Location of the content of a field of varying length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentLocation {
    /// The descriptor at `at` contains the offset, counted from `base`.
    Dynamic { at: usize, base: usize },
    /// From this offset to the end of the record.
    Tail(usize),
}

impl ConversionPlan {
    fn new(format: &Format, mapping: &EventConversion) -> Self {
        let mut steps: Vec<ConversionStep> = Vec::new();
        for (target, source) in mapping.schema.fields.iter().zip(&mapping.sources) {
            let field = &format.fields[source.field];
            let step = ConversionStep::new(field, &target.ty, source.conversion);
            match (steps.last_mut(), step) {
                (Some(ConversionStep::Copy { to, .. }), ConversionStep::Copy { from, to: end })
                    if *to == from =>
                {
                    *to = end
                }
                _ => steps.push(step),
            }
        }
        Self(steps)
    }

    #[inline]
    fn run(&self, record: &[u8], payload: &mut Vec<u8>) -> Result<(), Damage> {
        for step in &self.0 {
            match *step {
                ConversionStep::Copy { from, to } => payload.extend_from_slice(range(record, from, to)?),
                ConversionStep::Text(place) => {
                    let bytes = place.content(record)?;
                    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                    payload.extend_from_slice(&bytes[..end]);
                    payload.push(0);
                }
                ConversionStep::Elements(place, size) => {
                    let bytes = place.content(record)?;
                    let count = bytes.len() / size;
                    let length = u16::try_from(count).map_err(|_| Damage::Long(count))?;
                    payload.extend_from_slice(&length.to_ne_bytes());
                    payload.extend_from_slice(&bytes[..count * size]);
                }
                ConversionStep::Priority(at) => {
                    let priority = i32::from_ne_bytes(chunk(record, at)?);
                    let relative = priority.wrapping_sub(PRIORITIES.offset());
                    payload.extend_from_slice(&relative.to_ne_bytes());
                }
                ConversionStep::RequestFlags { from, to } => {
                    let flags = request_flags(range(record, from, to)?);
                    payload.extend_from_slice(&flags.to_ne_bytes());
                }
            }
        }
        Ok(())
    }
}

impl ConversionStep {
    fn new(field: &RecordField, ty: &Type, conversion: Conversion) -> Self {
        let from = field.offset as usize;
        let to = from.saturating_add(field.size as usize);
        let place = match field.kind {
            FieldKind::Dynamic { relative } => {
                ContentLocation::Dynamic { at: from, base: if relative { to } else { 0 } }
            }
            FieldKind::Tail => ContentLocation::Tail(from),
            FieldKind::Single | FieldKind::Array { .. } => {
                return match conversion {
                    Conversion::Same => Self::Copy { from, to },
                    Conversion::Priority => Self::Priority(from),
                    Conversion::RequestFlags => Self::RequestFlags { from, to },
                };
            }
        };
        match ty {
            Type::Sequence(scalar) => Self::Elements(place, scalar.bytes() as usize),
            _ => Self::Text(place),
        }
    }
}

impl ContentLocation {
    fn content(self, record: &[u8]) -> Result<&[u8], Damage> {
        match self {
            Self::Tail(from) => range(record, from, record.len()),
            Self::Dynamic { at, base } => {
                let location = u32::from_ne_bytes(chunk(record, at)?);
                let from = base.saturating_add((location & 0xffff) as usize);
                range(record, from, from.saturating_add((location >> 16) as usize))
            }
        }
    }
}

fn range(record: &[u8], from: usize, to: usize) -> Result<&[u8], Damage> {
    record.get(from..to).ok_or(Damage::Short { length: record.len(), end: to.max(from) })
}

fn chunk<const N: usize>(record: &[u8], at: usize) -> Result<[u8; N], Damage> {
    let short = Damage::Short { length: record.len(), end: at.saturating_add(N) };
    record.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(short)
}

#[cfg(test)]
mod tests;
