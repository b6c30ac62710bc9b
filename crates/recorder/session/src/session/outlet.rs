//! The recordings of a session as a series: numbered, completed by another thread, and removed when they are too many.

use super::bell::Bell;
use super::control::{ControlSocket, Reply, Request, WaitingClient};
use super::live::clean;
use super::writer::{CompletedWrite, WriterThread};
use crate::options::{SeriesOptions, SessionOptions, Worst};
use sordino_collect::Error;
use sordino_collect::directory::Directory;
use sordino_collect::missing::UnwrittenData;
use sordino_collect::recover::recover;
use sordino_collect::series::{Ground, Kind, Series};
use sordino_collect::shortfall::Shortfall;
use sordino_collect::summary::{State, Summary};
use sordino_collect::watch::Nobody;
use sordino_event::Ticks;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// Maximum number of other users' recordings that are read when a session begins.
const MOST_OF_OTHERS: usize = 100;

/// The recordings of a session: their series, the thread that completes them, and requests for them.
pub(super) struct Outlet {
    pub(super) series: Series,
    pub(super) writer: WriterThread,
    pub(super) control: ControlSocket,
    /// Errors of earlier recordings.
    pub(super) notes: Vec<String>,
    /// The data that earlier recordings lack.
    pub(super) missing: UnwrittenData,
    pub(super) triggers: TriggerCounts,
    pub(super) ranks: SnapshotRanks,
    pub(super) rotation: RotationTimes,
    /// True if a flight recorder takes a last snapshot.
    pub(super) last_snapshot: bool,
    /// The clients that wait until all recordings are complete.
    pub(super) enders: Vec<WaitingClient>,
}

/// The automatic triggers for snapshots.
#[derive(Debug, Default)]
pub(super) struct TriggerCounts {
    /// The number of triggers so far.
    pub(super) all: u64,
    /// The number of snapshots taken for them.
    pub(super) taken: u64,
    /// The time of the last snapshot taken for one.
    pub(super) last_taken: Option<Instant>,
}

/// The ranks of snapshots.
#[derive(Debug, Default)]
pub(super) struct SnapshotRanks {
    /// The timestamp from which on events rank a snapshot; earlier ones ranked the last one.
    pub(super) since: Ticks,
    /// Ranks of the finished snapshots, where ranked: each one's summary is read once.
    badness: HashMap<PathBuf, Option<f64>>,
}

/// The times that decide when the next chunk begins.
#[derive(Debug)]
pub(super) struct RotationTimes {
    /// The time at which the present chunk began.
    pub(super) began: Instant,
    /// The time at which the chunk's size is next read.
    pub(super) size_due: Instant,
    /// The time of the last failure to begin the next chunk.
    pub(super) failed: Option<Instant>,
}

impl RotationTimes {
    fn begin() -> Self {
        let now = Instant::now();
        Self { began: now, size_due: now, failed: None }
    }

    /// Records that the next chunk has begun.
    pub(super) fn begin_next(&mut self) {
        (self.began, self.failed) = (Instant::now(), None);
    }
}

impl Outlet {
    /// Creates a session's output. Recordings that a killed recorder left are completed.
    pub(super) fn of(
        options: &SessionOptions,
        ground: Option<&Ground>,
        bell: &Bell,
    ) -> Result<Option<Self>, Error> {
        let (Some(SeriesOptions { runtime, .. }), Some(ground)) = (&options.series, ground) else {
            return Ok(None);
        };
        let kind = if options.recording.geometry.overwrite { Kind::Snapshot } else { Kind::Chunk };
        let series = Series::open(ground, kind);
        let mut writer = WriterThread::start(bell.clone())?;
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
        let control = ControlSocket::listen(runtime, bell.clone())?;
        clean(runtime);
        Ok(Some(Self {
            series,
            writer,
            control,
            notes: Vec::new(),
            missing: UnwrittenData::default(),
            triggers: TriggerCounts::default(),
            ranks: SnapshotRanks::default(),
            rotation: RotationTimes::begin(),
            last_snapshot: true,
            enders: Vec::new(),
        }))
    }

    /// Processes the writer's results.
    pub(super) fn take(&mut self, done: Vec<CompletedWrite>, options: &SessionOptions) {
        let Some(SeriesOptions { keep, .. }) = &options.series else { return };
        for CompletedWrite { result, whom } in done {
            let reply = match result {
                Ok((directory, summary)) => {
                    let missing = summary.missing();
                    // Recovered recordings are in the series already, and those for live readers do not belong to it.
                    let is_ours = directory.path().parent() == Some(self.series.path());
                    if is_ours && self.series.finished().all(|known| known.path() != directory.path()) {
                        let old = self.series.finish(directory.clone(), *keep);
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
            _ = whom.map(|whom| whom.reply(&reply));
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
    fn keep_worst(&mut self, options: &SessionOptions) {
        let worst = options.series.as_ref().and_then(|series| series.snapshots.worst.as_ref());
        let Some(Worst { count, ranking }) = worst else { return };
        let read = |directory: &Directory| {
            let summary =
                Summary::read(directory).ok().filter(|summary| summary.name == options.recording.name)?;
            summary.rank.filter(|rank| rank.is_by(ranking)).map(|rank| rank.badness())
        };
        let mut ranked = Vec::new();
        for directory in self.series.finished() {
            let badness =
                self.ranks.badness.entry(directory.path().to_owned()).or_insert_with(|| read(directory));
            ranked.extend(badness.map(|badness| (badness, directory.clone())));
        }
        // Among equal ones, the older comes first and is kept.
        ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        for (_, directory) in ranked.into_iter().skip(*count) {
            self.ranks.badness.remove(directory.path());
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
        options: &SessionOptions,
    ) -> (Vec<String>, UnwrittenData) {
        self.notes.clear();
        let done = self.writer.finish();
        self.take(done, options);
        match (last, &options.series) {
            (Some(Ok((last, summary))), Some(SeriesOptions { keep, .. })) => {
                self.missing.add(summary.missing());
                let old = self.series.finish(last.clone(), *keep);
                old.into_iter().for_each(|directory| self.writer.remove(directory));
            }
            (Some(Err(error)), _) => {
                self.missing.add_recording(error.to_string());
                self.notes.push(error.to_string());
            }
            _ => {}
        }
        let reply = Reply::Ended { missing: self.missing.clone(), shortfall: shortfall.clone() };
        let late = self.control.requests().into_iter();
        let late =
            late.filter(|(request, _)| matches!(request, Request::Stop { .. })).map(|(_, client)| client);
        self.enders.into_iter().chain(late).for_each(|ender| ender.reply(&reply));
        options.series.iter().for_each(|series| clean(&series.runtime));
        (self.notes, self.missing)
    }
}

/// Returns true if its recorder was killed, or had no room to complete it.
fn is_unfinished(directory: &Directory) -> bool {
    let is_open = |state| matches!(state, State::Recording | State::Incomplete);
    Summary::read(directory).is_ok_and(|summary| is_open(summary.state))
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
