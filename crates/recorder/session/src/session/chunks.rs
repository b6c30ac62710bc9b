//! A session's recordings: numbered, completed by another thread and, if written to disk, rotated when due.

use super::bell::Bell;
use super::control::{Asker, Control, Reply, Request};
use super::live;
use super::prepare::chunk;
use super::programs::note_once;
use super::summarise::{is_worth_a_line, summarise};
use super::writer::{Done, Job, Writer};
use super::{Outlet, Session, Sink};
use sordino_collect::Error;
use sordino_collect::chunk::{Chunk, ChunkEnd};
use sordino_collect::convert::raw_bytes;
use sordino_collect::directory::page_file;
use sordino_collect::directory::{Directory, RAW, USER};
use sordino_collect::history::PageFiles;
use sordino_collect::missing::UnwrittenData;
use sordino_collect::options::{Options, Worst};
use sordino_collect::recover::recover;
use sordino_collect::series::{Ground, Kind, Series};
use sordino_collect::shortfall::Shortfall;
use sordino_collect::summary::{State, Summary};
use sordino_collect::watch::Nobody;
use sordino_event::Cpu;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Maximum number of other users' recordings that are read when a session begins.
const MOST_OF_OTHERS: usize = 100;
/// Checking a chunk's size takes at most this fraction (1/500) of a CPU's time.
const SHARE: u32 = 500;
/// Longest time between two checks of the size.
const SIZE_DUE: Duration = Duration::from_secs(5);
/// Time until the next attempt to begin a chunk.
const RETRY: Duration = Duration::from_secs(1);

impl Outlet {
    /// Creates a session's output. Recordings that a killed recorder left are completed.
    pub(super) fn of(options: &Options, ground: Option<&Ground>, bell: &Bell) -> Result<Option<Self>, Error> {
        let (Some(session), Some(ground)) = (&options.session, ground) else { return Ok(None) };
        let kind = if options.geometry.overwrite { Kind::Snapshot } else { Kind::Chunk };
        let series = Series::open(ground, kind);
        let mut writer = Writer::start(bell.clone())?;
        // A killed recorder left one of the last recordings unfinished; a user can have put any number there.
        let older = series.finished().len().saturating_sub(MOST_OF_OTHERS);
        let is_read = |(place, directory): &(usize, &Directory)| *place >= older || directory.is_ours();
        let read = series.finished().enumerate().filter(is_read).map(|(_, directory)| directory);
        for directory in read.filter(|directory| is_unfinished(directory)).cloned() {
            let job = move || match recover(&directory, &mut Nobody) {
                Ok(summary) => Ok((directory, summary)),
                Err(error) => Err(Error::Earlier(Box::new(error))),
            };
            writer.give(Box::new(job), None);
        }
        let control = Control::listen(&session.runtime, bell.clone())?;
        live::clean(&session.runtime);
        Ok(Some(Self {
            series,
            writer,
            control,
            notes: Vec::new(),
            missing: UnwrittenData::default(),
            triggers: 0,
            taken: 0,
            triggered: None,
            unranked: 0,
            badness: HashMap::new(),
            rotated: Instant::now(),
            size_due: Instant::now(),
            not_rotated: None,
            last_snapshot: true,
            enders: Vec::new(),
        }))
    }

    /// Processes the writer's results.
    pub(super) fn take(&mut self, done: Vec<Done>, options: &Options) {
        let Some(session) = &options.session else { return };
        for Done { result, whom } in done {
            let reply = match result {
                Ok((directory, summary)) => {
                    let missing = summary.missing();
                    // Recovered recordings are in the series already, and those for live readers do not belong to it.
                    let is_ours = directory.path().parent() == Some(self.series.path());
                    if is_ours && self.series.finished().all(|known| known.path() != directory.path()) {
                        let old = self.series.finish(directory.clone(), session.keep);
                        old.into_iter().for_each(|directory| self.writer.remove(directory));
                        self.note_rank(&summary);
                        self.keep_worst(options);
                        self.missing.add(missing.clone());
                    }
                    Reply::Written { directory: directory.path().to_owned(), missing }
                }
                Err(error) => {
                    // Earlier recordings do not count as missing from this session.
                    if !matches!(error, Error::Earlier(_)) {
                        self.missing.add_recording(error.to_string());
                    }
                    note_once(&mut self.notes, error.to_string());
                    Reply::Refused { reason: error.to_string() }
                }
            };
            _ = whom.map(|whom| whom.tell(&reply));
        }
    }

