//! The event classes of an exported trace: one for each combination of types that the events of a class have.

use super::exported_type::{ExportedType, encode_text};
use crate::lines::object;
use sordino_event::{Class, ClassId, Classes, Event};
use sordino_timeline::Moment;

/// Maximum number of types of one class's events; further events have one text for all fields.
const TYPES_MAX: usize = 64;
/// The prefix of fields that are contexts.
const CONTEXT: &str = "$ctx.";

/// An event class: its number is its index.
#[derive(Debug)]
pub(super) struct ExportedClass {
    pub(super) class: ClassId,
    /// True if the context has the process and the thread.
    pub(super) ids: [bool; 2],
    pub(super) payload: Vec<ExportedType>,
    pub(super) context: Vec<ExportedType>,
    /// True if the payload is one text: the fields as JSON.
    pub(super) is_json: bool,
}

/// The event classes of a trace.
#[derive(Debug)]
pub(super) struct ExportedClasses {
    pub(super) recorded: Classes,
    pub(super) exported: Vec<ExportedClass>,
    /// The event classes for each class, the last used first.
    of_class: Vec<Vec<u32>>,
    /// True if all events are of one process, which the trace has.
    has_process: bool,
}

/// The bytes of an event.
#[derive(Debug, Default)]
pub(super) struct EncodedEvent {
    pub(super) context: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl ExportedClasses {
    pub(super) fn new(classes: &Classes, has_process: bool) -> Self {
        let of_class = vec![Vec::new(); classes.len()];
        Self { recorded: classes.clone(), exported: Vec::new(), of_class, has_process }
    }

    /// Encodes an event. Returns the number of its class.
    pub(super) fn encode(
        &mut self,
        moment: &Moment<'_>,
        labels_left: &mut usize,
        out: &mut EncodedEvent,
    ) -> u32 {
        let event = moment.event;
        let ids = [event.pid.is_some() && !self.has_process, event.tid.is_some()];
        let known = &mut self.of_class[event.class.index()];
        for place in 0..known.len() {
            let number = known[place];
            let exported = &mut self.exported[number as usize];
            if exported.ids == ids && !exported.is_json && exported.encode(event, labels_left, out) {
                known.swap(0, place);
                return number;
            }
        }
        let class = &self.recorded[event.class];
        let mut exported = ExportedClass::of(event, class, ids);
        let before = *labels_left;
        if known.len() >= TYPES_MAX || !exported.encode(event, labels_left, out) {
            let found = known.iter().find(|number| {
                let exported = &self.exported[**number as usize];
                exported.is_json && exported.ids == ids
            });
            // The labels that it has go with it.
            *labels_left = before;
            exported = ExportedClass {
                is_json: true,
                payload: vec![ExportedType::Text],
                context: Vec::new(),
                ..exported
            };
            exported.begin(event, out);
            let mut json = Vec::new();
            object(moment, class, None, &mut json);
            encode_text(&json, &mut out.payload);
            if let Some(number) = found {
                return *number;
            }
        }
        let number = self.exported.len() as u32;
        known.push(number);
        self.exported.push(exported);
        number
    }
}

impl ExportedClass {
    fn of(event: &Event, class: &Class, ids: [bool; 2]) -> Self {
        let (mut payload, mut context) = (Vec::new(), Vec::new());
        for (name, value) in event.fields(class) {
            match name.starts_with(CONTEXT) {
                true => context.push(ExportedType::of(value, false)),
                false => payload.push(ExportedType::of(value, true)),
            }
        }
        Self { class: event.class, ids, payload, context, is_json: false }
    }

    /// Begins the context: the ids of process and thread.
    fn begin(&self, event: &Event, out: &mut EncodedEvent) {
        out.context.clear();
        out.payload.clear();
        let ids = [event.pid.map(|pid| pid.0), event.tid.map(|tid| tid.0)];
        for (id, _) in ids.into_iter().zip(self.ids).filter(|(_, is_there)| *is_there) {
            out.context.extend(id.unwrap_or(0).to_ne_bytes());
        }
    }

    fn encode(&mut self, event: &Event, labels_left: &mut usize, out: &mut EncodedEvent) -> bool {
        self.begin(event, out);
        let (payload, context) = (&mut self.payload, &mut self.context);
        let fits = event.len() == payload.len() + context.len();
        let split = payload.len();
        fits && payload.iter_mut().enumerate().all(|(index, ty)| {
            event.value(index).is_some_and(|value| ty.encode(value, labels_left, &mut out.payload))
        }) && context.iter_mut().enumerate().all(|(index, ty)| {
            event.value(split + index).is_some_and(|value| ty.encode(value, labels_left, &mut out.context))
        })
    }

    /// Returns the members of the context: their names, and the types of those that are fields; the others are the ids
    /// of process and thread, in 32 bits.
    pub(super) fn context_members<'a>(
        &'a self,
        class: &'a Class,
        prefix: &str,
    ) -> Vec<(String, Option<&'a ExportedType>)> {
        let shown = class.fields.iter().filter_map(|field| field.strip_prefix(CONTEXT));
        let shown: Vec<&str> = if self.is_json { Vec::new() } else { shown.collect() };
        // Where a trace has both, the other one is the field.
        let prefix = if shown.iter().any(|name| ["vtid", "vpid"].contains(name)) { "" } else { prefix };
        let ids = ["pid", "tid"].into_iter().zip(self.ids).filter(|(_, is_there)| *is_there);
        let ids = ids.map(|(name, _)| (format!("{prefix}{name}"), None));
        let fields = shown.iter().zip(&self.context).map(|(name, ty)| ((*name).to_owned(), Some(ty)));
        ids.chain(fields).collect()
    }

    /// Returns the names and the types of the payload's members.
    pub(super) fn payload_members<'a>(&'a self, class: &'a Class) -> Vec<(&'a str, &'a ExportedType)> {
        if self.is_json {
            return self.payload.iter().map(|ty| ("json", ty)).collect();
        }
        class.fields.iter().map(String::as_str).zip(&self.payload).collect()
    }
}
