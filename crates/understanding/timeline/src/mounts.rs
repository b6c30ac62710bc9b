//! The stretches for which fibers are mounted on threads.

use crate::fiber::{FiberEvent, FiberId};
use crate::kernel::Kernel;
use crate::super_trace::{Item, Moment};
use sordino_event::{Pid, Tid, Time};
use std::collections::HashMap;

/// A stretch for which a fiber was mounted on a thread, wholly known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountedStretch {
    /// The fiber that was executed.
    pub fiber: FiberId,
    /// The thread that executed it.
    pub tid: Tid,
    /// The time of the switch to the fiber.
    pub from: Time,
    /// The time of the switch away from it.
    pub to: Time,
}

/// Finds the stretches of all programs of a trace. Its memory grows with the threads that execute fibers.
///
/// ```
/// use sordino_event::{Class, Classes, Domain, Event, Pid, Step, Tid, Time, Value};
/// use sordino_timeline::{FiberId, MountedStretch, MountedStretches, SuperTrace};
///
/// let mut classes = Classes::default();
/// let switch = classes.add(Class::new(Domain::User, "sordino_fiber:switch", ["from", "to"]));
/// // A thread executes fiber 7 from 10 to 30, and its own code, which is fiber 0, before and after.
/// let mut switches = [(10, 0, 7), (30, 7, 0)].into_iter();
/// let source = move |event: &mut Event| -> Result<Step, std::io::Error> {
///     let Some((time, from, to)) = switches.next() else { return Ok(Step::End) };
///     event.begin(Time(time), switch);
///     (event.pid, event.tid) = (Some(Pid(1)), Some(Tid(2)));
///     event.push(Value::signed(from));
///     event.push(Value::signed(to));
///     Ok(Step::Event)
/// };
/// let (mut trace, mut stretches) = (SuperTrace::new(&classes, [source]), MountedStretches::default());
/// let mut found = Vec::new();
/// while let Some(item) = trace.next()? {
///     found.extend(stretches.take(&item));
/// }
/// let fiber = FiberId { pid: Pid(1), number: 7 };
/// assert_eq!(found, [MountedStretch { fiber, tid: Tid(2), from: Time(10), to: Time(30) }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MountedStretches {
    /// The fiber of each thread, with the time at which the thread began to execute it.
    since: HashMap<(Pid, Tid), (u64, Time)>,
}

impl MountedStretches {
    /// Processes the next item of the trace. Returns the stretch that ends there, unless its begin is not known.
    pub fn take(&mut self, item: &Item<'_>) -> Option<MountedStretch> {
        match item {
            Item::Event(moment) => self.switch(moment),
            Item::Loss(loss, _) => {
                self.since.retain(|(pid, _), _| Some(*pid) != loss.pid);
                None
            }
            Item::Disorder(_) => None,
        }
    }

    /// Returns true if the fiber is mounted on the thread, as far as is known.
    pub fn has(&self, fiber: FiberId, tid: Tid) -> bool {
        self.since.get(&(fiber.pid, tid)).is_some_and(|(number, _)| *number == fiber.number)
    }

    fn switch(&mut self, moment: &Moment<'_>) -> Option<MountedStretch> {
        if let Some(Kernel::Gone { tid }) = moment.kernel
            && let Some(pid) = moment.pid()
        {
            self.since.remove(&(pid, tid));
        }
        let (from, to) = match moment.about_fibers()? {
            FiberEvent::Switch { from, to, .. } => (from, to),
            FiberEvent::Leave => (None, None),
            _ => return None,
        };
        let (pid, tid, now) = (moment.pid()?, moment.tid?, moment.event.time);
        let before = match to {
            Some(to) => self.since.insert((pid, tid), (to, now)),
            None => self.since.remove(&(pid, tid)),
        };
        let (number, since) = before.filter(|(number, _)| Some(*number) == from)?;
        Some(MountedStretch { fiber: FiberId { pid, number }, tid, from: since, to: now })
    }
}