    /// Adds a note on a snapshot that could not be ranked.
    fn note_rank(&mut self, summary: &Summary) {
        if summary.rank.as_ref().is_some_and(|rank| rank.value.is_none()) {
            let why = "a snapshot lacks the value of the event that asked for it, and ranks last: see --last and --subbuf-size";
            note_once(&mut self.notes, why.to_owned());
        }
    }

    /// Removes ranked snapshots beyond the number to be kept, the least bad ones. Ranks come from the summaries, which
    /// outlive recorders. Snapshots of other sessions, with another ranking or without a rank, are kept.
    fn keep_worst(&mut self, options: &Options) {
        let worst = options.session.as_ref().and_then(|session| session.snapshots.worst.as_ref());
        let Some(Worst { count, ranking }) = worst else { return };
        let read = |directory: &Directory| {
            let summary = Summary::read(directory).ok().filter(|summary| summary.name == options.name)?;
            summary.rank.filter(|rank| rank.is_by(ranking)).map(|rank| rank.badness())
        };
        let mut ranked = Vec::new();
        for directory in self.series.finished() {
            let badness = self.badness.entry(directory.path().to_owned()).or_insert_with(|| read(directory));
            ranked.extend(badness.map(|badness| (badness, directory.clone())));
        }
        // Among equal ones, the older comes first and is kept.
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (_, directory) in ranked.into_iter().skip(*count) {
            self.badness.remove(directory.path());
            self.series.forget(&directory);
            self.writer.remove(directory);
        }
    }

    /// Waits until everything is written, and replies to the commands that ended the session. Returns notes on errors,
    /// and the missing data.
    pub(super) fn finish(
        mut self,
        last: Option<&Result<(Directory, Summary), Error>>,
        shortfall: &Shortfall,
        options: &Options,
    ) -> (Vec<String>, UnwrittenData) {
        self.notes.clear();
        let done = self.writer.finish();
        self.take(done, options);
        match (last, &options.session) {
            (Some(Ok((last, summary))), Some(session)) => {
                self.missing.add(summary.missing());
                let old = self.series.finish(last.clone(), session.keep);
                old.into_iter().for_each(|directory| self.writer.remove(directory));
            }
            (Some(Err(error)), _) => {
                self.missing.add_recording(error.to_string());
                self.notes.push(error.to_string());
            }
            _ => {}
        }
        let reply = Reply::Ended { missing: self.missing.clone(), shortfall: shortfall.clone() };
        let late = self.control.asked().into_iter();
        let late =
            late.filter(|(request, _)| matches!(request, Request::Stop { .. })).map(|(_, asker)| asker);
        self.enders.into_iter().chain(late).for_each(|ender| ender.tell(&reply));
        options.session.iter().for_each(|session| live::clean(&session.runtime));
        (self.notes, self.missing)
    }
}

/// Returns true if its recorder was killed, or had no room to complete it.
fn is_unfinished(directory: &Directory) -> bool {
    let is_open = |state| matches!(state, State::Recording | State::Incomplete);
    Summary::read(directory).is_ok_and(|summary| is_open(summary.state))
}

