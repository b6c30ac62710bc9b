//! The evaluator of compiled conditions.

use super::super::known::Known;
use super::super::tree::EventVariable;
use super::operand::{ConditionOperand, ValueSource};
use super::{Calculation, ConditionOp};
use crate::Invalid;
use sordino_event::{Domain, FieldValues, View};
use sordino_filter_vm::{Number, Relation, glob};
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

/// The number of results that are kept without an allocation.
const FEW: usize = 4;

/// An error is rare, and a pointer to it fits into a register.
type EvaluationResult<T> = Result<T, Box<Invalid>>;

/// One side of a comparison.
#[derive(Clone, Copy)]
enum Side<'a> {
    Number(Number),
    /// An enumeration's label, if its value has one.
    Label(Number, Option<&'a [u8]>),
    Text(&'a [u8]),
    /// The trace does not have the value, or the sequence does not have the element: no comparison holds.
    Unknown,
}

/// The event, and the facts about it, on which a program is executed.
pub(super) struct Evaluation<'a> {
    values: &'a dyn FieldValues,
    known: &'a Known<'a>,
    /// The name of the function that the event is about.
    function: OnceCell<Option<Arc<str>>>,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(values: &'a dyn FieldValues, known: &'a Known<'a>) -> Self {
        Self { values, known, function: OnceCell::new() }
    }

    /// Executes the operations of a condition, which keep at most this many results.
    pub(super) fn run(&self, ops: &[ConditionOp], kept: usize) -> EvaluationResult<bool> {
        match kept <= FEW {
            true => self.execute(ops, &mut [Number::Nothing; FEW]),
            false => self.execute(ops, &mut vec![Number::Nothing; kept]),
        }
    }

    fn execute(&self, ops: &[ConditionOp], kept: &mut [Number]) -> EvaluationResult<bool> {
        let (mut next, mut truth, mut last) = (0, false, Number::Nothing);
        while let Some(op) = ops.get(next) {
            next += 1;
            let number = |operand| self.number(operand, last, kept);
            match op {
                ConditionOp::Calculate(Calculation::Negate(operand)) => last = number(operand)?.negated(),
                ConditionOp::Calculate(Calculation::Complement(operand)) => {
                    last = number(operand)?.complement()
                }
                ConditionOp::Calculate(Calculation::Apply(operator, left, right)) => {
                    last = operator.apply(number(left)?, number(right)?);
                }
                ConditionOp::Keep(place) => kept[*place] = last,
                ConditionOp::CompareNumbers { relation, left, right } => {
                    truth = relation.holds(number(left)?, number(right)?);
                }
                ConditionOp::Compare { relation, left, right } => {
                    let integer = |operand| self.integer(operand, last);
                    truth = match (integer(left), integer(right)) {
                        (Some(left), Some(right)) => relation.holds(left, right),
                        _ => self.compare(*relation, [left, right], last, kept)?,
                    };
                }
                ConditionOp::Match { relation, text, pattern, at } => {
                    truth = self.is_match(*relation, (text, self.side(text, last, kept)?), pattern, at)?;
                }
                ConditionOp::Jump { on, to } if *on == truth => next = *to,
                ConditionOp::Jump { .. } => {}
            }
        }
        Ok(truth)
    }

    #[inline(never)]
    fn compare(
        &self,
        relation: Relation,
        [left, right]: [&ConditionOperand; 2],
        last: Number,
        kept: &[Number],
    ) -> EvaluationResult<bool> {
        match (self.side(left, last, kept)?, self.side(right, last, kept)?) {
            (Side::Number(a) | Side::Label(a, _), Side::Number(b) | Side::Label(b, _)) => {
                Ok(relation.holds(a, b))
            }
            (Side::Unknown, _) | (_, Side::Unknown) => Ok(false),
            (_, Side::Text(_)) => Err(misfit(right, "compared with a text in quotes only")),
            (Side::Text(_), _) => Err(misfit(left, "compared with a text in quotes only")),
        }
    }

    #[inline(never)]
    fn is_match(
        &self,
        relation: Relation,
        (operand, text): (&ConditionOperand, Side<'_>),
        pattern: &str,
        at: &Range<usize>,
    ) -> EvaluationResult<bool> {
        let text = match text {
            Side::Unknown => return Ok(false),
            Side::Number(_) => return Err(misfit(operand, "not compared with a text")),
            Side::Text(text) => Some(text),
            Side::Label(_, label) => label,
        };
        let is_match = text.is_some_and(|text| glob::matches(pattern.as_bytes(), text));
        match relation {
            Relation::Equal => Ok(is_match),
            Relation::Unequal => Ok(!is_match),
            _ => Err(invalid(at, "texts and labels are compared with == and != only")),
        }
    }

    /// Returns the operand's value as a side of a comparison.
    fn side<'b>(
        &'b self,
        operand: &'b ConditionOperand,
        last: Number,
        kept: &[Number],
    ) -> EvaluationResult<Side<'b>> {
        let text = |text: Option<&'b str>| text.map_or(Side::Unknown, |text| Side::Text(text.as_bytes()));
        let known = self.known;
        Ok(match &operand.source {
            ValueSource::Field(field, element) => match self.view(*field, *element, operand)? {
                Some(View::Text(text)) => Side::Text(text),
                Some(View::Label(value, label)) => Side::Label(Number::Integer(value.into()), label),
                Some(view) => Side::Number(number_of(view, operand)?),
                None => Side::Unknown,
            },
            ValueSource::ClassText(name) => text(name.as_deref()),
            ValueSource::Function(field) => text(self.function(*field)),
            ValueSource::Annotation(name) => match self.annotation(name) {
                Some(text) => Side::Label(number_in(text), Some(text.as_bytes())),
                None => Side::Unknown,
            },
            ValueSource::Variable(EventVariable::Comm) => text(known.comm),
            ValueSource::Variable(EventVariable::Procname) => text(known.procname),
            ValueSource::Variable(EventVariable::Host) => text(known.host),
            ValueSource::Variable(EventVariable::Domain) => text(known.domain.map(domain_name)),
            ValueSource::Variable(EventVariable::Fiber) => match known.fiber {
                Some((number, name)) => Side::Label(Number::Integer(number.into()), name.map(str::as_bytes)),
                None => Side::Unknown,
            },
            _ => Side::Number(self.number(operand, last, kept)?),
        })
    }

    /// Returns the operand's value as a number.
    #[inline(always)]
    fn number(&self, operand: &ConditionOperand, last: Number, kept: &[Number]) -> EvaluationResult<Number> {
        match self.integer(operand, last) {
            Some(number) => Ok(number),
            None => self.other_number(operand, kept),
        }
    }

    /// Returns the operand's value if that is the last result, a constant or a field with an integer of 64 bits, as
    /// most are. It does not go through memory.
    #[inline(always)]
    fn integer(&self, operand: &ConditionOperand, last: Number) -> Option<Number> {
        match operand.source {
            ValueSource::Last => Some(last),
            ValueSource::Number(number) => Some(number),
            ValueSource::Field(field, None) => Some(Number::Integer(self.values.integer(field)?.into())),
            _ => None,
        }
    }

    #[inline(never)]
    fn other_number(&self, operand: &ConditionOperand, kept: &[Number]) -> EvaluationResult<Number> {
        match &operand.source {
            ValueSource::Earlier(place) => Ok(kept[*place]),
            ValueSource::Field(field, element) => match self.view(*field, *element, operand)? {
                Some(view) => number_of(view, operand),
                None => Ok(Number::Nothing),
            },
            _ => self.fact(operand),
        }
    }

    /// Returns a number that is not among the event's fields.
    fn fact(&self, operand: &ConditionOperand) -> EvaluationResult<Number> {
        let integer = |value: Option<i128>| Ok(value.map_or(Number::Nothing, Number::Integer));
        let known = self.known;
        match &operand.source {
            ValueSource::Annotation(name) => Ok(self.annotation(name).map_or(Number::Nothing, number_in)),
            ValueSource::Counter(name) => {
                let mut counters = known.counters.iter();
                integer(counters.find(|(known, _)| known == name).map(|(_, count)| (*count).into()))
            }
            ValueSource::Variable(EventVariable::Tid) => integer(known.tid.map(|tid| tid.0.into())),
            ValueSource::Variable(EventVariable::Pid) => integer(known.pid.map(|pid| pid.0.into())),
            ValueSource::Variable(EventVariable::Cpu) => integer(known.cpu.map(|cpu| cpu.0.into())),
            ValueSource::Variable(EventVariable::Prio) => integer(known.priority.map(Into::into)),
            ValueSource::Variable(EventVariable::Fiber) => {
                integer(known.fiber.map(|(number, _)| number.into()))
            }
            ValueSource::Variable(EventVariable::Time) => integer(known.time.map(|time| time.0.into())),
            _ => Err(invalid(&operand.at, "a number is needed here")),
        }
    }

    /// Returns the value of a field, or of its element.
    fn view(
        &self,
        field: usize,
        element: Option<i128>,
        operand: &ConditionOperand,
    ) -> EvaluationResult<Option<View<'a>>> {
        let view = self.values.value(field);
        match (view, element) {
            (_, None) | (None, _) => Ok(view),
            (Some(View::List(mut elements)), Some(index)) => {
                Ok(usize::try_from(index).ok().and_then(|index| elements.nth(index)))
            }
            (Some(_), Some(_)) => Err(misfit_in(operand, "has no elements")),
        }
    }

    fn annotation(&self, name: &str) -> Option<&'a str> {
        self.known.annotations?.get(name).map(|text| &**text)
    }

    /// Returns the name of the function whose address is in this field.
    fn function(&self, field: Option<usize>) -> Option<&str> {
        let name = || {
            let (names, pid) = self.known.functions.zip(self.known.pid)?;
            match self.values.value(field?) {
                Some(View::Unsigned(address, _)) => names.name(pid, address),
                _ => None,
            }
        };
        self.function.get_or_init(name).as_deref()
    }
}

