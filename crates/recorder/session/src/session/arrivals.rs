//! Programs that arrive: their registrations, and the answers of the threads that attach to them.

use super::state::{RecordingSession, RegisteredArea};
use crate::options::Programs;
use sordino_collect::Error;
use sordino_collect::program::Traced;
use sordino_inspect::discover::{Hidden, glance, identity};
use sordino_intake::{FoundAreas, Job, JobSource};
use sordino_ring::area::control::FileId;
use std::time::{Duration, Instant};

/// Longest wait of a job for another one that attaches to the same area.
const OTHER_JOB: Duration = Duration::from_secs(5);

/// Maximum number of jobs that wait for other jobs.
const MOST_POSTPONED: usize = 1000;

impl RecordingSession<'_> {
    /// Submits the programs that have registered, for the first time or with new tracepoints.
    pub(super) fn take_registrations(&mut self) {
        let registrations = self.listener.accept();
        if self.listener.was_full() {
            self.note_unseen();
        }
        for registration in registrations {
            let (pid, user) = (registration.pid, registration.user);
            if self.options.kernel_only {
                // The program continues when the connection is closed.
                continue;
            }
            if pid <= 0 {
                self.recordings
                    .add_note("skipped a program in a pid namespace that is not visible here".to_owned());
            } else if self.listener.is_private() || self.is_selected(pid) {
                // Programs that know a private socket are always recorded.
                let area = (pid, registration.inode);
                let ticket = self.arrivals.intake.submit(pid, user, JobSource::Registered(registration));
                self.arrivals.expected.insert(ticket, area);
            }
        }
    }

    /// Submits all programs that have connected, until `end`: a stream of new ones must not keep a session from ending.
    pub(super) fn take_registrations_until(&mut self, end: Instant) {
        loop {
            self.take_registrations();
            if self.listener.has_accepted_all() {
                return;
            }
            if Instant::now() >= end {
                return self.note_unseen();
            }
            if !self.listener.has_room() {
                // Those that wait for their answers are first.
                let finished = self.arrivals.intake.finished_until(end);
                finished.into_iter().for_each(|job| self.take_up(job));
            }
        }
    }

    /// Processes the jobs that have returned.
    pub(super) fn take_up_finished(&mut self) {
        let finished = self.arrivals.intake.finished();
        let postponed = std::mem::take(&mut self.arrivals.postponed);
        finished.into_iter().chain(postponed).for_each(|job| self.take_up(job));
    }

    /// Processes jobs until all have returned, or until `end`.
    pub(super) fn take_up_all_until(&mut self, end: Instant) {
        while self.arrivals.intake.outstanding() > 0 && Instant::now() < end {
            for job in self.arrivals.intake.finished_until(end) {
                self.take_up(job);
            }
        }
        std::mem::take(&mut self.arrivals.postponed).into_iter().for_each(|job| self.take_up(job));
    }

    /// Waits until the users' threads have detached from their programs, or until `end`.
    pub(super) fn wait_for_leaving(&mut self, end: Instant) {
        while self.arrivals.intake.outstanding() > 0 && Instant::now() < end {
            let (leaving, _expected): (Vec<Job>, Vec<Job>) = self
                .arrivals
                .intake
                .finished_until(end)
                .into_iter()
                .partition(|job| matches!(job.source, JobSource::Leaves(_)));
            leaving.into_iter().for_each(|job| self.take_up(job));
        }
    }

    /// Returns true if the job's answer has to wait: for another job that attaches to the same area, because a program
    /// registers once for each of its modules, or until a large catalogue has been read completely.
    fn is_early(&self, job: &Job) -> bool {
        let is_ready = |id: &FileId| {
            self.recorded.programs.iter().any(|known| known.id() == *id && known.is_read())
                || !self.arrivals.intake.has_claimed(*id)
        };
        matches!(job.source, JobSource::Registered(_))
            && !job.found.known.iter().all(is_ready)
            && job.since.elapsed() < OTHER_JOB
            && self.arrivals.postponed.len() < MOST_POSTPONED
    }

    /// Records the areas that were attached to, and notes those that could not be. A program that has registered then
    /// continues.
    pub(super) fn take_up(&mut self, mut job: Job) {
        if let JobSource::Named = job.source {
            return self.take_up_requested(job);
        }
        if let JobSource::Registered(registration) = &job.source {
            let recorded = self.recorded_area((job.pid, registration.inode));
            if let Some(id) = recorded.filter(|_| job.taken.is_empty() && job.refused.is_empty()) {
                // Nothing more was to be found: the job may have had no descriptor to look at the area.
                job.found = FoundAreas { known: vec![id], ..FoundAreas::default() };
            }
            self.refresh_known(&job.found.known);
        }
        if self.is_early(&job) {
            return self.arrivals.postponed.push(job);
        }
        self.arrivals.expected.remove(&job.ticket);
        let Job { pid, user, mut source, taken, found, refused, code, .. } = job;
        let FoundAreas { known, skipped, replaced, hidden } = found;
        if let JobSource::Code(_) = source {
            for (_, reason) in skipped {
                let note = format!("libraries that process {pid} loaded later have no functions: {reason}");
                self.recordings.add_note(note);
            }
            return code.into_iter().for_each(|code| self.take_up_code(pid, code));
        }
        if let JobSource::Leaves(_) = source {
            return skipped.into_iter().for_each(|(_, note)| self.recordings.add_note(note));
        }
        let has_any = !(taken.is_empty() && skipped.is_empty() && refused.is_empty());
        match (&hidden, &source) {
            (Some(Hidden::Ended), _) => {}
            (Some(hidden), _) => self.findings.sightings.not_reached(pid, &hidden.to_string()),
            (None, JobSource::Scanned { .. }) if !has_any && known.is_empty() => {
                self.findings.sightings.looked_into(pid)
            }
            (None, _) => {}
        }
        if !taken.is_empty() {
            self.let_go_replaced(&replaced);
        }
        let mut is_to_be_seen_again = false;
        let begun: Vec<FileId> = taken.iter().map(|taken| taken.claim.id()).collect();
        for taken in taken {
            let (id, name) = (taken.claim.id(), taken.identity.name.clone());
            if let Err(error) = self.begin_program(taken) {
                // Without room on the disk now, there may be some at the next check.
                if matches!(error, Error::Output(_)) {
                    is_to_be_seen_again = true;
                    self.recordings.note_unplaced(pid);
                }
                self.note_not_reached(pid, || name, &error.to_string());
                self.skip((pid, Some(id)), user, &error);
            }
        }
        let mut unreached = Vec::new();
        for (candidate, reason) in refused {
            let id = candidate.id();
            let is_missing = match &mut source {
                JobSource::Registered(registration) => {
                    registration.is_answered = true;
                    self.count_refused(pid, &candidate)
                }
                _ => glance(pid).has_memory,
            };
            if is_missing {
                unreached.push((Some(id), reason));
            }
        }
        if let (JobSource::Registered(registration), false) = (&source, skipped.is_empty()) {
            self.count_unrecorded((pid, registration.inode));
        }
        for (id, reason) in unreached.into_iter().chain(skipped) {
            self.note_not_reached(pid, || identity(pid).name, &reason);
            self.skip((pid, id), user, &Error::Program { pid, reason });
        }
        match &mut source {
            JobSource::Registered(registration) => {
                if is_to_be_seen_again {
                    self.arrivals.search.search_again(pid);
                }
                registration.is_answered |= self.answer(&begun) | self.answer(&known);
                let ended_waiting = matches!(hidden, Some(Hidden::Ended)) && !registration.went_on();
                if let Some(hidden) = hidden.filter(|_| !ended_waiting) {
                    // A process that registers another one's area is not missing from the recording.
                    if !matches!(hidden, Hidden::NotItsOwn) {
                        self.count_unrecorded((pid, registration.inode));
                    }
                    self.skip((pid, None), user, &Error::Program { pid, reason: hidden.to_string() });
                }
            }
            JobSource::Scanned { incarnation, .. } => {
                self.arrivals.search.take_back(*incarnation, has_any, is_to_be_seen_again);
            }
            JobSource::Named | JobSource::Leaves(_) | JobSource::Code(_) => {}
        }
    }

    /// Returns the identity of an area that a process registered, if it is recorded.
    fn recorded_area(&self, (pid, inode): RegisteredArea) -> Option<FileId> {
        let is_it = |program: &&Traced| program.trace.pid == pid && program.id().inode == inode;
        self.recorded.programs.iter().find(is_it).map(Traced::id)
    }

    /// Notes that a process is not recorded, for the explanation of missing events. A process that registers and ends
    /// at once is in no scan.
    fn note_not_reached(&mut self, pid: i32, name: impl FnOnce() -> String, reason: &str) {
        if !matches!(self.options.programs, Programs::All) && !self.findings.sightings.has(pid) {
            self.findings.sightings.add(pid, &name(), None);
        }
        self.findings.sightings.not_reached(pid, reason);
    }

    fn skip(&mut self, (pid, id): (i32, Option<FileId>), user: u32, error: &Error) {
        let reason = match error {
            // The note names the process itself.
            Error::Program { reason, .. } => reason.clone(),
            _ => error.to_string(),
        };
        self.findings.skipped.add((pid, id), user, reason, || identity(pid).name);
    }
}
