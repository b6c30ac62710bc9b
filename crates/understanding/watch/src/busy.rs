//! The time for which CPUs execute threads.

use sordino_event::{Cpu, Loss, Nanos, Tid, Time};
use sordino_timeline::{Kernel, Moment};
use std::collections::BTreeMap;

/// The state of each CPU, and its time since the last [`drain`](Busy::drain).
#[derive(Debug, Default)]
pub(crate) struct Busy {
    cpus: BTreeMap<Cpu, CpuState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CpuState {
    /// True if a thread other than the idle one has the CPU, and the time since when; `None` if it is not known.
    now: Option<(bool, Time)>,
    time: BusyTime,
}

/// The time of a CPU, as far as its state is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BusyTime {
    /// The time for which a thread had the CPU.
    pub(crate) busy: Nanos,
    /// The time for which it is known if a thread had it.
    pub(crate) known: Nanos,
}

impl BusyTime {
    pub(crate) fn add(&mut self, other: Self) {
        self.busy += other.busy;
        self.known += other.known;
    }
}

impl Busy {
    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        if let (Some(Kernel::Switch { next, .. }), Some(cpu)) = (moment.kernel, moment.cpu) {
            let state = self.cpus.entry(cpu).or_default();
            state.until(moment.event.time);
            state.now = Some((next.tid != Tid(0), moment.event.time));
        }
    }

    pub(crate) fn lose(&mut self, loss: &Loss) {
        let is_lost = |cpu: Cpu| loss.pid.is_none() && loss.cpu.is_none_or(|lost| lost == cpu);
        for (_, state) in self.cpus.iter_mut().filter(|(cpu, _)| is_lost(**cpu)) {
            state.until(loss.from);
            state.now = None;
        }
    }

    /// Returns the time of each CPU until `end` since the last call.
    pub(crate) fn drain(&mut self, end: Time) -> impl Iterator<Item = (Cpu, BusyTime)> {
        self.cpus.iter_mut().map(move |(cpu, state)| {
            state.until(end);
            (*cpu, std::mem::take(&mut state.time))
        })
    }
}

impl CpuState {
    /// Adds the time until `end`; no time is added twice.
    fn until(&mut self, end: Time) {
        if let Some((is_busy, since)) = self.now.filter(|(_, since)| *since < end) {
            let time = end - since;
            self.time.add(BusyTime { busy: if is_busy { time } else { Nanos::ZERO }, known: time });
            self.now = Some((is_busy, end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_time_of_a_cpu_is_the_same_wherever_it_is_drained(
            switches in prop::collection::vec((1_i64..1000, any::<bool>()), 1..50),
            drains in prop::collection::vec(any::<bool>(), 50),
        ) {
            let (mut state, mut sum, mut now, mut expected) = (CpuState::default(), BusyTime::default(), 0, 0);
            let mut was_busy = false;
            for ((after, is_busy), drain) in switches.iter().zip(&drains) {
                expected += if was_busy && now > 0 { *after } else { 0 };
                now += after;
                state.until(Time(now));
                state.now = Some((*is_busy, Time(now)));
                was_busy = *is_busy;
                if *drain {
                    sum.add(std::mem::take(&mut state.time));
                }
            }
            sum.add(state.time);
            prop_assert_eq!((sum.busy.0, sum.known.0), (expected, now - switches[0].0));
        }
    }

    #[test]
    fn a_loss_of_the_kernels_records_makes_the_state_unknown() {
        let mut busy = Busy::default();
        busy.cpus.insert(Cpu(1), CpuState { now: Some((true, Time(100))), ..CpuState::default() });
        let cause = sordino_event::LossCause::KernelOverrun;
        let loss = Loss {
            from: Time(150),
            to: Time(180),
            cpu: Some(Cpu(1)),
            pid: None,
            count: None,
            cause,
            place: None,
        };
        busy.lose(&loss);
        let time = BusyTime { busy: Nanos(50), known: Nanos(50) };
        assert_eq!(busy.drain(Time(1000)).collect::<Vec<_>>(), [(Cpu(1), time)]);
        assert_eq!(busy.drain(Time(2000)).collect::<Vec<_>>(), [(Cpu(1), BusyTime::default())]);
    }
}
