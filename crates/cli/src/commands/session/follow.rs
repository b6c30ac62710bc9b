//! The live reader of a session, `sordino events --follow`.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::recording::{Recording, describes_state};
use crate::terminal::is_read;
use sordino_collect::{Directory, Summary};
use sordino_ctf::read::Stream;
use sordino_dirfd::Dir;
use sordino_event::{Event, Nanos, Step, Time};
use sordino_manager::{Life, SessionPlace};
use sordino_reading::{AddressNames, Symbols};
use sordino_report::{Listing, ListingFormat};
use sordino_selection::{EventFilter, EventRules};
use sordino_session::{LIVE_PATIENCE, Reply, Request};
use sordino_timeline::Item;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Interval at which new events are requested from the session.
const EACH: Duration = Duration::from_millis(250);
/// Age that events must have before they are printed, in nanoseconds: a writer reads the clock before it publishes, so
/// an older event may be published after a younger one.
const SETTLED: i64 = 20_000_000;

/// The position up to which a stream was read: a time, and the number of its events at that time.
type ReadPosition = Rc<Cell<(Time, usize)>>;

/// Prints a session's events in order of time until it ends, at most some 300 ms after they happened.
pub(crate) fn follow(
    name: &str,
    mut format: impl FnMut(Time) -> ListingFormat,
    rules: &EventRules,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let place = SessionPlace::of(name)?;
    let Some(_lock) = place.lock_to_follow()? else {
        return Err(Failure::new(
            UNUSABLE,
            format!("another process follows session '{name}': end that one first"),
        ));
    };
    let (mut reader, mut before) = (LiveReader::default(), None);
    while let Some(piece) = NewEvents::next(&place)? {
        let taken = piece.end().and_then(|end| reader.take(&piece.0, &mut format, rules).map(|()| end));
        drop(piece);
        let end = match taken {
            Ok(end) => end,
            // A recorder that ends removes the directory that is being read.
            Err(_) if ends(&place)? => break,
            Err(failure) => return Err(failure),
        };
        if let Some(gap) = before.replace(end).map(|before| end - before).filter(|gap| is_gap(*gap)) {
            message!("sordino: events of {gap} may be missing here: this reader or the recorder was stopped");
        }
        if !is_read(reader.print(Time(end.0 - SETTLED), out))? {
            return Ok(());
        }
        std::thread::sleep(EACH);
    }
    if is_read(reader.print(Time(i64::MAX), out))? {
        reader.sieve.iter().for_each(EventFilter::report);
    }
    Ok(())
}

/// Returns true if the recorder may have ceased to keep records in a time without a request.
fn is_gap(time: Nanos) -> bool {
    u64::try_from(time.0).is_ok_and(|time| Duration::from_nanos(time) > LIVE_PATIENCE)
}

/// Returns true if a session ends within ten seconds: it may have much to complete.
fn ends(place: &SessionPlace) -> Result<bool, Failure> {
    for _ in 0..80 {
        if place.life()? != Life::Running {
            return Ok(true);
        }
        std::thread::sleep(EACH / 2);
    }
    Ok(false)
}

/// A directory with a session's newest events; removed when it is dropped.
struct NewEvents(PathBuf);

impl NewEvents {
    /// Requests the events since the last request; `None` if the session has ended.
    fn next(place: &SessionPlace) -> Result<Option<Self>, Failure> {
        match place.request(&Request::Live) {
            Ok(Reply::Written { directory, .. }) => Ok(Some(Self(directory))),
            Ok(other) => Err(Failure::new(
                UNUSABLE,
                format!("the session's recorder is another version of sordino: it replied {other:?}"),
            )),
            Err(_) if ends(place)? => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the time at which the recorder made the directory.
    fn end(&self) -> Result<Time, Failure> {
        let summary = Summary::read(&Directory::open(&self.0)?)?;
        Ok(Time((summary.begin_ns + summary.duration_ns) as i64))
    }
}

impl Drop for NewEvents {
    fn drop(&mut self) {
        let _ = Dir::remove(&self.0);
    }
}

/// The state of the live reader: the events that were read, and those to be printed.
#[derive(Default)]
struct LiveReader {
    /// The position up to which each stream was read, by its file in the recording.
    shown: HashMap<PathBuf, ReadPosition>,
    /// Lines that are held until no older one can come.
    held: Vec<(Time, Vec<u8>)>,
    begun: bool,
    /// The filter of the previous directory, with its counts.
    sieve: Option<EventFilter>,
    /// The symbols of programs' files, which all directories share.
    symbols: Symbols,
}

impl LiveReader {
    /// Reads the new events of a directory, and holds their lines.
    fn take(
        &mut self,
        path: &Path,
        format: &mut impl FnMut(Time) -> ListingFormat,
        rules: &EventRules,
    ) -> Result<(), Failure> {
        let mut recording = Recording::open(Some(path))?;
        recording.read_symbols_by(self.symbols.clone());
        // Programs with such events may still start.
        if let (None, Err(failure)) = (&self.sieve, rules.check(&recording.classes)) {
            message!("sordino: nothing to list so far: {failure}");
        }
        let mut sieve = rules.filter_of(&recording.classes, recording.facts.clone().without_begin());
        self.sieve.iter().for_each(|before| sieve.continues(before));
        let names = AddressNames::new(&recording);
        let listing = Listing::new(&recording.classes, format(recording.span().0)).naming(names.namer());
        let mut listing = if self.begun { listing.continued() } else { listing };
        let mut trace = recording.super_trace_of(|stream| news(stream, self.shown_of(path, stream)));
        while let Some(item) = trace.next().map_err(Failure::from)? {
            names.take(&item);
            let time = match &item {
                Item::Event(moment) => moment.event.time,
                Item::Loss(loss, _) => loss.from,
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
        // Programs that have ended are not in the directory.
        self.shown.retain(|file, _| file.parent().is_some_and(|trace| path.join(trace).exists()));
        recording.close()
    }

    /// Returns the position up to which a stream was read; `None` if the stream describes the state before recording.
    fn shown_of(&mut self, recording: &Path, stream: &Stream) -> Option<ReadPosition> {
        let file = stream.files().next()?;
        let file = file.strip_prefix(recording).unwrap_or(file);
        let shown = || Rc::new(Cell::new((Time(i64::MIN), 0)));
        (!describes_state(stream)).then(|| Rc::clone(self.shown.entry(file.to_owned()).or_insert_with(shown)))
    }

    /// Prints the lines of events older than `until`.
    fn print(&mut self, until: Time, out: &mut impl Write) -> std::io::Result<()> {
        self.held.sort_by_key(|(time, _)| *time);
        let ready = self.held.partition_point(|(time, _)| *time < until);
        for (_, line) in self.held.drain(..ready) {
            out.write_all(&line)?;
        }
        out.flush()
    }
}

/// Returns the events of a stream after those that were `shown`; within a stream, events are in order of time.
fn news(
    stream: &Stream,
    shown: Option<ReadPosition>,
) -> impl FnMut(&mut Event) -> Result<Step, sordino_ctf::Error> {
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
