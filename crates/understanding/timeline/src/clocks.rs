//! The clocks of merged recordings, and the order of events that the clocks prove.

use sordino_event::{ClassId, Nanos, Time};

/// The clocks of merged recordings, related to that of the first one.
#[derive(Clone, Debug, Default)]
pub struct MergedClocks {
    /// The clock of each class, by its index; empty if all have one clock.
    of_classes: Vec<usize>,
    /// The uncertainty of each clock against the first one; `None` if it is unknown.
    uncertainty: Vec<Option<Nanos>>,
}

/// The order of the listed events, as far as the clocks prove it.
#[derive(Clone, Debug)]
pub struct ProvenOrder {
    clocks: MergedClocks,
    /// The time of the last event of each clock.
    last: Vec<Option<Time>>,
}

/// An event that the clocks do not prove to be later than all that are listed before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnprovenOrder {
    /// The uncertainty of the two clocks against each other; `None` if it is unknown.
    pub uncertainty: Option<Nanos>,
}

impl MergedClocks {
    /// Creates the clocks of classes, each given by its index in `uncertainty`: its uncertainty against the first one.
    /// Classes that are not listed have the first clock.
    pub fn new(of_classes: Vec<usize>, uncertainty: Vec<Option<Nanos>>) -> Self {
        Self { of_classes, uncertainty }
    }

    /// Returns true if the classes have several clocks.
    pub fn are_several(&self) -> bool {
        self.uncertainty.len() > 1
    }

    /// Returns the uncertainty of two clocks against each other.
    fn between(&self, first: usize, second: usize) -> Option<Nanos> {
        let of = |clock: usize| self.uncertainty.get(clock).copied().flatten();
        Some(Nanos(of(first)?.0.saturating_add(of(second)?.0)))
    }
}

impl ProvenOrder {
    /// Creates the order of a listing without events.
    pub fn new(clocks: MergedClocks) -> Self {
        Self { last: vec![None; clocks.uncertainty.len()], clocks }
    }

    /// Adds the next event. Returns the greatest uncertainty that is not below its distance from an earlier event by
    /// another clock, if there is one.
    pub fn add(&mut self, class: ClassId, time: Time) -> Option<UnprovenOrder> {
        let own = self.clocks.of_classes.get(class.index()).copied().unwrap_or(0);
        let mut found: Option<UnprovenOrder> = None;
        for (other, last) in self.last.iter().enumerate().filter(|(other, _)| *other != own) {
            let (Some(last), uncertainty) = (last, self.clocks.between(own, other)) else { continue };
            if uncertainty.is_none_or(|uncertainty| time - *last <= uncertainty) {
                found = Some(match found {
                    None => UnprovenOrder { uncertainty },
                    Some(before) => {
                        let both = before.uncertainty.zip(uncertainty);
                        UnprovenOrder { uncertainty: both.map(|(one, other)| one.max(other)) }
                    }
                });
            }
        }
        if let Some(last) = self.last.get_mut(own) {
            *last = Some(time);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::{Class, Classes, Domain};

    #[test]
    fn events_of_two_clocks_are_ordered_where_their_distance_exceeds_the_uncertainty() {
        let mut classes = Classes::default();
        let [a, b, c] = ["a", "b", "c"].map(|name| classes.add(Class::new(Domain::User, name, [""; 0])));
        let clocks = MergedClocks::new(vec![0, 1, 2], vec![Some(Nanos(0)), Some(Nanos(10)), None]);
        let mut order = ProvenOrder::new(clocks);
        let unproven = |nanos: Option<i64>| Some(UnprovenOrder { uncertainty: nanos.map(Nanos) });
        for (class, time, expected) in [
            (a, 100, None),
            (a, 101, None),
            (b, 111, unproven(Some(10))),
            (b, 112, None),
            (a, 122, unproven(Some(10))),
            (a, 123, None),
            // Nothing proves anything about the clock whose uncertainty is unknown.
            (c, 1_000_000, unproven(None)),
            (a, 2_000_000, unproven(None)),
        ] {
            assert_eq!(order.add(class, Time(time)), expected, "{time}");
        }
    }

    #[test]
    fn one_clock_proves_the_order_of_all_events() {
        let mut order = ProvenOrder::new(MergedClocks::new(Vec::new(), vec![Some(Nanos(10))]));
        assert_eq!([5, 5, 6].map(|time| order.add(ClassId::default(), Time(time))), [None; 3]);
    }
}
