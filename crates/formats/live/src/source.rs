//! The recording that is watched: a session, or a directory.

use crate::Error;
use crate::reader::{PartBounds, PartReader};
use crate::session::{LiveSession, Piece, SessionReader, Silence};
use sordino_collect::{Directory, Kind, State, Summary, recordings};
use sordino_event::text::count;
use sordino_event::{Nanos, Time};
use sordino_filter::condition::Expression;
use sordino_reading::OpenRecording;
use sordino_session::LIVE_PATIENCE;
use sordino_watch::{StretchTime, Tally};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of events of a session that are read for each stretch.
const EVENTS_MAX: u64 = 50_000;
/// Minimum age of a session's events, in nanoseconds: older events may still follow a younger one.
const SETTLED: i64 = 20_000_000;
/// Time in nanoseconds by which an event may be later than the end of its part: the conversion of clocks has errors.
const TOLERANCE: i64 = 1_000_000_000;

/// The recording that is watched, and its state of reading.
pub struct GrowingRecording {
    kind: SourceKind,
    reader: PartReader,
    /// The time up to which a session's events were read.
    end: Option<Time>,
    /// The time at which the last stretch ended.
    last: Instant,
    /// Notes of the recorder on its pieces.
    notes: Vec<String>,
    /// The number of gaps between the pieces of a session.
    gaps: u64,
}

enum SourceKind {
    Session(LiveSession, SessionReader),
    Directory(PathBuf),
}

/// The state of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingProgress {
    /// The recording goes on.
    Growing,
    /// The session has ended.
    Ended,
    /// The recording is complete.
    Complete,
    /// Reading was stopped before its end.
    Interrupted,
}

impl GrowingRecording {
    /// Finds a running session of this name, or else a directory.
    ///
    /// # Errors
    /// There is neither, or the session's directory can't be used.
    pub fn open(what: &str) -> Result<Self, Error> {
        let kind = match LiveSession::find(what) {
            Some(session) if session.is_running() => {
                SourceKind::Session(session.clone(), SessionReader::register(session)?)
            }
            None if Path::new(what).is_dir() => SourceKind::Directory(what.into()),
            Some(_) if Path::new(what).is_dir() => SourceKind::Directory(what.into()),
            Some(_) => return Err(Error::NotRunning(what.to_owned())),
            None => return Err(Error::Unknown(what.to_owned())),
        };
        let (reader, last, notes) = (PartReader::default(), Instant::now(), Vec::new());
        Ok(Self { kind, reader, end: None, last, notes, gaps: 0 })
    }

    /// Returns the session, if it is one.
    pub fn session(&self) -> Option<&LiveSession> {
        match &self.kind {
            SourceKind::Session(session, _) => Some(session),
            SourceKind::Directory(_) => None,
        }
    }

