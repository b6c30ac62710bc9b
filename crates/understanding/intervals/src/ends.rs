//! The fields of the events that begin and end an interval, by which a program's own log is matched with the intervals.

use crate::interval::Interval;
use foldhash::HashMap;
use serde::Serialize;
use sordino_event::{Class, ClassId, Classes, Cpu, Event, Time, View};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fields of an event by name, without lists and groups.
pub type EventFields = BTreeMap<Arc<str>, FieldValue>;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// An unsigned integer of 64 bits.
    Unsigned(u64),
    /// A signed integer, or an enumeration's.
    Signed(i64),
    /// A floating-point number; JSON has `null` for NaN and infinities.
    Float(f64),
    /// A text; bytes that are not UTF-8 are replaced.
    Text(String),
}

/// The names of the fields of events that begin or end intervals.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldNames(HashMap<ClassId, Vec<Arc<str>>>);

impl FieldNames {
    /// Returns the field names of the classes that `is_selected` accepts.
    pub(crate) fn of(classes: &Classes, is_selected: impl Fn(&Class) -> bool) -> Self {
        let names = |class: &Class| class.fields.iter().map(|name| name.as_str().into()).collect();
        let selected = classes.iter().filter(|(_, class)| is_selected(class));
        Self(selected.map(|(id, class)| (id, names(class))).collect())
    }

    fn fields(&self, event: &Event) -> Option<EventFields> {
        let names = self.0.get(&event.class)?.iter().enumerate();
        Some(
            names.filter_map(|(field, name)| Some((Arc::clone(name), value(event.value(field)?)?))).collect(),
        )
    }
}

fn value(view: View<'_>) -> Option<FieldValue> {
    Some(match view {
        View::Unsigned(value, _) => FieldValue::Unsigned(value),
        View::Signed(value, _) | View::Label(value, _) => FieldValue::Signed(value),
        View::Float(value) => FieldValue::Float(value),
        View::Text(text) => FieldValue::Text(String::from_utf8_lossy(text).into_owned()),
        View::List(_) | View::Group(_) => return None,
    })
}

/// The time and the CPU of an event that begins or ends an interval.
type IntervalEnd = (Time, Option<Cpu>);

/// The fields at both ends of some intervals.
#[derive(Debug)]
pub struct EndFields {
    begins: FieldNames,
    ends: FieldNames,
    at_begin: HashMap<IntervalEnd, EventFields>,
    at_end: HashMap<IntervalEnd, EventFields>,
}

impl EndFields {
    /// Creates a collection without intervals, for events with these field names.
    pub(crate) fn new(begins: FieldNames, ends: FieldNames) -> Self {
        Self { begins, ends, at_begin: HashMap::default(), at_end: HashMap::default() }
    }

    /// Returns true if events of this class may be at an end.
    pub fn reads(&self, class: ClassId) -> bool {
        [&self.begins, &self.ends].iter().any(|names| names.0.contains_key(&class))
    }

    /// Makes room for the fields at both ends of this interval.
    pub fn keep(&mut self, interval: &Interval) {
        self.at_begin.insert((interval.begin, interval.begin_cpu), EventFields::new());
        self.at_end.insert((interval.end, interval.end_cpu), EventFields::new());
    }

    /// Processes an event on a CPU; of several at the same time and CPU, the first that has fields counts.
    pub fn take(&mut self, event: &Event, cpu: Option<Cpu>) {
        let sides = [(&self.begins, &mut self.at_begin), (&self.ends, &mut self.at_end)];
        for (names, kept) in sides {
            if let Some(kept) = kept.get_mut(&(event.time, cpu)).filter(|kept| kept.is_empty())
                && let Some(fields) = names.fields(event)
            {
                *kept = fields;
            }
        }
    }

    /// Returns the fields of the interval's first and last event.
    pub fn of(&self, interval: &Interval) -> (EventFields, EventFields) {
        let begin = self.at_begin.get(&(interval.begin, interval.begin_cpu));
        let end = self.at_end.get(&(interval.end, interval.end_cpu));
        (begin.cloned().unwrap_or_default(), end.cloned().unwrap_or_default())
    }
}
