//! The attributes of integers, floating-point numbers and strings.

use super::lex::{MetadataToken, Result};
use super::parse::{BlockEntry, EntryValue, MetadataParser};
use super::types::{DeclaredType, Endianness, IntegerType, Path, TypeKind, alignment};
use crate::Problem;
use sordino_event::Base;
use std::sync::Arc;

impl MetadataParser<'_> {
    /// Parses `{ size = 8; ... }` behind `integer` and its kin.
    fn attributes(&mut self) -> Result<Vec<BlockEntry>> {
        let mut entries = Vec::new();
        self.expect("{")?;
        while !self.accept("}")? {
            let (offset, name) = (self.offset, self.word("an attribute")?.to_owned());
            self.expect("=")?;
            let value = self.value()?;
            self.expect(";")?;
            entries.push(BlockEntry { name, offset, value });
        }
        Ok(entries)
    }

    pub(super) fn integer(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        let mut integer = IntegerType {
            bits: 0,
            signed: false,
            order: None,
            base: Base::Decimal,
            text: false,
            clock: None,
        };
        let mut align = None;
        for entry in self.attributes()? {
            let known = match entry.name.as_str() {
                "size" => entry
                    .number()
                    .filter(|bits| (1..=64).contains(bits))
                    .map(|bits| integer.bits = bits as u32),
                "align" => entry.number().and_then(alignment).map(|bits| align = Some(bits)),
                "signed" => entry.boolean().map(|signed| integer.signed = signed),
                "byte_order" => entry.order().map(|order| integer.order = order),
                "base" => entry.base().map(|base| integer.base = base),
                "encoding" => entry.is_text().map(|text| integer.text = text),
                "map" => entry.path().map(|path| integer.clock = Some(Arc::new(path.clone()))),
                _ => Some(()),
            };
            if known.is_none() {
                return self.fail(entry.offset, entry.complaint());
            }
        }
        if integer.bits == 0 {
            return self.fail(offset, Problem::Missing("size"));
        }
        let natural = if integer.bits.is_multiple_of(8) { 8 } else { 1 };
        DeclaredType::new(TypeKind::Integer(integer), align.unwrap_or(natural), offset)
    }

    pub(super) fn float(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        let (mut exponent, mut mantissa, mut order, mut align) = (0, 0, None, 8);
        for entry in self.attributes()? {
            let known = match entry.name.as_str() {
                "exp_dig" => entry.number().map(|digits| exponent = digits),
                "mant_dig" => entry.number().map(|digits| mantissa = digits),
                "byte_order" => entry.order().map(|given| order = given),
                "align" => entry.number().and_then(alignment).map(|bits| align = bits),
                _ => Some(()),
            };
            if known.is_none() {
                return self.fail(entry.offset, entry.complaint());
            }
        }
        // The mantissa includes the bit that is not stored.
        let bits = match (exponent, mantissa) {
            (8, 24) => 32,
            (11, 53) => 64,
            _ => {
                return self
                    .fail(offset, attribute("floating_point", format!("of {exponent} + {mantissa} digits")));
            }
        };
        let integer =
            IntegerType { bits, signed: false, order, base: Base::Decimal, text: false, clock: None };
        DeclaredType::new(TypeKind::Float(integer), align, offset)
    }

    pub(super) fn string(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        if self.token == MetadataToken::Sign("{") {
            self.attributes()?;
        }
        DeclaredType::new(TypeKind::String, 8, offset)
    }
}

pub(super) fn attribute(name: &str, value: impl ToString) -> Problem {
    Problem::Attribute { name: name.to_owned(), value: value.to_string() }
}

impl BlockEntry {
    pub(super) fn complaint(&self) -> Problem {
        let value = match &self.value {
            EntryValue::Number(number) => number.to_string(),
            EntryValue::Text(text) => format!("{text:?}"),
            EntryValue::Name(path) => format!("`{}`", path.text()),
            EntryValue::Type(_) => "a type".to_owned(),
        };
        attribute(&self.name, value)
    }

    pub(super) fn number(&self) -> Option<i128> {
        match self.value {
            EntryValue::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        match &self.value {
            EntryValue::Name(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the text, which may also be a bare word.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            EntryValue::Text(text) => Some(text),
            EntryValue::Name(path) if path.words.len() == 1 => path.words.first().map(String::as_str),
            _ => None,
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        match (&self.value, self.text()) {
            (EntryValue::Number(number), _) => Some(*number != 0),
            (_, Some("true" | "TRUE")) => Some(true),
            (_, Some("false" | "FALSE")) => Some(false),
            _ => None,
        }
    }

    /// Returns the byte order; `Some(None)` is the trace's own.
    pub(super) fn order(&self) -> Option<Option<Endianness>> {
        Some(match self.text()? {
            "le" => Some(Endianness::Little),
            "be" | "network" => Some(Endianness::Big),
            "native" => None,
            _ => return None,
        })
    }

    fn base(&self) -> Option<Base> {
        Some(match (self.number(), self.text().unwrap_or_default()) {
            (Some(10), _) | (_, "decimal" | "dec" | "d" | "i" | "u") => Base::Decimal,
            (Some(16), _) | (_, "hexadecimal" | "hex" | "x" | "X" | "p") => Base::Hexadecimal,
            (Some(8), _) | (_, "octal" | "oct" | "o") => Base::Octal,
            (Some(2), _) | (_, "binary" | "b") => Base::Binary,
            _ => return None,
        })
    }

    fn is_text(&self) -> Option<bool> {
        match self.text()? {
            "UTF8" | "utf8" | "utf-8" | "UTF-8" | "ASCII" | "ascii" => Some(true),
            "none" => Some(false),
            _ => None,
        }
    }
}
