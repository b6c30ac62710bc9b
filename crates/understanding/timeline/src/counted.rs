//! Performance counters at an event: the recording has them in a record of their own, which precedes the event and has
//! to be matched with it.

use foldhash::HashMap;
use sordino_event::{Cpu, Event, Loss, Pid, Tid, Time, View};
use std::sync::Arc;

/// The values of counters, with their names.
pub(crate) type CounterValues = Vec<(Arc<str>, u64)>;

/// A record of the event `sordino:counters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number of the tracepoint whose event follows.
    tracepoint: u64,
    counts: CounterValues,
}

/// The role of an event for its thread's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// The record has the counters' values at the event that follows.
    Before(Counted),
    /// A record of counters may precede this event; the number of its tracepoint.
    At(Option<u64>),
}

/// The indexes of the fields of a `sordino:counters`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) tracepoint: usize,
    pub(crate) counters: usize,
    pub(crate) values: usize,
}

impl Counted {
    pub(crate) fn read(event: &Event, places: Places) -> Option<Self> {
        let list = |place| match event.value(place)? {
            View::List(entries) => Some(entries),
            _ => None,
        };
        let name = |entry| match entry {
            View::Label(_, Some(label)) => Some(String::from_utf8_lossy(label).into()),
            View::Label(number, None) => Some(number.to_string().into()),
            _ => None,
        };
        let value = |entry| if let View::Unsigned(value, _) = entry { Some(value) } else { None };
        let (names, values) = (list(places.counters)?, list(places.values)?);
        let counts = names.zip(values).map(|(entry, count)| Some((name(entry)?, value(count)?)));
        Some(Self {
            tracepoint: event.integer(places.tracepoint)?.try_into().ok()?,
            counts: counts.collect::<Option<_>>()?,
        })
    }
}

/// The records of counters whose events are still to come.
///
/// The event of such a record is the next one of its thread, or is missing: a signal handler that interrupts the thread
/// gets the values of its own record. The event has to be of the tracepoint that the record names and on the same CPU,
/// and no record of the program may be missing in between: a thread that moved to another CPU and back may have left
/// the missing record there.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingCounters {
    counted: HashMap<(Pid, Tid), (Counted, Option<Cpu>, Time)>,
    /// The time until which records of a program are missing.
    lost_until: HashMap<Pid, Time>,
}

impl PendingCounters {
    /// Returns the counters' values at `event`, which has the role `count`.
    pub(crate) fn pass(&mut self, pid: Pid, tid: Tid, event: &Event, count: Count) -> CounterValues {
        let before = match count {
            Count::Before(counted) => {
                self.counted.insert((pid, tid), (counted, event.cpu, event.time));
                return CounterValues::new();
            }
            Count::At(number) => self.counted.remove(&(pid, tid)).zip(number),
        };
        let Some(((counted, cpu, since), number)) = before else { return CounterValues::new() };
        let is_whole = self.lost_until.get(&pid).is_none_or(|until| *until <= since);
        let is_its = counted.tracepoint == number && cpu == event.cpu && is_whole;
        if is_its { counted.counts } else { CounterValues::new() }
    }

    pub(crate) fn lose(&mut self, loss: &Loss) {
        if let Some(pid) = loss.pid {
            let until = self.lost_until.entry(pid).or_insert(loss.to);
            *until = loss.to.max(*until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{ClassId, LossCause};

    const PID: Pid = Pid(1);
    const TID: Tid = Tid(2);

    fn event(time: i64, cpu: u32) -> Event {
        let mut event = Event::default();
        event.begin(Time(time), ClassId::default());
        event.cpu = Some(Cpu(cpu));
        event
    }

    fn counted(tracepoint: u64, value: u64) -> Count {
        Count::Before(Counted { tracepoint, counts: vec![("cycles".into(), value)] })
    }

    fn loss(from: i64, to: i64) -> Loss {
        let (from, to) = (Time(from), Time(to));
        Loss {
            from,
            to,
            cpu: Some(Cpu(0)),
            pid: Some(PID),
            count: Some(1),
            cause: LossCause::RingFull,
            place: None,
        }
    }

    /// Returns the values that an event at 20, of tracepoint 7 on CPU 0, gets.
    fn taken(waiting: &mut PendingCounters) -> Vec<u64> {
        let counts = waiting.pass(PID, TID, &event(20, 0), Count::At(Some(7)));
        counts.iter().map(|(_, value)| *value).collect()
    }

    fn waiting() -> PendingCounters {
        let mut waiting = PendingCounters::default();
        waiting.pass(PID, TID, &event(10, 0), counted(7, 5));
        waiting
    }

    #[test]
    fn the_next_event_of_the_thread_has_what_was_counted_and_no_other() {
        let mut waiting = waiting();
        assert!(waiting.pass(PID, Tid(3), &event(15, 0), Count::At(Some(7))).is_empty(), "another thread's");
        assert_eq!(taken(&mut waiting), [5]);
        assert!(taken(&mut waiting).is_empty());
    }

    #[test]
    fn what_a_signal_handler_got_between_is_its_own() {
        let mut waiting = waiting();
        waiting.pass(PID, TID, &event(12, 0), counted(7, 6));
        assert_eq!(taken(&mut waiting), [6]);
        assert!(taken(&mut waiting).is_empty(), "that of the event that was interrupted");
    }

    #[test]
    fn what_cannot_be_told_for_sure_is_left_out() {
        for (number, cpu) in [(Some(8), 0), (None, 0), (Some(7), 1)] {
            let mut waiting = waiting();
            assert!(waiting.pass(PID, TID, &event(20, cpu), Count::At(number)).is_empty());
            assert!(taken(&mut waiting).is_empty());
        }
    }

    #[test]
    fn nothing_of_the_program_may_be_missing_since() {
        let lost = |losses: &[Loss]| {
            let mut waiting = waiting();
            losses.iter().for_each(|loss| waiting.lose(loss));
            taken(&mut waiting)
        };
        assert_eq!(lost(&[loss(2, 10)]), [5], "before");
        for losses in [&[loss(10, 20)][..], &[loss(2, 11)], &[loss(2, 15), loss(3, 5)]] {
            assert!(lost(losses).is_empty(), "{losses:?}");
        }
        assert_eq!(lost(&[Loss { pid: Some(Pid(9)), ..loss(10, 20) }]), [5], "another program's");
    }
}
