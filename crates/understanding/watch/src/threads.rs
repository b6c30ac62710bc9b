//! The wake-up latencies of threads, and the worst of each.

use sordino_event::{Cpu, Nanos, Tid, Time};
use sordino_query::{Durations, Measure, Span};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of threads; a new one replaces the one whose last wait is the oldest.
const THREADS_MAX: usize = 1000;

/// The threads that waited for a CPU.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    rows: HashMap<Tid, ThreadRow>,
    /// The number of threads that had to leave.
    pub(crate) left_out: u64,
}

/// The waits of a thread.
#[derive(Debug)]
pub(crate) struct ThreadRow {
    pub(crate) tid: Tid,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) priority: Option<String>,
    pub(crate) waits: Durations,
    pub(crate) worst: Option<LongestWait>,
    /// The number of waits in each of the last stretches, the present one last.
    pub(crate) recent: VecDeque<u64>,
    last: Time,
}

/// The longest wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongestWait {
    /// The time of the wake-up.
    pub(crate) from: Time,
    /// The time at which the thread had a CPU.
    pub(crate) to: Time,
    /// The CPU that it then had.
    pub(crate) cpu: Option<Cpu>,
    /// The parts of the wait, as [`Measure::parts`] names them.
    pub(crate) parts: Vec<Nanos>,
    /// The thread that had the CPU until then, unless that was the idle one.
    pub(crate) before: Option<Arc<str>>,
}

impl LongestWait {
    /// Returns the length of the wait.
    pub(crate) fn length(&self) -> Nanos {
        self.to - self.from
    }

    /// Returns the name of the longest part, and that part in per cent of the wait; `None` if it has no parts.
    pub(crate) fn main_part(&self) -> Option<(&'static str, u64)> {
        let names = Measure::Latency.parts();
        let (name, part) = names.iter().zip(&self.parts).rev().max_by_key(|(_, part)| **part)?;
        let whole = i128::from(self.length().0.max(1));
        Some((name, u64::try_from(i128::from(part.0.max(0)) * 100 / whole).unwrap_or(0)))
    }

    /// Returns the cause in words: the longest part, and the thread that had the CPU if that part is other threads'.
    pub(crate) fn cause(&self) -> String {
        match (self.main_part(), &self.before) {
            (Some(("other threads", share)), Some(before)) => format!("{before} and others {share}%"),
            (Some((name, share)), _) => format!("{name} {share}%"),
            (None, _) => String::new(),
        }
    }
}

/// The order of the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// The longest worst wait first.
    #[default]
    Worst,
    /// The most waits in the last stretches first.
    Count,
    /// The greatest 99 % quantile first.
    Quantile,
    /// The name in the order of letters.
    Name,
}

impl SortKey {
    /// Returns the order after this one.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Worst => Self::Count,
            Self::Count => Self::Quantile,
            Self::Quantile => Self::Name,
            Self::Name => Self::Worst,
        }
    }
}

impl Threads {
    /// Adds a wait of a thread that is now called `name`.
    pub(crate) fn add(
        &mut self,
        tid: Tid,
        span: &Span,
        name: Option<&Arc<str>>,
        priority: Option<String>,
        before: impl FnOnce() -> Option<Arc<str>>,
    ) {
        if !self.rows.contains_key(&tid) {
            self.make_room();
            let recent = VecDeque::from([0]);
            let (waits, last) = (Durations::default(), span.to);
            let row = ThreadRow { tid, name: None, priority: None, waits, worst: None, recent, last };
            self.rows.insert(tid, row);
        }
        let Some(row) = self.rows.get_mut(&tid) else { return };
        if row.name.as_ref() != name {
            row.name = name.cloned();
        }
        row.priority = priority;
        row.waits.add(span.length(), span.from);
        row.recent.back_mut().into_iter().for_each(|count| *count += 1);
        row.last = span.to;
        if row.worst.as_ref().is_none_or(|worst| worst.length() < span.length()) {
            let parts = span.parts.clone();
            row.worst =
                Some(LongestWait { from: span.from, to: span.to, cpu: span.cpu, parts, before: before() });
        }
    }

    fn make_room(&mut self) {
        if self.rows.len() >= THREADS_MAX {
            let oldest = self.rows.values().min_by_key(|row| (row.last, row.tid)).map(|row| row.tid);
            oldest.into_iter().for_each(|tid| _ = self.rows.remove(&tid));
            self.left_out += 1;
        }
    }

