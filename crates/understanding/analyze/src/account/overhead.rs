//! The time that recording took, subtracted from the parts of an interval.

use super::{Account, Sum};
use crate::cause::Cause;
use sordino_event::Nanos;
use std::cmp::Reverse;

impl Account {
    /// Subtracts the interval's overhead: from the parts in which its events were recorded and, as far as older times
    /// are not known exactly, from the others.
    pub(super) fn subtract_overhead(&mut self) {
        let mut rest = self.interval.overhead;
        let mut sums: Vec<_> = self.parts.iter_mut().filter(|_| rest > Nanos::ZERO).collect();
        for (_, sum) in &mut sums {
            sum.bear(sum.overhead, &mut rest);
        }
        // A thread or a fiber that does not run records nothing, unless the events contradict each other.
        let runs = |cause: &Cause| {
            !matches!(
                cause,
                Cause::Blocked { .. }
                    | Cause::FiberBlocked { .. }
                    | Cause::FiberWait { .. }
                    | Cause::FiberUnmounted
            )
        };
        sums.sort_by_key(|(cause, sum)| Reverse((runs(cause), sum.time)));
        sums.into_iter().for_each(|(_, sum)| sum.bear(sum.time, &mut rest));
    }
}

impl Sum {
    /// Subtracts as much of an interval's overhead as is left and this part has, at most `share`.
    fn bear(&mut self, share: Nanos, rest: &mut Nanos) {
        let borne = share.min(self.time).min(*rest);
        if borne.is_zero() {
            return;
        }
        *rest -= borne;
        self.time -= borne;
        let time = self.time;
        self.longest = self.longest.min(time);
        // The shares of the details are not known.
        self.inside.values_mut().chain(self.beside.values_mut()).chain(self.files.values_mut()).for_each(
            |detail| {
                *detail = time.min(*detail);
            },
        );
        for wakes in self.wakers.values_mut().filter(|wakes| wakes.time > time) {
            wakes.time = time;
            wakes.chain.clear();
        }
    }
}
