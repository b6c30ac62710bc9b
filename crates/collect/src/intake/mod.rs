//! Taking programs up, beside the session's loop: what a program can delay is done by a thread of its user's.
//!
//! A program may lock its area, hold a lease on its file, or have its pages come late or never. So the session hands each program as a
//! [`Job`] to the lane of its user, and goes on. A lane has one thread; it finds the program's areas, attaches to them and makes their
//! pages present. The job then comes back, and the session does the rest: the trace, the tracepoints, the answer to the program.
//!
//! | file | what it does |
//! |---|---|
//! | `accounts` | whose limits hold for a user id |
//! | `lane` | one user's queue and its thread; gives the thread up when a program has it hang |
//! | `work` | the steps of a job |
//! | `hold` | attaching to one area |
//! | `ledger` | which areas are known, and what each user may have of them |
//! | `pages` | the pages of a program's rings |
//! | `portion` | what rings begin with |

mod accounts;
mod hold;
mod lane;
mod ledger;
mod pages;
mod portion;
mod work;

pub(crate) use hold::{Candidate, Taken, Wishes};
pub(crate) use ledger::{Claim, Ledger, Limits, Memory};
pub(crate) use work::{Job, LOOKS_UNTIL_MADE, Source};

use crate::program::Detachment;
use accounts::Accounts;
use lane::{Lane, Shared};
use rustix::process::geteuid;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Threads at most, but for those of root and the recorder's own user, who always get theirs: somebody may have many user ids.
const MOST_LANES: usize = 16;
/// Programs of a user that wait to be looked at, at most; likewise.
const MOST_WAITING: usize = 1024;
/// Longest wait of a user's programs for a thread while other users have them all.
const PATIENCE: Duration = Duration::from_secs(2);

/// Programs that are being taken up.
pub(crate) struct Intake {
    shared: Arc<Shared>,
    accounts: Accounts,
    /// By account.
    lanes: HashMap<u32, Arc<Lane>>,
    finished: Receiver<Job>,
    /// Jobs that have not come back.
    outstanding: usize,
    tickets: u64,
}

/// Whether a user's programs are taken up without limits: whoever could stop the recorder anyway.
pub(crate) fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

impl Intake {
    /// `ring` is called when a job has come back.
    pub(crate) fn new(wishes: Wishes, limits: Limits, ring: impl Fn() + Send + Sync + 'static) -> Self {
        let (done, finished) = channel();
        let ledger = Ledger::new(limits);
        let shared = Shared { wishes, ledger, done, ring: Box::new(ring) };
        let (shared, accounts) = (Arc::new(shared), Accounts::of_this_machine());
        Self { shared, accounts, lanes: HashMap::new(), finished, outstanding: 0, tickets: 0 }
    }

    /// The memory of all rings.
    pub(crate) fn memory(&self) -> Memory {
        self.shared.ledger.memory()
    }

    /// Hands over a program; the number by which the job is known when it comes back.
    pub(crate) fn submit(&mut self, pid: i32, user: u32, source: Source) -> u64 {
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

    /// Hands over a program that is to be let go; `user` is its claim's.
    pub(crate) fn let_go(&mut self, user: u32, pid: i32, detachment: Detachment) {
        self.tickets += 1;
        self.outstanding += 1;
        let lane = self.lanes.entry(user).or_default();
        lane.push(Job::new(self.tickets, pid, user, user, Source::Leaves(detachment)));
        self.look_after();
    }

    /// How many jobs have not come back.
    pub(crate) const fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The jobs that have come back.
    pub(crate) fn finished(&mut self) -> Vec<Job> {
        let finished: Vec<Job> = self.finished.try_iter().collect();
        self.outstanding -= finished.len();
        finished
    }

    /// The same; waits for the first until `end`.
    pub(crate) fn finished_until(&mut self, end: Instant) -> Vec<Job> {
        self.look_after();
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(50));
        let first = self.finished.recv_timeout(left);
        let finished: Vec<Job> = first.into_iter().chain(self.finished.try_iter()).collect();
        self.outstanding -= finished.len();
        finished
    }

    /// Gives up threads that hang, starts those that there was no room for, and forgets lanes that nobody needs. To be called from time
    /// to time.
    pub(crate) fn look_after(&mut self) {
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
    /// Programs that still wait go on unrecorded, and those that were attached to meanwhile are let go.
    fn drop(&mut self) {
        self.lanes.values().for_each(|lane| lane.close());
        for job in self.finished.try_iter() {
            job.taken.iter().for_each(Taken::let_go_at_once);
        }
    }
}
