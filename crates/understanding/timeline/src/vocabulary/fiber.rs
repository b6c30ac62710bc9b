//! The decoder of programs' events about fibers.

use super::field_reader::bits;
use crate::fiber::{FiberEvent, FiberSwitchReason, PresentState};
use sordino_event::{Class, Domain, Event};

/// The provider of events about fibers.
const PROVIDER: &str = "sordino_fiber:";

/// The meaning of a class of events about fibers, with the indexes of its fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct FiberMeaning {
    kind: FiberKind,
    /// The indexes of the fields that `EVENTS` lists for the kind.
    fields: [Option<usize>; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FiberKind {
    Enter,
    Leave,
    New,
    Present,
    Switch,
    End,
    Wake,
    Rename,
}

const EVENTS: &[(&str, FiberKind, &[&str])] = &[
    ("thread_enter", FiberKind::Enter, &[]),
    ("thread_leave", FiberKind::Leave, &[]),
    ("new", FiberKind::New, &["fiber", "name"]),
    ("present", FiberKind::Present, &["fiber", "name", "state"]),
    ("switch", FiberKind::Switch, &["from", "to", "why", "on"]),
    ("end", FiberKind::End, &["fiber"]),
    ("wake", FiberKind::Wake, &["fiber", "by"]),
    ("rename", FiberKind::Rename, &["fiber", "name"]),
];

impl FiberMeaning {
    /// Returns the meaning of a class, if its events are about fibers.
    pub(super) fn of(class: &Class) -> Option<Self> {
        let name = class.name.strip_prefix(PROVIDER).filter(|_| class.domain == Domain::User)?;
        let (_, kind, names) = EVENTS.iter().find(|(known, ..)| *known == name)?;
        let mut fields = [None; 4];
        for (field, name) in fields.iter_mut().zip(*names) {
            *field = class.field(name);
        }
        Some(Self { kind: *kind, fields })
    }

    pub(super) fn read<'a>(&self, event: &'a Event) -> FiberEvent<'a> {
        self.complete(event).unwrap_or(FiberEvent::Malformed)
    }

    /// Returns the event; `None` if it lacks a number, or if the number of its fiber is 0. Texts may be missing.
    fn complete<'a>(&self, event: &'a Event) -> Option<FiberEvent<'a>> {
        let number = |place: usize| bits(event.value(self.fields[place]?)?);
        let fiber = || number(0).filter(|fiber| *fiber != 0);
        let other = |place| Some(number(place)?).map(|fiber| (fiber != 0).then_some(fiber));
        let text = |place: usize| self.fields[place].and_then(|field| event.text(field)).unwrap_or_default();
        Some(match self.kind {
            FiberKind::Enter => FiberEvent::Enter,
            FiberKind::Leave => FiberEvent::Leave,
            FiberKind::New => FiberEvent::New { fiber: fiber()?, name: text(1) },
            FiberKind::Present => FiberEvent::Present {
                fiber: fiber()?,
                name: text(1),
                state: PresentState::of(number(2).unwrap_or(0)),
            },
            FiberKind::Switch => FiberEvent::Switch {
                from: other(0)?,
                to: other(1)?,
                why: FiberSwitchReason::of(number(2).unwrap_or(0)),
                on: text(3),
            },
            FiberKind::End => FiberEvent::End { fiber: fiber()? },
            FiberKind::Wake => FiberEvent::Wake { fiber: fiber()?, by: other(1)? },
            FiberKind::Rename => FiberEvent::Rename { fiber: fiber()?, name: text(1) },
        })
    }
}
