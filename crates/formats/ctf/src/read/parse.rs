//! The grammar of TSDL: types, and the blocks that assign them to streams and events.

use super::lex::{At, MetadataLexer, MetadataToken, Result};
use super::parse_type::Specifier;
use super::types::{DeclaredType, MAX_DEPTH, Member, Path};
use crate::Problem;
use std::collections::HashMap;
use std::sync::Arc;

/// A top-level block: `trace`, `env`, `clock`, `stream`, `event` or `callsite`.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) kind: &'static str,
    /// The offset of the block in the text.
    pub(super) offset: usize,
    pub(super) entries: Vec<BlockEntry>,
}

/// An entry of a block, `name = value;` or `name := type;`.
#[derive(Debug)]
pub(super) struct BlockEntry {
    pub(super) name: String,
    pub(super) offset: usize,
    pub(super) value: EntryValue,
}

#[derive(Debug)]
pub(super) enum EntryValue {
    Number(i128),
    Text(String),
    Name(Path),
    Type(Arc<DeclaredType>),
}

const BLOCKS: [&str; 6] = ["trace", "env", "clock", "stream", "event", "callsite"];

pub(super) fn parse(text: &str) -> Result<Vec<Block>> {
    let mut parser = MetadataParser::new(text)?;
    let mut blocks = Vec::new();
    while parser.token != MetadataToken::End {
        if parser.accept(";")? || parser.definition()? || parser.tagged_definition()? {
            continue;
        }
        blocks.push(parser.block()?);
    }
    Ok(blocks)
}

/// A parser with a lookahead of one token. The grammar of types is in [`super::parse_type`].
pub(super) struct MetadataParser<'a> {
    lexer: MetadataLexer<'a>,
    /// The next token and its offset.
    pub(super) token: MetadataToken<'a>,
    pub(super) offset: usize,
    /// The types that can be named here, innermost scope last. The name of a structure starts with "struct ".
    scopes: Vec<HashMap<String, Arc<DeclaredType>>>,
    depth: u32,
}

impl<'a> MetadataParser<'a> {
    fn new(text: &'a str) -> Result<Self> {
        let mut lexer = MetadataLexer::new(text);
        let (offset, token) = lexer.next()?;
        Ok(Self { lexer, token, offset, scopes: vec![HashMap::new()], depth: 0 })
    }

