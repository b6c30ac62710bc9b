//! Applies changes one by one: each is journalled before it is made and read back afterwards.

use crate::{Change, Error, KNOBS, Knob, Machine, Place, ShieldRequest};
use serde::Serialize;
use sordino_undo::Journal;
use std::collections::HashSet;
use std::io;
use std::path::Path;

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// The new value holds.
    Held,
    /// The present value was journalled so that it is restored; it was not to change.
    #[serde(rename = "kept")]
    Unchanged,
    /// The kernel rejected the value, with this error.
    Refused(String),
    /// The kernel accepted the value, but reads back this one.
    Differs(String),
    /// The place no longer exists.
    Gone,
}

/// A change with its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Name of the knob.
    pub knob: &'static str,
    /// The change that was tried.
    #[serde(flatten)]
    pub change: Change,
    /// Outcome of the change.
    pub outcome: ChangeOutcome,
}

/// Observer of changes while they are made.
pub trait ChangeObserver {
    /// Called after a change was journalled, before it is made.
    fn changing(&mut self, _knob: &Knob, _change: &Change) {}
    /// Called after a change was made or rejected.
    fn changed(&mut self, _done: &Done) {}
    /// Returns true if applying is to stop and to undo everything.
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// An observer that does nothing.
#[derive(Debug)]
pub struct Silent;
impl ChangeObserver for Silent {}

/// Limit of repetitions of a knob that moves threads, which is repeated as long as it finds new ones.
const SWEEPS: usize = 8;

/// Makes all changes that `request` needs, knob by knob. Each is journalled before it is made.
pub(crate) fn apply(
    request: &ShieldRequest,
    journal: &mut Journal,
    watch: &mut dyn ChangeObserver,
) -> Result<Vec<Done>, Error> {
    let mut applying =
        Applying { journal, watch, noted: HashSet::new(), tried: HashSet::new(), done: Vec::new() };
    for knob in KNOBS.iter().filter(|knob| !knob.is_left_out(request)) {
        for sweep in 0..SWEEPS {
            let mut plan = knob.plan(&Machine::read()?, request)?;
            // Values to keep are those from before the first change, so later sweeps journal no more of them.
            plan.changes.retain(|change| sweep == 0 || change.to.is_some());
            if !applying.sweep(knob, plan.changes)? {
                break;
            }
        }
    }
    Ok(applying.done)
}

struct Applying<'a> {
    journal: &'a mut Journal,
    watch: &'a mut dyn ChangeObserver,
    /// Places with their first value in the journal.
    noted: HashSet<Place>,
    /// Places with the value that was tried. A rejected value is not tried again.
    tried: HashSet<(Place, Option<String>)>,
    done: Vec<Done>,
}

impl Applying<'_> {
    /// Makes the changes that were not tried yet. Returns true if threads were among them.
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

    /// Journals the step that restores the value of `place`, unless the journal has it or the place disappears with a
    /// control group of the shield.
    fn note(&mut self, place: &Place) -> Result<Result<(), ChangeOutcome>, Error> {
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

    fn make(&mut self, knob: &Knob, change: &Change) -> Result<ChangeOutcome, Error> {
        let Change { place, to, .. } = change;
        if let Err(refused) = self.note(place)? {
            return Ok(refused);
        }
        self.watch.changing(knob, change);
        let Some(to) = to else { return Ok(ChangeOutcome::Unchanged) };
        Ok(match place.write(to).and_then(|()| place.read()) {
            Ok(now) if now == *to => ChangeOutcome::Held,
            Ok(now) => ChangeOutcome::Differs(now),
            Err(error) => refused(error),
        })
    }
}

fn refused(error: io::Error) -> ChangeOutcome {
    match error.kind() {
        io::ErrorKind::NotFound => ChangeOutcome::Gone,
        _ => ChangeOutcome::Refused(error.to_string()),
    }
}

/// Returns an error if a change failed that the shield cannot do without. Changes of single threads are never
/// essential.
fn essential(knob: &Knob, done: &Done) -> Result<(), Error> {
    let reason = match &done.outcome {
        ChangeOutcome::Held | ChangeOutcome::Unchanged => return Ok(()),
        _ if !knob.essential || done.change.place.is_of_thread() => return Ok(()),
        ChangeOutcome::Refused(reason) => reason.clone(),
        ChangeOutcome::Differs(now) => format!("it is '{now}'"),
        ChangeOutcome::Gone => "it is not there".to_owned(),
    };
    let Change { what, place, to, .. } = &done.change;
    let what = format!("{what}: '{}' was written to {place}", to.as_deref().unwrap_or_default());
    Err(Error::Essential { what, reason })
}
