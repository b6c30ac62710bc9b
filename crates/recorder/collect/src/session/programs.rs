//! The session's programs: attaching, recording, detaching.

use super::summarise::{is_worth_a_line, summarise};
use super::{Session, Sink};
use crate::Error;
use crate::discover::{Glance, Hidden, glance, identity, user_of};
use crate::drain::ProgramCopy;
use crate::exit::exit_of;
use crate::intake::{Job, Source, Taken};
use crate::options::Programs;
use crate::program::Traced;
use sordino_clock::Sample;
use sordino_ring::control::FileId;
use std::time::{Duration, Instant};

/// Longest wait for a process that the user named.
const NAMED: Duration = Duration::from_secs(10);
/// Longest wait of a job for another one that attaches to the same area.
const OTHER_JOB: Duration = Duration::from_secs(5);
/// Maximum number of jobs that wait for other jobs.
const MOST_POSTPONED: usize = 1000;
/// Maximum number of programs without room that are counted.
const MOST_UNPLACED: usize = 10_000;

impl Session<'_> {
    /// Attaches to a process that the user named, without which recording does not start. Waits for it, since nothing
    /// is recorded yet.
    pub(super) fn attach_named(&mut self, pid: i32) -> Result<(), Error> {
        let refused = |reason: String| Error::Program { pid, reason };
        let ticket = self.submit_named(pid)?;
        let end = Instant::now() + NAMED;
        loop {
            // Other programs wait for an answer meanwhile.
            self.take_registrations();
            let (mut mine, others): (Vec<Job>, Vec<Job>) =
                self.intake.finished_until(end).into_iter().partition(|job| job.ticket == ticket);
            others.into_iter().for_each(|job| self.take_up(job));
            match mine.pop() {
                Some(job) => return self.take_up_named(job),
                None if Instant::now() >= end => {
                    return Err(refused("it could not be looked into (timed out)".to_owned()));
                }
                None => {}
            }
        }
    }

    /// Submits a process that the user named. Returns the number of its job.
    pub(super) fn submit_named(&mut self, pid: i32) -> Result<u64, Error> {
        let gone = || Error::Program { pid, reason: "there is no such process".to_owned() };
        let user = user_of(pid).ok_or_else(gone)?;
        Ok(self.intake.submit(pid, user, Source::Named))
    }

    pub(super) fn take_up_named(&mut self, job: Job) -> Result<(), Error> {
        let pid = job.pid;
        let refused = |reason: String| Error::Program { pid, reason };
        match job.hidden {
            Some(Hidden::Ended) => return Err(refused("there is no such process".to_owned())),
            Some(hidden) => return Err(refused(hidden.to_string())),
            None => {}
        }
        let is_there = !(job.taken.is_empty() && job.known.is_empty());
        job.taken.into_iter().try_for_each(|taken| self.begin_program(taken))?;
        let reasons = job.refused.into_iter().map(|(_, reason)| reason);
        if let Some(reason) = reasons.chain(job.skipped.into_iter().map(|(_, reason)| reason)).next() {
            return Err(refused(reason));
        }
        if !is_there {
            let Glance { name, has_memory, .. } = glance(pid);
            return Err(refused(match has_memory {
                true => format!("{name} is not linked with sordino, nor is what it has loaded"),
                false => "it has ended, or is a thread of the kernel".to_owned(),
            }));
        }
        self.search.settle_named(pid);
        Ok(())
    }

    /// Records a program that was attached to.
    fn begin_program(&mut self, taken: Taken) -> Result<(), Error> {
        let directory = match &self.sink {
            Sink::Chunk(chunk) => Some(&chunk.directory),
            Sink::Memory(_) => None,
        };
        let before = Sample::take();
        let (program, streams) = Traced::begin(
            taken,
            self.numbered,
            self.options,
            directory,
            &self.clock,
            &self.user,
            &mut self.supply,
        )?;
        self.numbered += 1;
        self.account_for((program.trace.pid, program.id().inode));
        self.collector.order(streams);
        self.watcher.look_at(&program, &self.clock, &before);
        self.skipped.forget(program.trace.pid, program.id());
        self.sightings.take_up(program.trace.pid, &program.trace.identity.name);
        self.programs.push(program);
        self.observe(self.programs.len() - 1, 0);
        Ok(())
    }

    fn skip(&mut self, (pid, id): (i32, Option<FileId>), user: u32, error: &Error) {
        let reason = match error {
            // The note names the process itself.
            Error::Program { reason, .. } => reason.clone(),
            _ => error.to_string(),
        };
        self.skipped.add((pid, id), user, reason, || identity(pid).name);
    }

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
                self.tell("skipped a program in a pid namespace that is not visible here".to_owned());
            } else if self.listener.is_private() || self.includes(pid) {
                // Programs that know a private socket are always recorded.
                let area = (pid, registration.inode);
                let ticket = self.intake.submit(pid, user, Source::Registered(registration));
                self.expected.insert(ticket, area);
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
        }
    }

    /// Processes the jobs that have returned.
    pub(super) fn take_up_finished(&mut self) {
        let finished = self.intake.finished();
        let postponed = std::mem::take(&mut self.postponed);
        finished.into_iter().chain(postponed).for_each(|job| self.take_up(job));
    }

    /// Processes jobs until all have returned, or until `end`.
    pub(super) fn take_up_all_until(&mut self, end: Instant) {
        while self.intake.outstanding() > 0 && Instant::now() < end {
            for job in self.intake.finished_until(end) {
                self.take_up(job);
            }
        }
        std::mem::take(&mut self.postponed).into_iter().for_each(|job| self.take_up(job));
    }

    /// Returns true if the job's answer has to wait: for another job that attaches to the same area, because a program
    /// registers once for each of its modules, or until a large catalogue has been read completely.
    fn is_early(&self, job: &Job) -> bool {
        let is_ready = |id: &FileId| self.programs.iter().any(|known| known.id() == *id && known.is_read());
        matches!(job.source, Source::Registered(_))
            && !job.known.iter().all(is_ready)
            && job.since.elapsed() < OTHER_JOB
            && self.postponed.len() < MOST_POSTPONED
    }

    /// Records the areas that were attached to, and notes those that could not be. A program that has registered then
    /// continues.
    pub(super) fn take_up(&mut self, job: Job) {
        if let Source::Named = job.source {
            return self.take_up_requested(job);
        }
        if let Source::Registered(_) = job.source {
            self.refresh_known(&job.known);
        }
        if self.is_early(&job) {
            return self.postponed.push(job);
        }
        self.expected.remove(&job.ticket);
        let Job { pid, user, mut source, taken, known, skipped, refused, replaced, hidden, .. } = job;
        if let Source::Leaves(_) = source {
            return skipped.into_iter().for_each(|(_, note)| self.tell(note));
        }
        let has_any = !(taken.is_empty() && skipped.is_empty() && refused.is_empty());
        match (&hidden, &source) {
            (Some(Hidden::Ended), _) => {}
            (Some(hidden), _) => self.sightings.not_reached(pid, &hidden.to_string()),
            (None, Source::Observed { .. }) if !has_any && known.is_empty() => {
                self.sightings.looked_into(pid)
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
                if matches!(error, Error::Output { .. }) {
                    is_to_be_seen_again = true;
                    self.note_unplaced(pid);
                }
                self.note_not_reached(pid, || name, &error.to_string());
                self.skip((pid, Some(id)), user, &error);
            }
        }
        let mut unreached = Vec::new();
        for (candidate, reason) in refused {
            let id = candidate.id();
            let is_missing = match &mut source {
                Source::Registered(registration) => {
                    registration.is_answered = true;
                    self.count_refused(pid, &candidate)
                }
                _ => glance(pid).has_memory,
            };
            if is_missing {
                unreached.push((Some(id), reason));
            }
        }
        if let (Source::Registered(registration), false) = (&source, skipped.is_empty()) {
            self.count_unrecorded((pid, registration.inode));
        }
        for (id, reason) in unreached.into_iter().chain(skipped) {
            self.note_not_reached(pid, || identity(pid).name, &reason);
            self.skip((pid, id), user, &Error::Program { pid, reason });
        }
        match &mut source {
            Source::Registered(registration) => {
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
            Source::Observed { incarnation, .. } => {
                self.search.take_back(*incarnation, has_any, is_to_be_seen_again);
            }
            Source::Named | Source::Leaves(_) => {}
        }
    }

    /// Notes that a process is not recorded, for the explanation of missing events. A process that registers and ends
    /// at once is in no scan.
    fn note_not_reached(&mut self, pid: i32, name: impl FnOnce() -> String, reason: &str) {
        if !matches!(self.options.programs, Programs::All) && !self.sightings.has(pid) {
            self.sightings.add(pid, &name(), None);
        }
        self.sightings.not_reached(pid, reason);
    }

    /// Counts a program without room for its trace: its records are missing meanwhile.
    fn note_unplaced(&mut self, pid: i32) {
        let Sink::Chunk(chunk) = &mut self.sink else { return };
        if self.unplaced.len() < MOST_UNPLACED && self.unplaced.insert(pid) {
            chunk.summary.unplaced += 1;
        }
    }

    /// Reads new tracepoints of programs that have registered again.
    fn refresh_known(&mut self, known: &[FileId]) {
        for index in 0..self.programs.len() {
            if known.contains(&self.programs[index].id()) {
                self.refresh_one(index);
            }
        }
    }

    /// Detaches from the programs whose areas a process has replaced by others.
    fn let_go_replaced(&mut self, replaced: &[FileId]) {
        let replaced = self.programs.iter().filter(|program| replaced.contains(&program.id()));
        let replaced: Vec<usize> = replaced.map(|program| program.number()).collect();
        replaced.into_iter().for_each(|number| self.let_go(number));
    }

    /// Reads new tracepoints of all programs.
    pub(super) fn refresh(&mut self) {
        (0..self.programs.len()).for_each(|index| self.refresh_one(index));
    }

    /// Reads new tracepoints of a program.
    fn refresh_one(&mut self, index: usize) {
        let first = self.programs[index].declared().len();
        let refreshed = self.programs[index].refresh(&self.user, &self.clock);
        if self.programs[index].declared().len() > first {
            self.observe(index, first);
        }
        self.note(refreshed);
    }

    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failed |= self.outlet.is_none();
            self.tell(error.to_string());
        }
    }

    /// Adds a note for the readers of the recording.
    pub(super) fn tell(&mut self, note: String) {
        let notes = match (&mut self.sink, &mut self.outlet) {
            (Sink::Chunk(chunk), _) => &mut chunk.summary.notes,
            (Sink::Memory(_), Some(outlet)) => &mut outlet.notes,
            (Sink::Memory(_), None) => return,
        };
        note_once(notes, note);
    }

    /// Handles the end of a process, which may trigger a snapshot.
    pub(super) fn has_gone(&mut self, number: usize) {
        if let Sink::Memory(_) = self.sink {
            // The program may have requested one just before.
            self.collector.look();
            self.take_reports();
        }
        let Some(program) = self.programs.iter().find(|program| program.number() == number) else { return };
        let ends = self.options.session.as_ref().map_or(&[][..], |session| &session.snapshots.ends);
        let exit = (!ends.is_empty()).then(|| exit_of(program));
        if let Some(exit) = exit.filter(|exit| ends.iter().any(|&end| exit.is(end))) {
            let why = format!("{} {exit}", program.trace.identity.name);
            self.ended_badly(&why);
        }
        self.let_go(number);
    }

    /// Reads the rest of a program's rings, and detaches from it.
    pub(super) fn let_go(&mut self, number: usize) {
        let Some(index) = self.programs.iter().position(|program| program.number() == number) else { return };
        self.refresh_one(index);
        let mut program = self.programs.remove(index);
        program.disable();
        self.leave_program(&program);
        if let Sink::Memory(_) = self.sink {
            let copy = self.collector.take(number, self.since(None));
            self.has_events |= copy.as_ref().is_some_and(ProgramCopy::has_any);
            self.detach(&mut program);
            return self.keep(program, copy);
        }
        let streams = self.collector.finish(number);
        self.has_events |= streams.iter().any(is_worth_a_line);
        self.detach(&mut program);
        let Sink::Chunk(chunk) = &mut self.sink else { return };
        let summary = summarise(&program.trace, program.notes, streams);
        chunk.add(summary, program.trace.without_tracepoints());
    }
}

/// Maximum number of notes on events that may be repeated.
const MOST_NOTES: usize = 200;

/// Adds a note unless it is there already; the oldest notes are dropped for new ones.
pub(super) fn note_once(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
        notes.drain(..notes.len().saturating_sub(MOST_NOTES));
    }
}