    /// Returns the token and reads the next one.
    pub(super) fn advance(&mut self) -> Result<MetadataToken<'a>> {
        let (offset, token) = self.lexer.next()?;
        self.offset = offset;
        Ok(std::mem::replace(&mut self.token, token))
    }

    pub(super) fn fail<T>(&self, offset: usize, problem: Problem) -> Result<T> {
        Err(At { offset, problem })
    }

    pub(super) fn unexpected<T>(&self, expected: &'static str) -> Result<T> {
        self.fail(self.offset, Problem::Expected { expected, found: self.token.describe() })
    }

    /// Consumes the sign if it is the next token; returns true if so.
    pub(super) fn accept(&mut self, sign: &'static str) -> Result<bool> {
        let found = self.token == MetadataToken::Sign(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn expect(&mut self, sign: &'static str) -> Result<()> {
        if self.accept(sign)? { Ok(()) } else { self.unexpected(sign) }
    }

    /// Consumes the keyword if it is the next token; returns true if so.
    pub(super) fn accept_word(&mut self, word: &str) -> Result<bool> {
        let found = self.token == MetadataToken::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(super) fn word(&mut self, expected: &'static str) -> Result<&'a str> {
        match self.token {
            MetadataToken::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => self.unexpected(expected),
        }
    }

    /// Runs `inner` one level deeper, in a scope of its own.
    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return self.fail(self.offset, Problem::Depth(MAX_DEPTH));
        }
        self.depth += 1;
        self.scopes.push(HashMap::new());
        let result = inner(self);
        self.scopes.pop();
        self.depth -= 1;
        result
    }

    pub(super) fn define(&mut self, name: String, ty: Arc<DeclaredType>, offset: usize) -> Result<()> {
        let twice = Problem::Twice(name.clone());
        match self.scopes.last_mut().and_then(|scope| scope.insert(name, ty)) {
            Some(_) => self.fail(offset, twice),
            None => Ok(()),
        }
    }

    pub(super) fn lookup(&self, name: &str, offset: usize) -> Result<Arc<DeclaredType>> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(ty) => Ok(Arc::clone(ty)),
            None => self.fail(offset, Problem::UnknownType(name.to_owned())),
        }
    }

    /// Parses a path, `a.b.c`.
    pub(super) fn path(&mut self) -> Result<Path> {
        let offset = self.offset;
        let mut words = vec![self.word("a name")?.to_owned()];
        while self.accept(".")? {
            words.push(self.word("a name")?.to_owned());
        }
        Ok(Path { words, offset })
    }

    /// Parses a constant expression.
    pub(super) fn value(&mut self) -> Result<EntryValue> {
        let offset = self.offset;
        if self.accept("-")? {
            return match self.nested(Self::value)? {
                EntryValue::Number(number) => Ok(EntryValue::Number(-number)),
                _ => self.fail(offset, Problem::Expected { expected: "a number", found: "`-`".to_owned() }),
            };
        }
        if self.accept("+")? {
            return self.nested(Self::value);
        }
        if self.accept("(")? {
            let value = self.nested(Self::value)?;
            self.expect(")")?;
            return Ok(value);
        }
        match &self.token {
            MetadataToken::Number(number) => {
                let number = i128::from(*number);
                self.advance()?;
                Ok(EntryValue::Number(number))
            }
            MetadataToken::Text(text) => {
                let text = text.clone();
                self.advance()?;
                Ok(EntryValue::Text(text))
            }
            MetadataToken::Word(_) => self.path().map(EntryValue::Name),
            _ => self.unexpected("a value"),
        }
    }

    pub(super) fn number(&mut self) -> Result<i128> {
        let (offset, found) = (self.offset, self.token.describe());
        match self.value()? {
            EntryValue::Number(number) => Ok(number),
            _ => self.fail(offset, Problem::Expected { expected: "a number", found }),
        }
    }

    fn block(&mut self) -> Result<Block> {
        let offset = self.offset;
        let kind = BLOCKS.into_iter().find(|kind| self.token == MetadataToken::Word(kind));
        let Some(kind) = kind else { return self.unexpected("a block or a type definition") };
        self.advance()?;
        let entries = self.nested(Self::entries)?;
        self.expect(";")?;
        Ok(Block { kind, offset, entries })
    }

    fn entries(&mut self) -> Result<Vec<BlockEntry>> {
        let mut entries: Vec<BlockEntry> = Vec::new();
        self.expect("{")?;
        while !self.accept("}")? {
            if self.definition()? || self.tagged_definition()? {
                continue;
            }
            let path = self.path()?;
            let (name, offset) = (path.text(), path.offset);
            let value = if self.accept(":=")? {
                EntryValue::Type(self.abstract_type()?)
            } else {
                self.expect("=")?;
                self.value()?
            };
            self.expect(";")?;
            entries.push(BlockEntry { name, offset, value });
        }
        Ok(entries)
    }

    /// Parses the members of a structure or the options of a variant.
    pub(super) fn members(&mut self) -> Result<Vec<Member>> {
        let mut members: Vec<Member> = Vec::new();
        let mut names = std::collections::HashSet::new();
        self.expect("{")?;
        while !self.accept("}")? {
            if self.definition()? {
                continue;
            }
            let specifier = self.specifier()?;
            if matches!(specifier, Specifier::Tagged(_)) && self.accept(";")? {
                continue;
            }
            loop {
                let offset = self.offset;
                let (name, ty) = self.declarator(&specifier)?;
                if !names.insert(name) {
                    return self.fail(offset, Problem::Twice(name.to_owned()));
                }
                members.push(Member { name: name.to_owned(), ty });
                if !self.accept(",")? {
                    break;
                }
            }
            self.expect(";")?;
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::lex::position;

    fn complaint(text: &str) -> String {
        let at = parse(text).unwrap_err();
        let (line, column) = position(text, at.offset);
        format!("{line}:{column}: {}", at.problem)
    }

    #[test]
    fn blocks_hold_values_names_and_types() {
        let blocks =
            parse("env { a.b = -(+3); t = \"x\"; }; event { fields := struct { }; k = c.d.e; };").unwrap();
        assert_eq!(blocks.iter().map(|block| block.kind).collect::<Vec<_>>(), ["env", "event"]);
        assert_eq!(blocks[0].entries[0].name, "a.b");
        assert!(matches!(blocks[0].entries[0].value, EntryValue::Number(-3)));
        assert!(matches!(&blocks[0].entries[1].value, EntryValue::Text(text) if text == "x"));
        assert!(matches!(blocks[1].entries[0].value, EntryValue::Type(_)));
        assert!(matches!(&blocks[1].entries[1].value, EntryValue::Name(path) if path.text() == "c.d.e"));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, expected) in [
            ("trace {", "1:8: expected a name, found the end"),
            ("trace { a = 1; }", "1:17: expected ;, found the end"),
            ("nonsense", "1:1: expected a block or a type definition, found `nonsense`"),
            ("env {\n\ta = ; };", "2:6: expected a value, found `;`"),
            ("env { a = -\"x\"; };", "1:11: expected a number, found `-`"),
            ("env { a == 1; };", "1:10: expected a value, found `=`"),
            ("event { fields := u8; };", "1:19: unknown type `u8`"),
            ("event { fields := struct { string a, a; }; };", "1:38: `a` is defined twice"),
        ] {
            assert_eq!(complaint(text), expected, "{text}");
        }
    }

    #[test]
    fn nesting_has_an_end() {
        assert!(
            complaint(&format!("env {{ a = {}1; }};", "(".repeat(100_000))).ends_with("within each other")
        );
        assert!(
            complaint(&format!("env {{ a = {}1; }};", "-".repeat(100_000))).ends_with("within each other")
        );
        assert!(complaint(&"struct a { ".repeat(100_000)).ends_with("within each other"));
        assert!(complaint(&"enum a : ".repeat(100_000)).ends_with("within each other"));
        assert!(complaint(&"typealias struct { ".repeat(100_000)).ends_with("within each other"));
    }
}
