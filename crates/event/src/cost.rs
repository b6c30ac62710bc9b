//! The time that recording takes of the CPU on which an event happens.

use crate::Domain;

/// The time that the record of one event takes of its CPU, as the recorder measured it; `None` where it could not.
///
/// The times are in picoseconds: a program's event takes some nanoseconds, and sums are over millions of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCosts {
    /// The cost of a program's event.
    pub user: Option<u64>,
    /// The cost of an event of the kernel.
    pub kernel: Option<u64>,
}

impl EventCosts {
    /// The entries of a trace's environment that hold the costs.
    const ENTRIES: [&str; 2] = ["user_event_cost_ps", "kernel_event_cost_ps"];

    /// Returns the costs by the names of their entries in a trace's environment.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        Self::ENTRIES.into_iter().zip([self.user, self.kernel])
    }

    /// Returns the costs of a trace's environment, whose integers `entry` returns by their names. A cost of a
    /// millisecond or more is none: nobody measures that.
    ///
    /// ```
    /// use sordino_event::EventCosts;
    /// let costs = EventCosts { user: Some(14_200), kernel: None };
    /// let entry = |name: &str| (name == "user_event_cost_ps").then_some(14_200);
    /// assert_eq!(EventCosts::from_entries(entry), costs);
    /// ```
    pub fn from_entries(entry: impl Fn(&str) -> Option<i64>) -> Self {
        let cost = |name| {
            let cost = entry(name).and_then(|cost| u64::try_from(cost).ok());
            cost.filter(|cost| *cost < 1_000_000_000)
        };
        let [user, kernel] = Self::ENTRIES.map(cost);
        Self { user, kernel }
    }

    /// Returns these costs, and others' where they are not known.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { user: self.user.or(other.user), kernel: self.kernel.or(other.kernel) }
    }

    /// Returns the cost of an event of this origin.
    pub fn of(&self, domain: Domain) -> Option<u64> {
        match domain {
            Domain::User => self.user,
            Domain::Kernel => self.kernel,
        }
    }
}
