//! The condition of `--where` on the intervals of a recording.

use crate::Failure;
use crate::commands::events::{condition, fields};
use crate::trace::{Facts, Recording};
use sordino_event::condition::Expression;
use sordino_event::text::{count, printable};
use sordino_event::{Class, Invalid, Tid};
use sordino_timeline::Moment;
use std::cell::{Cell, RefCell};

/// A condition on events of a recording, which counts those that it does not fit.
#[derive(Debug)]
pub(crate) struct Condition {
    expression: Expression,
    facts: Facts,
    /// The classes whose events have all fields of the condition; indexed by class.
    classes: Vec<Option<Class>>,
    misfits: Cell<u64>,
    /// The first reason why the condition can't be applied to an event.
    misfit: RefCell<Option<Invalid>>,
}

impl Condition {
    /// Parses a condition, checks its fields against those of the recording's events called `names` (all events if that
    /// is empty), and limits the recording to the time that the condition allows.
    ///
    /// # Errors
    /// The fault in the text, or a field that no such event has.
    pub(crate) fn new(text: &str, recording: &mut Recording, names: &[&str]) -> Result<Self, Failure> {
        let expression = condition(text)?;
        let classes = || recording.classes.iter().map(|(_, class)| class);
        let named: Vec<&Class> =
            classes().filter(|class| names.is_empty() || names.contains(&&*class.name)).collect();
        fields("--where", &expression, &named)?;
        let fitting = |class: &Class| expression.lacking_in(class).is_none().then(|| class.clone());
        let classes = classes().map(fitting).collect();
        recording.limit_to(&expression);
        Ok(Self {
            facts: recording.facts.clone(),
            expression,
            classes,
            misfits: Cell::new(0),
            misfit: RefCell::new(None),
        })
    }

    /// Returns true if an event of the thread `tid` meets the condition.
    pub(crate) fn is_met(&self, moment: &Moment<'_>, tid: Option<Tid>) -> bool {
        let Some(Some(class)) = self.classes.get(moment.event.class.index()) else { return false };
        match self.expression.is_met_by(class, moment.event, &self.facts.known(moment, tid)) {
            Ok(is_met) => is_met,
            Err(invalid) => {
                self.misfits.set(self.misfits.get() + 1);
                self.misfit.borrow_mut().get_or_insert(invalid);
                false
            }
        }
    }

    /// Prints a message if the condition could not be applied to events.
    pub(crate) fn report(&self) {
        if let Some(misfit) = &*self.misfit.borrow() {
            let (events, misfit) = (count(self.misfits.get(), "event"), misfit.to_string());
            message!("sordino: --where does not fit {events}, which are left out: {}", printable(&misfit));
        }
    }
}
