//! The distribution of intervals' lengths, and their course over time, for plots.

use crate::Interval;
use hdrhistogram::Histogram;
use sordino_event::{Nanos, Time};

/// The number of buckets between a length and its double.
const PER_OCTAVE: f64 = 4.0;
/// The maximum number of stretches of the course.
const STRETCHES: usize = 512;

/// The lengths of all intervals, as data for plots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LengthDistribution {
    /// The buckets with at least one interval, shortest lengths first. Bounds grow by a factor of 2^(1/4).
    pub buckets: Vec<LengthBucket>,
    /// The stretches of time with at least one interval, in order of time.
    pub course: Vec<Stretch>,
    /// The length of each stretch.
    pub stretch: Nanos,
}

/// The intervals of about the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthBucket {
    /// The length from which on intervals belong to the bucket.
    pub from: Nanos,
    /// The length before which intervals belong to it.
    pub to: Nanos,
    /// The number of intervals.
    pub count: u64,
}

/// The intervals that end in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The begin of the stretch.
    pub from: Time,
    /// The number of intervals.
    pub count: u64,
    /// The length of the longest.
    pub longest: Nanos,
}

/// Returns the buckets of a histogram of lengths.
pub(crate) fn buckets(histogram: &Histogram<u64>) -> Vec<LengthBucket> {
    let mut buckets: Vec<LengthBucket> = Vec::new();
    for step in histogram.iter_recorded() {
        let length = step.value_iterated_to();
        let index = ((length.max(1) as f64).log2() * PER_OCTAVE).floor();
        let bound = |index: f64| Nanos((index / PER_OCTAVE).exp2().round() as i64);
        let (from, count) = (bound(index), step.count_since_last_iteration());
        match buckets.last_mut() {
            Some(last) if last.from == from => last.count += count,
            _ => buckets.push(LengthBucket { from, to: bound(index + 1.0), count }),
        }
    }
    buckets
}

/// The course of lengths over a time whose end is not known in advance: stretches double when there are too many.
#[derive(Debug, Default)]
pub(crate) struct Course {
    stretches: Vec<Stretch>,
    origin: Option<Time>,
    stretch: Nanos,
}

impl Course {
    pub(crate) fn add(&mut self, interval: &Interval) {
        let origin = *self.origin.get_or_insert(interval.end);
        self.stretch = self.stretch.max(Nanos(1));
        while (interval.end - origin).0 / self.stretch.0 >= STRETCHES as i64 {
            self.stretch = self.stretch + self.stretch;
            self.join();
        }
        // Ends come in order; those of a disordered trace count in the last stretch.
        let index = (interval.end - origin).0.max(0) / self.stretch.0;
        let from = origin + Nanos(index * self.stretch.0);
        let longest = interval.length();
        match self.stretches.last_mut() {
            Some(last) if last.from >= from => {
                (last.count, last.longest) = (last.count + 1, last.longest.max(longest));
            }
            _ => self.stretches.push(Stretch { from, count: 1, longest }),
        }
    }

    /// Joins the stretches that lie in the same stretch of the present length.
    fn join(&mut self) {
        let (origin, length) = (self.origin.unwrap_or(Time(0)), self.stretch.0);
        let mut joined: Vec<Stretch> = Vec::with_capacity(STRETCHES);
        for stretch in self.stretches.drain(..) {
            let from = origin + Nanos((stretch.from - origin).0 / length * length);
            match joined.last_mut() {
                Some(last) if last.from == from => {
                    (last.count, last.longest) =
                        (last.count + stretch.count, last.longest.max(stretch.longest));
                }
                _ => joined.push(Stretch { from, ..stretch }),
            }
        }
        self.stretches = joined;
    }

    pub(crate) fn finish(&self) -> (Vec<Stretch>, Nanos) {
        (self.stretches.clone(), self.stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sordino_event::Tid;

    fn interval(end: i64, length: i64) -> Interval {
        let (begin, end) = (Time(end - length), Time(end));
        Interval { begin, end, tid: Tid(1), pid: None, begin_cpu: None, end_cpu: None, fiber: None }
    }

    proptest! {
        #[test]
        fn each_interval_is_in_its_stretch_and_in_its_bucket(
            steps in proptest::collection::vec((0_i64..1 << 40, 1_i64..1 << 40), 1..300),
        ) {
            let mut course = Course::default();
            let mut histogram = Histogram::new(3).unwrap();
            let mut end = 1 << 41;
            let mut ends = Vec::new();
            for (step, length) in steps {
                end += step;
                ends.push((end, length));
                course.add(&interval(end, length));
                histogram.record(length.cast_unsigned()).unwrap();
            }
            let (stretches, width) = course.finish();
            prop_assert!(stretches.len() <= STRETCHES);
            for stretch in &stretches {
                let inside = ends.iter().filter(|(end, _)| {
                    stretch.from.0 <= *end && *end < stretch.from.0.saturating_add(width.0)
                });
                let lengths: Vec<i64> = inside.map(|(_, length)| *length).collect();
                prop_assert_eq!(stretch.count, lengths.len() as u64);
                prop_assert_eq!(Some(stretch.longest.0), lengths.into_iter().max());
            }
            let buckets = buckets(&histogram);
            prop_assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), ends.len() as u64);
            prop_assert!(buckets.is_sorted_by(|one, next| one.to <= next.from));
        }
    }
}
