//! `sordino events --follow`: what a session records, as it comes.

use super::place::{Life, Place};
use crate::Failure;
use crate::commands::events::{Sieve, Wanted, is_read};
use crate::failure::UNUSABLE;
use crate::trace::Recording;
use sordino_collect::{Directory, Reply, Request, Summary};
use sordino_ctf::read::Stream;
use sordino_dirfd::Dir;
use sordino_event::{Event, Step, Time};
use sordino_report::{Format, Listing};
use sordino_timeline::Item;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// How often the session is asked.
const EACH: Duration = Duration::from_millis(250);
/// Writers read the clock before they publish: what is younger may still be followed by something older. Waits in nanoseconds.
const SETTLED: i64 = 20_000_000;

/// Up to where a stream was shown: a time, and how many of its events have that.
type Shown = Rc<Cell<(Time, usize)>>;

/// Prints a session's events in the order of time until it ends, at most some 300 ms after they happened.
pub(crate) fn follow(
    name: &str,
    mut format: impl FnMut(Time) -> Format,
    wanted: &Wanted,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let place = Place::of(name)?;
    let Some(_lock) = place.lock_to_follow()? else {
        return Err(Failure::new(
            UNUSABLE,
            format!("another process follows session '{name}': end that one first"),
        ));
    };
    let mut follower = Follower::default();
    while let Some(piece) = Piece::next(&place)? {
        let taken = piece.end().and_then(|end| follower.take(&piece.0, &mut format, wanted).map(|()| end));
        drop(piece);
        let end = match taken {
            Ok(end) => end,
            // A recorder that ends takes what it shows with it.
            Err(_) if ends(&place)? => break,
            Err(failure) => return Err(failure),
        };
        if !is_read(follower.print(Time(end.0 - SETTLED), out))? {
            return Ok(());
        }
        std::thread::sleep(EACH);
    }
    if is_read(follower.print(Time(i64::MAX), out))? {
        follower.sieve.iter().for_each(Sieve::report);
    }
    Ok(())
}

/// Whether a session ends within ten seconds: it may have much to complete.
fn ends(place: &Place) -> Result<bool, Failure> {
    for _ in 0..80 {
        if place.life()? != Life::Running {
            return Ok(true);
        }
        std::thread::sleep(EACH / 2);
    }
    Ok(false)
}

/// What a session shows at a time; removed when it is dropped.
struct Piece(PathBuf);

impl Piece {
    /// What came since the last time; `None` if the session has ended.
    fn next(place: &Place) -> Result<Option<Self>, Failure> {
        match place.ask(&Request::Live) {
            Ok(Reply::Written { directory, .. }) => Ok(Some(Self(directory))),
            Ok(other) => {
                Err(Failure::new(UNUSABLE, format!("the session's recorder is another sordino: {other:?}")))
            }
            Err(_) if ends(place)? => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// When it was put together.
    fn end(&self) -> Result<Time, Failure> {
        let summary = Summary::read(&Directory::open(&self.0)?)?;
        Ok(Time((summary.begin_ns + summary.duration_ns) as i64))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let _ = Dir::remove(&self.0);
    }
}

/// What was printed, and what is yet to be.
#[derive(Default)]
struct Follower {
    /// By the stream's file in its recording.
    shown: HashMap<PathBuf, Shown>,
    /// Lines that wait until nothing older can come.
    held: Vec<(Time, Vec<u8>)>,
    begun: bool,
    /// What has passed so far.
    sieve: Option<Sieve>,
}

impl Follower {
    /// Takes what is new.
    fn take(
        &mut self,
        path: &Path,
        format: &mut impl FnMut(Time) -> Format,
        wanted: &Wanted,
    ) -> Result<(), Failure> {
        let recording = Recording::open(Some(path))?;
        // Programs that have such events may come yet.
        if let (None, Err(failure)) = (&self.sieve, wanted.check(&recording.classes)) {
            message!("sordino: nothing to list so far: {}", failure.text());
        }
        let mut sieve = wanted.sieve(&recording.classes);
        self.sieve.iter().for_each(|before| sieve.continues(before));
        let listing = Listing::new(&recording.classes, format(recording.span().0));
        let mut listing = if self.begun { listing.continued() } else { listing };
        let mut trace = recording.super_trace_of(|stream| news(stream, self.shown_of(path, stream)));
        while let Some(item) = trace.next().map_err(Failure::from)? {
            let time = match &item {
                Item::Event(moment) => moment.event.time,
                Item::Loss(loss) => loss.from,
                Item::Disorder(_) => continue,
            };
            if !sieve.passes(&item) {
                continue;
            }
            let mut line = Vec::new();
            listing.write(&item, &mut line)?;
            self.begun = true;
            self.held.push((time, line));
        }
        drop(trace);
        self.sieve = Some(sieve);
        // Programs that have ended are not in it.
        self.shown.retain(|file, _| file.parent().is_some_and(|trace| path.join(trace).exists()));
        recording.close()
    }

    /// Up to where a stream was shown; `None` if it says what there was before.
    fn shown_of(&mut self, recording: &Path, stream: &Stream) -> Option<Shown> {
        let file = stream.files().next()?;
        let file = file.strip_prefix(recording).unwrap_or(file);
        let is_state = ["statedump", "recorder", "symbols", "steal"].iter().any(|name| file.ends_with(name));
        let shown = || Rc::new(Cell::new((Time(i64::MIN), 0)));
        (!is_state).then(|| Rc::clone(self.shown.entry(file.to_owned()).or_insert_with(shown)))
    }

    /// Prints what is older than `until`.
    fn print(&mut self, until: Time, out: &mut impl Write) -> std::io::Result<()> {
        self.held.sort_by_key(|(time, _)| *time);
        let ready = self.held.partition_point(|(time, _)| *time < until);
        for (_, line) in self.held.drain(..ready) {
            out.write_all(&line)?;
        }
        out.flush()
    }
}

/// What a stream has behind what was shown of it; within a stream, events come in the order of time.
fn news(stream: &Stream, shown: Option<Shown>) -> impl FnMut(&mut Event) -> Result<Step, sordino_ctf::Error> {
    let mut events = stream.events();
    let before = shown.as_ref().map(|shown| shown.get());
    let mut at = (Time(i64::MIN), 0);
    move |event| {
        let (Some(before), Some(shown)) = (before, &shown) else { return Ok(Step::End) };
        loop {
            match events.next(event)? {
                Step::Event => {
                    at = (event.time, if event.time == at.0 { at.1 + 1 } else { 1 });
                    if at > before {
                        shown.set(at);
                        return Ok(Step::Event);
                    }
                }
                Step::Loss(loss) if loss.to <= before.0 => {}
                step => return Ok(step),
            }
        }
    }
}
