//! The compiler of one type to operations, and the resolution of a field's name to the operation that reads it.

use super::lex::{At, Result};
use super::program::{Arm, DecodeOp, Int, NO_SLOT, Register, Times};
use super::types::{DeclaredType, Endianness, IntegerType, Member, Path, TypeKind, plain};
use crate::Problem;
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of parts of a trace with its types expanded: a type can contain another one twice, which contains
/// another one twice ...
const MAX_PARTS: usize = 1 << 21;

/// The number of bytes of a name that count as a part.
const NAME_PART: usize = 64;

/// The scope of a structure of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    PacketHeader,
    PacketContext,
    EventHeader,
    StreamEventContext,
    EventContext,
    Payload,
}

/// The prefixes by which metadata refers to fields of each scope from elsewhere.
const SCOPES: [(Scope, &[&str]); 6] = [
    (Scope::PacketHeader, &["trace", "packet", "header"]),
    (Scope::PacketContext, &["stream", "packet", "context"]),
    (Scope::EventHeader, &["stream", "event", "header"]),
    (Scope::StreamEventContext, &["stream", "event", "context"]),
    (Scope::EventContext, &["event", "context"]),
    (Scope::Payload, &["event", "fields"]),
];

/// A compiled field that other fields may refer to.
#[derive(Clone, Debug)]
pub(super) enum CompiledField {
    /// The index of the operation that reads it, and its type.
    Integer(usize, Arc<DeclaredType>),
    Structure(CompiledFields),
    Other,
}

pub(super) type CompiledFields = HashMap<String, CompiledField>;

/// The collector of a trace's operations.
#[derive(Debug)]
pub(super) struct Compiler {
    order: Endianness,
    pub(super) ops: Vec<DecodeOp>,
    /// The number of integers that are remembered.
    pub(super) slots: u32,
    parts: usize,
    /// The fields of the scopes that lie before the current one; the last entry is the current scope itself.
    pub(super) roots: Vec<(Scope, CompiledFields)>,
    /// The fields so far of the structures around the current place, outermost first.
    frames: Vec<CompiledFields>,
}

/// A function that selects the register for an integer of a hidden scope, by name, type, and true if it is top-level.
pub(super) type ChooseRegister = fn(&str, &IntegerType, bool) -> Register;

impl Compiler {
    pub(super) fn new(order: Endianness) -> Self {
        Self { order, ops: Vec::new(), slots: 0, parts: 0, roots: Vec::new(), frames: Vec::new() }
    }

    /// Compiles a structure, each member by `compile`.
    pub(super) fn structure(
        &mut self,
        ty: &DeclaredType,
        members: &[Member],
        mut compile: impl FnMut(&mut Self, &Member, usize) -> Result<CompiledField>,
    ) -> Result<CompiledFields> {
        if ty.align > 1 {
            self.emit(DecodeOp::Align(ty.align - 1))?;
        }
        self.frames.push(CompiledFields::new());
        for (index, member) in members.iter().enumerate() {
            self.count(1 + member.name.len() / NAME_PART)?;
            let target = compile(self, member, index)?;
            if let Some(frame) = self.frames.last_mut() {
                frame.insert(member.name.clone(), target);
            }
        }
        Ok(self.frames.pop().unwrap_or_default())
    }

