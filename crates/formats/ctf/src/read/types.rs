//! The types that metadata declares, as they were written: byte orders may still be "the trace's", clocks, lengths and
//! tags are still names.

use super::lex::{At, Result};
use crate::Problem;
use sordino_event::Base;
use std::sync::Arc;

/// The maximum depth of nested types. LTTng's own go to 4.
pub(super) const MAX_DEPTH: u32 = 32;

/// The largest alignment, in bits: a page.
const MAX_ALIGN: u64 = 4096 * 8;

/// A type with the properties that follow from its parts, so that it need not be traversed.
#[derive(Debug)]
pub(super) struct Type {
    pub(super) kind: Kind,
    /// The alignment in bits; a power of 2.
    pub(super) align: u64,
    /// The depth: 1 + that of the deepest part.
    pub(super) depth: u32,
    /// The clock of the first part that has one.
    pub(super) clock: Option<Arc<Path>>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Integer(Integer),
    /// A floating-point number of 32 or 64 bits.
    Float(Integer),
    Enumeration(Arc<Enumeration>),
    String,
    Structure(Vec<Member>),
    Variant {
        tag: Option<Path>,
        options: Arc<[Member]>,
        /// The offset in the metadata.
        offset: usize,
    },
    Array(Arc<Type>, u64),
    Sequence(Arc<Type>, Path),
}

/// A field of a structure or an option of a variant.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The name as written, with the underscore that tracers put in front.
    pub(super) name: String,
    pub(super) ty: Arc<Type>,
}

/// The dotted name of another field.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) words: Vec<String>,
    /// The offset in the metadata.
    pub(super) offset: usize,
}

impl Path {
    pub(super) fn text(&self) -> String {
        self.words.join(".")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

#[derive(Clone, Debug)]
pub(super) struct Integer {
    /// The size in bits, 1 to 64.
    pub(super) bits: u32,
    pub(super) signed: bool,
    /// The byte order; `None` is the trace's.
    pub(super) order: Option<Order>,
    pub(super) base: Base,
    /// True if it is a character.
    pub(super) text: bool,
    /// The clock whose ticks it contains.
    pub(super) clock: Option<Arc<Path>>,
}

#[derive(Clone, Debug)]
pub(super) struct Enumeration {
    pub(super) integer: Integer,
    pub(super) ranges: Vec<Range>,
}

/// A label, and the range of values, ends included, that have it.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) label: String,
    pub(super) low: i128,
    pub(super) high: i128,
}

impl Type {
    /// Creates a type. The alignment is `explicit` where that is larger than the parts need. `offset` is the place for
    /// errors.
    pub(super) fn new(kind: Kind, explicit: u64, offset: usize) -> Result<Arc<Self>> {
        let parts: Vec<&Self> = match &kind {
            Kind::Structure(members) => members.iter().map(|member| &*member.ty).collect(),
            Kind::Variant { options, .. } => options.iter().map(|option| &*option.ty).collect(),
            Kind::Array(element, _) | Kind::Sequence(element, _) => vec![element],
            _ => Vec::new(),
        };
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(At { offset, problem: Problem::Depth(MAX_DEPTH) });
        }
        let needed = match &kind {
            Kind::String => 8,
            // The selected option has its own alignment.
            Kind::Variant { .. } => 1,
            _ => parts.iter().map(|part| part.align).max().unwrap_or(1),
        };
        let clock = match &kind {
            Kind::Integer(integer) => integer.clock.clone(),
            Kind::Enumeration(enumeration) => enumeration.integer.clock.clone(),
            _ => parts.iter().find_map(|part| part.clock.clone()),
        };
        Ok(Arc::new(Self { kind, align: needed.max(explicit), depth, clock }))
    }

    /// Returns the same variant with its option selected by `tag`; other types stay as they are.
    pub(super) fn tagged(self: Arc<Self>, tag: Path) -> Arc<Self> {
        let Kind::Variant { options, offset, .. } = &self.kind else { return self };
        let kind = Kind::Variant { tag: Some(tag), options: Arc::clone(options), offset: *offset };
        Arc::new(Self { kind, align: self.align, depth: self.depth, clock: self.clock.clone() })
    }

    /// Returns the integer under an integer or enumeration.
    pub(super) fn integer(&self) -> Option<&Integer> {
        match &self.kind {
            Kind::Integer(integer) => Some(integer),
            Kind::Enumeration(enumeration) => Some(&enumeration.integer),
            _ => None,
        }
    }

    /// Returns true if it is one character of a text.
    pub(super) fn is_character(&self) -> bool {
        matches!(&self.kind, Kind::Integer(integer) if integer.text && integer.bits == 8 && self.align == 8)
    }
}

/// Returns `bits` as an alignment, if it is a valid one.
pub(super) fn alignment(bits: i128) -> Option<u64> {
    u64::try_from(bits).ok().filter(|bits| bits.is_power_of_two() && *bits <= MAX_ALIGN)
}

/// Returns the name as users know it: LTTng puts an underscore before every name, so that none is a keyword.
pub(super) fn plain(name: &str) -> &str {
    match name.strip_prefix('_') {
        Some("") | None => name,
        Some(plain) => plain,
    }
}
