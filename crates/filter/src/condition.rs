//! Conditions on the fields of a tracepoint: `duration > 50us && state == "Faulty"`.
//!
//! [`Expression::parse`] reads the text, [`Expression::compile`] compiles it for one tracepoint of one program, and
//! [`holds`] runs the code at each hit, in the program. `docs/conditions.md` describes the language and the code.
//!
//! ```text
//! text -> lexer -> parse -> tree -> resolve (layout) -> plan -> emit -> code ... machine
//! ```
//!
//! [`Expression::for_class`] compiles the same text for recorded events, whose fields have no types before they are
//! read.
//!
//! The code crosses the shared memory, so the machine trusts none of it. The machine is also the only part that runs in
//! a traced program.
//!
//! ```
//! use sordino_filter::condition::{Condition, Context, Expression, holds};
//! use sordino_event::{Level, Pid, catalogue};
//! let text = "event\t1\t6\tnpt\tloop\t\t0\nfield\tu32\tcycle\nfield\tu64\tduration\nend\n";
//! let (tracepoints, _) = catalogue::parse(text.as_bytes())?;
//! let context = Context { pid: Pid(4711), procname: "motor" };
//! let expression = Expression::parse("duration > 50us && cycle % 2 == 1")?;
//! let Condition::Code(code) = expression.compile(&tracepoints[0].1, &context)? else { panic!() };
//! let payload = |cycle: u32, duration: u64| [&cycle.to_ne_bytes()[..], &duration.to_ne_bytes()].concat();
//! assert!(holds(&code, &payload(7, 60_000), 1));
//! assert!(!holds(&code, &payload(8, 60_000), 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bounds;
mod comparison;
mod decoded;
mod emit;
mod known;
mod layout;
mod lexer;
mod parse;
mod plan;
mod resolve;
mod span;
mod tree;

pub use comparison::InlineComparison;
pub use decoded::ClassCondition;
pub use known::{FunctionNames, Known};
pub use sordino_filter_vm::{MAX_CODE, holds};

use crate::Invalid;
use layout::Layout;
use plan::Test;
use resolve::Resolver;
use sordino_event::{Class, Nanos, Pid, Schema};
use sordino_filter_vm::glob;
use std::ops::RangeInclusive;
use tree::{EventVariable, Node, Tree};

/// A condition as a user wrote it, not yet compiled for a tracepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression(Tree);

/// The facts about a program for which a condition is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context<'a> {
    /// The value of `$pid`.
    pub pid: Pid,
    /// The value of `$procname` at the time of compilation.
    pub procname: &'a str,
}

/// Returns true if a text matches a pattern of conditions: `*` stands for any characters, `?` for one.
pub fn is_match(pattern: &str, text: &str) -> bool {
    glob::matches(pattern.as_bytes(), text.as_bytes())
}

/// A condition for one tracepoint of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every record meets it.
    Always,
    /// No record meets it.
    Never,
    /// [`holds`] decides for each record; the code has at most [`MAX_CODE`] bytes.
    Code(Vec<u8>),
}

impl Expression {
    /// Parses a condition.
    ///
    /// # Errors
    /// The fault in the text, and its place.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse::parse(text).map(Self)
    }

    /// Compiles the condition for records of `schema`.
    ///
    /// # Errors
    /// The condition does not fit the tracepoint (it names an unknown field or label, or compares a text with a
    /// number), or takes more than [`MAX_CODE`] bytes. The place is one in the text that was parsed.
    pub fn compile(&self, schema: &Schema, context: &Context<'_>) -> Result<Condition, Invalid> {
        compile_any(&[self], schema, context).map_err(|(_, invalid)| invalid)
    }

    /// Returns the condition in which each comparison of `$function` with a text compares the field `function` with the
    /// addresses that `resolve` returns for the text.
    #[must_use]
    pub fn with_functions(&self, resolve: &mut impl FnMut(&str) -> Vec<RangeInclusive<u64>>) -> Self {
        Self(self.0.with_functions(resolve))
    }

    /// Returns true if the condition compares the names of functions.
    pub fn names_functions(&self) -> bool {
        self.0.names_functions()
    }

    /// Compiles the condition for decoded events of `class`.
    ///
    /// # Errors
    /// A field that `class` does not have. The place is one in the text that was parsed.
    pub fn for_class(&self, class: &Class) -> Result<ClassCondition, Invalid> {
        decoded::compile(&self.0, class)
    }

    /// Returns the names of the fields in the condition, each once.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields = self.0.fields();
        fields.sort_unstable();
        fields.dedup();
        fields
    }

    /// Returns true if an event's class and fields alone decide if it meets the condition.
    pub fn is_about_fields(&self) -> bool {
        is_about_fields(&self.0)
    }

    /// Returns an error for the first field of the condition that decoded events of `class` do not have; `None` if they
    /// have all.
    pub fn lacking_in(&self, class: &Class) -> Option<Invalid> {
        decoded::lacking(&self.0, class)
    }

    /// Returns the fields that the condition compares by less or greater, each with true if lesser values meet the
    /// condition.
    pub(crate) fn bounds(&self) -> Vec<(&str, bool)> {
        bounds::bounds(&self.0)
    }

    /// Returns the times since the recording began outside of which no event meets the condition, by its comparisons of
    /// `$time` with constants.
    pub fn span(&self) -> RangeInclusive<Nanos> {
        span::span(&self.0)
    }

    /// Returns the first field of the condition that is not among `fields`.
    pub fn missing_field(&self, fields: &[&str]) -> Option<&str> {
        self.0.fields().into_iter().find(|name| !fields.contains(name))
    }
}

fn is_about_fields(tree: &Tree) -> bool {
    match &tree.node {
        Node::Variable(variable) => {
            matches!(variable, EventVariable::Level | EventVariable::Provider | EventVariable::Name)
        }
        Node::Annotation(_) | Node::Counter(_) => false,
        node => Tree::parts(node).into_iter().all(is_about_fields),
    }
}

/// Compiles the condition that at least one of `expressions` holds. An error carries the index of its expression.
pub(crate) fn compile_any(
    expressions: &[&Expression],
    schema: &Schema,
    context: &Context<'_>,
) -> Result<Condition, (usize, Invalid)> {
    let layout = Layout::of(schema);
    let resolver = Resolver::new(schema, &layout, context);
    let test = |(number, expression): (usize, &&Expression)| {
        resolver.test(&expression.0, false).map_err(|invalid| (number, invalid))
    };
    let tests = expressions.iter().enumerate().map(test).collect::<Result<Vec<_>, _>>()?;
    let code = match Test::any(tests) {
        Test::Constant(true) => return Ok(Condition::Always),
        Test::Constant(false) => return Ok(Condition::Never),
        test => emit::emit(&test, &layout.varying),
    };
    if code.len() <= MAX_CODE {
        return Ok(Condition::Code(code));
    }
    let message = format!(
        "too long: {} bytes of code for this tracepoint, at most {MAX_CODE}; leave out comparisons, or shorten texts",
        code.len()
    );
    let last = expressions.len().saturating_sub(1);
    let at = expressions.get(last).map_or(0..0, |expression| expression.0.at.clone());
    Err((last, Invalid::new(at, message)))
}

#[cfg(test)]
mod tests;
