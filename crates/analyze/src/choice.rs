//! Which intervals to look at, where the user names none.
//!
//! One pass counts the events of each thread; then, in this order:
//! 1. the pair of events of one provider whose names say that they belong together ([`WORDS`]) and that has the most intervals, unless
//!    the loop has more than ten times as many;
//! 2. the loop: the event of a program that one thread hits most often, regular ones first.
//!
//! What tells which begin an end belongs to, the thread or a field that both have, is tried out: of two requests that one thread works
//! on at a time, and of two fields, only one may be the right one.
//!
//! The same trace always gets the same answer: among equals, the first in the order of their names.

mod matching;

use crate::rhythm::Rhythm;
use crate::{Point, Rule, number};
use matching::Matching;
use serde::Serialize;
use sordino_event::{Class, ClassId, Classes, Domain, Tid};
use sordino_timeline::{Item, Moment, is_statedump};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// Words in the names of two events that begin and end something.
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

/// A loop that has so many times the intervals of a pair is chosen instead of it.
const FEW: u64 = 10;
/// Of as many threads' events the rhythm is followed, each takes a kilobyte; and as many begins wait for their ends.
const FOLLOWED_MAX: usize = 10_000;
/// As many others are named.
const OTHERS_MAX: usize = 5;

/// Why intervals were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The recording has the loop of `sordino npt`.
    Npt,
    /// The names of two events of one provider say that they begin and end something.
    Pair,
    /// Of the events that one thread hits at regular intervals, it is hit most often.
    Regular,
    /// No event is regular, and one thread hits this one most often.
    Frequent,
}

/// Why intervals were chosen, and which others could have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Why.
    pub why: Why,
    /// The next best, best first.
    pub others: Vec<Other>,
}

/// Intervals that could have been chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// Which.
    #[serde(serialize_with = "number::text")]
    pub rule: Rule,
    /// How many there are: of a loop, in the thread that has most.
    pub intervals: u64,
}

/// Counts the events of a trace, to choose which intervals to look at.
#[derive(Debug)]
pub struct Census {
    /// Indexed by class: which of `names`.
    by_class: Vec<Option<usize>>,
    names: Vec<Named>,
    pairs: Vec<Pair>,
    rhythms: HashMap<(usize, Tid), Rhythm>,
}

/// All events of one name.
#[derive(Debug)]
struct Named {
    name: String,
    is_user: bool,
    hits: u64,
    /// The pairs that it begins, and those that it ends.
    begins: Vec<usize>,
    ends: Vec<usize>,
}

/// Two events that begin and end something, by their names.
#[derive(Debug)]
struct Pair {
    begin: usize,
    end: usize,
    /// By thread, and by each field that both have.
    matchings: Vec<Matching>,
}

impl Census {
    /// Counts events of `classes`.
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
        let mut pairs: Vec<Pair> = Vec::new();
        for begin in 0..names.len() {
            for end in partners(&names, begin) {
                names[begin].begins.push(pairs.len());
                names[end].ends.push(pairs.len());
                let matchings = matching::all(classes_of[begin], classes_of[end]);
                pairs.push(Pair { begin, end, matchings });
            }
        }
        Self { by_class, names, pairs, rhythms: HashMap::new() }
    }

    /// Takes the next item of the trace.
    pub fn take(&mut self, item: &Item<'_>) {
        let Item::Event(moment) = item else { return };
        if let Some(&Some(index)) = self.by_class.get(moment.event.class.index()) {
            self.count(index, moment);
        }
    }

    fn count(&mut self, index: usize, moment: &Moment<'_>) {
        let named = &mut self.names[index];
        named.hits += 1;
        let Some(tid) = moment.tid.filter(|tid| *tid != Tid(0)) else { return };
        for &pair in &named.ends {
            self.pairs[pair].matchings.iter_mut().for_each(|matching| matching.end(tid, moment.event));
        }
        for &pair in &named.begins {
            self.pairs[pair].matchings.iter_mut().for_each(|matching| matching.begin(tid, moment.event));
        }
        if named.is_user && (self.rhythms.len() < FOLLOWED_MAX || self.rhythms.contains_key(&(index, tid))) {
            self.rhythms.entry((index, tid)).or_default().hit(moment.event.time);
        }
    }

    /// The intervals to look at and why.
    ///
    /// # Errors
    /// Pairs of the kernel's events, most intervals first, if programs have no event that makes any.
    pub fn choose(self) -> Result<(Rule, Choice), Vec<Other>> {
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

    /// The intervals of a pair, and whether its events are a program's. `None` if nothing tells for most of them which belong together.
    fn intervals(&self, pair: &Pair) -> Option<(bool, Other)> {
        let (begin, end) = (&self.names[pair.begin], &self.names[pair.end]);
        let most = begin.hits.min(end.hits);
        let best = pair.matchings.iter().reduce(|best, matching| matching.better_than(best))?;
        let point = |named: &Named| Point { event: named.name.clone(), key: best.key.clone() };
        let rule = Rule { begin: point(begin), end: point(end) };
        let is_most = best.intervals > 0 && best.intervals >= most.div_ceil(2);
        is_most.then_some((begin.is_user, Other { rule, intervals: best.intervals }))
    }

    /// The loops, best first, and whether each is regular. Events of a pair are left out.
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
                (regular, Other { rule: Rule::between(&self.names[index].name), intervals })
            })
            .collect();
        loops.sort_by_key(|(regular, other)| Reverse((*regular, other.intervals)));
        loops
    }
}

/// Whether events of `class` can be what a user looks for: not what tracers add by themselves.
fn is_counted(class: &Class) -> bool {
    let is_tracers = ["sordino:context", "sordino:counters", "sordino:snapshot"].contains(&&*class.name)
        || class.name.starts_with("lttng_ust");
    !is_tracers && !is_statedump(class)
}

/// The events whose names say that they end what `begin` begins.
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
