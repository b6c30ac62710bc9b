//! The processes that a session was to record, and what was found in them: for who asks why there is no event.

use crate::discover::Incarnation;
use crate::intake::LOOKS_UNTIL_MADE;
use crate::shortfall::{ProcessFound, ProcessState};

/// Processes that are remembered: a command may start any number.
const MOST: usize = 16;

/// Processes that were to be recorded: the command and what it started, and every program that was recorded.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    known: Vec<Sighting>,
    more: u64,
}

#[derive(Debug)]
struct Sighting {
    found: ProcessFound,
    /// Which program it executed; `None` until it was looked for.
    incarnation: Option<Incarnation>,
    /// How often it was looked into in vain.
    looks: u8,
}

impl Sightings {
    /// A process that is to be recorded is there, and executes a program called `name`.
    pub(super) fn add(&mut self, pid: i32, name: &str, incarnation: Option<Incarnation>) {
        let Some(known) = self.known.iter_mut().find(|known| known.found.pid == pid) else {
            if self.known.len() == MOST {
                self.more += 1;
                return;
            }
            let found = ProcessFound { pid, name: name.to_owned(), state: ProcessState::NotRegistered };
            return self.known.push(Sighting { found, incarnation, looks: 0 });
        };
        if known.incarnation == incarnation || matches!(known.found.state, ProcessState::Recorded { .. }) {
            return;
        }
        // It has executed another program since.
        (known.incarnation, known.looks) = (incarnation, 0);
        known.found.name = name.to_owned();
        known.found.state = ProcessState::NotRegistered;
    }

    /// A process was looked into, and nothing was there.
    pub(super) fn looked_into(&mut self, pid: i32) {
        if let Some(known) = self.waiting(pid) {
            known.looks = known.looks.saturating_add(1);
            // Before, it may not have come to its constructors.
            if known.looks >= LOOKS_UNTIL_MADE {
                known.found.state = ProcessState::NotLinked;
            }
        }
    }

    /// A process could not be looked into, or not be recorded.
    pub(super) fn not_reached(&mut self, pid: i32, reason: &str) {
        if let Some(known) = self.waiting(pid) {
            known.found.state = ProcessState::NotReached { reason: reason.to_owned() };
        }
    }

    fn waiting(&mut self, pid: i32) -> Option<&mut Sighting> {
        let is_recorded = |known: &Sighting| matches!(known.found.state, ProcessState::Recorded { .. });
        self.known.iter_mut().find(|known| known.found.pid == pid && !is_recorded(known))
    }

    /// A process is recorded; numbers of its own tracepoints, and of those of them that are enabled.
    pub(super) fn recorded(&mut self, pid: i32, name: &str, tracepoints: usize, enabled: usize) {
        let is_known = self.known.iter().any(|known| known.found.pid == pid);
        if !is_known {
            self.add(pid, name, None);
        }
        if let Some(known) = self.known.iter_mut().find(|known| known.found.pid == pid) {
            let before = match known.found.state {
                ProcessState::Recorded { tracepoints, enabled } => (tracepoints, enabled),
                _ => (0, 0),
            };
            known.found.name = name.to_owned();
            // One process has several sets of tracepoints where plug-ins bring their own copy of the library.
            let (tracepoints, enabled) = (tracepoints.max(before.0), enabled.max(before.1));
            known.found.state = ProcessState::Recorded { tracepoints, enabled };
        }
    }

    /// The processes, and how many more there were.
    pub(super) fn processes(&self) -> (Vec<ProcessFound>, u64) {
        (self.known.iter().map(|known| known.found.clone()).collect(), self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(sightings: &Sightings) -> ProcessState {
        sightings.processes().0[0].state.clone()
    }

    #[test]
    fn a_process_is_not_linked_only_when_it_was_looked_into_often_enough() {
        let mut sightings = Sightings::default();
        sightings.add(7, "sh", Some((7, 1, 1)));
        for _ in 1..LOOKS_UNTIL_MADE {
            sightings.looked_into(7);
            assert_eq!(state(&sightings), ProcessState::NotRegistered);
        }
        sightings.looked_into(7);
        assert_eq!(state(&sightings), ProcessState::NotLinked);
        // It executes another program, of which nothing is known yet.
        sightings.add(7, "motor", Some((7, 1, 2)));
        assert_eq!(state(&sightings), ProcessState::NotRegistered);
        sightings.recorded(7, "motor", 3, 1);
        sightings.looked_into(7);
        sightings.not_reached(7, "late");
        sightings.add(7, "sh", Some((7, 1, 3)));
        assert_eq!(state(&sightings), ProcessState::Recorded { tracepoints: 3, enabled: 1 });
    }

    #[test]
    fn a_command_that_starts_processes_without_end_is_remembered() {
        let mut sightings = Sightings::default();
        for pid in 1..1000 {
            sightings.add(pid, "make", Some((pid, 1, 1)));
        }
        let (processes, more) = sightings.processes();
        assert_eq!((processes.len(), processes[0].pid, more), (MOST, 1, 999 - MOST as u64));
    }
}
