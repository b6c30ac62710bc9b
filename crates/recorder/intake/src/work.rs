//! The steps of attaching to one process's areas.

use super::accounts::is_trusted;
use super::hold::{Attach, Candidate, Taken};
use super::job::{FoundAreas, Job, JobSource, StepOutcome};
use super::lane::{IntakeState, Lane};
use super::ledger::NoClaim;
use crate::code::MappedCode;
use crate::registration::Whereabouts;
use sordino_inspect::discover::{Found, areas, is_command_of_ours, user_of};
use sordino_proc::file::of_process;
use sordino_proc::maps::MappedRange;
use sordino_ring::area::control::{FileId, PATIENCE, Program, Refusal};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
/// Longest time for finding a process's areas: reading `/proc` and vetting files.
const FINDING: Duration = Duration::from_secs(2);
/// Longest time for detaching from a program, which frees its rings' memory.
const LETTING_GO: Duration = Duration::from_secs(2);
/// The number of checks of a process after which an incomplete area is an error: the program may have been interrupted
/// while it created the area.
pub const LOOKS_UNTIL_MADE: u8 = 3;

/// The parameters of a search, copied, while the job itself is stored where it can be given up.
struct SearchParameters {
    pid: i32,
    account: u32,
    /// The user with which a scan found the process.
    seen_user: Option<u32>,
    whereabouts: Option<Whereabouts>,
    /// True to ignore commands of `sordino` itself.
    skip_ours: bool,
    /// True if incomplete areas are not an error yet.
    may_be_incomplete: bool,
}

#[derive(Default)]
struct SearchResult {
    todo: VecDeque<Candidate>,
    found: FoundAreas,
}

impl Job {
    fn search(&self, shared: &IntakeState) -> SearchParameters {
        SearchParameters {
            pid: self.pid,
            account: self.account,
            seen_user: matches!(self.source, JobSource::Scanned { .. }).then_some(self.user),
            whereabouts: match &self.source {
                JobSource::Registered(registration) => Some(registration.whereabouts()),
                _ => None,
            },
            skip_ours: shared.wishes.skip_ours && !matches!(self.source, JobSource::Named),
            may_be_incomplete: matches!(self.source, JobSource::Scanned { looks, .. } if looks < LOOKS_UNTIL_MADE),
        }
    }

    /// Performs the job's steps until it is complete or a lock is held.
    pub(super) fn proceed(mut self, lane: &Lane, generation: u64, shared: &IntakeState) -> StepOutcome {
        if let JobSource::Leaves(detachment) = &self.source {
            let detachment = detachment.clone();
            let retry = || detachment.retry(false);
            let Ok((mut job, ended)) = lane.guard(generation, self, LETTING_GO, retry) else {
                return StepOutcome::GivenUp;
            };
            let Some(note) = ended else { return StepOutcome::Locked(job) };
            job.found.skipped.extend(note.map(|note| (None, note)));
            return StepOutcome::Done(job);
        }
        if let JobSource::Code(names_functions) = self.source {
            let pid = self.pid;
            let read = lane.guard(generation, self, FINDING, || MappedCode::of(pid, names_functions));
            return match read {
                Ok((job, code)) => StepOutcome::Done(Self { code: Some(code), ..job }),
                Err(_) => StepOutcome::GivenUp,
            };
        }
        if self.todo.is_none() {
            let search = self.search(shared);
            let Ok((job, findings)) = lane.guard(generation, self, FINDING, || search.run(shared)) else {
                return StepOutcome::GivenUp;
            };
            self = job;
            (self.todo, self.found) = (Some(findings.todo), findings.found);
            if self.todo.as_ref().is_some_and(|todo| !todo.is_empty()) {
                return StepOutcome::Opened(self);
            }
        }
        while let Some(candidate) = self.todo.as_mut().and_then(VecDeque::pop_front) {
            let (wishes, patience) = (&shared.wishes, candidate.patience(&shared.wishes));
            self.attaching = Some(candidate.id());
            let attached = match lane.guard(generation, self, patience, || candidate.attach(wishes)) {
                Ok((job, attached)) => {
                    self = job;
                    attached
                }
                Err(late) => {
                    if let Some(Attach::Taken(taken)) = late {
                        taken.let_go();
                    }
                    return StepOutcome::GivenUp;
                }
            };
            self.attaching = None;
            match attached {
                Attach::Taken(taken) => {
                    let ran_before = !matches!(self.source, JobSource::Registered(_));
                    self.taken.push(Taken { ran_before, ..*taken });
                    let Some(job) = self.make_present(lane, generation) else { return StepOutcome::GivenUp };
                    self = job;
                }
                Attach::Locked(candidate) => {
                    let end = *self.until.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if Instant::now() < end {
                        self.todo.get_or_insert_default().push_front(candidate);
                        return StepOutcome::Locked(self);
                    }
                    self.refused.push((candidate, Refusal::Locked.to_string()));
                }
                Attach::Refused(candidate, reason) => self.refused.push((candidate, reason)),
            }
        }
        StepOutcome::Done(self)
    }

