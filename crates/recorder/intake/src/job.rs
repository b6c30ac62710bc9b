//! A process to examine, and the areas that were found and attached to.

use super::hold::{Candidate, Taken};
use crate::code::MappedCode;
use crate::detachment::Detachment;
use crate::registration::Registration;
use sordino_inspect::discover::{Hidden, Incarnation};
use sordino_ring::area::control::FileId;
use std::collections::VecDeque;
use std::time::Instant;

/// The reason for examining a process.
#[derive(Debug)]
pub enum JobSource {
    /// The program has registered, and waits.
    Registered(Registration),
    /// The user has named the process, and waits.
    Named,
    /// A scan has found the process.
    Scanned {
        /// The number of this check, from 1.
        looks: u8,
        /// The program that the process executes.
        incarnation: Incarnation,
    },
    /// The program is to be detached from.
    Leaves(Detachment),
    /// The program is recorded, and its mapped code is to be read again; with true, its functions, too.
    Code(bool),
}

/// A process whose areas are to be attached to, and the results.
#[derive(Debug)]
pub struct Job {
    /// The number that the caller got for it.
    pub ticket: u64,
    /// The id of the process.
    pub pid: i32,
    /// The user of the process.
    pub user: u32,
    /// The user whose limits apply.
    pub(super) account: u32,
    /// The reason for examining the process.
    pub source: JobSource,
    /// The areas that were attached to.
    pub taken: Vec<Taken>,
    /// The other areas that were found.
    pub found: FoundAreas,
    /// Areas that were opened but could not be attached to, with the reason.
    pub refused: Vec<(Candidate, String)>,
    /// The code that it has mapped, if that was to be read.
    pub code: Option<MappedCode>,
    /// Areas that are not attached to yet; `None` before the search.
    pub(super) todo: Option<VecDeque<Candidate>>,
    /// The area that is being attached to.
    pub(super) attaching: Option<FileId>,
    /// The time at which the job was submitted.
    pub since: Instant,
    /// The end of the wait for locks, from the first one that was held.
    pub(super) until: Option<Instant>,
}

/// The result of the search for areas, besides those to attach to.
#[derive(Debug, Default)]
pub struct FoundAreas {
    /// Areas that are recorded already.
    pub known: Vec<FileId>,
    /// Areas that are not recorded, as far as they could be identified, with the reason.
    pub skipped: Vec<(Option<FileId>, String)>,
    /// Areas of an earlier program of the process, which are no longer mapped.
    pub replaced: Vec<FileId>,
    /// The reason that its areas could not be found.
    pub hidden: Option<Hidden>,
}

/// The result of a step of a lane's thread.
pub(super) enum StepOutcome {
    /// The job is complete.
    Done(Job),
    /// The job's areas are open; its next steps are slower.
    Opened(Job),
    /// A lock is held by another process.
    Locked(Job),
    /// The step took too long, and another thread continues the job.
    GivenUp,
}

impl Job {
    pub(super) fn new(ticket: u64, pid: i32, user: u32, account: u32, source: JobSource) -> Self {
        Self {
            ticket,
            pid,
            user,
            account,
            source,
            taken: Vec::new(),
            found: FoundAreas::default(),
            refused: Vec::new(),
            code: None,
            todo: None,
            attaching: None,
            since: Instant::now(),
            until: None,
        }
    }

    /// Returns true if its areas have yet to be opened.
    pub(super) const fn is_to_be_opened(&self) -> bool {
        self.todo.is_none() && !matches!(self.source, JobSource::Leaves(_) | JobSource::Code(_))
    }

    /// Ends the job without an attempt.
    pub(super) fn refuse(&mut self, reason: String) {
        let reason = match &self.source {
            JobSource::Leaves(detachment) => {
                format!("the rings of {} could not be given back: {reason}", detachment.name())
            }
            _ => reason,
        };
        let opened = self.todo.take().unwrap_or_default();
        if opened.is_empty() {
            return self.found.skipped.push((None, reason));
        }
        // Their counters are still read.
        self.refused.extend(opened.into_iter().map(|candidate| (candidate, reason.clone())));
    }

    /// Records the timeout of the present step: searching, attaching, or making pages present. Returns true if the job
    /// is complete.
    pub(super) fn give_up(&mut self) -> bool {
        if let JobSource::Leaves(_) = self.source {
            self.refuse("timed out".to_owned());
            return true;
        }
        match (&self.todo, self.attaching.take(), self.taken.last_mut()) {
            (Some(todo), Some(id), _) => {
                self.found.skipped.push((Some(id), "it could not be attached to (timed out)".to_owned()));
                todo.is_empty()
            }
            (Some(todo), None, Some(last)) => {
                last.notes.push(
                    "its rings could not be made present (timed out): it faults on each page once".to_owned(),
                );
                todo.is_empty()
            }
            _ => {
                self.refuse("it could not be looked into (timed out)".to_owned());
                true
            }
        }
    }
}
