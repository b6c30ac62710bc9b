//! Usual times over a sample of intervals: the median length, and the median time of each cause.
//!
//! A periodic thread sleeps most of each interval, so the longest part of a long interval is mostly the longest part of
//! every interval. A long interval is therefore explained by the part that exceeds its usual time most. Each thread has
//! usual times of its own.

use crate::cause::Cause;
use crate::entry_cost::{Charged, correct};
use crate::findings::{Explanation, Main, Part};
use sordino_event::Nanos;
use sordino_intervals::Interval;
use sordino_timeline::ThreadOrFiber;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem::Discriminant;

/// The minimum number of intervals from which usual times are derived.
const FEW: usize = 5;
/// The number of median deviations by which an unusual interval is longer than the median.
const DEVIATIONS: i64 = 3;
/// The number of median deviations by which an interval lies far outside of the usual lengths.
const FAR: i64 = 20;

/// A cause that stands for the kind of all page faults.
const ANY_FAULT: Cause = Cause::PageFault { reason: None, huge: false };

/// The kind of a cause, without its details.
type CauseKind = Discriminant<Cause>;

/// Returns the kind of a cause. Page faults are one kind, whether their thread runs or waits.
fn kind(cause: &Cause) -> CauseKind {
    std::mem::discriminant(match cause {
        Cause::Blocked { in_page_fault: true, .. } => &ANY_FAULT,
        cause => cause,
    })
}

/// The explanations of a sample, for each thread and for all.
#[derive(Debug, Default)]
pub(crate) struct UsualSample {
    all: IntervalTimes,
    by_owner: HashMap<ThreadOrFiber, IntervalTimes>,
}

/// The times of some intervals.
#[derive(Debug, Default)]
struct IntervalTimes {
    lengths: Vec<Nanos>,
    interruptions: Vec<Interruption>,
    by_cause: HashMap<Cause, Vec<Nanos>>,
    by_kind: HashMap<CauseKind, Vec<Nanos>>,
}

/// The time of own code in an interval, and the estimate for entering and leaving the interrupts there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Interruption {
    own: Nanos,
    pub(crate) entry: Nanos,
}

/// The usual times in the intervals of a recording.
#[derive(Debug)]
pub(crate) struct Usual {
    all: Option<Medians>,
    by_owner: HashMap<ThreadOrFiber, Medians>,
}

#[derive(Debug)]
struct Medians {
    /// The median length, and the median deviation from it.
    length: (Nanos, Nanos),
    /// The same for own code.
    own: (Nanos, Nanos),
    /// The median estimate for entering and leaving interrupts.
    entry: Nanos,
    by_cause: HashMap<Cause, Nanos>,
    by_kind: HashMap<CauseKind, Nanos>,
}

impl UsualSample {
    pub(crate) fn add(&mut self, explanation: &Explanation) {
        self.all.add(explanation);
        self.by_owner.entry(explanation.interval.owner()).or_default().add(explanation);
    }

    pub(crate) fn finish(self) -> Usual {
        let by_owner = self.by_owner.into_iter();
        let by_owner = by_owner.filter_map(|(owner, times)| Some((owner, times.medians()?))).collect();
        Usual { all: self.all.medians(), by_owner }
    }
}

impl IntervalTimes {
    fn add(&mut self, explanation: &Explanation) {
        self.lengths.push(explanation.length);
        self.interruptions.push(Interruption::of(&explanation.parts));
        let mut by_cause: HashMap<Cause, Nanos> = HashMap::new();
        let mut by_kind: HashMap<CauseKind, Nanos> = HashMap::new();
        for part in &explanation.parts {
            *by_cause.entry(part.cause.in_general()).or_default() += part.time;
            *by_kind.entry(kind(&part.cause)).or_default() += part.time;
        }
        by_cause.into_iter().for_each(|(cause, time)| self.by_cause.entry(cause).or_default().push(time));
        by_kind.into_iter().for_each(|(kind, time)| self.by_kind.entry(kind).or_default().push(time));
    }

