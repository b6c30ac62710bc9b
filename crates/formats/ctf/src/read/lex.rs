//! The lexer of TSDL, the language of CTF metadata.

use crate::Problem;

/// A problem, and the offset in the text where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) offset: usize,
    pub(super) problem: Problem,
}

pub(super) type Result<T> = std::result::Result<T, At>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MetadataToken<'a> {
    /// A keyword or an identifier, depending on the context.
    Word(&'a str),
    /// An integer or character constant, without its sign.
    Number(u64),
    Text(String),
    /// A punctuation mark or an operator.
    Sign(&'static str),
    End,
}

impl MetadataToken<'_> {
    /// Returns the token's text for "expected ..., found ...".
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Word(word) => format!("`{word}`"),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The punctuation, longest first, so that `:=` is not taken for `:`.
const SIGNS: [&str; 19] =
    ["...", ":=", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ",", ".", ":", "=", "*", "+", "-"];

/// A lexer that splits a text into tokens.
#[derive(Clone)]
pub(super) struct MetadataLexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> MetadataLexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the next token and its offset.
    pub(super) fn next(&mut self) -> Result<(usize, MetadataToken<'a>)> {
        self.skip_blank()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok((start, MetadataToken::End)) };
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => MetadataToken::Word(self.word()),
            '0'..='9' => MetadataToken::Number(self.number()?),
            '"' => MetadataToken::Text(self.quoted('"', "text")?),
            '\'' => MetadataToken::Number(self.character()?),
            _ => MetadataToken::Sign(self.sign(first)?),
        };
        Ok((start, token))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, offset: usize, problem: Problem) -> Result<T> {
        Err(At { offset, problem })
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(length) => self.at += length + 4,
                    None => return self.fail(self.at, Problem::Endless("comment")),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Reads a decimal, octal (0...) or hexadecimal (0x...) number, with C's suffixes.
    fn number(&mut self) -> Result<u64> {
        let start = self.at;
        let word = self.word();
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        let parsed = if let Some(digits) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            u64::from_str_radix(digits, 16)
        } else if let Some(digits) = digits.strip_prefix("0b") {
            u64::from_str_radix(digits, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        };
        parsed.or_else(|_| self.fail(start, Problem::Number(word.to_owned())))
    }

    /// Reads the value of a character constant.
    fn character(&mut self) -> Result<u64> {
        let start = self.at;
        let text = self.quoted('\'', "character")?;
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => Ok(u64::from(u32::from(only))),
            _ => self.fail(start, Problem::Number(format!("'{text}'"))),
        }
    }

    fn quoted(&mut self, quote: char, what: &'static str) -> Result<String> {
        let start = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest();
            let Some(length) = rest.find([quote, '\\', '\n']) else {
                return self.fail(start, Problem::Endless(what));
            };
            bytes.extend_from_slice(&rest.as_bytes()[..length]);
            self.at += length;
            match rest.as_bytes()[length] {
                b'\\' => bytes.push(self.escape(start, what)?),
                b'\n' => return self.fail(start, Problem::Endless(what)),
                _ => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }

    /// Reads the byte that an escape sequence stands for.
    fn escape(&mut self, start: usize, what: &'static str) -> Result<u8> {
        let backslash = self.at;
        let rest = &self.rest()[1..];
        let Some(first) = rest.chars().next() else { return self.fail(start, Problem::Endless(what)) };
        let digits =
            |text: &str, radix, most| text.chars().take(most).take_while(|c| c.is_digit(radix)).count();
        let (prefix, length, radix) = match first {
            'x' => (1, digits(&rest[1..], 16, 2), 16),
            '0'..='7' => (0, digits(rest, 8, 3), 8),
            _ => {
                self.at += 1 + first.len_utf8();
                return Ok(match first {
                    'n' => b'\n',
                    't' => b'\t',
                    'r' => b'\r',
                    'a' => 7,
                    'b' => 8,
                    'f' => 12,
                    'v' => 11,
                    '\\' | '"' | '\'' | '?' => first as u8,
                    _ => return self.fail(backslash, Problem::Escape(first)),
                });
            }
        };
        self.at += 1 + prefix + length;
        u8::from_str_radix(&rest[prefix..prefix + length], radix)
            .or_else(|_| self.fail(backslash, Problem::Escape(first)))
    }

    fn sign(&mut self, first: char) -> Result<&'static str> {
        match SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) {
            Some(sign) => {
                self.at += sign.len();
                Ok(sign)
            }
            None => self.fail(self.at, Problem::Character(first)),
        }
    }
}

/// Returns the line and the column of a byte of `text`, both from 1.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<MetadataToken<'_>> {
        let mut lexer = MetadataLexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next().unwrap() {
                (_, MetadataToken::End) => return tokens,
                (_, token) => tokens.push(token),
            }
        }
    }

    fn problem(text: &str) -> (usize, Problem) {
        let mut lexer = MetadataLexer::new(text);
        loop {
            match lexer.next() {
                Ok((_, MetadataToken::End)) => panic!("no problem in {text}"),
                Ok(_) => {}
                Err(at) => return (at.offset, at.problem),
            }
        }
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        assert_eq!(
            tokens("0 10 010 0x1F 0XfULL 18446744073709551615u 'a' '\\n'"),
            [0, 10, 8, 31, 15, u64::MAX, 97, 10].map(MetadataToken::Number)
        );
    }

    #[test]
    fn the_longest_sign_counts() {
        assert_eq!(tokens("a.b:=c ...:="), {
            use MetadataToken::{Sign, Word};
            [Word("a"), Sign("."), Word("b"), Sign(":="), Word("c"), Sign("..."), Sign(":=")]
        });
    }

    #[test]
    fn escapes_become_bytes() {
        let text = r#""a\"b\\\n\t\101\x42\x4g\0é\xc3\xa9""#;
        assert_eq!(tokens(text), [MetadataToken::Text("a\"b\\\n\tAB\u{4}g\0éé".to_owned())]);
    }

    #[test]
    fn comments_and_blanks_are_nothing() {
        assert_eq!(
            tokens("/* a * / */x// y\n/**/z // end"),
            [MetadataToken::Word("x"), MetadataToken::Word("z")]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        assert_eq!(problem("a /* b"), (2, Problem::Endless("comment")));
        assert_eq!(problem("a \"b"), (2, Problem::Endless("text")));
        assert_eq!(problem("\"b\n\""), (0, Problem::Endless("text")));
        assert_eq!(problem("\"b\\"), (0, Problem::Endless("text")));
        assert_eq!(problem("a $"), (2, Problem::Character('$')));
        assert_eq!(problem("é"), (0, Problem::Character('é')));
        assert_eq!(problem("\"\\é\""), (1, Problem::Escape('é')));
        assert_eq!(problem("\"\\xg\""), (1, Problem::Escape('x')));
        assert_eq!(problem("\"\\777\""), (1, Problem::Escape('7')));
        assert_eq!(problem("09"), (0, Problem::Number("09".into())));
        assert_eq!(problem("0x"), (0, Problem::Number("0x".into())));
        assert_eq!(problem("12ab"), (0, Problem::Number("12ab".into())));
        assert_eq!(problem("''"), (0, Problem::Number("''".into())));
        assert_eq!(problem("18446744073709551616"), (0, Problem::Number("18446744073709551616".into())));
    }

    #[test]
    fn positions_are_lines_and_columns_from_1() {
        assert_eq!(position("ab\ncé$", 0), (1, 1));
        assert_eq!(position("ab\ncé$", 6), (2, 3));
        assert_eq!(position("ab\n", 99), (2, 1));
    }
}
