//! Reads the parts of a recording that grows, each event once, and adds them to the tally.

use sordino_ctf::read::Stream;
use sordino_event::text::with_causes;
use sordino_event::{Class, Classes, Domain, Event, Step, Time};
use sordino_filter::condition::Expression;
use sordino_query::SpanCondition;
use sordino_reading::{OpenRecording, Symbols, describes_state};
use sordino_timeline::{Item, System};
use sordino_watch::Tally;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The position up to which a stream was read: a time, and the number of its events at that time.
type Position = Rc<Cell<(Time, usize)>>;
/// Events that are not settled yet.
type UnsettledEvents = Rc<RefCell<Vec<Event>>>;
/// Traces with events whose times lie in the future.
type Ahead = Rc<RefCell<BTreeSet<PathBuf>>>;
/// A source of the super-trace.
type BoxedSource<'a> = Box<dyn FnMut(&mut Event) -> Result<Step, sordino_ctf::Error> + 'a>;

/// Maximum number of problems that are kept.
const PROBLEMS_MAX: usize = 3;
/// Number of items between two checks for the end of reading.
const EACH: u64 = 1 << 16;

/// The state of reading: positions in streams, and events that are held until older ones of other CPUs have been read.
#[derive(Default)]
pub(crate) struct PartReader {
    positions: HashMap<PathBuf, Position>,
    /// Events that are held until older ones have been read, each with its class.
    held: Vec<(Event, Rc<Class>)>,
    system: System,
    /// The time up to which everything was read or left out.
    floor: Option<Time>,
    /// The symbols of programs' files, for conditions on functions.
    symbols: Symbols,
    /// The reasons why parts could not be read, the first few.
    pub(crate) problems: Vec<String>,
}

/// Bounds of the events that are read of a part.
#[derive(Clone, Copy)]
pub(crate) struct PartBounds {
    /// Events from this time on are held for the next part.
    pub(crate) until: Time,
    /// Time before which the part was written: events with this time or a later one are invalid, and left out.
    pub(crate) future: Time,
    /// Maximum number of events; later ones are left out.
    pub(crate) most: u64,
    /// True if the description of the machine's state in the part is read, too.
    pub(crate) has_state: bool,
    /// True if the part is complete.
    pub(crate) is_final: bool,
}

/// The result of reading a part.
#[derive(Clone, Copy)]
pub(crate) struct PartRead {
    /// The number of events that were read.
    pub(crate) count: u64,
    /// The time at which it stopped, if there were too many events.
    pub(crate) stopped: Option<Time>,
    /// True if it was to stop before the end.
    pub(crate) is_interrupted: bool,
}

impl PartReader {
    /// Reads the new events of a part of a recording, until `is_stopped` returns true. It gets the nanoseconds that
    /// were read, and those of the part.
    pub(crate) fn read(
        &mut self,
        mut recording: OpenRecording,
        bounds: PartBounds,
        tally: &mut Tally,
        condition: Option<&Expression>,
        is_stopped: &mut dyn FnMut(u64, u64) -> bool,
    ) -> PartRead {
        let (held, ahead) = (UnsettledEvents::default(), Ahead::default());
        let waiting = std::mem::take(&mut self.held);
        let waiting = classified(waiting, &mut recording);
        let path = recording.path.clone();
        recording.read_symbols_by(self.symbols.clone());
        let condition = condition
            .map(|expression| SpanCondition::new(expression, &recording.classes, recording.facts.clone()));
        let news = recording.streams().iter().filter(|stream| bounds.has_state || !describes_state(stream));
        let sources: Vec<BoxedSource<'_>> = news
            .map(|stream| {
                let aside = (Rc::clone(&held), Rc::clone(&ahead));
                news_of(stream, self.position(&path, stream), bounds, aside)
            })
            .chain([events(waiting)])
            .collect();
        let system = std::mem::take(&mut self.system);
        let mut trace = recording.super_trace_after(system, sources);
        tally.begin_part(&recording.classes, trace.recorded());
        let (mut count, mut items, mut problems) = (0, 0_u64, Vec::new());
        let (first, last) = recording.span();
        let mut at = first;
        let since_begin = |time: Time| (time - first).0.max(0).cast_unsigned();
        let mut is_interrupted;
        let stopped = loop {
            items += 1;
            is_interrupted = items.is_multiple_of(EACH) && is_stopped(since_begin(at), since_begin(last));
            if is_interrupted {
                break None;
            }
            let item = match trace.next() {
                Ok(Some(item)) => item,
                Ok(None) => break None,
                Err(error) => {
                    problems.push(with_causes(&error));
                    continue;
                }
            };
            tally.take(&item, condition.as_ref());
            if let Item::Event(moment) = item {
                count += 1;
                at = moment.event.time;
                if count >= bounds.most {
                    break Some(moment.event.time);
                }
            }
        };
        self.system = trace.into_system();
        self.held = with_classes(held.take(), &recording.classes);
        if let Some(at) = stopped {
            self.leave_out(at, bounds.until, tally);
        }
        // Programs that have ended are not in the part.
        self.positions.retain(|file, _| file.parent().is_some_and(|trace| path.join(trace).exists()));
        problems.extend(recording.problems().iter().filter(|_| bounds.is_final).cloned());
        problems.extend(
            ahead.take().iter().map(|trace| {
                format!("{}: events whose times lie in the future are left out", trace.display())
            }),
        );
        self.note(problems);
        PartRead { count, stopped, is_interrupted }
    }