    /// Returns the medians; `None` if there are too few intervals.
    fn medians(self) -> Option<Medians> {
        let count = self.lengths.len();
        let length = spread(self.lengths)?;
        let own = spread(self.interruptions.iter().map(|interruption| interruption.own).collect())?;
        let entry = median(self.interruptions.iter().map(|interruption| interruption.entry).collect(), count);
        let by_cause =
            self.by_cause.into_iter().map(|(cause, times)| (cause, median(times, count))).collect();
        let by_kind = self.by_kind.into_iter().map(|(kind, times)| (kind, median(times, count))).collect();
        Some(Medians { length, own, entry, by_cause, by_kind })
    }
}

impl Interruption {
    pub(crate) fn of(parts: &[Part]) -> Self {
        let own = parts.iter().filter(|part| part.cause.is_own_code()).map(|part| part.time).sum();
        Self { own, entry: parts.iter().map(|part| part.entry).sum() }
    }
}

/// Returns the median, and the median deviation from it, which is at least a thousandth of the median: smaller
/// differences do not count. `None` if there are too few lengths.
fn spread(lengths: Vec<Nanos>) -> Option<(Nanos, Nanos)> {
    let count = lengths.len();
    if count < FEW {
        return None;
    }
    let middle = median(lengths.clone(), count);
    let deviations = lengths.into_iter().map(|length| Nanos((length - middle).0.saturating_abs())).collect();
    Some((middle, median(deviations, count).max(Nanos(middle.0 / 1000))))
}

/// Returns the length above which intervals lie far outside of the usual lengths; `None` if there are too few
/// intervals.
pub(crate) fn outside(sample: &[Interval]) -> Option<Nanos> {
    let (median, deviation) = spread(sample.iter().map(Interval::length).collect())?;
    Some(Nanos(median.0.saturating_add(deviation.0.saturating_mul(FAR))))
}

/// Returns the median of `count` times, of which those that are missing in `times` are 0.
fn median(mut times: Vec<Nanos>, count: usize) -> Nanos {
    let missing = count - times.len();
    times.sort_unstable();
    (count / 2).checked_sub(missing).map_or(Nanos::ZERO, |place| times[place])
}

impl Usual {
    /// Returns the medians of a thread, or of all threads if it has too few intervals.
    fn medians(&self, owner: ThreadOrFiber) -> Option<&Medians> {
        self.by_owner.get(&owner).or(self.all.as_ref())
    }

    /// Returns the time of a cause in an interval of this thread beyond the usual one.
    pub(crate) fn excess(&self, owner: ThreadOrFiber, cause: &Cause, time: Nanos) -> Nanos {
        let Some(medians) = self.medians(owner) else { return Nanos::ZERO };
        (time - medians.of(cause)).max(Nanos::ZERO)
    }

    /// Returns the own code of an interval and what its interrupts were charged with; `None` if there are too few
    /// intervals.
    pub(crate) fn charged(&self, owner: ThreadOrFiber, interruption: Interruption) -> Option<Charged> {
        let Medians { own, entry, .. } = self.medians(owner)?;
        let longer = interruption.own - own.0;
        Some(Charged { longer, usual: *own, charge: (interruption.entry - *entry).max(Nanos::ZERO) })
    }