impl Session<'_> {
    /// Processes the writer's results since the last call.
    pub(super) fn finish_chunks(&mut self) {
        if let Some(outlet) = &mut self.outlet {
            let done = outlet.writer.done();
            outlet.take(done, self.options);
        }
    }

    /// Begins another chunk when this one is large or old enough. If that fails, the present one continues, and it is
    /// tried again later.
    pub(super) fn rotate_if_due(&mut self) {
        let (Some(session), Some(outlet)) = (&self.options.session, &self.outlet) else { return };
        let is_old = session.rotation.every.is_some_and(|every| outlet.rotated.elapsed() >= every);
        let has_failed = outlet.not_rotated.is_some_and(|failed| failed.elapsed() < RETRY);
        if has_failed || !(is_old || session.rotation.size.is_some_and(|size| self.is_larger_than(size))) {
            return;
        }
        match self.rotate() {
            Ok(job) => self.write(job, None),
            Err(error) => self.tell(format!("the next chunk could not be begun, this one goes on: {error}")),
        }
    }

    /// Returns true if the chunk has reached this size. Its directories are read only when due, because that may take
    /// milliseconds.
    fn is_larger_than(&mut self, size: u64) -> bool {
        let begin = Instant::now();
        if self.outlet.as_ref().is_some_and(|outlet| begin < outlet.size_due) {
            return false;
        }
        let is_larger = self.chunk_bytes() >= size;
        if let Some(outlet) = &mut self.outlet {
            // An interrupted check may have appeared to take long.
            outlet.size_due = begin + (begin.elapsed() * SHARE).min(SIZE_DUE);
        }
        is_larger
    }

    /// Returns the size of the chunk's events in bytes.
    fn chunk_bytes(&self) -> u64 {
        let Sink::Chunk(chunk) = &self.sink else { return 0 };
        chunk.directory.part(USER).map_or(0, |user| user.bytes()) + raw_bytes(&chunk.directory)
    }

    /// Passes a job to the writer; `whom` receives the result.
    pub(super) fn write(&mut self, job: Job, whom: Option<Asker>) {
        if let Some(outlet) = &mut self.outlet {
            outlet.writer.give(job, whom);
        }
    }

    /// Begins another chunk. Returns the job that completes the previous one.
    ///
    /// # Errors
    /// If the next chunk could not be begun; the present one continues.
    pub(super) fn rotate(&mut self) -> Result<Job, Error> {
        let Some(outlet) = &mut self.outlet else { return Err(Error::Kind(self.options.name.clone())) };
        let directory = outlet.series.next().inspect_err(|_| outlet.not_rotated = Some(Instant::now()))?;
        let rotated = self.go_on_in(&directory);
        if let Some(outlet) = &mut self.outlet {
            match &rotated {
                Ok(_) => (outlet.rotated, outlet.not_rotated) = (Instant::now(), None),
                Err(_) => {
                    outlet.not_rotated = Some(Instant::now());
                    outlet.series.take_back(&directory);
                }
            }
        }
        let (before, rest) = rotated?;
        let clock = self.clock.clone();
        Ok(Box::new(move || before.finish(&clock, rest, &mut Nobody)))
    }

    /// Switches all sources to the new chunk, or none: steps that may fail come first, the kernel's files last among
    /// them.
    fn go_on_in(&mut self, directory: &Directory) -> Result<(Chunk, ChunkEnd), Error> {
        if let Sink::Chunk(chunk) = &mut self.sink {
            // At most one delayed dump is in progress at a time.
            chunk.settle_or_note();
        }
        let next = chunk(directory.clone(), &self.template, &self.clock, self.kernel.as_ref())?;
        next.announce()?;
        let traces = self.programs.iter().map(|program| program.trace.put_in(directory, &self.clock));
        let traces = traces.collect::<Result<Vec<_>, _>>()?;
        let kernel = match &mut self.kernel {
            Some(kernel) => kernel.empty(page_files(directory, self.options.cpus.as_slice())?)?,
            None => Vec::new(),
        };
        let Sink::Chunk(chunk) = &mut self.sink else {
            return Err(Error::Kind(self.options.name.clone()));
        };
        let mut before = std::mem::replace(&mut **chunk, next);
        self.kernel_lost = 0;
        for (program, next) in self.programs.iter_mut().zip(traces) {
            let (trace, outputs) = program.go_on_in(next);
            let ends = self.collector.rotate(program.number(), outputs);
            self.has_events |= ends.iter().any(is_worth_a_line);
            let notes = std::mem::take(&mut program.notes);
            before.add(summarise(&trace, notes, ends), trace.without_tracepoints());
        }
        if let Err(error) = self.show_pages_of(directory) {
            self.tell(error.to_string());
        }
        before.summary.shortfall = self.shortfall();
        Ok((before, self.rest(Ok(kernel))))
    }
}

/// Creates the files for the kernel's pages of a chunk.
fn page_files(directory: &Directory, cpus: &[u32]) -> Result<PageFiles, Error> {
    let raw = directory.part(RAW)?;
    let file = |&cpu: &u32| Ok((Cpu(cpu), page_file(&raw, Cpu(cpu)).map_err(Error::output(raw.path()))?));
    cpus.iter().map(file).collect()
}
