//! The grammar of TSDL's types.

use super::attributes::attribute;
use super::lex::{MetadataToken, Result};
use super::parse::{EntryValue, MetadataParser};
use super::types::{DeclaredType, EnumerationType, LabelRange, TypeKind, alignment};
use crate::Problem;
use std::sync::Arc;

/// The words of C's types; every name that consists of them needs a `typealias`.
const C_WORDS: [&str; 12] = [
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "_Bool",
    "_Complex",
    "_Imaginary",
];

/// A type in front of its declarators.
pub(super) enum Specifier {
    /// A type that is defined in place.
    Type(Arc<DeclaredType>),
    /// A type that is defined in place with a name, `struct a {...}`: it may stand alone.
    Tagged(Arc<DeclaredType>),
    /// The name of a type, to which the declarator's stars belong, and its offset.
    Named(String, usize),
}

impl<'a> MetadataParser<'a> {
    /// Parses a definition that only names a type, if there is one.
    pub(super) fn definition(&mut self) -> Result<bool> {
        match self.token {
            MetadataToken::Word("typealias") => {
                self.advance()?;
                let ty = self.abstract_type()?;
                self.expect(":=")?;
                let offset = self.offset;
                let name = self.alias_name()?;
                self.define(name, ty, offset)?;
            }
            MetadataToken::Word("typedef") => {
                self.advance()?;
                let specifier = self.specifier()?;
                loop {
                    let offset = self.offset;
                    let (name, ty) = self.declarator(&specifier)?;
                    self.define(name.to_owned(), ty, offset)?;
                    if !self.accept(",")? {
                        break;
                    }
                }
            }
            _ => return Ok(false),
        }
        self.expect(";")?;
        Ok(true)
    }

    /// Parses `struct a {...};` and the like, if there is one.
    pub(super) fn tagged_definition(&mut self) -> Result<bool> {
        let found = matches!(self.token, MetadataToken::Word("struct" | "variant" | "enum"));
        if found {
            self.specifier()?;
            self.expect(";")?;
        }
        Ok(found)
    }

    /// Parses the name in a `typealias`: `unsigned long`, `foo_t`, `void *`.
    fn alias_name(&mut self) -> Result<String> {
        match self.specifier()? {
            Specifier::Named(name, _) => self.stars(name),
            _ => self.unexpected("a name"),
        }
    }

    fn stars(&mut self, mut name: String) -> Result<String> {
        while self.accept("*")? {
            name += " *";
            while self.accept_word("const")? {}
        }
        Ok(name)
    }

    /// Parses a type without a field's name.
    pub(super) fn abstract_type(&mut self) -> Result<Arc<DeclaredType>> {
        let specifier = self.specifier()?;
        let ty = self.pointed(&specifier)?;
        self.dimensions(ty)
    }

    fn pointed(&mut self, specifier: &Specifier) -> Result<Arc<DeclaredType>> {
        match specifier {
            Specifier::Type(ty) | Specifier::Tagged(ty) => Ok(Arc::clone(ty)),
            Specifier::Named(name, offset) => {
                let name = self.stars(name.clone())?;
                self.lookup(&name, *offset)
            }
        }
    }

    /// Parses a field's name with its stars and brackets; also returns the field's type.
    pub(super) fn declarator(&mut self, specifier: &Specifier) -> Result<(&'a str, Arc<DeclaredType>)> {
        let ty = self.pointed(specifier)?;
        let name = self.word("a name")?;
        Ok((name, self.dimensions(ty)?))
    }

    /// Parses dimensions, `[2][length]`: the first is the outermost.
    fn dimensions(&mut self, element: Arc<DeclaredType>) -> Result<Arc<DeclaredType>> {
        let offset = self.offset;
        if !self.accept("[")? {
            return Ok(element);
        }
        let length = self.value()?;
        self.expect("]")?;
        let element = self.nested(|parser| parser.dimensions(element))?;
        let kind = match length {
            EntryValue::Number(number) => match u64::try_from(number) {
                Ok(length) => TypeKind::Array(element, length),
                Err(_) => return self.fail(offset, attribute("length", number)),
            },
            EntryValue::Name(path) => TypeKind::Sequence(element, path),
            EntryValue::Text(text) => return self.fail(offset, attribute("length", format!("{text:?}"))),
            EntryValue::Type(_) => return self.unexpected("a length"),
        };
        DeclaredType::new(kind, 1, offset)
    }

