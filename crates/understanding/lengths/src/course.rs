//! The course of lengths over time, for plots.

use sordino_event::{Nanos, Time};

/// The maximum number of stretches of the course.
pub(crate) const STRETCHES: usize = 512;

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

/// The course of lengths over a time whose end is not known in advance: stretches double when there are too many.
#[derive(Debug, Default)]
pub(crate) struct Course {
    stretches: Vec<Stretch>,
    origin: Option<Time>,
    stretch: Nanos,
}

impl Course {
    pub(crate) fn add(&mut self, end: Time, length: Nanos) {
        let origin = *self.origin.get_or_insert(end);
        self.stretch = self.stretch.max(Nanos(1));
        while (end - origin).0 / self.stretch.0 >= STRETCHES as i64 {
            self.stretch = self.stretch + self.stretch;
            self.join();
        }
        // Ends come in order; those of a disordered trace count in the last stretch.
        let index = (end - origin).0.max(0) / self.stretch.0;
        let from = origin + Nanos(index * self.stretch.0);
        match self.stretches.last_mut() {
            Some(last) if last.from >= from => {
                (last.count, last.longest) = (last.count + 1, last.longest.max(length));
            }
            _ => self.stretches.push(Stretch { from, count: 1, longest: length }),
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
