//! Making the changes, one after the other, each noted before it is made and read back after.

use crate::{Change, Error, KNOBS, Knob, Machine, Place, Request};
use serde::Serialize;
use sordino_undo::Journal;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It holds.
    Held,
    /// It was noted, to be given back; nothing was to change.
    Kept,
    /// The kernel did not take it.
    Refused(String),
    /// The kernel took it, and something else holds.
    Differs(String),
    /// What it was about has gone meanwhile.
    Gone,
}

/// A change, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// The knob's name.
    pub knob: &'static str,
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// What became of it.
    pub outcome: Outcome,
}

/// Looks on while changes are made.
pub trait Watch {
    /// This is noted, and made next.
    fn changing(&mut self, _knob: &Knob, _change: &Change) {}
    /// This is what became of it.
    fn changed(&mut self, _done: &Done) {}
    /// Whether to stop here and undo everything.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// Does not look.
#[derive(Debug)]
pub struct Silent;
impl Watch for Silent {}

/// A knob that moves threads is turned again as long as there are new ones; as often at most.
const SWEEPS: usize = 8;

/// Makes all changes that `request` needs, knob by knob. Each is in the journal before it is made.
pub(crate) fn apply(
    request: &Request,
    journal: &mut Journal,
    watch: &mut dyn Watch,
) -> Result<Vec<Done>, Error> {
    let mut applying =
        Applying { journal, watch, noted: HashSet::new(), tried: HashSet::new(), done: Vec::new() };
    for knob in KNOBS.iter().filter(|knob| !knob.is_left_out(request)) {
        for sweep in 0..SWEEPS {
            let mut wants = knob.plan(&Machine::read()?, request)?;
            // What is to be kept is what was there before the first change.
            wants.changes.retain(|change| sweep == 0 || change.to.is_some());
            if !applying.sweep(knob, wants.changes)? {
                break;
            }
        }
    }
    Ok(applying.done)
}

struct Applying<'a> {
    journal: &'a mut Journal,
    watch: &'a mut dyn Watch,
    /// Whose first value is in the journal.
    noted: HashSet<Place>,
    /// Places with what they were to hold. What was refused once is not tried again.
    tried: HashSet<(Place, Option<String>)>,
    done: Vec<Done>,
}

impl Applying<'_> {
    /// Makes those that were not tried yet; whether there were threads among them.
    fn sweep(&mut self, knob: &'static Knob, changes: Vec<Change>) -> Result<bool, Error> {
        let mut any = false;
        for change in changes {
            if !self.tried.insert((change.place.clone(), change.to.clone())) {
                continue;
            }
            if self.watch.is_interrupted() {
                return Err(Error::Interrupted);
            }
            any |= change.to.is_some() && change.place.is_of_thread();
            let outcome = self.make(knob, &change)?;
            let done = Done { knob: knob.name, change, outcome };
            self.watch.changed(&done);
            essential(knob, &done)?;
            self.done.push(done);
        }
        Ok(any)
    }

    /// Puts into the journal how to give back what `place` holds, unless it is there or goes with a group of our own.
    fn note(&mut self, place: &Place) -> Result<Result<(), Outcome>, Error> {
        let is_in_own_group = |path: &Path| self.noted.iter().any(|noted| noted.has_within(path));
        if self.noted.contains(place) || place.path().is_some_and(is_in_own_group) {
            return Ok(Ok(()));
        }
        let step = match place.undo() {
            Ok(step) => step,
            Err(error) => return Ok(Err(refused(error))),
        };
        let path = self.journal.path().to_owned();
        step.map_or(Ok(()), |step| self.journal.add(step)).map_err(Error::io(path))?;
        self.noted.insert(place.clone());
        Ok(Ok(()))
    }

    fn make(&mut self, knob: &Knob, change: &Change) -> Result<Outcome, Error> {
        let Change { place, to, .. } = change;
        if let Err(refused) = self.note(place)? {
            return Ok(refused);
        }
        self.watch.changing(knob, change);
        let Some(to) = to else { return Ok(Outcome::Kept) };
        Ok(match place.write(to).and_then(|()| place.read()) {
            Ok(now) if now == *to => Outcome::Held,
            Ok(now) => Outcome::Differs(now),
            Err(error) => refused(error),
        })
    }
}

fn refused(error: io::Error) -> Outcome {
    match error.kind() {
        io::ErrorKind::NotFound => Outcome::Gone,
        _ => Outcome::Refused(error.to_string()),
    }
}

/// Without this there is no shield; threads of their own are another matter.
fn essential(knob: &Knob, done: &Done) -> Result<(), Error> {
    let reason = match &done.outcome {
        Outcome::Held | Outcome::Kept => return Ok(()),
        _ if !knob.essential || done.change.place.is_of_thread() => return Ok(()),
        Outcome::Refused(reason) => reason.clone(),
        Outcome::Differs(now) => format!("it is '{now}'"),
        Outcome::Gone => "it is not there".to_owned(),
    };
    let Change { what, place, to, .. } = &done.change;
    let what = format!("{what}: '{}' was written to {place}", to.as_deref().unwrap_or_default());
    Err(Error::Essential { what, reason })
}
