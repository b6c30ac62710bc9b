//! The observed attributes of threads, in order of observation.

use sordino_event::Ticks;
use sordino_inspect::context::{Attribute, Observation, ThreadIds};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies an attribute of a thread; a later [`Attribute`] of the same key replaces the earlier one. The number is
/// its kind, the string an annotation's name.
type AttributeKey = (ThreadIds, u8, String);

/// All retained observations, and those that are current.
#[derive(Debug, Default)]
pub(super) struct History {
    known: BTreeMap<AttributeKey, Observation>,
    observations: Vec<Observation>,
}

/// Maximum number of retained observations. At the limit the older half is dropped, except those that are current.
const MOST: usize = 100_000;

impl History {
    /// Adds an observation if it differs from the current one.
    pub(super) fn take(&mut self, observation: Observation) {
        let key = key(&observation);
        if self.known.get(&key).is_some_and(|known| known.attribute == observation.attribute) {
            return;
        }
        self.known.insert(key, observation.clone());
        self.add(observation);
    }

    /// Records the end of all known threads that are not in `threads`.
    pub(super) fn end_others(&mut self, threads: &[ThreadIds], at: Ticks) {
        let there: BTreeSet<_> = threads.iter().copied().collect();
        let ended: BTreeSet<_> =
            self.known.keys().map(|(thread, ..)| *thread).filter(|thread| !there.contains(thread)).collect();
        self.known.retain(|(thread, ..), _| !ended.contains(thread));
        ended.into_iter().for_each(|thread| self.add(Observation { at, thread, attribute: Attribute::End }));
    }

    fn add(&mut self, observation: Observation) {
        if self.observations.len() >= MOST {
            let newer = self.observations.split_off(MOST / 2);
            let known = &self.known;
            self.observations.retain(|old| known.get(&key(old)) == Some(old));
            self.observations.extend(newer);
        }
        self.observations.push(observation);
    }

    /// Returns the observations since the last call. Current ones are kept, with their original timestamps, for the
    /// next chunk.
    pub(super) fn rotate(&mut self) -> Vec<Observation> {
        std::mem::replace(&mut self.observations, self.known.values().cloned().collect())
    }

    /// Returns the attributes that were current at `timestamp`, and all later observations.
    pub(super) fn since(&self, timestamp: Ticks) -> Vec<Observation> {
        let mut held = BTreeMap::new();
        let mut newer = Vec::new();
        for observation in &self.observations {
            match observation {
                observation if observation.at > timestamp => newer.push(observation.clone()),
                Observation { attribute: Attribute::End, thread, .. } => {
                    held.retain(|(of, ..): &AttributeKey, _| of != thread)
                }
                observation => {
                    _ = held.insert(key(observation), Observation { at: timestamp, ..observation.clone() })
                }
            }
        }
        held.into_values().chain(newer).collect()
    }
}

fn key(observation: &Observation) -> AttributeKey {
    let (kind, name) = match &observation.attribute {
        Attribute::Ids { .. } => (0, ""),
        Attribute::Comm(_) => (1, ""),
        Attribute::Priority { .. } => (2, ""),
        Attribute::Cgroup(_) => (3, ""),
        Attribute::Annotation { name, .. } => (4, name.as_str()),
        Attribute::End => (5, ""),
    };
    (observation.thread, kind, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ThreadIds = ThreadIds { pid: 1, tid: 1, vtid: 1 };
    const TWO: ThreadIds = ThreadIds { pid: 1, tid: 2, vtid: 2 };

    fn named(at: u64, thread: ThreadIds, name: &str) -> Observation {
        Observation { at: Ticks(at), thread, attribute: Attribute::Comm(name.to_owned()) }
    }

    #[test]
    fn only_changes_are_recorded_and_a_new_chunk_begins_with_the_present_values() {
        let mut history = History::default();
        for observation in [named(1, ONE, "a"), named(2, ONE, "a"), named(3, TWO, "b"), named(4, ONE, "c")] {
            history.take(observation);
        }
        assert_eq!(history.rotate(), [named(1, ONE, "a"), named(3, TWO, "b"), named(4, ONE, "c")]);
        assert_eq!(history.rotate(), [named(4, ONE, "c"), named(3, TWO, "b")]);
        history.end_others(&[TWO], Ticks(11));
        let end = Observation { at: Ticks(11), thread: ONE, attribute: Attribute::End };
        assert_eq!(history.rotate(), [named(4, ONE, "c"), named(3, TWO, "b"), end]);
        assert_eq!(history.rotate(), [named(3, TWO, "b")]);
    }

    #[test]
    fn a_snapshot_has_what_held_when_it_begins() {
        let mut history = History::default();
        for observation in [named(1, ONE, "a"), named(2, TWO, "b"), named(5, ONE, "c")] {
            history.take(observation);
        }
        history.end_others(&[ONE], Ticks(6));
        let end = Observation { at: Ticks(6), thread: TWO, attribute: Attribute::End };
        assert_eq!(
            history.since(Ticks(3)),
            [named(3, ONE, "a"), named(3, TWO, "b"), named(5, ONE, "c"), end]
        );
        assert_eq!(history.since(Ticks(7)), [named(7, ONE, "c")]);
        assert_eq!(history.since(Ticks(0)), history.observations);
    }

    #[test]
    fn of_very_much_the_oldest_is_forgotten_but_what_holds() {
        let mut history = History::default();
        history.take(named(0, TWO, "stays"));
        for at in 1..=2 * MOST as u64 {
            history.take(named(at, ONE, &at.to_string()));
        }
        assert!(history.observations.len() <= MOST);
        assert!(history.observations.contains(&named(0, TWO, "stays")));
        assert_eq!(history.observations.last(), history.known.get(&key(&named(0, ONE, ""))));
    }
}
