//! Names of fibers over a whole trace: a library may name a fiber only when it has run for the first time.

use sordino_event::{Pid, Time};
use sordino_timeline::{FiberEvent, FiberId, Item, Moment};
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of fibers whose names are kept for labels.
const NAMES_MAX: usize = 1 << 16;

/// The last names of fibers, for the labels of rows.
#[derive(Debug, Default)]
pub(crate) struct FiberNames {
    by_number: HashMap<FiberId, Called>,
}

#[derive(Debug, Default)]
struct Called {
    name: Option<Arc<str>>,
    /// True if several fibers had the number one after another.
    is_shared: bool,
}

impl FiberNames {
    /// Processes an event, which may name a fiber.
    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        let Some((is_made, fiber, name)) = naming(moment) else { return };
        let is_known = self.by_number.contains_key(&fiber);
        if !is_known && self.by_number.len() == NAMES_MAX {
            return;
        }
        let called = self.by_number.entry(fiber).or_default();
        called.is_shared |= is_made && is_known;
        if !name.is_empty() {
            called.name = Some(String::from_utf8_lossy(name).into());
        }
    }

    /// Forgets the names of a process from which records are missing: other fibers may have the numbers now.
    pub(crate) fn lose(&mut self, pid: Pid) {
        self.by_number.retain(|fiber, _| fiber.pid != pid);
    }

    /// Returns the label of a fiber's row; `None` if no name of it is known.
    pub(crate) fn label(&self, fiber: FiberId) -> Option<Arc<str>> {
        let called = self.by_number.get(&fiber)?;
        if called.is_shared {
            return Some(unnamed(fiber));
        }
        Some(named(called.name.as_deref()?, fiber))
    }
}

/// Returns the label of a fiber with a name.
pub(crate) fn named(name: &str, fiber: FiberId) -> Arc<str> {
    format!("{name}/{fiber}").into()
}

/// Returns the label of a fiber without a name, or of several with one number.
pub(crate) fn unnamed(fiber: FiberId) -> Arc<str> {
    format!("fiber {fiber}").into()
}

/// Returns the fiber that an event makes (`true`) or renames, and its name.
fn naming<'a>(moment: &Moment<'a>) -> Option<(bool, FiberId, &'a [u8])> {
    let (is_made, number, name) = match moment.about_fibers()? {
        FiberEvent::New { fiber, name } => (true, fiber, name),
        FiberEvent::Rename { fiber, name } => (false, fiber, name),
        FiberEvent::Present { fiber, name, .. } if !name.is_empty() => (false, fiber, name),
        _ => return None,
    };
    Some((is_made, FiberId { pid: moment.pid()?, number }, name))
}

/// The fibers that have a given name at any time of their lives, or a given number; a pass over a trace finds them.
///
/// A fiber that is named late had waited before, and its number may belong to others before and afterwards.
#[derive(Debug)]
pub struct FiberLives {
    name: String,
    /// The times since which the fibers live, and true for those of the name.
    alive: HashMap<FiberId, (Time, bool)>,
    found: HashMap<FiberId, Vec<(Time, Time)>>,
}

impl FiberLives {
    /// Creates the search for fibers by name, or by number.
    pub fn of(name: &str) -> Self {
        Self { name: name.to_owned(), alive: HashMap::new(), found: HashMap::new() }
    }

    /// Processes the next item of the trace.
    pub fn take(&mut self, item: &Item<'_>) {
        let Item::Event(moment) = item else { return };
        let now = moment.event.time;
        if let Some((is_made, fiber, name)) = naming(moment) {
            if is_made {
                self.end(fiber, now);
            }
            let since = if is_made { now } else { Time::MIN };
            self.alive.entry(fiber).or_insert((since, false)).1 |= name == self.name.as_bytes();
        } else if let (Some(FiberEvent::End { fiber: number }), Some(pid)) =
            (moment.about_fibers(), moment.pid())
        {
            self.end(FiberId { pid, number }, now);
        }
    }

    /// Ends the lives of the fibers that are alive when the trace ends.
    #[must_use]
    pub fn finish(mut self) -> Self {
        let alive: Vec<FiberId> = self.alive.keys().copied().collect();
        alive.into_iter().for_each(|fiber| self.end(fiber, Time::MAX));
        self
    }

    /// Returns true if the fiber has the given number, or its number belongs to a fiber of the name at this time.
    pub fn contains(&self, fiber: FiberId, at: Time) -> bool {
        let lives = self.found.get(&fiber);
        self.name.parse() == Ok(fiber.number)
            || lives.is_some_and(|lives| lives.iter().any(|(from, to)| (*from..=*to).contains(&at)))
    }

    /// Returns true if the event's thread executes one of the fibers after it.
    pub fn have_thread(&self, moment: &Moment<'_>) -> bool {
        let mounted = |(pid, tid)| moment.system.fibers().mounted(pid, tid).fiber();
        let fiber = moment.pid().zip(moment.tid).and_then(mounted);
        fiber.is_some_and(|fiber| self.contains(fiber, moment.event.time))
    }

    fn end(&mut self, fiber: FiberId, now: Time) {
        if let Some((since, true)) = self.alive.remove(&fiber) {
            self.found.entry(fiber).or_default().push((since, now));
        }
    }
}