    /// Sets the usual time of each part, and the part that explains the interval. In a constant loop, that is not the
    /// loop's own code.
    pub(crate) fn judge(&self, explanation: &mut Explanation, is_constant: bool) {
        let owner = explanation.interval.owner();
        let charged = self.charged(owner, Interruption::of(&explanation.parts)).filter(|_| !is_constant);
        let error = charged.map_or(Nanos::ZERO, Charged::error);
        correct(&mut explanation.parts, error);
        // Time that interrupts may have taken does not make own code the cause.
        let doubtful = charged.map_or(Nanos::ZERO, |charged| charged.doubtful() - error.max(Nanos::ZERO));
        let medians = self.medians(owner);
        // The usual time of a cause is divided among its parts, the longest first; a rest goes to the first one.
        let mut left: HashMap<Cause, (usize, Nanos)> = HashMap::new();
        for (index, part) in explanation.parts.iter_mut().enumerate() {
            let of = |cause: &Cause| (index, medians.map_or(Nanos::ZERO, |medians| medians.of(cause)));
            let (_, rest) = left.entry(part.cause.in_general()).or_insert_with_key(of);
            part.usual = (*rest).min(part.time);
            *rest -= part.usual;
        }
        for (first, rest) in left.into_values() {
            explanation.parts[first].usual += rest;
        }
        let parts = &explanation.parts;
        let is_none = |part: &Part| is_constant && part.cause == Cause::Own;
        let excess = |part: &Part| (part.time - part.usual).max(Nanos::ZERO);
        let by_excess = |medians: &Medians| {
            let amount = |part: &Part| match is_none(part) {
                true => Nanos::ZERO,
                false if part.cause.is_own_code() => excess(part).max(doubtful) - doubtful,
                false => excess(part),
            };
            // Where other causes take the place of the usual ones, the kind as a whole has its usual time.
            let usual = |kind: &CauseKind| medians.by_kind.get(kind).copied().unwrap_or_default();
            let main = main(parts, amount, usual)?;
            Some(Main { excess: Some(excess(&parts[main.part])), ..main })
        };
        let is_unusual = |medians: &&Medians| medians.is_unusual(explanation.length);
        let amount = |part: &Part| if is_none(part) { Nanos::ZERO } else { part.time };
        let by_time = || main(parts, amount, |_| Nanos::ZERO);
        explanation.main = medians.filter(is_unusual).and_then(by_excess).or_else(by_time);
        // A thread that is woken waits some microseconds behind the thread that has the CPU, which is no significant
        // inversion.
        let excess = explanation.main.as_ref().and_then(|main| main.excess).unwrap_or(explanation.length);
        explanation.inversions.retain(|inversion| matters(inversion.time, excess));
    }
}

impl Medians {
    fn of(&self, cause: &Cause) -> Nanos {
        self.by_cause.get(&cause.in_general()).copied().unwrap_or_default()
    }

    fn is_unusual(&self, length: Nanos) -> bool {
        let (median, deviation) = self.length;
        (length - median).0 > deviation.0.saturating_mul(DEVIATIONS)
    }
}

/// The parts of one kind of cause in an interval.
#[derive(Clone, Copy, Debug)]
struct OfKind {
    kind: CauseKind,
    /// The sum of the parts' times, and of the amounts by which they are compared.
    time: Nanos,
    amount: Nanos,
    /// The part with the largest amount.
    part: usize,
}

/// Returns true if a time is at least a twentieth of another one.
pub(crate) fn matters(time: Nanos, whole: Nanos) -> bool {
    time > Nanos::ZERO && time.0.saturating_mul(20) >= whole.0
}

/// Returns the part with the largest amount, of the kind of cause with the largest amount. The amount of a kind is at
/// most its time beyond `usual`.
fn main(
    parts: &[Part],
    amount: impl Fn(&Part) -> Nanos,
    usual: impl Fn(&CauseKind) -> Nanos,
) -> Option<Main> {
    let mut kinds: Vec<OfKind> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let (kind, of_part) = (kind(&part.cause), amount(part));
        match kinds.iter_mut().find(|known| known.kind == kind) {
            Some(known) => {
                known.time += part.time;
                known.amount += of_part;
                known.part = if of_part > amount(&parts[known.part]) { index } else { known.part };
            }
            None => kinds.push(OfKind { kind, time: part.time, amount: of_part, part: index }),
        }
    }
    let most = |known: &OfKind| known.amount.min(known.time - usual(&known.kind));
    let kinds = kinds.into_iter().filter(|known| most(known) > Nanos::ZERO);
    let OfKind { kind, part, .. } = kinds.min_by_key(|known| (Reverse(most(known)), known.part))?;
    let is_other = |(index, other): &(usize, &Part)| {
        *index != part && self::kind(&other.cause) == kind && matters(amount(other), amount(&parts[part]))
    };
    let others = || parts.iter().enumerate().filter(is_other);
    let others_time = others().map(|(_, other)| other.time).sum();
    Some(Main { part, excess: None, others: others().count(), others_time })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times: &[i64]) -> Vec<Nanos> {
        times.iter().copied().map(Nanos).collect()
    }

    #[test]
    fn what_most_intervals_do_not_have_is_not_usual() {
        assert_eq!(median(times(&[7, 9]), 5), Nanos(0));
        assert_eq!(median(times(&[9, 7, 8]), 5), Nanos(7));
        assert_eq!(median(times(&[3, 1, 2]), 3), Nanos(2));
        assert_eq!(median(Vec::new(), 3), Nanos(0));
    }
}
