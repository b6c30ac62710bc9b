//! The events that a pass shows, and the classes whose fields it shows.

use sordino_event::{ClassId, Classes, Domain, EventHead, FieldValues, Pid, Tid, Time};
use sordino_timeline::Vocabulary;
use std::fmt;
use std::sync::Arc;

/// Function that returns true if an event is certainly not selected, by its class and its own fields.
pub type Rejects = Arc<dyn Fn(ClassId, &dyn FieldValues) -> bool + Send + Sync>;

/// The demand of a pass; by default, all events with all fields. Other events and fields are not decoded, unless the
/// pass needs them to determine threads and CPUs.
#[derive(Clone, Default)]
pub struct Demand {
    /// True for classes whose events may lack their fields; indexed by class.
    bare: Arc<[bool]>,
    rejected: Option<Rejected>,
    /// True if the pass begins a little before the time to which passes are limited.
    pub(crate) has_lead: bool,
}

/// The events that are left out.
#[derive(Clone)]
struct Rejected {
    rejects: Rejects,
    /// True for classes whose events show nothing about threads, if they have no process; indexed by class.
    idle: Arc<[bool]>,
    /// True if a thread's id always means the same: no event of the kernel ends one.
    are_threads_lasting: bool,
}

/// The part of a demand that is for one stream.
#[derive(Clone, Default)]
pub(crate) struct OfStream {
    rejected: Option<Rejected>,
    /// The time at which a pass ends. An event after it is not left out, and ends the pass.
    end: Time,
    /// The thread of the last event that was not left out.
    last: Option<(Pid, Tid)>,
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand").field("bare", &self.bare).finish_non_exhaustive()
    }
}

impl Demand {
    /// Creates a demand for all events, with the fields of the classes for which `reads` returns true.
    pub fn for_fields_of(classes: &Classes, reads: impl Fn(ClassId) -> bool) -> Self {
        let vocabulary = Vocabulary::new(classes);
        let is_bare = |id| !reads(id) && !vocabulary.reads_fields(id);
        Self { bare: classes.iter().map(|(id, _)| is_bare(id)).collect(), ..Self::default() }
    }

    /// Also demands the items shortly before the time to which passes are limited: they show the state of the machine
    /// at its begin.
    #[must_use]
    pub fn with_lead(self) -> Self {
        Self { has_lead: true, ..self }
    }

    /// Leaves out the events that `rejects` returns true for, unless they show something about threads.
    #[must_use]
    pub fn without(self, classes: &Classes, rejects: Rejects) -> Self {
        let vocabulary = Vocabulary::new(classes);
        let recorded = vocabulary.recorded();
        let is_idle = |id, domain| match domain {
            Domain::Kernel => !vocabulary.changes_system(id),
            Domain::User => {
                !vocabulary.has_fibers() && !vocabulary.has_counters() && !vocabulary.reads_fields(id)
            }
        };
        let idle = classes.iter().map(|(id, class)| is_idle(id, class.domain)).collect();
        Self { rejected: Some(Rejected { rejects, idle, are_threads_lasting: !recorded.any }), ..self }
    }

    pub(crate) fn bare(&self) -> Arc<[bool]> {
        Arc::clone(&self.bare)
    }

    /// Returns the demand on a stream in a pass that ends at this time.
    pub(crate) fn of_stream(&self, end: Time) -> OfStream {
        OfStream { rejected: self.rejected.clone(), end, last: None }
    }
}

impl OfStream {
    /// Returns the demand behind another one, which has the thread of the last event if this one has had none.
    pub(crate) fn behind(self, before: Option<Self>) -> Self {
        let last = self.last.or(before.and_then(|before| before.last));
        Self { last, ..self }
    }

    /// Returns true if the event is left out.
    #[inline]
    pub(crate) fn rejects(&mut self, event: &EventHead, values: &dyn FieldValues) -> bool {
        let Some(rejected) = &self.rejected else { return false };
        let of = event.pid.zip(event.tid);
        let is_idle = rejected.idle.get(event.class.index()).is_some_and(|idle| *idle)
            && match event.pid {
                None => true,
                Some(_) => rejected.are_threads_lasting && of.is_some() && of == self.last,
            };
        let rejects = is_idle && event.time <= self.end && (rejected.rejects)(event.class, values);
        if !rejects {
            self.last = of.or(self.last);
        }
        rejects
    }
}