    fn note(&mut self, problems: Vec<String>) {
        for problem in problems {
            if self.problems.len() < PROBLEMS_MAX && !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
    }

    /// Leaves out the events between two times.
    pub(crate) fn leave_out(&mut self, from: Time, until: Time, tally: &mut Tally) {
        tally.skip(from, until);
        self.held.clear();
        self.positions.clear();
        self.floor = Some(until);
    }

    /// Skips a gap without data between two times; the next part is read like the first one.
    pub(crate) fn lose(&mut self, from: Time, until: Time, tally: &mut Tally) {
        self.leave_out(from, until, tally);
        self.floor = None;
    }

    fn position(&mut self, recording: &Path, stream: &Stream) -> Position {
        let file = stream.files().next().unwrap_or(Path::new(""));
        let file = file.strip_prefix(recording).unwrap_or(file);
        let begin = self.floor.map_or((Time::MIN, 0), |floor| (floor, usize::MAX));
        Rc::clone(self.positions.entry(file.to_owned()).or_insert_with(|| Rc::new(Cell::new(begin))))
    }
}

/// Maps events of an earlier part to the classes of this one. Adds classes that this part lacks.
fn classified(held: Vec<(Event, Rc<Class>)>, recording: &mut OpenRecording) -> Vec<Event> {
    let classes = recording.classes.iter().map(|(id, class)| ((class.domain, class.name.clone()), id));
    let mut known: HashMap<(Domain, String), _> = classes.collect();
    let mut events: Vec<Event> = Vec::with_capacity(held.len());
    for (mut event, class) in held {
        let added = known.get(&(class.domain, class.name.clone())).copied();
        let same = added.filter(|id| recording.classes[*id].fields == class.fields);
        event.class = same.unwrap_or_else(|| {
            let name = (class.domain, class.name.clone());
            let id = recording.classes.add(Class::clone(&class));
            known.insert(name, id);
            id
        });
        events.push(event);
    }
    events.sort_by_key(|event| event.time);
    events
}

/// Adds each event's class, which the next part numbers in another way.
fn with_classes(events: Vec<Event>, classes: &Classes) -> Vec<(Event, Rc<Class>)> {
    let mut known: HashMap<_, Rc<Class>> = HashMap::new();
    let with_class = |event: Event| {
        let class = known.entry(event.class.index()).or_insert_with(|| Rc::new(classes[event.class].clone()));
        let class = Rc::clone(class);
        (event, class)
    };
    events.into_iter().map(with_class).collect()
}

/// Returns these events, which are in order of time.
fn events<'a>(events: Vec<Event>) -> BoxedSource<'a> {
    let mut events = events.into_iter();
    Box::new(move |event| match events.next() {
        Some(next) => {
            *event = next;
            Ok(Step::Event)
        }
        None => Ok(Step::End),
    })
}

/// Returns the events of a stream after its position and before the bound; later ones are held. Events of the future do
/// not move the position: the program's other events would be skipped.
fn news_of<'a>(
    stream: &Stream,
    position: Position,
    bounds: PartBounds,
    (held, ahead): (UnsettledEvents, Ahead),
) -> BoxedSource<'a> {
    let trace = stream.files().next().and_then(|file| Some(PathBuf::from(file.parent()?.file_name()?)));
    let mut trace = Some(trace.unwrap_or_default());
    let mut events = stream.events();
    let before = position.get();
    if before.0 > Time::MIN {
        events.skip_to(before.0);
    }
    let mut at = (Time::MIN, 0);
    Box::new(move |event| {
        loop {
            match events.next(event)? {
                Step::Event if event.time >= bounds.future => {
                    ahead.borrow_mut().extend(trace.take());
                }
                Step::Event => {
                    at = (event.time, if event.time == at.0 { at.1 + 1 } else { 1 });
                    if at <= before {
                        continue;
                    }
                    position.set(at);
                    if event.time < bounds.until {
                        return Ok(Step::Event);
                    }
                    held.borrow_mut().push(event.clone());
                }
                Step::Loss(loss) if loss.to <= before.0 => {}
                step => return Ok(step),
            }
        }
    })
}
