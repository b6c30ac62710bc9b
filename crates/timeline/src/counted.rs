//! What performance counters said at an event: a record of its own, which goes before the event's and has to find it again.

use sordino_event::{Cpu, Event, Loss, Pid, Tid, Time, View};
use std::collections::HashMap;
use std::sync::Arc;

/// What counters said, by their names.
pub(crate) type Counts = Vec<(Arc<str>, u64)>;

/// A `sordino:counters`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The number of the tracepoint whose event follows.
    tracepoint: u64,
    counts: Counts,
}

/// What an event is to counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// It says what they said before the event that follows.
    Before(Counted),
    /// They may have said something before it; its tracepoint's number.
    At(Option<u64>),
}

/// Where a `sordino:counters` has its fields.
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

/// What waits for its event.
///
/// It is the next event of its thread, or none: a signal handler's that got between takes its own. It has to be of the tracepoint that was
/// named, in the ring of the same CPU, and nothing of the program's may be missing since: a thread that went to another CPU and
/// back may have left there what is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    counted: HashMap<(Pid, Tid), (Counted, Option<Cpu>, Time)>,
    /// Until when records of a program are missing.
    lost_until: HashMap<Pid, Time>,
}

impl Waiting {
    /// What was counted at `event`, which is this to counters.
    pub(crate) fn pass(&mut self, pid: Pid, tid: Tid, event: &Event, count: Count) -> Counts {
        let before = match count {
            Count::Before(counted) => {
                self.counted.insert((pid, tid), (counted, event.cpu, event.time));
                return Counts::new();
            }
            Count::At(number) => self.counted.remove(&(pid, tid)).zip(number),
        };
        let Some(((counted, cpu, since), number)) = before else { return Counts::new() };
        let is_whole = self.lost_until.get(&pid).is_none_or(|until| *until <= since);
        let is_its = counted.tracepoint == number && cpu == event.cpu && is_whole;
        if is_its { counted.counts } else { Counts::new() }
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
    use sordino_event::{Cause, ClassId};

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
        Loss { from, to, cpu: Some(Cpu(0)), pid: Some(PID), count: Some(1), cause: Cause::RingFull }
    }

    /// What an event at 20, of tracepoint 7 on CPU 0, gets.
    fn taken(waiting: &mut Waiting) -> Vec<u64> {
        let counts = waiting.pass(PID, TID, &event(20, 0), Count::At(Some(7)));
        counts.iter().map(|(_, value)| *value).collect()
    }

    fn waiting() -> Waiting {
        let mut waiting = Waiting::default();
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
