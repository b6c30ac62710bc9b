//! The processes that a session was to record, and the results, for the explanation of missing events.

use sordino_collect::shortfall::{ProcessFound, ProcessState};
use sordino_inspect::discover::Incarnation;
use sordino_intake::LOOKS_UNTIL_MADE;

/// Maximum number of processes that are remembered: a command may start any number.
const MOST: usize = 16;

/// The processes to be recorded: the command and its descendants, and every program that was recorded.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    known: Vec<Sighting>,
    more: u64,
}

#[derive(Debug)]
struct Sighting {
    found: ProcessFound,
    /// The program that it executes; `None` until the process was searched.
    incarnation: Option<Incarnation>,
    /// The number of searches without a result.
    looks: u8,
}

impl Sightings {
    /// Adds a process that is to be recorded and executes a program called `name`.
    pub(super) fn add(&mut self, pid: i32, name: &str, incarnation: Option<Incarnation>) {
        let Some(known) = self.known.iter_mut().find(|known| known.found.pid == pid) else {
            let found = ProcessFound { pid, name: name.to_owned(), state: ProcessState::NotRegistered };
            return self.remember(Sighting { found, incarnation, looks: 0 });
        };
        if known.incarnation.is_none() {
            // Added when it was started; it may have registered since.
            known.incarnation = incarnation;
            return;
        }
        if known.incarnation == incarnation || matches!(known.found.state, ProcessState::Recorded { .. }) {
            return;
        }
        // It has executed another program since.
        (known.incarnation, known.looks) = (incarnation, 0);
        known.found.name = name.to_owned();
        known.found.state = ProcessState::NotRegistered;
    }

    /// Adds a process. If there are too many, drops one that does not explain missing events, so that the program is
    /// listed, whatever a script started before it. The first process, the command itself, is never dropped.
    fn remember(&mut self, sighting: Sighting) {
        if self.known.len() == MOST {
            self.more += 1;
            let first_that = |is: fn(&ProcessState) -> bool| {
                self.known.iter().skip(1).position(|known| is(&known.found.state)).map(|index| index + 1)
            };
            let unknown = first_that(|state| *state == ProcessState::NotRegistered);
            let Some(least) = unknown.or_else(|| first_that(|state| *state == ProcessState::NotLinked))
            else {
                return;
            };
            self.known.remove(least);
        }
        self.known.push(sighting);
    }

    /// Returns true if the process is among those remembered.
    pub(super) fn has(&self, pid: i32) -> bool {
        self.known.iter().any(|known| known.found.pid == pid)
    }

    /// Records a search of a process that found nothing.
    pub(super) fn looked_into(&mut self, pid: i32) {
        if let Some(known) = self.waiting(pid) {
            known.looks = known.looks.saturating_add(1);
            // Earlier, its constructors may not have run yet.
            if known.looks >= LOOKS_UNTIL_MADE {
                known.found.state = ProcessState::NotLinked;
            }
        }
    }

    /// Records that a process could not be inspected, or not be recorded.
    pub(super) fn not_reached(&mut self, pid: i32, reason: &str) {
        if let Some(known) = self.waiting(pid) {
            known.found.state = ProcessState::NotReached { reason: reason.to_owned() };
        }
    }

    fn waiting(&mut self, pid: i32) -> Option<&mut Sighting> {
        let is_recorded = |known: &Sighting| matches!(known.found.state, ProcessState::Recorded { .. });
        self.known.iter_mut().find(|known| known.found.pid == pid && !is_recorded(known))
    }

    /// Records that a process is recorded from now on.
    pub(super) fn take_up(&mut self, pid: i32, name: &str) {
        let recorded = ProcessState::Recorded { tracepoints: 0, enabled: 0 };
        match self.known.iter_mut().find(|known| known.found.pid == pid) {
            Some(known) if matches!(known.found.state, ProcessState::Recorded { .. }) => {}
            Some(known) => (known.found.name, known.found.state) = (name.to_owned(), recorded),
            None => {
                let found = ProcessFound { pid, name: name.to_owned(), state: recorded };
                self.remember(Sighting { found, incarnation: None, looks: 0 });
            }
        }
    }

    /// Sets the numbers of a recorded process's own tracepoints, and of the enabled ones among them.
    pub(super) fn recorded(&mut self, pid: i32, tracepoints: usize, enabled: usize) {
        let Some(known) = self.known.iter_mut().find(|known| known.found.pid == pid) else { return };
        // A process has several sets of tracepoints if plug-ins contain their own copy of the library.
        if let ProcessState::Recorded { tracepoints: before, enabled: enabled_before } =
            &mut known.found.state
        {
            (*before, *enabled_before) = (tracepoints.max(*before), enabled.max(*enabled_before));
        }
    }

    /// Returns the processes, and the number of those that were dropped.
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
        // It executes another program, about which nothing is known yet.
        sightings.add(7, "motor", Some((7, 1, 2)));
        assert_eq!(state(&sightings), ProcessState::NotRegistered);
        sightings.take_up(7, "motor");
        sightings.recorded(7, 3, 1);
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
    #[test]
    fn a_program_is_listed_whatever_a_script_starts_before_and_after_it() {
        let mut sightings = Sightings::default();
        sightings.add(1, "sh", None);
        let unlinked = |sightings: &mut Sightings, pid| {
            sightings.add(pid, "cc", Some((pid, 1, 1)));
            (0..LOOKS_UNTIL_MADE).for_each(|_| sightings.looked_into(pid));
        };
        (2..30).for_each(|pid| unlinked(&mut sightings, pid));
        sightings.take_up(30, "motor");
        sightings.recorded(30, 2, 0);
        sightings.add(31, "setuid", Some((31, 1, 0)));
        sightings.not_reached(31, "no right");
        (32..60).for_each(|pid| unlinked(&mut sightings, pid));
        let (processes, more) = sightings.processes();
        let at =
            |pid| processes.iter().find(|process| process.pid == pid).map(|process| process.state.clone());
        assert_eq!(at(30), Some(ProcessState::Recorded { tracepoints: 2, enabled: 0 }));
        assert!(matches!(at(31), Some(ProcessState::NotReached { .. })));
        assert_eq!((processes.len(), processes[0].pid, more), (MOST, 1, 59 - MOST as u64));
        // Recorded processes are not dropped, and are counted once.
        (60..90).for_each(|pid| sightings.take_up(pid, "motor"));
        (60..90).for_each(|pid| sightings.recorded(pid, 1, 1));
        assert_eq!(sightings.processes().1, 89 - MOST as u64);
    }

    #[test]
    fn a_note_on_a_command_from_before_its_first_check_stays() {
        let mut sightings = Sightings::default();
        sightings.add(7, "motor", None);
        sightings.not_reached(7, "makes no sense");
        sightings.add(7, "motor", Some((7, 1, 1)));
        assert!(matches!(state(&sightings), ProcessState::NotReached { .. }));
    }
}
