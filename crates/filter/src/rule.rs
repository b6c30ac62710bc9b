//! Rules that choose the tracepoints to record: `motor:*, !motor:noise*, npt:loop if duration > 50us`.
//!
//! ```
//! use sordino_filter::condition::{Condition, Context};
//! use sordino_filter::rule::{Rule, Rules};
//! use sordino_event::{Level, Pid, Schema};
//! let rules = Rules(Rule::list("motor:*, !motor:noise*, net:tx if $level <= warning")?);
//! let context = Context { pid: Pid(4711), procname: "motor" };
//! let chosen = |name: &str| {
//!     let schema = Schema {
//!         provider: "motor".into(), name: name.into(), level: Level::Info, location: None, fields: vec![],
//!     };
//!     rules.choose(&schema, &context)
//! };
//! assert_eq!(chosen("period")?, Condition::Always);
//! assert_eq!(chosen("noise_floor")?, Condition::Never);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod filter;
mod ranking;

pub use filter::Filter;
pub use ranking::Ranking;

use crate::Invalid;
use crate::condition::{Condition, Context, Expression, compile_any};
use sordino_event::Schema;
use sordino_filter_vm::glob;
use std::fmt;
use std::ops::RangeInclusive;

/// Provider of the events about fibers (`docs/fibers.md`).
const FIBERS: &str = "sordino_fiber";
/// Provider of the tracepoints that the library declares in each program.
const BUILT_IN: &str = "sordino";

/// A rule that includes or excludes tracepoints by their names, and may limit the records by a condition.
///
/// It is written `NAME`, `!NAME` or `NAME if CONDITION`. In a name `*` stands for any number of characters and `?` for
/// one; a provider's name alone means all of its tracepoints.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    text: String,
    excludes: bool,
    /// The pattern for `provider:name`.
    pattern: String,
    /// The condition, and the offset of its text in the rule's.
    condition: Option<(usize, Expression)>,
}

/// A list of rules in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules(pub Vec<Rule>);

/// A rule whose condition does not fit a tracepoint that its name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The text of the rule.
    pub rule: String,
    /// The fault, and its place in that text.
    pub invalid: Invalid,
}

impl Rule {
    /// Parses rules with commas between them. A comma inside quotes, brackets or parentheses belongs to a condition.
    ///
    /// # Errors
    /// The first fault, and its place in `text`.
    pub fn list(text: &str) -> Result<Vec<Self>, Invalid> {
        parts(text).map(|(start, part)| Self::parse(part).map_err(|invalid| invalid.behind(start))).collect()
    }

    /// Parses one rule, which has no white space around it.
    fn parse(text: &str) -> Result<Self, Invalid> {
        let unsigned = text.strip_prefix('!').map(str::trim_start);
        let (excludes, rest) = (unsigned.is_some(), unsigned.unwrap_or(text));
        let start = text.len() - rest.len();
        let name = &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())];
        let pattern = pattern(name).map_err(|invalid| invalid.behind(start))?;
        let behind = rest[name.len()..].trim_start();
        let at = text.len() - behind.len();
        if behind.is_empty() {
            return Ok(Self { text: text.to_owned(), excludes, pattern, condition: None });
        }
        let in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let condition = behind.strip_prefix("if").filter(|rest| !rest.starts_with(in_name));
        let Some(condition) = condition else {
            return Err(Invalid::new(
                at..text.len(),
                "behind a name there is 'if' and a condition, or a comma",
            ));
        };
        if excludes {
            let message = "an exclusion has no condition: write NAME if !(...) instead";
            return Err(Invalid::new(at..text.len(), message));
        }
        let at = text.len() - condition.len();
        let expression = Expression::parse(condition).map_err(|invalid| invalid.behind(at))?;
        Ok(Self { text: text.to_owned(), excludes, pattern, condition: Some((at, expression)) })
    }

    /// Returns true if the rule applies to the tracepoint with this full name.
    pub fn matches(&self, full_name: &str) -> bool {
        glob::matches(self.pattern.as_bytes(), full_name.as_bytes())
    }

    /// Returns true if the rule adds the tracepoint with this full name: the rule does not exclude, and it applies to
    /// the tracepoint, or the tracepoint is about fibers and [implied](Rules::imply).
    pub fn brings(&self, full_name: &str) -> bool {
        self.matches(full_name) || provider(full_name) == FIBERS
    }

    /// Returns true if the rule excludes tracepoints.
    pub const fn excludes(&self) -> bool {
        self.excludes
    }

    /// Returns the pattern for full names: `motor:*` if the rule is `motor`.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// Returns true if the rule has a condition.
    pub const fn is_conditional(&self) -> bool {
        self.condition.is_some()
    }

    /// Returns true if the rule's condition compares the names of functions.
    pub fn names_functions(&self) -> bool {
        self.condition.as_ref().is_some_and(|(_, expression)| expression.names_functions())
    }

    /// Returns the rule with the addresses of the functions that its condition names, see
    /// [`Expression::with_functions`].
    fn with_functions(&self, resolve: &mut impl FnMut(&str) -> Vec<RangeInclusive<u64>>) -> Self {
        let resolved = |(at, expression): &(usize, Expression)| (*at, expression.with_functions(resolve));
        Self { condition: self.condition.as_ref().map(resolved), ..self.clone() }
    }

    /// Returns the first field of the rule's condition that is not among `fields`.
    pub fn missing_field(&self, fields: &[&str]) -> Option<&str> {
        self.condition.as_ref().and_then(|(_, expression)| expression.missing_field(fields))
    }

    fn unfit(&self, invalid: Invalid) -> Unfit {
        let start = self.condition.as_ref().map_or(0, |(start, _)| *start);
        Unfit { rule: self.text.clone(), invalid: invalid.behind(start) }
    }
}