fn number_of(view: View<'_>, operand: &ConditionOperand) -> EvaluationResult<Number> {
    match view {
        View::Unsigned(value, _) => Ok(Number::Integer(value.into())),
        View::Signed(value, _) | View::Label(value, _) => Ok(Number::Integer(value.into())),
        View::Float(value) => Ok(Number::Float(value)),
        View::Text(_) => Err(invalid(&operand.at, "a text is no number")),
        View::List(_) => Err(invalid(&operand.at, "these are many values: choose one, as in NAME[0]")),
        View::Group(_) => Err(invalid(&operand.at, "a structure is no number")),
    }
}

#[cold]
fn invalid(at: &Range<usize>, message: impl Into<String>) -> Box<Invalid> {
    Box::new(Invalid::new(at.clone(), message))
}

/// Returns the error that the operand is not what a comparison needs.
#[cold]
fn misfit(operand: &ConditionOperand, need: &str) -> Box<Invalid> {
    misfit_in(operand, &format!("is {need}"))
}

/// Returns an error about the operand.
#[cold]
fn misfit_in(operand: &ConditionOperand, what: &str) -> Box<Invalid> {
    invalid(&operand.at, format!("{} {what}", operand.written))
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Kernel => "kernel",
        Domain::User => "user",
    }
}

/// Returns the integer in an annotation's text; `None` if the text is no integer.
fn number_in(text: &str) -> Number {
    text.parse().map_or(Number::Nothing, Number::Integer)
}
