//! The observed attributes of threads, in order of observation.

use super::{Thread, Told, What};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies an attribute of a thread; a later [`What`] of the same key replaces the earlier one. The number is its
/// kind, the string an annotation's name.
type Key = (Thread, u8, String);

/// All retained observations, and those that are current.
#[derive(Debug, Default)]
pub(super) struct History {
    known: BTreeMap<Key, Told>,
    told: Vec<Told>,
}

/// Maximum number of retained observations. At the limit the older half is dropped, except those that are current.
const MOST: usize = 100_000;

impl History {
    /// Adds an observation if it differs from the current one.
    pub(super) fn take(&mut self, told: Told) {
        let key = key(&told);
        if self.known.get(&key).is_some_and(|known| known.what == told.what) {
            return;
        }
        self.known.insert(key, told.clone());
        self.tell(told);
    }

    /// Records the end of all known threads that are not in `threads`.
    pub(super) fn end_others(&mut self, threads: &[Thread], at: u64) {
        let there: BTreeSet<_> = threads.iter().copied().collect();
        let ended: BTreeSet<_> =
            self.known.keys().map(|(thread, ..)| *thread).filter(|thread| !there.contains(thread)).collect();
        self.known.retain(|(thread, ..), _| !ended.contains(thread));
        ended.into_iter().for_each(|thread| self.tell(Told { at, thread, what: What::End }));
    }

    fn tell(&mut self, told: Told) {
        if self.told.len() >= MOST {
            let newer = self.told.split_off(MOST / 2);
            let known = &self.known;
            self.told.retain(|old| known.get(&key(old)) == Some(old));
            self.told.extend(newer);
        }
        self.told.push(told);
    }

    /// Returns the observations since the last call. Current ones are kept, with their original timestamps, for the
    /// next chunk.
    pub(super) fn rotate(&mut self) -> Vec<Told> {
        std::mem::replace(&mut self.told, self.known.values().cloned().collect())
    }

    /// Returns the attributes that were current at `timestamp`, and all later observations.
    pub(super) fn since(&self, timestamp: u64) -> Vec<Told> {
        let mut held = BTreeMap::new();
        let mut newer = Vec::new();
        for told in &self.told {
            match told {
                told if told.at > timestamp => newer.push(told.clone()),
                Told { what: What::End, thread, .. } => held.retain(|(of, ..): &Key, _| of != thread),
                told => _ = held.insert(key(told), Told { at: timestamp, ..told.clone() }),
            }
        }
        held.into_values().chain(newer).collect()
    }
}

fn key(told: &Told) -> Key {
    let (kind, name) = match &told.what {
        What::Ids { .. } => (0, ""),
        What::Comm(_) => (1, ""),
        What::Priority { .. } => (2, ""),
        What::Cgroup(_) => (3, ""),
        What::Value { name, .. } => (4, name.as_str()),
        What::End => (5, ""),
    };
    (told.thread, kind, name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Thread = Thread { pid: 1, tid: 1, vtid: 1 };
    const TWO: Thread = Thread { pid: 1, tid: 2, vtid: 2 };

    fn named(at: u64, thread: Thread, name: &str) -> Told {
        Told { at, thread, what: What::Comm(name.to_owned()) }
    }

    #[test]
    fn only_changes_are_told_and_a_new_chunk_begins_with_what_holds() {
        let mut history = History::default();
        for told in [named(1, ONE, "a"), named(2, ONE, "a"), named(3, TWO, "b"), named(4, ONE, "c")] {
            history.take(told);
        }
        assert_eq!(history.rotate(), [named(1, ONE, "a"), named(3, TWO, "b"), named(4, ONE, "c")]);
        assert_eq!(history.rotate(), [named(4, ONE, "c"), named(3, TWO, "b")]);
        history.end_others(&[TWO], 11);
        let end = Told { at: 11, thread: ONE, what: What::End };
        assert_eq!(history.rotate(), [named(4, ONE, "c"), named(3, TWO, "b"), end]);
        assert_eq!(history.rotate(), [named(3, TWO, "b")]);
    }

    #[test]
    fn a_snapshot_has_what_held_when_it_begins() {
        let mut history = History::default();
        for told in [named(1, ONE, "a"), named(2, TWO, "b"), named(5, ONE, "c")] {
            history.take(told);
        }
        history.end_others(&[ONE], 6);
        let end = Told { at: 6, thread: TWO, what: What::End };
        assert_eq!(history.since(3), [named(3, ONE, "a"), named(3, TWO, "b"), named(5, ONE, "c"), end]);
        assert_eq!(history.since(7), [named(7, ONE, "c")]);
        assert_eq!(history.since(0), history.told);
    }

    #[test]
    fn of_very_much_the_oldest_is_forgotten_but_what_holds() {
        let mut history = History::default();
        history.take(named(0, TWO, "stays"));
        for at in 1..=2 * MOST as u64 {
            history.take(named(at, ONE, &at.to_string()));
        }
        assert!(history.told.len() <= MOST);
        assert!(history.told.contains(&named(0, TWO, "stays")));
        assert_eq!(history.told.last(), history.known.get(&key(&named(0, ONE, ""))));
    }
}