    /// Begins the next stretch; the last `most` are kept.
    pub(crate) fn next_stretch(&mut self, most: usize) {
        for row in self.rows.values_mut() {
            row.recent.push_back(0);
            while row.recent.len() > most {
                row.recent.pop_front();
            }
        }
    }

    /// Returns the threads in this order, each with its median and its 99 % quantile.
    pub(crate) fn sorted(&mut self, by: SortKey) -> Vec<(&ThreadRow, [Nanos; 2])> {
        let quantiles = |row: &mut ThreadRow| {
            row.waits.summary().map_or([Nanos::ZERO; 2], |summary| [summary.median, summary.p99])
        };
        let mut rows: Vec<_> = self.rows.values_mut().map(|row| (quantiles(row), &*row)).collect();
        rows.sort_by(|(a_quantiles, a), (b_quantiles, b)| {
            let by_key = match by {
                SortKey::Worst => Reverse(a.worst_length()).cmp(&Reverse(b.worst_length())),
                SortKey::Count => Reverse(a.count_lately()).cmp(&Reverse(b.count_lately())),
                SortKey::Quantile => b_quantiles[1].cmp(&a_quantiles[1]),
                SortKey::Name => a.name.cmp(&b.name),
            };
            by_key.then_with(|| a.tid.cmp(&b.tid))
        });
        rows.into_iter().map(|(quantiles, row)| (row, quantiles)).collect()
    }
}

impl ThreadRow {
    /// Returns the number of waits in the last stretches.
    pub(crate) fn count_lately(&self) -> u64 {
        self.recent.iter().sum()
    }

    fn worst_length(&self) -> Nanos {
        self.worst.as_ref().map_or(Nanos::ZERO, LongestWait::length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(tid: i32, from: i64, length: i64) -> Span {
        let parts = [length / 4, length - length / 4, 0, 0].map(Nanos).to_vec();
        let (from, to, tid) = (Time(from), Time(from + length), Some(Tid(tid)));
        Span { from, to, tid, parts, ..Span::default() }
    }

    proptest! {
        #[test]
        fn the_worst_wait_of_each_thread_is_kept_whatever_the_order(
            waits in prop::collection::vec((1_i32..5, 0_i64..1_000_000), 1..200),
        ) {
            let mut threads = Threads::default();
            for (at, (tid, length)) in waits.iter().enumerate() {
                threads.add(Tid(*tid), &span(*tid, at as i64 * 2_000_000, *length), None, None, || None);
            }
            let rows = threads.sorted(SortKey::Worst);
            prop_assert!(rows.is_sorted_by_key(|(row, _)| Reverse(row.worst_length())));
            for (row, _) in rows {
                let of_thread = waits.iter().filter(|(tid, _)| Tid(*tid) == row.tid);
                prop_assert_eq!(row.worst_length().0, of_thread.clone().map(|(_, length)| *length).max().unwrap());
                prop_assert_eq!(row.count_lately(), of_thread.count() as u64);
            }
        }
    }

    #[test]
    fn threads_beyond_the_limit_take_the_room_of_the_one_that_waited_longest_ago() {
        let mut threads = Threads::default();
        for tid in 1..=THREADS_MAX as i32 + 1 {
            threads.add(Tid(tid), &span(tid, tid.into(), 10), None, None, || None);
        }
        assert_eq!((threads.rows.len(), threads.left_out), (THREADS_MAX, 1));
        assert!(!threads.rows.contains_key(&Tid(1)));
    }

    #[test]
    fn counts_leave_with_their_stretch() {
        let mut threads = Threads::default();
        threads.add(Tid(1), &span(1, 0, 10), None, None, || None);
        (0..3).for_each(|_| threads.next_stretch(3));
        assert_eq!(threads.sorted(SortKey::Count)[0].0.count_lately(), 0);
    }

    #[test]
    fn the_longest_part_is_the_cause_and_names_the_thread_before() {
        let before = Some("hog/7".into());
        let peak = LongestWait {
            from: Time(0),
            to: Time(100),
            cpu: None,
            parts: [5, 92, 3, 0].map(Nanos).to_vec(),
            before,
        };
        assert_eq!(peak.cause(), "hog/7 and others 92%");
        let by_interrupts = LongestWait { parts: [95, 5, 0, 0].map(Nanos).to_vec(), ..peak };
        assert_eq!(by_interrupts.cause(), "interrupts 95%");
    }
}