    /// Returns the directory, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            SourceKind::Session(..) => None,
            SourceKind::Directory(directory) => Some(directory),
        }
    }

    /// Returns notes on parts that could not be read.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let gaps = (self.gaps > 0).then(|| {
            format!("{} in what this view got, because it was stopped or too slow", count(self.gaps, "gap"))
        });
        let silence = self.silence().map(|silence| match silence {
            Silence::Recorder => "the recorder does not reply: it is stopped, or waits for a disk",
            Silence::Reader => "another reader has the session and hands nothing on: end it, or let it go on",
        });
        let silence = silence.map(ToOwned::to_owned).into_iter();
        silence.chain(gaps).chain(self.reader.problems.iter().chain(&self.notes).cloned())
    }

    /// Returns true if the session's recorder has not replied for some seconds.
    pub fn has_no_answer(&self) -> bool {
        self.silence() == Some(Silence::Recorder)
    }

    fn silence(&self) -> Option<Silence> {
        match &self.kind {
            SourceKind::Session(_, session_reader) => session_reader.silence(),
            SourceKind::Directory(_) => None,
        }
    }

    /// Reads the events since the last call, and ends a stretch. Reading stops when `is_stopped` returns true, which is
    /// called every few thousand events with the nanoseconds of a directory that were read, and with all of them.
    ///
    /// # Errors
    /// The recorder refuses to reply, or a recording can't be opened.
    pub fn advance(
        &mut self,
        tally: &mut Tally,
        condition: Option<&Expression>,
        is_stopped: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ReadingProgress, Error> {
        match &self.kind {
            SourceKind::Session(session, _) => {
                let session = session.clone();
                match self.advance_session(tally, condition) {
                    Ok(()) => Ok(ReadingProgress::Growing),
                    // A recorder that ends removes the directory that is being read.
                    Err(_) if !session.is_running() => Ok(ReadingProgress::Ended),
                    Err(failure) => Err(failure),
                }
            }
            SourceKind::Directory(path) => {
                let path = path.clone();
                self.advance_directory(&path, tally, condition, is_stopped)
            }
        }
    }

    fn advance_session(&mut self, tally: &mut Tally, condition: Option<&Expression>) -> Result<(), Error> {
        let SourceKind::Session(_, session_reader) = &mut self.kind else { return Ok(()) };
        let (begin, mut covered) = (self.end, Nanos::ZERO);
        let pieces = session_reader.pieces()?;
        let mut budget = EVENTS_MAX;
        for piece in &pieces {
            let summary = Summary::read(&Directory::open(&piece.path)?)?;
            let end = end_of(&summary);
            let (until, future) = (end - Nanos(SETTLED), end + Nanos(TOLERANCE));
            let notes = summary.notes.iter().filter(|note| !self.notes.contains(note)).cloned();
            self.notes.extend(notes.collect::<Vec<_>>());
            let before = self.end.replace(until);
            let from = before.filter(|before| !is_behind_gap(piece, *before, until));
            let bounds = PartBounds { until, future, most: budget, has_state: false, is_final: true };
            let Some(from) = from else {
                if let Some(before) = before {
                    self.gaps += 1;
                    self.reader.lose(before, until, tally);
                }
                // This piece reaches back by a different time on each CPU: it shows the state of the machine.
                let recording = OpenRecording::open(Some(&piece.path))?;
                let bounds = PartBounds { most: EVENTS_MAX, ..bounds };
                self.reader.read(recording, bounds, &mut Tally::default(), None, &mut |_, _| false);
                session_reader.remove(piece);
                continue;
            };
            if budget == 0 {
                self.reader.leave_out(from, until, tally);
            } else {
                let recording = OpenRecording::open(Some(&piece.path))?;
                let read = self.reader.read(recording, bounds, tally, condition, &mut |_, _| false);
                budget = budget.saturating_sub(read.count);
                covered += read.stopped.unwrap_or(until).max(from) - from;
            }
            session_reader.remove(piece);
        }
        if let Some((begin, end)) = begin.zip(self.end).filter(|_| !pieces.is_empty()) {
            tally.end_stretch(end, StretchTime { elapsed: end - begin, covered });
        }
        Ok(())
    }

    fn advance_directory(
        &mut self,
        path: &Path,
        tally: &mut Tally,
        condition: Option<&Expression>,
        is_stopped: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ReadingProgress, Error> {
        let is_growing = is_growing(path);
        if !is_growing {
            // Events that were converted at the end, such as the kernel's, are older than the events that were read.
            (self.reader, *tally) = (PartReader::default(), Tally::default());
        }
        let recording = OpenRecording::open(Some(path))?;
        let span = recording.span();
        let most = if is_growing { EVENTS_MAX } else { u64::MAX };
        let future = if is_growing { now() + Nanos(TOLERANCE) } else { future_of(path) };
        let bounds = PartBounds { until: Time::MAX, future, most, has_state: true, is_final: !is_growing };
        let read = self.reader.read(recording, bounds, tally, condition, is_stopped);
        if read.is_interrupted {
            return Ok(ReadingProgress::Interrupted);
        }
        let from = self.end.replace(span.1).unwrap_or(span.0);
        let time = match is_growing {
            true => {
                let elapsed = Nanos::from(self.last.elapsed());
                StretchTime {
                    elapsed,
                    covered: share_of(elapsed, (from, read.stopped.unwrap_or(span.1), span.1)),
                }
            }
            false => {
                let whole = tally.span().map_or(Nanos::ZERO, |(first, last)| last - first);
                StretchTime { elapsed: whole, covered: whole }
            }
        };
        self.last = Instant::now();
        tally.end_stretch(tally.span().map_or(span.1, |(_, last)| last), time);
        Ok(if is_growing { ReadingProgress::Growing } else { ReadingProgress::Complete })
    }
}

/// Returns true if records are missing between the time up to which pieces were read and this piece, which reaches up
/// to `until`: some were not handed on, or the recorder had ceased to keep them.
fn is_behind_gap(piece: &Piece, before: Time, until: Time) -> bool {
    let kept = i64::try_from(LIVE_PATIENCE.as_nanos()).unwrap_or(i64::MAX);
    piece.follows_gap || (until - before).0 > kept
}

fn end_of(summary: &Summary) -> Time {
    Time(i64::try_from(summary.begin_ns.saturating_add(summary.duration_ns)).unwrap_or(i64::MAX))
}

/// Returns a time that no event of a complete recording has: one after its end, if that is known.
fn future_of(path: &Path) -> Time {
    let summary = Directory::open(path).and_then(|directory| Summary::read(&directory));
    let finished = summary.ok().filter(|summary| summary.state == State::Finished);
    finished.map_or(Time::MAX, |summary| end_of(&summary) + Nanos(TOLERANCE))
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Returns the part of `time` that is proportional to the stretch from the first to the second time, within that from
/// the first to the third.
fn share_of(time: Nanos, (from, stopped, to): (Time, Time, Time)) -> Nanos {
    let (read, whole) = (i128::from((stopped - from).0.max(0)), i128::from((to - from).0));
    match whole > 0 {
        true => Nanos((i128::from(time.0) * read.min(whole) / whole) as i64),
        false => time,
    }
}

/// Returns true if a directory is a recording in progress, or a session's directory whose last chunk is one.
fn is_growing(path: &Path) -> bool {
    let is_open = |directory: &Directory| {
        Summary::read(directory).is_ok_and(|summary| summary.state == State::Recording)
    };
    let own = Directory::open(path).is_ok_and(|directory| is_open(&directory));
    own || recordings(path, Kind::Chunk).last().is_some_and(is_open)
}
