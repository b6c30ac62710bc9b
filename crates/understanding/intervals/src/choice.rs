//! The choice of intervals if the user names none.
//!
//! One pass counts the events of each thread; then the first of these is chosen:
//! 1. the pair of events of one provider whose names match a pair of [`WORDS`] and that has the most intervals, unless
//!    the loop has more than ten times as many;
//! 2. the loop: the event of a program that one thread hits most often, regular ones first.
//!
//! The key that pairs a begin with its end, the thread (or fiber) or a field that both have, is determined by trying
//! all of them: where a thread works on two requests at a time, or the events have two fields, only one key may be the
//! right one.
//!
//! The same trace always yields the same choice: among equals, the first in the order of their names.

mod matching;

use crate::find::PairingKey;
use crate::{IntervalRule, Point, number};
use matching::Matching;
use serde::Serialize;
use sordino_event::{Class, ClassId, Classes, Domain, Tid};
use sordino_lengths::Rhythm;
use sordino_timeline::{Consumer, Item, Moment, is_added};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Pairs of words in the names of two events that begin and end something.
const WORDS: &[(&str, &str)] = &[
    ("begin", "end"),
    ("start", "stop"),
    ("start", "end"),
    ("start", "done"),
    ("enter", "exit"),
    ("enter", "leave"),
    ("entry", "exit"),
    ("entry", "return"),
    ("request", "answer"),
    ("request", "reply"),
    ("request", "response"),
    ("submit", "complete"),
    ("send", "receive"),
    ("put", "get"),
    ("push", "pop"),
    ("acquire", "release"),
    ("lock", "unlock"),
    ("open", "close"),
];

/// The ratio of intervals above which a loop is chosen instead of a pair.
const FEW: u64 = 10;
/// The maximum number of threads and events whose rhythm is followed, each of which takes a kilobyte, and of begins
/// that wait for their ends.
const FOLLOWED_MAX: usize = 10_000;
/// The maximum number of other choices that are listed.
const OTHERS_MAX: usize = 5;

/// The reason why intervals were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The recording contains the loop of `sordino npt`.
    Npt,
    /// The names of two events of one provider contain words for a begin and an end.
    Pair,
    /// The event is the one that a thread hits most often, of those that a thread hits at regular intervals.
    Regular,
    /// No event is regular, and this is the one that a thread hits most often.
    Frequent,
}

/// The reason for a choice of intervals, and the others that were possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// The reason for this choice.
    pub why: Why,
    /// The other choices, best first.
    pub others: Vec<Other>,
}

/// Intervals that could have been chosen instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// The rule for these intervals.
    #[serde(serialize_with = "number::text")]
    pub rule: IntervalRule,
    /// The number of these intervals; for a loop, in the thread that has most.
    pub intervals: u64,
}

/// Counts the events of a trace to choose the intervals for an analysis.
#[derive(Debug)]
pub struct Census {
    /// The index in `names`; indexed by class.
    by_class: Vec<Option<usize>>,
    names: Vec<Named>,
    pairs: Vec<EventPair>,
    rhythms: HashMap<(usize, Tid), Rhythm>,
}

/// The events that share a name.
#[derive(Debug)]
struct Named {
    name: String,
    is_user: bool,
    hits: u64,
    /// The indexes of the pairs that it begins, and of those that it ends.
    begins: Vec<usize>,
    ends: Vec<usize>,
}

/// Two events whose names contain words for a begin and an end.
#[derive(Debug)]
struct EventPair {
    begin: usize,
    end: usize,
    /// The matchings by thread, and by each field that both events have.
    matchings: Vec<Matching>,
}

impl Census {
    /// Creates a census of events of `classes`.
    pub fn new(classes: &Classes) -> Self {
        let mut by_name: BTreeMap<&str, Vec<(ClassId, &Class)>> = BTreeMap::new();
        for (id, class) in classes.iter().filter(|(_, class)| is_counted(class)) {
            by_name.entry(&class.name).or_default().push((id, class));
        }
        let mut by_class = vec![None; classes.len()];
        let mut names = Vec::new();
        for (index, (name, of_name)) in by_name.iter().enumerate() {
            of_name.iter().for_each(|(id, _)| by_class[id.index()] = Some(index));
            let is_user = of_name.iter().any(|(_, class)| class.domain == Domain::User);
            names.push(Named { name: (*name).to_owned(), is_user, hits: 0, begins: vec![], ends: vec![] });
        }
        let classes_of: Vec<&[(ClassId, &Class)]> = by_name.values().map(Vec::as_slice).collect();
        let mut pairs: Vec<EventPair> = Vec::new();
        for begin in 0..names.len() {
            for end in partners(&names, begin) {
                names[begin].begins.push(pairs.len());
                names[end].ends.push(pairs.len());
                let matchings = matching::all(classes_of[begin], classes_of[end]);
                pairs.push(EventPair { begin, end, matchings });
            }
        }
        Self { by_class, names, pairs, rhythms: HashMap::new() }
    }

