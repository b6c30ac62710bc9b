//! The types that metadata declares, as they are written there: a byte order may be "the trace's"; clocks, lengths and
//! tags are names.

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
pub(super) struct DeclaredType {
    pub(super) kind: TypeKind,
    /// The alignment in bits; a power of 2.
    pub(super) align: u64,
    /// The depth: 1 + that of the deepest part.
    pub(super) depth: u32,
    /// The clock of the first part that has one.
    pub(super) clock: Option<Arc<Path>>,
}

#[derive(Debug)]
pub(super) enum TypeKind {
    Integer(IntegerType),
    /// A floating-point number of 32 or 64 bits.
    Float(IntegerType),
    Enumeration(Arc<EnumerationType>),
    String,
    Structure(Vec<Member>),
    Variant {
        tag: Option<Path>,
        options: Arc<[Member]>,
        /// The offset in the metadata.
        offset: usize,
    },
    Array(Arc<DeclaredType>, u64),
    Sequence(Arc<DeclaredType>, Path),
}

/// A field of a structure or an option of a variant.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The name as written, with the underscore that tracers put in front.
    pub(super) name: String,
    pub(super) ty: Arc<DeclaredType>,
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
pub(super) enum Endianness {
    Little,
    Big,
}

#[derive(Clone, Debug)]
pub(super) struct IntegerType {
    /// The size in bits, 1 to 64.
    pub(super) bits: u32,
    pub(super) signed: bool,
    /// The byte order; `None` is the trace's.
    pub(super) order: Option<Endianness>,
    pub(super) base: Base,
    /// True if it is a character.
    pub(super) text: bool,
    /// The clock whose ticks it contains.
    pub(super) clock: Option<Arc<Path>>,
}

#[derive(Clone, Debug)]
pub(super) struct EnumerationType {
    pub(super) integer: IntegerType,
    pub(super) ranges: Vec<LabelRange>,
}

/// A label, and the range of values, ends included, that have it.
#[derive(Clone, Debug)]
pub(super) struct LabelRange {
    pub(super) label: String,
    pub(super) low: i128,
    pub(super) high: i128,
}

impl DeclaredType {
    /// Creates a type. The alignment is `explicit` if that is larger than the alignment of the parts. `offset` is the
    /// place for errors.
    pub(super) fn new(kind: TypeKind, explicit: u64, offset: usize) -> Result<Arc<Self>> {
        let parts: Vec<&Self> = match &kind {
            TypeKind::Structure(members) => members.iter().map(|member| &*member.ty).collect(),
            TypeKind::Variant { options, .. } => options.iter().map(|option| &*option.ty).collect(),
            TypeKind::Array(element, _) | TypeKind::Sequence(element, _) => vec![element],
            _ => Vec::new(),
        };
        let depth = 1 + parts.iter().map(|part| part.depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            return Err(At { offset, problem: Problem::Depth(MAX_DEPTH) });
        }
        let needed = match &kind {
            TypeKind::String => 8,
            // The selected option has its own alignment.
            TypeKind::Variant { .. } => 1,
            _ => parts.iter().map(|part| part.align).max().unwrap_or(1),
        };
        let clock = match &kind {
            TypeKind::Integer(integer) => integer.clock.clone(),
            TypeKind::Enumeration(enumeration) => enumeration.integer.clock.clone(),
            _ => parts.iter().find_map(|part| part.clock.clone()),
        };
        Ok(Arc::new(Self { kind, align: needed.max(explicit), depth, clock }))
    }

    /// Returns the same variant with its option selected by `tag`; other types stay as they are.
    pub(super) fn tagged(self: Arc<Self>, tag: Path) -> Arc<Self> {
        let TypeKind::Variant { options, offset, .. } = &self.kind else { return self };
        let kind = TypeKind::Variant { tag: Some(tag), options: Arc::clone(options), offset: *offset };
        Arc::new(Self { kind, align: self.align, depth: self.depth, clock: self.clock.clone() })
    }

    /// Returns the integer under an integer or enumeration.
    pub(super) fn integer(&self) -> Option<&IntegerType> {
        match &self.kind {
            TypeKind::Integer(integer) => Some(integer),
            TypeKind::Enumeration(enumeration) => Some(&enumeration.integer),
            _ => None,
        }
    }

    /// Returns true if it is one character of a text.
    pub(super) fn is_character(&self) -> bool {
        matches!(&self.kind, TypeKind::Integer(integer) if integer.text && integer.bits == 8 && self.align == 8)
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