    /// Makes the pages of the last attached area present.
    fn make_present(mut self, lane: &Lane, generation: u64) -> Option<Self> {
        let pid = self.pid;
        let Some(last) = self.taken.last_mut() else { return Some(self) };
        let pages = last.pages();
        if !lane.may_wait_for_pages() {
            last.notes.push("its pages were not made present: it may fault on them".to_owned());
            return Some(self);
        }
        let is_trusted = is_trusted(self.account);
        let present = lane.guard(generation, self, pages.patience(), || pages.make_present(pid, is_trusted));
        let (mut job, note) = present.ok()?;
        if let (Some(last), Some(note)) = (job.taken.last_mut(), note) {
            last.notes.push(note);
        }
        Some(job)
    }
}

impl SearchParameters {
    fn run(&self, shared: &IntakeState) -> SearchResult {
        let mut findings = SearchResult::default();
        if self.skip_ours && is_command_of_ours(self.pid) {
            return findings;
        }
        let found = match &self.whereabouts {
            Some(whereabouts) => whereabouts.area().map(|found| vec![found]),
            None => areas(self.pid),
        };
        // Its user has changed since: the next scan finds it, with that user's limits.
        if self.seen_user.is_some_and(|user| user_of(self.pid) != Some(user)) {
            return findings;
        }
        match found {
            Ok(found) => found.into_iter().for_each(|found| self.look_at(found, shared, &mut findings)),
            Err(hidden) => findings.found.hidden = Some(hidden),
        }
        if !findings.todo.is_empty() {
            findings.found.replaced = self.replaced(shared, &findings.todo);
        }
        findings
    }

    /// Returns older areas of the process that are no longer mapped: it may have got the new ones by exec.
    fn replaced(&self, shared: &IntakeState, new: &VecDeque<Candidate>) -> Vec<FileId> {
        let mut older = shared.ledger.of_process(self.pid);
        older.retain(|id| new.iter().all(|candidate| candidate.id() != *id));
        if older.is_empty() {
            return older;
        }
        let maps = of_process(self.pid, "maps").unwrap_or_default();
        // Its first thread has ended, which proves nothing about the others.
        if maps.is_empty() {
            return Vec::new();
        }
        let mapped: HashSet<u64> =
            maps.lines().filter_map(|line| Some(MappedRange::parse(line)?.inode)).collect();
        older.retain(|id| !mapped.contains(&id.inode));
        older
    }

    fn look_at(&self, found: Found, shared: &IntakeState, findings: &mut SearchResult) {
        let id = found.id;
        let claim = match shared.ledger.claim(id, self.pid, self.account, shared.wishes.rings()) {
            Ok(claim) => claim,
            Err(NoClaim::Known) => return findings.found.known.push(id),
            Err(NoClaim::TooMany(reason)) => return findings.found.skipped.push((Some(id), reason)),
        };
        match Program::open(&found.file) {
            Ok(mut program) if program.id() == id => {
                if !is_trusted(self.account) {
                    program.distrust();
                }
                let prepared = shared.prepared.take(id);
                findings.todo.push_back(Candidate { pid: self.pid, program, claim, prepared });
            }
            Ok(_) => {}
            Err(Refusal::Unsealed | Refusal::NoArea) if self.may_be_incomplete => {}
            Err(refusal) => findings.found.skipped.push((Some(id), refusal.to_string())),
        }
    }
}
