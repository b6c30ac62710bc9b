//! Fields of events as debug annotations, and the names that packets refer to by number.

use crate::wire::ProtobufMessage;
use sordino_event::{Base, ClassId, Classes, Entries, View};
use std::collections::HashMap;

/// Field of a track event.
const DEBUG_ANNOTATIONS: u32 = 4;
/// Fields of an annotation.
const NAME: u32 = 1;
const UNSIGNED: u32 = 3;
const SIGNED: u32 = 4;
const DOUBLE: u32 = 5;
const TEXT: u32 = 6;
const POINTER: u32 = 7;
const MEMBERS: u32 = 11;
const ELEMENTS: u32 = 12;
/// Fields of interned data.
const CATEGORIES: u32 = 1;
const EVENT_NAMES: u32 = 2;
const ANNOTATION_NAMES: u32 = 3;
/// The maximum depth of nested values; deeper ones are written as `...`.
const DEPTH_MAX: usize = 64;

/// A name of sordino's own: of a category, an event or an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    OfPrograms,
    OfKernel,
    OfWakeups,
    OfLosses,
    OfFunctions,
    OfFibers,
    OfSoftirqs,
    Wakes,
    Runs,
    Mounted,
    Raises,
    Handles,
    Lost,
    Disorder,
    Cpu,
}

/// Names of sordino's own, in the order of [`Name`], each with the field of interned data that defines it.
const OWN: [(u32, &str); 15] = [
    (CATEGORIES, "user"),
    (CATEGORIES, "kernel"),
    (CATEGORIES, "wakeup"),
    (CATEGORIES, "loss"),
    (CATEGORIES, "function"),
    (CATEGORIES, "fiber"),
    (CATEGORIES, "softirq"),
    (EVENT_NAMES, "wakes"),
    (EVENT_NAMES, "runs"),
    (EVENT_NAMES, "mounted"),
    (EVENT_NAMES, "raises"),
    (EVENT_NAMES, "handles"),
    (EVENT_NAMES, "lost records"),
    (EVENT_NAMES, "time went back"),
    (ANNOTATION_NAMES, "$cpu"),
];

/// The interned names: their numbers, and the definitions that no packet has yet.
#[derive(Debug)]
pub(super) struct InternedNames {
    /// The numbers of each class's fields, once the class is defined.
    classes: Vec<Option<Vec<u64>>>,
    /// The numbers of annotations' names.
    texts: HashMap<Box<[u8]>, u64>,
    own: [bool; OWN.len()],
    /// Definitions that the next packet has to have: encoded fields of interned data.
    fresh: Vec<u8>,
}

impl InternedNames {
    pub(super) fn new(classes: &Classes) -> Self {
        let classes = vec![None; classes.len()];
        Self { classes, texts: HashMap::new(), own: [false; OWN.len()], fresh: Vec::new() }
    }

    /// Returns the number of a name of sordino's own.
    pub(super) fn own(&mut self, name: Name) -> u64 {
        let (index, number) = (name as usize, name as u64 + 1);
        if !std::mem::replace(&mut self.own[index], true) {
            let (field, text) = OWN[index];
            self.define(field, number, text.as_bytes());
        }
        number
    }

    /// Returns the number of a class's name, and defines its fields' names.
    pub(super) fn class(&mut self, class: ClassId, classes: &Classes) -> u64 {
        let number = (OWN.len() + class.index() + 1) as u64;
        if let Some(None) = self.classes.get(class.index()) {
            self.define(EVENT_NAMES, number, classes[class].name.as_bytes());
            let fields = classes[class].fields.iter().map(|field| self.text(field.as_bytes())).collect();
            self.classes[class.index()] = Some(fields);
        }
        number
    }

    /// Returns the number of a field's name, if the class is defined.
    pub(super) fn field(&self, class: ClassId, field: usize) -> Option<u64> {
        self.classes.get(class.index())?.as_ref()?.get(field).copied()
    }

    /// Returns the number of an annotation's name.
    pub(super) fn text(&mut self, text: &[u8]) -> u64 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = (OWN.len() + self.texts.len() + 1) as u64;
        self.texts.insert(text.into(), number);
        self.define(ANNOTATION_NAMES, number, text);
        number
    }

    /// Returns the definitions that no packet has yet, if there are any.
    pub(super) fn fresh(&self) -> Option<&[u8]> {
        (!self.fresh.is_empty()).then_some(&self.fresh)
    }

    /// Drops the definitions, which a packet has now.
    pub(super) fn written(&mut self) {
        self.fresh.clear();
    }

    fn define(&mut self, field: u32, number: u64, text: &[u8]) {
        ProtobufMessage::new(&mut self.fresh).message(field, |entry| {
            entry.unsigned(1, number);
            entry.text(2, text);
        });
    }
}

/// Appends a value as an annotation of a track event.
pub(super) fn annotate(
    event: &mut ProtobufMessage<'_>,
    name: u64,
    value: View<'_>,
    names: &mut InternedNames,
) {
    event.message(DEBUG_ANNOTATIONS, |annotation| {
        annotation.unsigned(NAME, name);
        put(annotation, value, 0, names);
    });
}

fn put(annotation: &mut ProtobufMessage<'_>, value: View<'_>, depth: usize, names: &mut InternedNames) {
    match value {
        View::Unsigned(value, Base::Hexadecimal) => annotation.unsigned(POINTER, value),
        View::Unsigned(value, _) => annotation.unsigned(UNSIGNED, value),
        View::Signed(value, _) | View::Label(value, None) => annotation.signed(SIGNED, value),
        View::Float(value) => annotation.double(DOUBLE, value),
        View::Text(text) => annotation.text(TEXT, text),
        View::Label(value, Some(label)) => {
            let mut member = |name: &[u8], value| {
                let name = names.text(name);
                annotation.message(MEMBERS, |member| {
                    member.unsigned(NAME, name);
                    put(member, value, depth + 1, names);
                });
            };
            member(b"label", View::Text(label));
            member(b"value", View::Signed(value, Base::Decimal));
        }
        View::List(_) | View::Group(_) if depth == DEPTH_MAX => annotation.text(TEXT, b"..."),
        // An annotation without a value is none.
        View::List(entries) if is_empty(entries) => annotation.text(TEXT, b"[]"),
        View::Group(entries) if is_empty(entries) => annotation.text(TEXT, b"{}"),
        View::List(entries) => {
            for entry in entries {
                annotation.message(ELEMENTS, |element| put(element, entry, depth + 1, names));
            }
        }
        View::Group(entries) => group(annotation, entries, depth, names),
    }
}

fn group(
    annotation: &mut ProtobufMessage<'_>,
    mut entries: Entries<'_>,
    depth: usize,
    names: &mut InternedNames,
) {
    while let (Some(name), Some(value)) = (entries.next(), entries.next()) {
        let name = names.text(if let View::Text(name) = name { name } else { b"?" });
        annotation.message(MEMBERS, |member| {
            member.unsigned(NAME, name);
            put(member, value, depth + 1, names);
        });
    }
}

fn is_empty(mut entries: Entries<'_>) -> bool {
    entries.next().is_none()
}
