//! The time that recording took of threads, fibers and CPUs.
//!
//! A record's timestamp is taken first, so an event's cost counts from its time on: to a span belong the events from
//! its begin, included, to its end, excluded.

use crate::fiber::ThreadOrFiber;
use foldhash::HashMap;
use sordino_event::{Cpu, Domain, EventCosts, Nanos, Time};

/// The number of the last events whose times a log has exactly. Of those up to twice as far back it has every second
/// one, up to four times every fourth, and so on: the sum of a span up to the present is uncertain by 4 % at most.
const EXACT: u64 = 64;

/// The maximum number of logs of threads and fibers; at the limit, the half that had no event for longest is dropped.
/// Each takes some 30 KiB at most.
const LOGS_MAX: usize = 4096;

/// The thread, the fiber or the CPU whose time recording took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payer {
    /// The thread that made the events, or the fiber.
    Owner(ThreadOrFiber),
    /// The CPU on which the events happened.
    Cpu(Cpu),
}

/// The costs of a host's events so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overhead {
    costs: EventCosts,
    logs: HashMap<Payer, CostLog>,
}

/// The sum of costs over time. The number of its points grows with the logarithm of the number of events.
#[derive(Clone, Debug, Default)]
struct CostLog {
    points: Vec<CostPoint>,
    /// The number of events, and the sum of their costs in picoseconds.
    count: u64,
    total: u64,
    /// The number of points after the last thinning.
    thinned: usize,
}

/// An event of a log.
#[derive(Clone, Copy, Debug)]
struct CostPoint {
    /// The event's time, not before that of the point before.
    time: Time,
    number: u64,
    /// The costs of all earlier events, in picoseconds.
    sum: u64,
}

impl Overhead {
    pub(crate) fn new(costs: EventCosts) -> Self {
        Self { costs, ..Self::default() }
    }

    /// Adds an event, which these paid for.
    pub(crate) fn add(&mut self, time: Time, domain: Domain, payers: impl IntoIterator<Item = Payer>) {
        let cost = self.costs.of(domain).unwrap_or(0);
        payers.into_iter().for_each(|payer| self.logs.entry(payer).or_default().add(time, cost));
        if self.logs.len() > LOGS_MAX {
            self.forget_older_half();
        }
    }

    fn forget_older_half(&mut self) {
        let mut ends: Vec<Time> = self.logs.values().map(CostLog::end).collect();
        let middle = ends.len() / 2;
        let median = *ends.select_nth_unstable(middle).1;
        self.logs.retain(|payer, log| log.end() > median || matches!(payer, Payer::Cpu(_)));
    }

    /// Returns the costs of the events from `from` to `to`.
    pub(crate) fn between(&self, payer: Payer, from: Time, to: Time) -> Nanos {
        let Some(log) = self.logs.get(&payer).filter(|_| from < to) else { return Nanos::ZERO };
        let picoseconds = log.until(to).saturating_sub(log.until(from));
        Nanos(i64::try_from(picoseconds / 1000).unwrap_or(i64::MAX)).min(to - from)
    }
}

impl CostLog {
    /// Returns the time of the last event.
    fn end(&self) -> Time {
        self.points.last().map_or(Time::MIN, |last| last.time)
    }

    fn add(&mut self, time: Time, cost: u64) {
        if self.points.len() >= 2 * self.thinned.max(EXACT as usize) {
            let count = self.count;
            self.points.retain(|point| {
                let kept_for = EXACT.checked_shl(point.number.trailing_zeros());
                kept_for.is_none_or(|events| count - point.number < events)
            });
            self.points.shrink_to_fit();
            self.thinned = self.points.len();
        }
        let time = self.end().max(time);
        self.points.push(CostPoint { time, number: self.count, sum: self.total });
        self.count += 1;
        self.total = self.total.saturating_add(cost);
    }

    /// Returns the sum of the costs of the events before `time`.
    fn until(&self, time: Time) -> u64 {
        let later = self.points.partition_point(|point| point.time < time);
        self.points.get(later).map_or(self.total, |point| point.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::Tid;

    const PAYER: Payer = Payer::Owner(ThreadOrFiber::Thread(Tid(1)));

    /// Events at 10, 20 and so on, each of which costs 2 ns.
    fn overhead(count: i64) -> Overhead {
        let mut overhead = Overhead::new(EventCosts { user: Some(2000), kernel: None });
        (1..=count).for_each(|number| overhead.add(Time(10 * number), Domain::User, [PAYER]));
        overhead
    }

    #[test]
    fn an_event_belongs_to_the_span_that_it_begins() {
        let overhead = overhead(5);
        let between = |from, to| overhead.between(PAYER, Time(from), Time(to)).0;
        assert_eq!((between(10, 20), between(10, 50), between(11, 50)), (2, 8, 6));
        assert_eq!((between(0, 10), between(50, 60), between(60, 90)), (0, 2, 0));
        assert_eq!(overhead.between(Payer::Cpu(Cpu(0)), Time(0), Time(60)), Nanos::ZERO);
    }

    #[test]
    fn it_takes_no_more_than_the_span() {
        let mut overhead = Overhead::new(EventCosts { user: Some(50_000), kernel: None });
        (0..3).for_each(|number| overhead.add(Time(number), Domain::User, [PAYER]));
        assert_eq!(overhead.between(PAYER, Time(0), Time(3)), Nanos(3));
    }

    #[test]
    fn events_without_a_known_cost_take_nothing() {
        let mut overhead = overhead(1);
        overhead.add(Time(15), Domain::Kernel, [PAYER]);
        assert_eq!(overhead.between(PAYER, Time(0), Time(20)), Nanos(2));
    }

    #[test]
    fn a_long_log_is_exact_for_recent_spans_and_nearly_for_old_ones() {
        let overhead = overhead(100_000);
        let between = |from, to| overhead.between(PAYER, Time(from), Time(to)).0;
        assert!(overhead.logs[&PAYER].points.len() <= 1000, "{}", overhead.logs[&PAYER].points.len());
        assert_eq!((between(999_000, 1_000_000), between(0, 1_000_010)), (200, 200_000));
        for from in [10, 100_000, 500_000, 900_000, 990_000] {
            let exact = (1_000_000 - from) / 5;
            let difference = (between(from, 1_000_000) - exact).abs();
            assert!(difference * 50 <= exact, "{from}: {difference} of {exact}");
        }
    }

    #[test]
    fn threads_that_come_and_go_take_bounded_memory() {
        let mut overhead = overhead(1);
        let payer = |tid| Payer::Owner(ThreadOrFiber::Thread(Tid(tid)));
        for tid in 2..100_000 {
            overhead.add(Time(10 * i64::from(tid)), Domain::User, [payer(tid)]);
        }
        assert!(overhead.logs.len() <= LOGS_MAX);
        let last = overhead.between(payer(99_999), Time(0), Time(2_000_000));
        assert_eq!((last, overhead.between(PAYER, Time(0), Time(100))), (Nanos(2), Nanos::ZERO));
    }

    #[test]
    fn disordered_times_take_nothing_from_a_span() {
        let mut overhead = overhead(5);
        overhead.add(Time(7), Domain::User, [PAYER]);
        assert_eq!(overhead.between(PAYER, Time(40), Time(20)), Nanos::ZERO);
        assert_eq!(overhead.between(PAYER, Time(i64::MIN), Time(i64::MAX)), Nanos(12));
    }
}
