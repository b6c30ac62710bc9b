//! Calls of functions, from entry to exit. A call stack belongs to the fiber that its thread executes, if it executes
//! one.

mod stack;

use crate::finder::SpanFinder;
use crate::span::FoundSpan;
use foldhash::{HashMap, HashMapExt};
use sordino_event::functions::{CALL_SITE, ENTRY, EXIT, FUNCTION};
use sordino_event::{Class, Classes, Loss, Pid, Time, View};
use sordino_timeline::kernel::Observed;
use sordino_timeline::{FiberEvent, Kernel, Moment, Mounted, TaskState};
use stack::{ProgramStacks, StackOwner};

/// The names of the parts of a call.
pub(crate) const PARTS: [&str; 4] = ["own", "in calls", "other fibers", "unknown"];

/// The calls that have not returned. Memory is bounded by the calls of living threads and fibers, as far as the trace
/// has the ends of the others.
#[derive(Debug)]
pub(crate) struct FunctionCalls {
    /// Indexed by class: true for entries, and the indexes of the fields.
    events: Vec<Option<(bool, [usize; 2])>>,
    programs: HashMap<Pid, ProgramStacks>,
}

impl FunctionCalls {
    /// Creates the finder; `None` if no trace has the event of an entry.
    pub(crate) fn new(classes: &Classes) -> Option<Self> {
        let event = |class: &Class| {
            let is_entry = class.name == ENTRY;
            let fields = [FUNCTION, CALL_SITE].map(|name| class.field(name));
            let [Some(function), Some(call_site)] = fields else { return None };
            (is_entry || class.name == EXIT).then_some((is_entry, [function, call_site]))
        };
        let events: Vec<_> = classes.iter().map(|(_, class)| event(class)).collect();
        let has_entries = events.iter().flatten().any(|(is_entry, _)| *is_entry);
        has_entries.then(|| Self { events, programs: HashMap::new() })
    }

    /// Returns the program of an event's thread, and the owner of the call stack on which the thread is, if that is
    /// known.
    fn owner(moment: &Moment<'_>) -> Option<(Pid, StackOwner)> {
        let owner = match moment.fiber {
            Mounted::Fiber(fiber) => StackOwner::Fiber(fiber.number),
            Mounted::Outside | Mounted::Scheduler => StackOwner::Thread(moment.tid?),
            Mounted::Unknown => return None,
        };
        Some((moment.pid()?, owner))
    }

    fn enter(&mut self, of: [u64; 2], moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some((pid, owner)) = Self::owner(moment) else { return };
        self.programs.entry(pid).or_default().enter(owner, of, moment.event.time, found);
    }

    fn exit(&mut self, of: [u64; 2], moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some((pid, owner)) = Self::owner(moment) else { return found.push(FoundSpan::Broken) };
        match self.programs.get_mut(&pid) {
            Some(program) => program.exit(owner, of, moment, found),
            None => found.push(FoundSpan::Broken),
        }
    }

    fn fiber(&mut self, about: FiberEvent<'_>, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let Some(program) = self.program(moment) else { return };
        match about {
            FiberEvent::Switch { from, to, .. } => program.switch([from, to], moment, found),
            FiberEvent::New { fiber, .. } => program.end(StackOwner::Fiber(fiber), found),
            FiberEvent::End { fiber } => program.end_fiber(fiber, moment, found),
            _ => {}
        }
    }

    /// Returns the program of an event's thread, if it has entered functions.
    fn program(&mut self, moment: &Moment<'_>) -> Option<&mut ProgramStacks> {
        self.programs.get_mut(&moment.pid()?)
    }

    /// Forgets the calls of a thread or a program that has ended: its number may be used again. If the record of the
    /// end is missing, a new thread or program with that number shows it.
    fn end(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let (pid, tid) = match moment.kernel {
            Some(Kernel::Switch { prev, state: TaskState::Dead, .. }) => (moment.pid(), prev.tid),
            Some(Kernel::Thread(born)) if !born.dumped => (moment.system.pid(born.tid), born.tid),
            Some(Kernel::Context { pid, tid, seen: Observed::End }) => (Some(pid), tid),
            Some(Kernel::Gone { tid } | Kernel::Exec { tid, .. }) => {
                let program = self.programs.remove(&Pid(tid.0));
                return program.into_iter().for_each(|mut program| program.give_up(found));
            }
            _ => return,
        };
        let Some(program) = pid.and_then(|pid| self.programs.get_mut(&pid)) else { return };
        program.end(StackOwner::Thread(tid), found);
        // A thread that ends inside of a fiber leaves nothing that the fiber could return to.
        if let (Some(Kernel::Switch { .. }), Some(fiber)) = (moment.kernel, moment.fiber_id()) {
            program.end(StackOwner::Fiber(fiber.number), found);
        }
    }
}

impl SpanFinder for FunctionCalls {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        if moment.kernel.is_some() {
            return self.end(moment, found);
        }
        if let Some(about) = moment.about_fibers() {
            return self.fiber(about, moment, found);
        }
        let Some((is_entry, fields)) = self.events.get(moment.event.class.index()).copied().flatten() else {
            return;
        };
        let value = |field: usize| match moment.event.value(field) {
            Some(View::Unsigned(value, _)) => Some(value),
            Some(View::Signed(value, _)) => Some(value.cast_unsigned()),
            _ => None,
        };
        match fields.map(value) {
            [Some(function), Some(call_site)] if is_entry => self.enter([function, call_site], moment, found),
            [Some(function), Some(call_site)] => self.exit([function, call_site], moment, found),
            _ => found.push(FoundSpan::Broken),
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        let Some(pid) = loss.pid else { return };
        self.programs.entry(pid).or_default().lose(loss, found);
    }

    /// Returns the number of calls that have not returned.
    fn finish(&mut self, _end: Time, _found: &mut Vec<FoundSpan>) -> u64 {
        self.programs.values().map(|program| program.count() as u64).sum()
    }
}
