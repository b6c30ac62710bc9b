//! Attaching to programs beside the session's loop: every step that a program can delay is done by a thread of that
//! program's user.
//!
//! A program may lock its area, hold a lease on its file, or delay access to its pages for ever. So the session passes
//! each program as a [`Job`] to its user's lane and continues. A lane has one thread, which finds the program's areas,
//! attaches to them and makes their pages present. The job then returns, and the session does the rest: the trace, the
//! tracepoints, the answer to the program.

use crate::accounts::Accounts;
use crate::accounts::is_trusted;
use crate::detachment::Detachment;
use crate::hold::{Taken, Wishes};
use crate::job::{Job, JobSource};
use crate::lane::{IntakeState, Lane};
use crate::ledger::{IntakeLimits, Ledger, Memory};
use crate::prepared::PreparedAreas;
use sordino_ring::area::control::FileId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Maximum number of threads, not counting those of root and of the recorder's own user, which are always permitted:
/// one person may own many user ids.
const MOST_LANES: usize = 16;
/// Maximum number of a user's waiting programs, with the same exception.
const MOST_WAITING: usize = 1024;
/// Longest wait of a user's programs for a thread while other users occupy all of them.
const PATIENCE: Duration = Duration::from_secs(2);

/// The programs to which the recorder is attaching.
pub struct Intake {
    shared: Arc<IntakeState>,
    accounts: Accounts,
    /// The lanes, by the user whose limits apply.
    lanes: HashMap<u32, Arc<Lane>>,
    finished: Receiver<Job>,
    /// The number of jobs that have not returned.
    outstanding: usize,
    tickets: u64,
}

impl Intake {
    /// Creates an intake; `ring` is called when a job has returned.
    pub fn new(wishes: Wishes, limits: IntakeLimits, ring: impl Fn() + Send + Sync + 'static) -> Self {
        let (done, finished) = channel();
        let ledger = Ledger::of_this_process(limits);
        let prepared = PreparedAreas::new(ledger.clone());
        let shared = IntakeState { wishes, ledger, prepared, done, ring: Box::new(ring) };
        let (shared, accounts) = (Arc::new(shared), Accounts::of_this_machine());
        Self { shared, accounts, lanes: HashMap::new(), finished, outstanding: 0, tickets: 0 }
    }

    /// Returns the memory of all rings.
    pub fn memory(&self) -> Memory {
        self.shared.ledger.memory()
    }

    /// Returns true if an area is recorded, or a job attaches to it.
    pub fn has_claimed(&self, id: FileId) -> bool {
        self.shared.ledger.has(id)
    }

    /// Starts to prepare an area for the next program, if none is ready.
    pub fn prepare_area(&self) {
        self.shared.prepared.prepare(&self.shared.wishes);
    }

    /// Looks after prepared areas: one is ready while no program is recorded. To be called regularly, if programs are
    /// awaited.
    pub fn look_after_areas(&self, has_programs: bool) {
        self.shared.prepared.look_after(&self.shared.wishes, has_programs);
    }

    /// Waits until the area is prepared, at most so long.
    pub fn wait_for_area(&self, time: Duration) {
        self.shared.prepared.wait(time);
    }

    /// Returns the prepared areas, for programs that request one.
    pub fn prepared(&self) -> PreparedAreas {
        self.shared.prepared.clone()
    }

    /// Submits a program. Returns the number of its job.
    pub fn submit(&mut self, pid: i32, user: u32, source: JobSource) -> u64 {
        self.tickets += 1;
        self.outstanding += 1;
        let account = self.accounts.of_user(user);
        let mut job = Job::new(self.tickets, pid, user, account, source);
        let running = self.lanes.values().filter(|lane| lane.has_thread()).count();
        let lane = self.lanes.entry(account).or_default();
        if !is_trusted(user) && lane.waiting() >= MOST_WAITING {
            job.refuse(format!("{MOST_WAITING} programs of user {user} wait already"));
            self.shared.finish(job);
            return self.tickets;
        }
        lane.push(job);
        if is_trusted(user) || running < MOST_LANES || lane.has_thread() {
            Lane::start(lane, &self.shared);
        }
        self.tickets
    }

    /// Submits a program to be detached from; `user` is the user of its claim.
    pub fn let_go(&mut self, user: u32, pid: i32, detachment: Detachment) {
        self.tickets += 1;
        self.outstanding += 1;
        let lane = self.lanes.entry(user).or_default();
        lane.push(Job::new(self.tickets, pid, user, user, JobSource::Leaves(detachment)));
        self.look_after();
    }

    /// Returns the number of jobs that have not returned.
    pub const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Returns the jobs that have returned since the last call.
    pub fn finished(&mut self) -> Vec<Job> {
        let finished: Vec<Job> = self.finished.try_iter().collect();
        self.outstanding -= finished.len();
        finished
    }

    /// Waits until `end`, at most 50 ms, for the first job to return, and returns all that have.
    pub fn finished_until(&mut self, end: Instant) -> Vec<Job> {
        self.look_after();
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
        let first = self.finished.recv_timeout(left);
        let finished: Vec<Job> = first.into_iter().chain(self.finished.try_iter()).collect();
        self.outstanding -= finished.len();
        finished
    }

    /// Gives up threads that hang, starts those that had to wait, and removes unused lanes. To be called regularly.
    pub fn look_after(&mut self) {
        self.lanes.values().for_each(|lane| Lane::give_up_if_overdue(lane, &self.shared));
        self.lanes.retain(|_, lane| lane.is_needed());
        let mut running = self.lanes.values().filter(|lane| lane.has_thread()).count();
        for (user, lane) in self.lanes.iter().filter(|(_, lane)| lane.needs_thread()) {
            if running < MOST_LANES || is_trusted(*user) || lane.has_thread() {
                Lane::start(lane, &self.shared);
                running += 1;
                continue;
            }
            for mut job in lane.take_older_than(PATIENCE) {
                job.refuse(format!("the recorder is busy with programs of {MOST_LANES} other users"));
                self.shared.finish(job);
            }
        }
    }
}

impl Drop for Intake {
    /// Waiting programs continue unrecorded, and those attached to meanwhile are detached.
    fn drop(&mut self) {
        self.lanes.values().for_each(|lane| lane.close());
        for job in self.finished.try_iter() {
            job.taken.iter().for_each(Taken::let_go_at_once);
        }
    }
}