    /// Compiles a type whose value is shown.
    pub(super) fn show(&mut self, ty: &Arc<DeclaredType>) -> Result<CompiledField> {
        match &ty.kind {
            TypeKind::Integer(integer) => {
                let op = self.emit(DecodeOp::Integer(self.int(integer, ty.align), integer.base))?;
                return Ok(CompiledField::Integer(op, Arc::clone(ty)));
            }
            TypeKind::Enumeration(enumeration) => {
                let int = self.int(&enumeration.integer, ty.align);
                let op = self.emit(DecodeOp::Label(int, Arc::clone(enumeration)))?;
                return Ok(CompiledField::Integer(op, Arc::clone(ty)));
            }
            TypeKind::Float(integer) => {
                self.emit(DecodeOp::Float(self.int(integer, ty.align)))?;
            }
            TypeKind::String => {
                self.emit(DecodeOp::String)?;
            }
            TypeKind::Structure(members) => {
                self.emit(DecodeOp::Group(members.len() as u32))?;
                let names = self.structure(ty, members, |compiler, member, _| {
                    compiler.emit(DecodeOp::Name(plain(&member.name).into()))?;
                    compiler.show(&member.ty)
                })?;
                return Ok(CompiledField::Structure(names));
            }
            TypeKind::Array(element, length) => {
                self.repeat(element, Times::Fixed(*length), true, |compiler| compiler.show(element))?;
            }
            TypeKind::Sequence(element, path) => {
                let times = self.length(path)?;
                self.repeat(element, times, true, |compiler| compiler.show(element))?;
            }
            TypeKind::Variant { tag, options, offset } => {
                let tag = tag.as_ref().ok_or(At { offset: *offset, problem: Problem::NoTag })?;
                self.select(tag, options, |compiler, option| {
                    compiler.emit(DecodeOp::Group(1))?;
                    compiler.emit(DecodeOp::Name(plain(&option.name).into()))?;
                    compiler.show(&option.ty)
                })?;
            }
        }
        Ok(CompiledField::Other)
    }

    /// Compiles a type whose value is not shown; `register` selects the registers of its integers.
    pub(super) fn skip(
        &mut self,
        ty: &Arc<DeclaredType>,
        name: &str,
        register: ChooseRegister,
        top: bool,
    ) -> Result<CompiledField> {
        if let Some(integer) = ty.integer() {
            let place = register(plain(name), integer, top);
            let op = self.emit(DecodeOp::Register(self.int(integer, ty.align), place))?;
            return Ok(CompiledField::Integer(op, Arc::clone(ty)));
        }
        match &ty.kind {
            // These are done above.
            TypeKind::Integer(_) | TypeKind::Enumeration(_) => {}
            TypeKind::Float(integer) => {
                self.emit(DecodeOp::Register(self.int(integer, ty.align), Register::Nowhere))?;
            }
            TypeKind::String => {
                self.emit(DecodeOp::SkipString)?;
            }
            TypeKind::Structure(members) => {
                let names = self.structure(ty, members, |compiler, member, _| {
                    compiler.skip(&member.ty, &member.name, register, false)
                })?;
                return Ok(CompiledField::Structure(names));
            }
            TypeKind::Array(element, 16) if top && name == "uuid" && is_byte(element) => {
                self.emit(DecodeOp::Uuid)?;
            }
            TypeKind::Array(element, length) => {
                let times = Times::Fixed(*length);
                self.repeat(element, times, false, |compiler| compiler.skip(element, "", register, false))?;
            }
            TypeKind::Sequence(element, path) => {
                let times = self.length(path)?;
                self.repeat(element, times, false, |compiler| compiler.skip(element, "", register, false))?;
            }
            TypeKind::Variant { tag, options, offset } => {
                let tag = tag.as_ref().ok_or(At { offset: *offset, problem: Problem::NoTag })?;
                self.select(tag, options, |compiler, option| {
                    compiler.skip(&option.ty, &option.name, register, false)
                })?;
            }
        }
        Ok(CompiledField::Other)
    }

    fn repeat(
        &mut self,
        element: &DeclaredType,
        times: Times,
        shown: bool,
        body: impl FnOnce(&mut Self) -> Result<CompiledField>,
    ) -> Result<()> {
        if shown && element.is_character() {
            self.emit(DecodeOp::Text(times))?;
            return Ok(());
        }
        if !shown && is_byte(element) {
            self.emit(DecodeOp::SkipBytes(times))?;
            return Ok(());
        }
        // An array without elements is aligned, too.
        if element.align > 1 {
            self.emit(DecodeOp::Align(element.align - 1))?;
        }
        let at = self.emit(DecodeOp::Repeat { times, end: 0, shown })?;
        body(self)?;
        let behind = self.ops.len();
        if let Some(DecodeOp::Repeat { end, .. }) = self.ops.get_mut(at) {
            *end = behind;
        }
        Ok(())
    }

