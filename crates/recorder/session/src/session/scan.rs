//! The steps of the search for programs that have not registered.

use super::bell::TICK;
use super::search::{STEP, WALK};
use super::state::RecordingSession;
use crate::options::Programs;
use sordino_inspect::discover::{Hidden, Incarnation, glance, is_forbidden, user_of};
use sordino_intake::JobSource;
use std::time::{Duration, Instant};

impl RecordingSession<'_> {
    /// Begins a round of the search if it is due.
    pub(super) fn search_if_due(&mut self) {
        if !self.options.kernel_only && self.arrivals.search.is_due() {
            let pause = if self.recordings.outlet.is_none() { TICK } else { WALK };
            self.arrivals.search.begin_round(pause);
        }
    }

    /// Examines all processes at once, before anything is recorded.
    pub(super) fn search_all(&mut self) {
        self.arrivals.search.begin_round(Duration::ZERO);
        while self.arrivals.search.is_busy() {
            self.search_step();
        }
    }

    /// Continues a round for some microseconds.
    pub(super) fn search_step(&mut self) {
        let begin = Instant::now();
        while self.arrivals.search.is_busy() {
            if let Some(pid) = self.arrivals.search.next() {
                self.look_at(pid);
            }
            if begin.elapsed() >= STEP {
                break;
            }
        }
        self.arrivals.search.add_step(begin.elapsed());
    }

    fn look_at(&mut self, pid: i32) {
        self.arrivals.search.looked_at += 1;
        let glance = glance(pid);
        if pid == std::process::id() as i32 || !glance.has_memory {
            return self.arrivals.search.forget(pid);
        }
        let is_new = self.arrivals.search.note(pid, &glance);
        if is_new {
            self.note_new(pid, &glance.name, glance.incarnation);
        }
        // A process that has registered is being attached to, and must not count as one that ran before.
        let is_expected = || self.arrivals.expected.values().any(|(registered, _)| *registered == pid);
        if !self.arrivals.search.count_look(pid, is_expected) {
            return;
        }
        // A process without a stack is about to end, or must not be inspected.
        if glance.incarnation.2 == 0 {
            return self.note_if_hidden(pid, glance.incarnation);
        }
        let Some(user) = user_of(pid) else { return };
        self.arrivals.search.submitted.insert(pid);
        let (looks, incarnation) = (self.arrivals.search.looks(pid), glance.incarnation);
        self.arrivals.intake.submit(pid, user, JobSource::Scanned { looks, incarnation });
    }

    /// Notes that a process is new, or executes another program.
    fn note_new(&mut self, pid: i32, name: &str, incarnation: Incarnation) {
        let Some(ancestors) = self.ancestors() else { return };
        let is_selected = descends(pid, &ancestors, |pid| self.arrivals.search.parent_of(pid));
        if is_selected {
            self.findings.sightings.add(pid, name, Some(incarnation));
        }
        if let Some(known) = self.arrivals.search.of(incarnation) {
            known.is_selected = is_selected;
        }
    }

    fn note_if_hidden(&mut self, pid: i32, incarnation: Incarnation) {
        if is_forbidden(pid) {
            self.findings.sightings.not_reached(pid, &Hidden::NotPermitted.to_string());
            self.arrivals.search.settle(incarnation);
            if let Some(known) = self.arrivals.search.of(incarnation) {
                known.is_hidden = true;
            }
        }
    }

    /// Returns true if the process is one of those that the user selected.
    pub(super) fn is_selected(&mut self, pid: i32) -> bool {
        // Commands of `sordino` itself are excluded later, because recognising them may take long.
        let Some(ancestors) = self.ancestors() else { return true };
        descends(pid, &ancestors, |pid| self.arrivals.search.parent_of(pid))
    }

    /// Returns the processes whose descendants are to be recorded; `None` for all processes.
    fn ancestors(&self) -> Option<Vec<i32>> {
        match &self.options.programs {
            Programs::All => None,
            Programs::Pids(_) => Some(self.arrivals.named.clone()),
            Programs::Command(_) => Some(self.command.child.iter().map(|child| child.id() as i32).collect()),
        }
    }
}

/// Returns true if `pid` is one of `ancestors` or a descendant of one.
fn descends(mut pid: i32, ancestors: &[i32], mut parent: impl FnMut(i32) -> Option<i32>) -> bool {
    // Deeper than any real tree of processes; a change of parents meanwhile could make a cycle.
    for _ in 0..1000 {
        if ancestors.contains(&pid) {
            return true;
        }
        match parent(pid) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn descendants_of_a_command_are_selected() {
        // 10 -> 11 -> 12; 20 -> 21; a cycle of 30 and 31.
        let parents = HashMap::from([(10, 1), (11, 10), (12, 11), (20, 1), (21, 20), (30, 31), (31, 30)]);
        for (pid, is_one) in [(10, false), (11, true), (12, true), (20, false), (21, false), (30, false)] {
            assert_eq!(descends(pid, &[11], |pid| parents.get(&pid).copied()), is_one, "{pid}");
        }
    }
}
