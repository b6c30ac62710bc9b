//! The lexer: splits a condition's text into tokens.

use super::tree::EventVariable;
use crate::Invalid;
use sordino_event::Level;
use sordino_filter_vm::Number;
use std::ops::Range;

/// The smallest part of a text that has a meaning.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ConditionToken {
    Number(Number),
    /// A text in quotes, as a pattern for [`sordino_filter_vm::glob`].
    Text(String),
    /// The name of a field or of a level.
    Name(String),
    Variable(EventVariable),
    /// The name of an annotation.
    Annotation(String),
    /// The name of a performance counter.
    Counter(String),
    /// A symbol from the list [`SYMBOLS`].
    Symbol(&'static str),
    End,
}

/// The operators and brackets. A symbol stands before those that are a prefix of it.
const SYMBOLS: [&str; 24] = [
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "!", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "(", ")", "[", "]",
];

/// Units of time, in nanoseconds.
const UNITS: [(&str, i128); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Returns all tokens with their places; the last one is [`ConditionToken::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(ConditionToken, Range<usize>)>, Invalid> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip(char::is_whitespace);
        let start = lexer.at;
        let token = lexer.token()?;
        let ends = token == ConditionToken::End;
        tokens.push((token, start..lexer.at));
        if ends {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips all such characters and returns them.
    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|letter| !is_skipped(letter)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn token(&mut self) -> Result<ConditionToken, Invalid> {
        let rest = self.rest();
        match rest.chars().next() {
            None => Ok(ConditionToken::End),
            Some('0'..='9') => self.number().map(ConditionToken::Number),
            Some('"') => self.quoted().map(ConditionToken::Text),
            Some('$') => self.variable(),
            Some(letter) if in_name(letter) => Ok(ConditionToken::Name(self.name().to_owned())),
            Some(letter) => {
                let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) else {
                    let at = self.at..self.at + letter.len_utf8();
                    let message = if letter == '=' {
                        "equality is written ==".to_owned()
                    } else {
                        format!("{letter:?} means nothing in a condition")
                    };
                    return Err(Invalid::new(at, message));
                };
                self.at += symbol.len();
                Ok(ConditionToken::Symbol(symbol))
            }
        }
    }

    /// Reads a name. A level's name may contain a hyphen, which no other name may.
    fn name(&mut self) -> &'a str {
        let rest = self.rest();
        let level = Level::ALL
            .into_iter()
            .map(Level::name)
            .filter(|name| name.contains('-'))
            .find(|name| rest.strip_prefix(name).is_some_and(|behind| !behind.starts_with(in_name)));
        match level {
            Some(name) => {
                self.at += name.len();
                name
            }
            None => self.skip(in_name),
        }
    }

    fn variable(&mut self) -> Result<ConditionToken, Invalid> {
        let start = self.at;
        self.at += 1;
        let name = self.skip(in_name);
        let member: Option<fn(String) -> ConditionToken> = match name {
            "annotation" => Some(ConditionToken::Annotation),
            "counter" => Some(ConditionToken::Counter),
            _ => None,
        };
        if let Some(member) = member {
            return self.member(start, name).map(member);
        }
        let known = EventVariable::ALL.into_iter().find(|variable| variable.name() == name);
        known.map(ConditionToken::Variable).ok_or_else(|| {
            let names = EventVariable::ALL.map(|variable| format!("${}", variable.name())).join(", ");
            let message = format!("no such variable; there are {names}, $annotation.NAME, $counter.NAME");
            Invalid::new(start..self.at, message)
        })
    }

    /// Reads the point and the name behind `$annotation` or `$counter`, which begins at `start`.
    fn member(&mut self, start: usize, of: &str) -> Result<String, Invalid> {
        let point = self.skip(|letter| letter == '.');
        match self.skip(|letter| in_name(letter) || letter == '-') {
            name if point == "." && !name.is_empty() => Ok(name.to_owned()),
            _ => Err(Invalid::new(start..self.at, format!("a name is missing, as in ${of}.NAME"))),
        }
    }

    /// Reads a text in quotes. A backslash makes a quote, a backslash, a star or a question mark literal.
    fn quoted(&mut self) -> Result<String, Invalid> {
        let start = self.at;
        let mut pattern = String::new();
        let mut letters = self.rest().char_indices().skip(1);
        while let Some((offset, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.at += offset + 1;
                    return Ok(pattern);
                }
                '\\' => match letters.next() {
                    Some((_, '"')) => pattern.push('"'),
                    Some((_, escaped @ ('\\' | '*' | '?'))) => pattern.extend(['\\', escaped]),
                    Some((_, other)) => {
                        let at = start + offset..start + offset + 1 + other.len_utf8();
                        return Err(Invalid::new(at, r#"no escape: there are \" \\ \* \?"#));
                    }
                    None => break,
                },
                other => pattern.push(other),
            }
        }
        Err(Invalid::new(start..self.text.len(), "the quote that ends this text is missing"))
    }

    /// Reads a number, with the unit of time if a word follows.
    fn number(&mut self) -> Result<Number, Invalid> {
        let start = self.at;
        let radix = match self.rest().get(..2) {
            Some("0x") => 16,
            Some("0o") => 8,
            Some("0b") => 2,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
        }
        let digits = self.digits(radix)?;
        let fraction = match self.rest().strip_prefix('.') {
            Some(behind) if radix == 10 && behind.starts_with(|letter: char| letter.is_ascii_digit()) => {
                self.at += 1;
                Some(self.digits(10)?)
            }
            _ => None,
        };
        let exponent = if radix == 10 { self.exponent()? } else { None };
        let mantissa = format!("{digits}{}", fraction.as_deref().unwrap_or_default());
        let too_large = Invalid::new(start..self.at, "too large a number");
        let mantissa = i128::from_str_radix(&mantissa, radix).or(Err(too_large.clone()));
        if let Some(unit) = self.unit()? {
            let at = start..self.at;
            if exponent.is_some() {
                return Err(Invalid::new(at, "a time is written without an exponent"));
            }
            let places = fraction.map_or(0, |fraction| fraction.len() as u32);
            let scaled = mantissa?.checked_mul(unit).zip(10_i128.checked_pow(places)).ok_or(too_large)?;
            return match scaled {
                (parts, one) if parts % one == 0 => Ok(Number::Integer(parts / one)),
                _ => Err(Invalid::new(at, "no whole number of nanoseconds")),
            };
        }
        if fraction.is_none() && exponent.is_none() {
            return mantissa.map(Number::Integer);
        }
        let (fraction, exponent) = (fraction.unwrap_or_default(), exponent.unwrap_or_else(|| "0".to_owned()));
        let value = format!("{digits}.{fraction}e{exponent}").parse().ok();
        value.filter(|value: &f64| value.is_finite()).map(Number::Float).ok_or(too_large)
    }

    /// Reads digits, without the underscores between them.
    fn digits(&mut self, radix: u32) -> Result<String, Invalid> {
        let start = self.at;
        let digits = self.skip(|letter| letter.is_digit(radix) || letter == '_');
        let next = self.rest().chars().next().filter(char::is_ascii_digit);
        if let Some(digit) = next {
            let at = self.at..self.at + 1;
            return Err(Invalid::new(at, format!("{digit} is no digit of a number with base {radix}")));
        }
        if digits.is_empty() || digits.starts_with('_') || digits.ends_with('_') {
            return Err(Invalid::new(start..self.at, "digits are missing"));
        }
        Ok(digits.replace('_', ""))
    }

    /// Reads the exponent of a floating-point number, with its sign.
    fn exponent(&mut self) -> Result<Option<String>, Invalid> {
        let Some(behind) = self.rest().strip_prefix(['e', 'E']) else { return Ok(None) };
        let unsigned = behind.strip_prefix(['+', '-']).unwrap_or(behind);
        if !unsigned.starts_with(|letter: char| letter.is_ascii_digit()) {
            return Ok(None);
        }
        let sign = &behind[..behind.len() - unsigned.len()];
        self.at += 1 + sign.len();
        Ok(Some(format!("{sign}{}", self.digits(10)?)))
    }

    /// Reads a unit of time and returns its nanoseconds. No other word may follow a number.
    fn unit(&mut self) -> Result<Option<i128>, Invalid> {
        let end = self.at;
        self.skip(char::is_whitespace);
        let start = self.at;
        let word = self.skip(in_name);
        if word.is_empty() {
            self.at = end;
            return Ok(None);
        }
        let unit = UNITS.into_iter().find(|(name, _)| *name == word).map(|(_, nanoseconds)| nanoseconds);
        let names = UNITS.map(|(name, _)| name).join(", ");
        unit.map(Some).ok_or_else(|| Invalid::new(start..self.at, format!("no unit of time: {names}")))
    }
}
