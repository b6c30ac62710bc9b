//! The matching of begins with ends by one key, as a trial.

use super::FOLLOWED_MAX;
use crate::Key;
use crate::find::{PairingKey, value};
use sordino_event::{Class, ClassId, Event};
use std::collections::{HashMap, HashSet};

/// Begins and ends that belong together if they have the same key.
#[derive(Debug)]
pub(super) struct Matching {
    pub(super) key: Key,
    /// The index of the field in each class that has it.
    places: HashMap<ClassId, usize>,
    open: HashSet<PairingKey>,
    /// The number of ends that had a begin.
    pub(super) intervals: u64,
    /// The number of begins that were followed by another begin, and of ends without a begin. An end that is paired
    /// with a wrong begin causes one of each.
    strays: u64,
}

/// Returns the matchings by thread, and by each field of the payload that the begin and the end have, in the begin's
/// order.
pub(super) fn all(begins: &[(ClassId, &Class)], ends: &[(ClassId, &Class)]) -> Vec<Matching> {
    let both = || begins.iter().chain(ends);
    let in_all = |field: &&String| both().all(|(_, class)| class.field(field).is_some());
    let own = |field: &&String| !field.starts_with("$ctx.");
    let fields = begins.iter().take(1).flat_map(|(_, class)| &class.fields).filter(own).filter(in_all);
    let by_field = fields.map(|field| {
        let places = both().filter_map(|(id, class)| Some((*id, class.field(field)?))).collect();
        Matching::new(Key::Field(field.clone()), places)
    });
    std::iter::once(Matching::new(Key::Thread, HashMap::new())).chain(by_field).collect()
}

impl Matching {
    fn new(key: Key, places: HashMap<ClassId, usize>) -> Self {
        Self { key, places, open: HashSet::new(), intervals: 0, strays: 0 }
    }

    pub(super) fn begin(&mut self, own: Option<&PairingKey>, event: &Event) {
        let Some(value) = self.value(own, event) else { return };
        // Most of this many begins no longer have an end to come.
        if self.open.len() == FOLLOWED_MAX {
            self.open.clear();
        }
        self.strays += u64::from(!self.open.insert(value));
    }

    pub(super) fn end(&mut self, own: Option<&PairingKey>, event: &Event) {
        let Some(value) = self.value(own, event) else { return };
        let has_begin = self.open.remove(&value);
        self.intervals += u64::from(has_begin);
        self.strays += u64::from(!has_begin);
    }

    /// Returns the value of the key, given the event's fiber or thread.
    fn value(&self, own: Option<&PairingKey>, event: &Event) -> Option<PairingKey> {
        match self.key {
            Key::Field(_) => value(event, *self.places.get(&event.class)?),
            Key::Thread | Key::Cpu => own.cloned(),
        }
    }

    /// Returns the matching with the greater excess of intervals over strays; the other one if both are equal.
    pub(super) fn better_than<'a>(&'a self, best: &'a Self) -> &'a Self {
        let surplus = |matching: &Self| i128::from(matching.intervals) - i128::from(matching.strays);
        if surplus(self) > surplus(best) { self } else { best }
    }
}