    /// Parses a type specifier: `struct {...}`, `integer {...}`, `unsigned long`, ...
    pub(super) fn specifier(&mut self) -> Result<Specifier> {
        while self.accept_word("const")? {}
        let offset = self.offset;
        let MetadataToken::Word(word) = self.token else { return self.unexpected("a type") };
        self.advance()?;
        let tagged = matches!(self.token, MetadataToken::Word(_));
        let ty = match word {
            "struct" => self.structure(offset)?,
            "variant" => self.variant(offset)?,
            "enum" => self.enumeration(offset)?,
            "integer" => self.integer(offset)?,
            "floating_point" => self.float(offset)?,
            "string" => self.string(offset)?,
            _ => {
                let mut name = word.to_owned();
                if C_WORDS.contains(&word) {
                    while let MetadataToken::Word(next) = self.token
                        && (C_WORDS.contains(&next) || next == "const")
                    {
                        if next != "const" {
                            name = name + " " + next;
                        }
                        self.advance()?;
                    }
                }
                while self.accept_word("const")? {}
                return Ok(Specifier::Named(name, offset));
            }
        };
        Ok(if tagged { Specifier::Tagged(ty) } else { Specifier::Type(ty) })
    }

    /// Parses the name behind `struct`, `variant` or `enum`, if there is one.
    fn tag(&mut self, keyword: &str) -> Result<Option<String>> {
        match self.token {
            MetadataToken::Word(name) => {
                self.advance()?;
                Ok(Some(format!("{keyword} {name}")))
            }
            _ => Ok(None),
        }
    }

    /// Defines the name of `ty`, if it has one.
    fn named(
        &mut self,
        name: Option<String>,
        ty: Arc<DeclaredType>,
        offset: usize,
    ) -> Result<Arc<DeclaredType>> {
        if let Some(name) = name {
            self.define(name, Arc::clone(&ty), offset)?;
        }
        Ok(ty)
    }

    fn structure(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        let name = self.tag("struct")?;
        if self.token != MetadataToken::Sign("{") {
            let Some(name) = name else { return self.unexpected("{") };
            return self.lookup(&name, offset);
        }
        let members = self.nested(Self::members)?;
        let mut align = 1;
        if self.accept_word("align")? {
            self.expect("(")?;
            let (offset, bits) = (self.offset, self.number()?);
            let Some(bits) = alignment(bits) else { return self.fail(offset, attribute("align", bits)) };
            align = bits;
            self.expect(")")?;
        }
        let ty = DeclaredType::new(TypeKind::Structure(members), align, offset)?;
        self.named(name, ty, offset)
    }

    fn variant(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        let name = self.tag("variant")?;
        let tag = if self.accept("<")? {
            let path = self.path()?;
            self.expect(">")?;
            Some(path)
        } else {
            None
        };
        if self.token == MetadataToken::Sign("{") {
            let options = self.nested(Self::members)?.into();
            let ty = DeclaredType::new(TypeKind::Variant { tag, options, offset }, 1, offset)?;
            return self.named(name, ty, offset);
        }
        let Some(name) = name else { return self.unexpected("{") };
        let ty = self.lookup(&name, offset)?;
        Ok(match tag {
            Some(tag) => ty.tagged(tag),
            None => ty,
        })
    }

    fn enumeration(&mut self, offset: usize) -> Result<Arc<DeclaredType>> {
        let name = self.tag("enum")?;
        let container = if self.accept(":")? {
            match self.nested(Self::specifier)? {
                Specifier::Type(ty) | Specifier::Tagged(ty) => Some(ty),
                Specifier::Named(name, at) => Some(self.lookup(&name, at)?),
            }
        } else {
            None
        };
        if self.token != MetadataToken::Sign("{") {
            let Some(name) = name else { return self.unexpected("{") };
            return self.lookup(&name, offset);
        }
        let container = match container {
            Some(container) => container,
            None => self.lookup("int", offset)?,
        };
        let TypeKind::Integer(integer) = &container.kind else {
            return self.fail(offset, Problem::Reference { name: "enum".to_owned(), expected: "integer" });
        };
        let ranges = self.labels()?;
        let kind = TypeKind::Enumeration(Arc::new(EnumerationType { integer: integer.clone(), ranges }));
        let ty = DeclaredType::new(kind, container.align, offset)?;
        self.named(name, ty, offset)
    }

    /// Parses the labels of an enumeration, `{ a, b = 3, "c d" = 5 ... 9 }`.
    fn labels(&mut self) -> Result<Vec<LabelRange>> {
        let mut ranges: Vec<LabelRange> = Vec::new();
        self.expect("{")?;
        while !self.accept("}")? {
            let label = match &self.token {
                MetadataToken::Word(word) => (*word).to_owned(),
                MetadataToken::Text(text) => text.clone(),
                _ => return self.unexpected("a label"),
            };
            self.advance()?;
            let mut low = ranges.last().map_or(0, |range| range.high + 1);
            let mut high = low;
            if self.accept("=")? {
                let offset = self.offset;
                low = self.number()?;
                high = if self.accept("...")? { self.number()? } else { low };
                if low > high {
                    return self.fail(offset, attribute(&label, format!("{low} ... {high}")));
                }
            }
            ranges.push(LabelRange { label, low, high });
            if !self.accept(",")? && self.token != MetadataToken::Sign("}") {
                return self.unexpected("}");
            }
        }
        Ok(ranges)
    }
}
