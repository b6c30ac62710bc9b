//! The resolver: turns a tree into a plan for one tracepoint.

use super::Context;
use super::layout::Layout;
use super::plan::{Calculation, Test, ValueLocation};
use super::tree::{EventVariable, FUNCTION, Node, Tree};
use crate::Invalid;
use sordino_event::{Enumeration, Field, Scalar, Schema};
use sordino_filter_vm::{MAX_PATTERN, Number, Relation, STACK, glob};
use std::ops::{Range, RangeInclusive};

/// The meaning of names in one tracepoint.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    schema: &'a Schema,
    layout: &'a Layout,
    context: &'a Context<'a>,
}

/// One side of a comparison.
enum Side<'a> {
    Number(Calculation),
    Enumeration(&'a Enumeration, Calculation),
    Text {
        place: ValueLocation,
        length: u16,
    },
    /// A text that is known at compile time.
    Known(&'a str),
    /// The name of the function, which can be compared only when its address is known.
    Function,
    /// A text in quotes.
    Pattern(&'a str),
}

/// Returns the field called `name`. The error lists the existing fields.
fn field<'a>(schema: &'a Schema, name: &str, at: &Range<usize>) -> Result<(usize, &'a Field), Invalid> {
    let found = schema.fields.iter().enumerate().find(|(_, field)| field.name == name);
    found.ok_or_else(|| {
        let fields = listed(schema.fields.iter().map(|field| field.name.as_str()));
        Invalid::new(at.clone(), format!("no field '{name}': {} has {fields}", schema.full_name()))
    })
}

impl<'a> Resolver<'a> {
    pub(super) fn new(schema: &'a Schema, layout: &'a Layout, context: &'a Context<'a>) -> Self {
        Self { schema, layout, context }
    }

    /// Returns the test that `tree` holds or, with `negated`, that its opposite holds.
    pub(super) fn test(&self, tree: &Tree, negated: bool) -> Result<Test, Invalid> {
        match &tree.node {
            Node::Not(part) => self.test(part, !negated),
            Node::All(parts) | Node::Any(parts) => {
                let tests =
                    parts.iter().map(|part| self.test(part, negated)).collect::<Result<Vec<_>, _>>()?;
                let all = matches!(tree.node, Node::All(_)) != negated;
                Ok(if all { Test::all(tests) } else { Test::any(tests) })
            }
            Node::Functions(ranges) => {
                let (number, field) = field(self.schema, FUNCTION, &tree.at)?;
                let (value, _) = self.layout.number(number, field, None, &tree.at)?;
                let Calculation::Load(place, encoding) = value else { return Ok(Test::Constant(false)) };
                let test = |range: &RangeInclusive<u64>| {
                    let (low, high) = (i128::from(*range.start()), i128::from(*range.end()));
                    Test::interval(place, encoding, negated, low, high)
                };
                let tests: Vec<_> = ranges.iter().map(test).collect();
                Ok(if negated { Test::all(tests) } else { Test::any(tests) })
            }
            Node::Compare(relation, left, right) => {
                let relation = if negated { relation.opposite() } else { *relation };
                self.comparison(tree, relation, left, right)
            }
            _ => {
                let relation = if negated { Relation::Equal } else { Relation::Unequal };
                numbers(tree, relation, self.value(tree)?, Calculation::Constant(Number::Integer(0)))
            }
        }
    }

    fn comparison(
        &self,
        tree: &Tree,
        relation: Relation,
        left: &Tree,
        right: &Tree,
    ) -> Result<Test, Invalid> {
        // A text in quotes moves to the right-hand side.
        let (left, right, relation) = match left.node {
            Node::Text(_) => (right, left, relation.mirrored()),
            _ => (left, right, relation),
        };
        let unlike = || match relation {
            Relation::Equal => Ok(false),
            Relation::Unequal => Ok(true),
            _ => Err(Invalid::new(tree.at.clone(), "texts and labels are compared with == and != only")),
        };
        match (self.side(left)?, self.side(right)?) {
            (Side::Text { place, length }, Side::Pattern(pattern)) => {
                Ok(Test::Match { place, length, unlike: unlike()?, pattern: pattern.to_owned() })
            }
            (Side::Known(text), Side::Pattern(pattern)) => {
                Ok(Test::Constant(glob::matches(pattern.as_bytes(), text.as_bytes()) != unlike()?))
            }
            (Side::Enumeration(enumeration, value), Side::Pattern(pattern)) => {
                let (tests, unlike) = (labelled(enumeration, &value, pattern, unlike()?), unlike()?);
                if tests.is_empty() {
                    let labels = listed(enumeration.ranges.iter().map(|range| range.label.as_str()));
                    let message = format!("no such label: {} has {labels}", self.described(left));
                    return Err(Invalid::new(right.at.clone(), message));
                }
                Ok(if unlike { Test::all(tests) } else { Test::any(tests) })
            }
            (Side::Number(a) | Side::Enumeration(_, a), Side::Number(b) | Side::Enumeration(_, b)) => {
                numbers(tree, relation, a, b)
            }
            // The program is not known yet, and so are its functions.
            (Side::Function, Side::Pattern(_)) => unlike().map(|_| Test::Constant(false)),
            (Side::Text { .. } | Side::Known(_) | Side::Function, _) => Err(self.needs_quotes(left)),
            (_, Side::Text { .. } | Side::Known(_) | Side::Function) => Err(self.needs_quotes(right)),
            (_, Side::Pattern(_)) | (Side::Pattern(_), _) => Err(Invalid::new(
                left.at.clone(),
                format!("{} is not compared with a text", self.described(left)),
            )),
        }
    }

    fn needs_quotes(&self, tree: &Tree) -> Invalid {
        let message = format!("{} is compared with a text in quotes only", self.described(tree));
        Invalid::new(tree.at.clone(), message)
    }

    fn side<'t>(&'t self, tree: &'t Tree) -> Result<Side<'t>, Invalid> {
        match &tree.node {
            Node::Text(pattern) if pattern.len() > MAX_PATTERN => {
                let message = format!("a text may have at most {MAX_PATTERN} bytes");
                Err(Invalid::new(tree.at.clone(), message))
            }
            Node::Text(pattern) => Ok(Side::Pattern(pattern)),
            Node::Variable(EventVariable::Procname) => Ok(Side::Known(self.context.procname)),
            Node::Variable(EventVariable::Provider) => Ok(Side::Known(&self.schema.provider)),
            Node::Variable(EventVariable::Name) => Ok(Side::Known(&self.schema.name)),
            Node::Variable(EventVariable::Function) => Ok(Side::Function),
            Node::Field { name, index } => {
                let (number, field) = field(self.schema, name, &tree.at)?;
                if index.is_none()
                    && let Some((place, length)) = self.layout.text(number, field, &tree.at)?
                {
                    return Ok(Side::Text { place, length });
                }
                Ok(match self.layout.number(number, field, *index, &tree.at)? {
                    (value, Scalar::Enumeration(enumeration)) => Side::Enumeration(enumeration, value),
                    (value, _) => Side::Number(value),
                })
            }
            _ => self.value(tree).map(Side::Number),
        }
    }

    fn value(&self, tree: &Tree) -> Result<Calculation, Invalid> {
        let integer = |value: i128| Calculation::Constant(Number::Integer(value));
        let no_number = || Invalid::new(tree.at.clone(), format!("{} is no number", self.described(tree)));
        Ok(match &tree.node {
            Node::Number(number) => Calculation::Constant(*number),
            Node::Variable(EventVariable::Tid) => Calculation::Tid,
            Node::Variable(EventVariable::Pid) => integer(self.context.pid.0.into()),
            Node::Variable(EventVariable::Level) => integer(self.schema.level.number().into()),
            Node::Annotation(_) | Node::Counter(_) => return Err(self.of_recorded_events(tree)),
            Node::Variable(variable) if variable.is_of_recorded_events() => {
                return Err(self.of_recorded_events(tree));
            }
            Node::Field { name, index } => {
                let (number, field) = field(self.schema, name, &tree.at)?;
                self.layout.number(number, field, *index, &tree.at)?.0
            }
            Node::Negate(part) => self.value(part)?.negated(),
            Node::Complement(part) => self.bits(part)?.complement(),
            Node::Apply(operator, left, right) if operator.is_bitwise() => {
                Calculation::apply(*operator, self.bits(left)?, self.bits(right)?)
            }
            Node::Apply(operator, left, right) => {
                Calculation::apply(*operator, self.value(left)?, self.value(right)?)
            }
            Node::Variable(_)
            | Node::Text(_)
            | Node::Compare(..)
            | Node::Functions(_)
            | Node::Not(_)
            | Node::All(_)
            | Node::Any(_) => return Err(no_number()),
        })
    }

    fn of_recorded_events(&self, tree: &Tree) -> Invalid {
        Invalid::new(tree.at.clone(), format!("{} is known of recorded events only", self.described(tree)))
    }

    /// Returns the value of an operand that has to be an integer.
    fn bits(&self, tree: &Tree) -> Result<Calculation, Invalid> {
        let value = self.value(tree)?;
        if value.is_float() {
            let message = format!("{} is no integer: it has no bits to work on", self.described(tree));
            return Err(Invalid::new(tree.at.clone(), message));
        }
        Ok(value)
    }

    /// Returns the name of an operand for a message.
    fn described(&self, tree: &Tree) -> String {
        match &tree.node {
            Node::Field { name, .. } => match field(self.schema, name, &tree.at) {
                Ok((_, field)) => format!("'{name}' ({})", field.ty),
                Err(_) => format!("'{name}'"),
            },
            Node::Variable(variable) => format!("${}", variable.name()),
            Node::Annotation(name) => format!("$annotation.{name}"),
            Node::Counter(name) => format!("$counter.{name}"),
            Node::Text(_) => "a text".to_owned(),
            Node::Number(_) | Node::Negate(_) | Node::Complement(_) | Node::Apply(..) => {
                "a number".to_owned()
            }
            Node::Compare(..) | Node::Functions(_) | Node::Not(_) | Node::All(_) | Node::Any(_) => {
                "a condition".to_owned()
            }
        }
    }
}

/// Returns a comparison of numbers, if the evaluator's stack has room for it.
fn numbers(tree: &Tree, relation: Relation, left: Calculation, right: Calculation) -> Result<Test, Invalid> {
    let test = Test::compare(relation, left, right);
    if let Test::Compare(_, left, right) = &test
        && left.depth().max(1 + right.depth()) > STACK
    {
        let message = format!(
            "too many numbers wait for their operator, at most {STACK}: write what is nested deepest first"
        );
        return Err(Invalid::new(tree.at.clone(), message));
    }
    Ok(test)
}

/// Returns a test for each range of values whose label matches.
fn labelled(enumeration: &Enumeration, value: &Calculation, pattern: &str, unlike: bool) -> Vec<Test> {
    let matching =
        enumeration.ranges.iter().filter(|range| glob::matches(pattern.as_bytes(), range.label.as_bytes()));
    let test = |range: &sordino_event::Range| match value {
        Calculation::Load(place, encoding) => {
            Test::interval(*place, *encoding, unlike, range.low.into(), range.high.into())
        }
        // The element does not exist.
        _ => Test::Constant(false),
    };
    matching.map(test).collect()
}

/// Lists the first names for a message, and the number of the others.
pub(super) fn listed<'a>(mut names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 16;
    let first: Vec<_> = names.by_ref().take(SHOWN).collect();
    match (first.is_empty(), names.len()) {
        (true, _) => "none".to_owned(),
        (false, 0) => first.join(", "),
        (false, more) => format!("{} and {more} more", first.join(", ")),
    }
}
