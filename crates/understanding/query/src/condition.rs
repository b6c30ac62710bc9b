//! A condition on the events that end the spans of a query.

use crate::facts::Facts;
use sordino_event::{Classes, Tid};
use sordino_filter::Invalid;
use sordino_filter::condition::{ClassCondition, Expression};
use sordino_timeline::Moment;
use std::cell::{Cell, RefCell};

/// A condition on events of a recording, which counts the events that it can't be applied to.
#[derive(Debug)]
pub struct SpanCondition {
    facts: Facts,
    /// The condition for each class whose events have all of its fields; indexed by class.
    classes: Vec<Option<ClassCondition>>,
    misfits: Cell<u64>,
    /// The first reason why the condition can't be applied to an event.
    misfit: RefCell<Option<Invalid>>,
}

impl SpanCondition {
    /// Creates the condition for the events of a recording.
    pub fn new(expression: &Expression, classes: &Classes, facts: Facts) -> Self {
        let classes = classes.iter().map(|(_, class)| expression.for_class(class).ok()).collect();
        Self { facts, classes, misfits: Cell::new(0), misfit: RefCell::new(None) }
    }

    /// Returns true if an event of the thread `tid` meets the condition.
    pub fn is_met(&self, moment: &Moment<'_>, tid: Option<Tid>) -> bool {
        let Some(Some(condition)) = self.classes.get(moment.event.class.index()) else { return false };
        match condition.is_met_by(moment.event, &self.facts.known(moment, tid)) {
            Ok(is_met) => is_met,
            Err(invalid) => {
                self.misfits.set(self.misfits.get() + 1);
                self.misfit.borrow_mut().get_or_insert(invalid);
                false
            }
        }
    }

    /// Returns a message if there are functions whose names are not known.
    pub fn note_on_functions(&self) -> Option<String> {
        self.facts.note_on_functions()
    }

    /// Returns the number of events that the condition can't be applied to, and the first reason, if there are any.
    pub fn misfits(&self) -> Option<(u64, Invalid)> {
        self.misfit.borrow().clone().map(|invalid| (self.misfits.get(), invalid))
    }
}
