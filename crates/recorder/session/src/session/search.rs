//! The search for programs that do not register: those started before the session, in containers, or without their
//! environment.
//!
//! Examining all processes takes milliseconds, and may happen on the CPU of a recorded program. So the search consists
//! of rounds, and a round of steps of some microseconds between which the session sleeps. A round examines the
//! processes reported by [events](sordino_inspect::process_events), and new ones once more: a program that was executed
//! a moment ago has not created its area yet, or loads the library later. All processes are walked through at the
//! start, when events were missed, and once a minute; every ten seconds where exec causes no event.

use super::bell::TICK;
use sordino_inspect::discover::{Glance, Incarnation, glance, parent};
use sordino_inspect::process_events::{ProcessEvent, ProcessEvents};
use sordino_proc::list::PidWalk;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Number of checks of a process after which it is known to have no area of its own.
const LOOKS: u8 = 10;

/// Number of the first checks, which are made in successive rounds.
const SOON: u8 = 5;

/// Time between two of the later checks: a program may load the library some seconds after it was executed.
const LATER: Duration = Duration::from_secs(1);

/// Time after which a step ends. The check in progress then takes some microseconds more.
pub(super) const STEP: Duration = Duration::from_micros(20);

/// Pause between two steps.
pub(super) const BETWEEN_STEPS: Duration = Duration::from_millis(2);

/// Shortest time between two walks through all processes, for a session.
pub(super) const WALK: Duration = Duration::from_secs(1);

/// Longest time between two walks where exec causes no event.
const WALK_FOR_EXEC: Duration = Duration::from_secs(10);

/// Longest time between two walks where exec causes an event: a check of a process may have failed.
const WALK_ANYWAY: Duration = Duration::from_secs(60);

/// Maximum number of processes that are remembered beyond those of the last walk, which removes ended ones. Events
/// alone do not.
const MOST_NEW: usize = 10_000;

/// The state of the search, and the known processes.
#[derive(Debug)]
pub(super) struct ProcessSearch {
    events: ProcessEvents,
    round: SearchRound,
    walks: ProcessWalks,
    known: HashMap<i32, KnownProcess>,
    again: Rechecks,
    /// Processes that the intake is examining.
    pub(super) submitted: HashSet<i32>,
    /// The number of checks of processes since the session began.
    pub(super) looked_at: u64,
}

/// The present round, or the last one.
#[derive(Debug)]
struct SearchRound {
    /// True if it may have unread events.
    reads_events: bool,
    /// Processes left in it, parents mostly before their children.
    queue: BTreeSet<i32>,
    began: Instant,
    /// The time that its steps have taken.
    taken: Duration,
}

/// The walks through all processes.
#[derive(Debug)]
struct ProcessWalks {
    /// The walk in progress.
    present: Option<PidWalk>,
    /// True if any process may have changed since the last walk began.
    is_needed: bool,
    /// The start of the last walk.
    began: Instant,
    /// The number of walks so far.
    count: u32,
    /// The number of processes that the last walk found.
    found: usize,
}

/// The processes to be examined again.
#[derive(Debug)]
struct Rechecks {
    /// Those of the next round.
    young: BTreeSet<i32>,
    /// Those whose turn comes once [`LATER`] has passed since the last such round.
    older: BTreeSet<i32>,
    /// The start of the last round with older ones.
    older_began: Instant,
}

/// A process with memory of its own.
#[derive(Debug)]
pub(super) struct KnownProcess {
    incarnation: Incarnation,
    /// The process that started it, as of the first check.
    parent: Option<i32>,
    looks: u8,
    /// True if the process is to be recorded.
    pub(super) is_selected: bool,
    /// True if the recorder has no permission to inspect the process.
    pub(super) is_hidden: bool,
    /// The last walk that found it.
    walk: u32,
}

impl ProcessSearch {
    /// Creates a search for a session that `has_programs`; otherwise it never runs.
    pub(super) fn new(has_programs: bool) -> Self {
        let now = Instant::now();
        let watch = if has_programs { ProcessEvents::watch } else { ProcessEvents::by_last_number };
        Self {
            events: watch(),
            round: SearchRound {
                reads_events: false,
                queue: BTreeSet::new(),
                began: now,
                taken: Duration::ZERO,
            },
            walks: ProcessWalks { present: None, is_needed: true, began: now, count: 0, found: 0 },
            known: HashMap::new(),
            again: Rechecks { young: BTreeSet::new(), older: BTreeSet::new(), older_began: now },
            submitted: HashSet::new(),
            looked_at: 0,
        }
    }