    fn select(
        &mut self,
        path: &Path,
        options: &[Member],
        mut body: impl FnMut(&mut Self, &Member) -> Result<CompiledField>,
    ) -> Result<()> {
        let (slot, ty) = self.remembered(path, "enumeration")?;
        let TypeKind::Enumeration(enumeration) = &ty.kind else { return Err(reference(path, "enumeration")) };
        let at = self.emit(DecodeOp::Select {
            slot,
            signed: enumeration.integer.signed,
            arms: Box::default(),
            end: 0,
        })?;
        let mut bodies = HashMap::new();
        for option in options {
            self.count(1 + option.name.len() / NAME_PART)?;
            let start = self.ops.len();
            body(self, option)?;
            let range = start..self.ops.len();
            bodies.entry(plain(&option.name)).or_insert(range.clone());
            bodies.insert(option.name.as_str(), range);
        }
        self.count(enumeration.ranges.len())?;
        let chosen = enumeration.ranges.iter().filter_map(|range| {
            let body = bodies.get(range.label.as_str())?.clone();
            Some(Arm { low: range.low, high: range.high, body })
        });
        let chosen = chosen.collect();
        let behind = self.ops.len();
        if let Some(DecodeOp::Select { arms, end, .. }) = self.ops.get_mut(at) {
            (*arms, *end) = (chosen, behind);
        }
        Ok(())
    }

    fn emit(&mut self, op: DecodeOp) -> Result<usize> {
        self.count(1)?;
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    pub(super) fn count(&mut self, parts: usize) -> Result<()> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts > MAX_PARTS {
            return Err(At { offset: 0, problem: Problem::TooLarge(MAX_PARTS) });
        }
        Ok(())
    }

    fn int(&self, integer: &IntegerType, align: u64) -> Int {
        Int {
            mask: align - 1,
            bits: integer.bits,
            signed: integer.signed,
            big: integer.order.unwrap_or(self.order) == Endianness::Big,
            slot: NO_SLOT,
        }
    }

    fn length(&mut self, path: &Path) -> Result<Times> {
        let (slot, ty) = self.remembered(path, "unsigned integer")?;
        match ty.integer() {
            Some(integer) if !integer.signed => Ok(Times::Slot(slot)),
            _ => Err(reference(path, "unsigned integer")),
        }
    }

    /// Returns the slot in which the integer at `path` is remembered, and its type.
    fn remembered(&mut self, path: &Path, expected: &'static str) -> Result<(u32, Arc<DeclaredType>)> {
        let (op, ty) = match self.find(path) {
            Some(CompiledField::Integer(op, ty)) => (*op, Arc::clone(ty)),
            Some(_) => return Err(reference(path, expected)),
            None => return Err(At { offset: path.offset, problem: Problem::UnknownField(path.text()) }),
        };
        let int = match self.ops.get_mut(op) {
            Some(DecodeOp::Integer(int, _) | DecodeOp::Label(int, _) | DecodeOp::Register(int, _)) => int,
            _ => return Err(reference(path, expected)),
        };
        if int.slot == NO_SLOT {
            int.slot = self.slots;
            self.slots += 1;
        }
        Ok((int.slot, ty))
    }

    /// Returns the field at `path`, relative to the structures around the current place, innermost first, or else to
    /// its scope's root.
    fn find(&self, path: &Path) -> Option<&CompiledField> {
        let words: Vec<_> = path.words.iter().map(String::as_str).collect();
        self.frames.iter().rev().find_map(|frame| descend(frame, &words)).or_else(|| {
            let (scope, prefix) = SCOPES.into_iter().find(|(_, prefix)| words.starts_with(prefix))?;
            let words = &words[prefix.len()..];
            match self.roots.iter().rposition(|(other, _)| *other == scope)? {
                current if current + 1 == self.roots.len() && !self.frames.is_empty() => {
                    descend(self.frames.first()?, words)
                }
                other => descend(&self.roots[other].1, words),
            }
        })
    }
}

fn descend<'n>(names: &'n CompiledFields, words: &[&str]) -> Option<&'n CompiledField> {
    let (first, rest) = words.split_first()?;
    match (names.get(*first)?, rest) {
        (target, []) => Some(target),
        (CompiledField::Structure(inner), rest) => descend(inner, rest),
        _ => None,
    }
}

fn reference(path: &Path, expected: &'static str) -> At {
    At { offset: path.offset, problem: Problem::Reference { name: path.text(), expected } }
}

fn is_byte(ty: &DeclaredType) -> bool {
    matches!(&ty.kind, TypeKind::Integer(integer) if integer.bits == 8 && ty.align == 8)
}