    fn count(&mut self, index: usize, moment: &Moment<'_>) {
        let named = &mut self.names[index];
        named.hits += 1;
        let Some(tid) = moment.tid.filter(|tid| *tid != Tid(0)) else { return };
        let own = PairingKey::of_fiber(moment);
        for &pair in &named.ends {
            let matchings = self.pairs[pair].matchings.iter_mut();
            matchings.for_each(|matching| matching.end(own.as_ref(), moment.event));
        }
        for &pair in &named.begins {
            let matchings = self.pairs[pair].matchings.iter_mut();
            matchings.for_each(|matching| matching.begin(own.as_ref(), moment.event));
        }
        if named.is_user && (self.rhythms.len() < FOLLOWED_MAX || self.rhythms.contains_key(&(index, tid))) {
            self.rhythms.entry((index, tid)).or_default().hit(moment.event.time);
        }
    }

    /// Returns the chosen intervals and the reason.
    ///
    /// # Errors
    /// If no event of a program makes intervals: the pairs of the kernel's events, most intervals first.
    pub fn choose(self) -> Result<(IntervalRule, Choice), Vec<Other>> {
        let (mut pairs, kernel): (Vec<_>, Vec<_>) =
            self.pairs.iter().filter_map(|pair| self.intervals(pair)).partition(|(is_user, _)| *is_user);
        let mut loops = self.loops();
        let most = loops.first().map_or(0, |(_, best)| best.intervals);
        pairs.sort_by_key(|(_, pair)| Reverse(pair.intervals));
        let chosen = match pairs.first() {
            Some((_, pair)) if pair.intervals.saturating_mul(FEW) >= most => (pairs.remove(0).1, Why::Pair),
            _ if loops.is_empty() => {
                let mut kernel: Vec<Other> = kernel.into_iter().map(|(_, other)| other).collect();
                kernel.sort_by_key(|other| Reverse(other.intervals));
                kernel.truncate(OTHERS_MAX);
                return Err(kernel);
            }
            _ => match loops.remove(0) {
                (true, regular) => (regular, Why::Regular),
                (false, frequent) => (frequent, Why::Frequent),
            },
        };
        let mut others: Vec<Other> = pairs.into_iter().chain(loops).map(|(_, other)| other).collect();
        others.truncate(OTHERS_MAX);
        Ok((chosen.0.rule, Choice { why: chosen.1, others }))
    }

    /// Returns the intervals of a pair, and true if its events are a program's. `None` if no key pairs most of them.
    fn intervals(&self, pair: &EventPair) -> Option<(bool, Other)> {
        let (begin, end) = (&self.names[pair.begin], &self.names[pair.end]);
        let most = begin.hits.min(end.hits);
        let best = pair.matchings.iter().reduce(|best, matching| matching.better_than(best))?;
        let point = |named: &Named| Point { event: named.name.clone(), key: best.key.clone() };
        let rule = IntervalRule { begin: point(begin), end: point(end) };
        let is_most = best.intervals > 0 && best.intervals >= most.div_ceil(2);
        is_most.then_some((begin.is_user, Other { rule, intervals: best.intervals }))
    }

    /// Returns the loops, best first, each with true if it is regular. Events of a pair are left out.
    fn loops(&self) -> Vec<(bool, Other)> {
        let mut best: BTreeMap<usize, (bool, u64)> = BTreeMap::new();
        for (&(index, _), rhythm) in &self.rhythms {
            let found = (rhythm.is_regular(), rhythm.intervals());
            let known = best.entry(index).or_default();
            *known = found.max(*known);
        }
        let in_pair = |index: &usize| {
            let pairs = self.names[*index].begins.iter().chain(&self.names[*index].ends);
            pairs.filter_map(|pair| self.intervals(&self.pairs[*pair])).count() > 0
        };
        let mut loops: Vec<_> = best
            .into_iter()
            .filter(|(index, (_, intervals))| *intervals > 0 && !in_pair(index))
            .map(|(index, (regular, intervals))| {
                (regular, Other { rule: IntervalRule::between(&self.names[index].name), intervals })
            })
            .collect();
        loops.sort_by_key(|(regular, other)| Reverse((*regular, other.intervals)));
        loops
    }
}

impl Consumer for Census {
    fn take(&mut self, item: &Item<'_>) {
        let Item::Event(moment) = item else { return };
        if let Some(&Some(index)) = self.by_class.get(moment.event.class.index()) {
            self.count(index, moment);
        }
    }
}

/// Returns true if a user may be interested in events of `class`: they are not ones that tracers add by themselves.
fn is_counted(class: &Class) -> bool {
    let is_tracers = ["sordino:context", "sordino:counters", "sordino:snapshot"].contains(&&*class.name)
        || class.name.starts_with("lttng_ust")
        || class.name.starts_with("sordino_fiber:");
    !is_tracers && !is_added(class)
}

/// Returns the events whose names match that of `begin` with a word for the end.
fn partners(names: &[Named], begin: usize) -> Vec<usize> {
    let (provider, event) = names[begin].name.rsplit_once(':').unwrap_or(("", &names[begin].name));
    let words: Vec<&str> = event.split('_').collect();
    let mut partners = Vec::new();
    for (place, word) in words.iter().enumerate() {
        for (_, end) in WORDS.iter().filter(|(begins, _)| begins == word) {
            let mut partner = words.clone();
            partner[place] = end;
            let partner = partner.join("_");
            let partner = if provider.is_empty() { partner } else { format!("{provider}:{partner}") };
            partners.extend(names.binary_search_by(|named| named.name.cmp(&partner)));
        }
    }
    partners
}