    /// Returns true if a round is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.round.reads_events || self.walks.present.is_some() || !self.round.queue.is_empty()
    }

    /// Returns the number of checks of processes since the session began.
    pub(super) const fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Returns the number of processes that the recorder has no permission to inspect.
    pub(super) fn hidden(&self) -> u64 {
        self.known.values().filter(|known| known.is_hidden).count() as u64
    }

    /// Returns true if a round is due. Rounds take at most a tenth of the time, however many processes there are.
    pub(super) fn is_due(&self) -> bool {
        !self.is_busy() && self.round.began.elapsed() >= TICK.max(10 * self.round.taken)
    }

    /// Adds the time that a step of the round has taken.
    pub(super) fn add_step(&mut self, taken: Duration) {
        self.round.taken += taken;
    }

    /// Begins a round, and in it a walk if one is needed and `pause` has passed since the last one.
    pub(super) fn begin_round(&mut self, pause: Duration) {
        (self.round.began, self.round.taken) = (Instant::now(), Duration::ZERO);
        self.round.reads_events = true;
        self.round.queue.append(&mut self.again.young);
        if self.again.older_began.elapsed() >= LATER {
            self.again.older_began = self.round.began;
            self.round.queue.append(&mut self.again.older);
        }
        let since = self.walks.began.elapsed();
        self.walks.is_needed |= since >= if self.events.have_exec() { WALK_ANYWAY } else { WALK_FOR_EXEC };
        self.walks.is_needed |= self.known.len() > self.walks.found + MOST_NEW;
        if self.walks.count == 0 || self.walks.is_needed && since >= pause {
            self.begin_walk();
        }
    }

    fn begin_walk(&mut self) {
        self.walks.began = Instant::now();
        self.walks.count += 1;
        self.walks.present = PidWalk::begin().ok();
        // Without a descriptor, it is tried again.
        self.walks.is_needed = self.walks.present.is_none();
    }

    /// Returns the next process of the round; `None` if this call did something else, or the round is over.
    pub(super) fn next(&mut self) -> Option<i32> {
        if self.round.reads_events {
            match self.events.next() {
                Some(ProcessEvent::Changed(pid)) => _ = self.round.queue.insert(pid),
                Some(ProcessEvent::AnyChanged) => self.walks.is_needed = true,
                Some(ProcessEvent::Unrelated) => {}
                None => self.round.reads_events = false,
            }
            return None;
        }
        if let Some(pid) = self.round.queue.pop_first() {
            return Some(pid);
        }
        match self.walks.present.as_mut()?.next_few() {
            Some(pids) => self.round.queue.extend(pids),
            None => self.end_walk(),
        }
        None
    }

    /// Removes the processes that are gone.
    fn end_walk(&mut self) {
        self.walks.present = None;
        self.known.retain(|_, known| known.walk == self.walks.count);
        self.walks.found = self.known.len();
    }

    pub(super) fn forget(&mut self, pid: i32) {
        self.known.remove(&pid);
        self.again.young.remove(&pid);
        self.again.older.remove(&pid);
    }

    /// Records a check of a process. Returns true if it is the first one of this program.
    pub(super) fn note(&mut self, pid: i32, glance: &Glance) -> bool {
        let walk = self.walks.count;
        match self.known.get_mut(&pid) {
            Some(known) if known.incarnation == glance.incarnation => {
                known.walk = walk;
                false
            }
            _ => {
                let &Glance { incarnation, parent, .. } = glance;
                let known =
                    KnownProcess { incarnation, parent, looks: 0, is_selected: true, is_hidden: false, walk };
                self.known.insert(pid, known);
                true
            }
        }
    }

    /// Counts a check of a process. Returns true if its areas are to be searched. While another job examines the
    /// process, because it was submitted or `is_expected`, checks are repeated and not counted: the job may fail after
    /// any time, and the process then needs all its checks.
    pub(super) fn count_look(&mut self, pid: i32, is_expected: impl FnOnce() -> bool) -> bool {
        let Some(known) = self.known.get_mut(&pid) else { return false };
        if !known.is_selected || known.looks >= LOOKS {
            return false;
        }
        if self.submitted.contains(&pid) || is_expected() {
            self.again.young.insert(pid);
            return false;
        }
        known.looks += 1;
        match known.looks {
            ..SOON => _ = self.again.young.insert(pid),
            SOON..LOOKS => _ = self.again.older.insert(pid),
            LOOKS.. => {}
        }
        true
    }

    /// Ends the checks of a process until it executes another program: it is known to have an area, or none.
    pub(super) fn settle(&mut self, incarnation: Incarnation) {
        if let Some(known) = self.of(incarnation) {
            known.looks = LOOKS;
            self.again.young.remove(&incarnation.0);
            self.again.older.remove(&incarnation.0);
        }
    }

    /// Ends the checks of a process that the user named and that was searched.
    pub(super) fn settle_named(&mut self, pid: i32) {
        let glance = glance(pid);
        self.note(pid, &glance);
        self.settle(glance.incarnation);
    }

    /// Searches a process that registered in vain: recording it failed for lack of room.
    pub(super) fn search_again(&mut self, pid: i32) {
        let glance = glance(pid);
        self.note(pid, &glance);
        self.look_again(glance.incarnation);
    }

    /// Searches the process again as if it were new.
    fn look_again(&mut self, incarnation: Incarnation) {
        if let Some(known) = self.of(incarnation) {
            known.looks = 0;
            self.again.young.insert(incarnation.0);
        }
    }

    pub(super) fn of(&mut self, incarnation: Incarnation) -> Option<&mut KnownProcess> {
        self.known.get_mut(&incarnation.0).filter(|known| known.incarnation == incarnation)
    }

    /// Returns the number of checks of the process's present program.
    pub(super) fn looks(&self, pid: i32) -> u8 {
        self.known.get(&pid).map_or(0, |known| known.looks)
    }

    /// Records the result of searching a process: true if it `has_any` area, and true if recording one failed for lack
    /// of room.
    pub(super) fn take_back(&mut self, incarnation: Incarnation, has_any: bool, is_in_vain: bool) {
        self.submitted.remove(&incarnation.0);
        if is_in_vain {
            self.look_again(incarnation);
        } else if has_any {
            self.settle(incarnation);
        }
    }

    /// Returns the process that started this one.
    pub(super) fn parent_of(&mut self, pid: i32) -> Option<i32> {
        match self.known.get(&pid) {
            Some(known) => known.parent,
            None => parent(pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance_of(pid: i32, stack: u64) -> Glance {
        Glance { incarnation: (pid, 1, stack), parent: Some(1), name: "motor".to_owned(), has_memory: true }
    }

    #[test]
    fn a_process_is_looked_at_some_times_and_again_when_it_executes_another_program() {
        let mut search = ProcessSearch::new(true);
        assert!(search.note(7, &glance_of(7, 1)));
        for look in 1..=LOOKS {
            assert!(search.count_look(7, || false));
            assert_eq!(search.again.young.contains(&7), look < SOON);
            assert_eq!(search.again.older.contains(&7), (SOON..LOOKS).contains(&look));
            search.again.young.clear();
            search.again.older.clear();
            assert!(!search.note(7, &glance_of(7, 1)));
        }
        assert!(!search.count_look(7, || false));
        assert!(search.note(7, &glance_of(7, 2)) && search.count_look(7, || false));
        // The process has an area.
        search.take_back((7, 1, 2), true, false);
        assert!(
            !search.count_look(7, || false) && search.again.young.is_empty() && search.again.older.is_empty()
        );
        // There was no room for its trace.
        search.take_back((7, 1, 2), true, true);
        assert!(search.again.young.contains(&7) && search.count_look(7, || false));
        // One that registered had none, either.
        let own = std::process::id() as i32;
        search.settle_named(own);
        assert!(!search.count_look(own, || false));
        search.search_again(own);
        assert!(search.again.young.contains(&own) && search.count_look(own, || false));
        // The result is about an earlier program.
        search.take_back((7, 1, 1), true, false);
        assert!(search.count_look(7, || false));
    }

    /// A registration may take seconds to fail, for lack of room: its checks must not have run out by then.
    #[test]
    fn checks_beside_another_job_do_not_count() {
        let mut search = ProcessSearch::new(true);
        search.note(7, &glance_of(7, 1));
        for _ in 0..2 * LOOKS {
            assert!(!search.count_look(7, || true) && search.again.young.remove(&7));
            search.submitted.insert(7);
            assert!(!search.count_look(7, || false) && search.again.young.remove(&7));
            search.submitted.remove(&7);
        }
        for _ in 0..LOOKS {
            assert!(search.count_look(7, || false));
        }
        search.again.young.clear();
        assert!(
            !search.count_look(7, || true) && !search.again.young.contains(&7),
            "a settled process is not checked again"
        );
    }

    #[test]
    fn what_a_walk_does_not_find_is_forgotten() {
        let mut search = ProcessSearch::new(true);
        let gone = 1 << 30;
        search.note(gone, &glance_of(gone, 1));
        search.begin_round(Duration::ZERO);
        let mut looked_at = 0;
        while search.is_busy() {
            if let Some(pid) = search.next() {
                search.note(pid, &glance_of(pid, 1));
                looked_at += 1;
            }
        }
        assert!(looked_at > 0 && search.walks.found <= looked_at && !search.known.contains_key(&gone));
        assert!(search.known.contains_key(&(std::process::id() as i32)));
        // No walk is needed again.
        let had = search.walks.count;
        search.walks.is_needed = false;
        search.begin_round(Duration::ZERO);
        assert_eq!(search.walks.count, had);
        search.walks.is_needed = true;
        search.begin_round(Duration::from_secs(60));
        assert_eq!(search.walks.count, had);
        search.begin_round(Duration::ZERO);
        assert_eq!(search.walks.count, had + 1);
    }
}