/// Prints the rule as it was written.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rules {
    /// Returns the rules with the addresses of the functions that their conditions name; `resolve` returns those of a
    /// pattern, in one program.
    #[must_use]
    pub fn with_functions(&self, mut resolve: impl FnMut(&str) -> Vec<RangeInclusive<u64>>) -> Self {
        Self(self.0.iter().map(|rule| rule.with_functions(&mut resolve)).collect())
    }

    /// Returns the condition for the records of a tracepoint. [`Condition::Never`] means that it need not be enabled.
    ///
    /// The rules that match its name apply in order. A rule that includes adds the records that meet its condition, or
    /// all records if it has none; with several such rules, a record has to meet one of their conditions. A rule that
    /// excludes removes the records that the rules before it have added. A rule with a condition on a field that the
    /// tracepoint does not have adds nothing.
    ///
    /// # Errors
    /// The rule that does not fit the tracepoint for another reason.
    pub fn choose(&self, schema: &Schema, context: &Context<'_>) -> Result<Condition, Unfit> {
        let (full_name, fields) = (schema.full_name(), schema.field_names());
        let matching: Vec<_> = self.0.iter().filter(|rule| rule.matches(&full_name)).collect();
        let included = matching.rsplit(|rule| rule.excludes).next().unwrap_or_default();
        let fitting: Vec<_> = included.iter().filter(|rule| rule.missing_field(&fields).is_none()).collect();
        let conditions: Vec<_> = fitting.iter().filter_map(|rule| rule.condition.as_ref()).collect();
        let expressions: Vec<_> = conditions.iter().map(|(_, expression)| expression).collect();
        match expressions.len() {
            0 if fitting.is_empty() => return Ok(Condition::Never),
            number if number < fitting.len() => return Ok(Condition::Always),
            _ => {}
        }
        compile_any(&expressions, schema, context).map_err(|(number, invalid)| fitting[number].unfit(invalid))
    }
}

impl Rules {
    /// Returns true if the tracepoint is recorded in any case: it is about fibers, no rule names its provider, and a
    /// rule includes tracepoints other than the library's. If a switch between fibers were missing, other events would
    /// be shown in the wrong fiber.
    pub fn imply(&self, schema: &Schema) -> bool {
        let is_named = || self.0.iter().any(|rule| provider(&rule.pattern) == FIBERS);
        let has_others = || self.0.iter().any(|rule| !rule.excludes && provider(&rule.pattern) != BUILT_IN);
        schema.provider == FIBERS && has_others() && !is_named()
    }
}

impl Unfit {
    /// Returns two lines for a terminal, as [`Invalid::picture`] draws them.
    pub fn picture(&self) -> String {
        self.invalid.picture(&self.rule)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}': {}", self.rule, self.invalid)
    }
}

impl std::error::Error for Unfit {}

/// Returns the provider's part of a full name, or of a pattern for one.
fn provider(name: &str) -> &str {
    name.split(':').next().unwrap_or_default()
}

/// Splits a text at the commas that separate rules. Returns each part without white space around it, and its offset.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut depth, mut quoted, mut escaped) = (0_u32, false, false);
    let separates = move |letter: char| {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth = depth.saturating_sub(1),
            _ => return letter == ',' && depth == 0 && !quoted,
        }
        false
    };
    let mut next = 0;
    text.split(separates).map(move |part| {
        let start = next + (part.len() - part.trim_start().len());
        next += part.len() + 1;
        (start, part.trim())
    })
}

/// Returns the pattern for full names that a rule's name stands for.
fn pattern(name: &str) -> Result<String, Invalid> {
    if name.is_empty() {
        return Err(Invalid::new(0..0, "a tracepoint's name is missing here"));
    }
    let strange = |letter: char| !letter.is_ascii_alphanumeric() && !"_:*?".contains(letter);
    if let Some((at, letter)) = name.char_indices().find(|(_, letter)| strange(*letter)) {
        let message = match letter {
            '[' | ']' | '{' | '}' => {
                format!("{}; write one rule for each name", glob::DIALECT)
            }
            other => format!("{other:?} is in no tracepoint's name"),
        };
        return Err(Invalid::new(at..at + letter.len_utf8(), message));
    }
    let mut colons = name.match_indices(':').map(|(at, _)| at);
    let (first, second) = (colons.next(), colons.next());
    let misplaced = second.or(first.filter(|at| *at == 0 || at + 1 == name.len()));
    if let Some(at) = misplaced {
        return Err(Invalid::new(at..at + 1, "one ':' stands between a provider's name and a tracepoint's"));
    }
    Ok(if name.contains([':', '*', '?']) { name.to_owned() } else { format!("{name}:*") })
}

#[cfg(test)]
mod tests;
