//! Conditions on decoded events: a flat program for each class of events, with the machine's arithmetic.
//!
//! An event of a trace has a class, whose fields have names and indexes but no types: the type of a value is known only
//! when the value is read, and it may differ from event to event. The code of `filter-vm` has types and offsets in it.

mod compile;
mod evaluate;
mod operand;

use self::evaluate::Evaluation;
use self::operand::ConditionOperand;
use super::known::Known;
use super::tree::{Node, Tree};
use crate::Invalid;
use sordino_event::FieldValues;
use sordino_filter_vm::{Operator, Relation};
use std::ops::Range;

pub(super) use self::compile::{compile, lacking};

/// A condition on events of one class, compiled.
#[derive(Clone, Debug)]
pub struct ClassCondition {
    ops: Box<[ConditionOp]>,
    /// The number of places for results that are kept.
    kept: usize,
}

/// One operation. The operations are executed in order, except for jumps, which lead forward.
#[derive(Clone, Debug)]
enum ConditionOp {
    /// Calculates a number, the last result.
    Calculate(Calculation),
    /// Keeps the result of the last calculation in this place.
    Keep(usize),
    /// Tests if the relation holds for two numbers.
    CompareNumbers { relation: Relation, left: ConditionOperand, right: ConditionOperand },
    /// Tests if the relation holds for two values, which are numbers or labels in an event that fits the condition.
    Compare { relation: Relation, left: ConditionOperand, right: ConditionOperand },
    /// Tests if a text or a label matches a pattern.
    Match { relation: Relation, text: ConditionOperand, pattern: Box<str>, at: Range<usize> },
    /// Continues with the operation `to` if the last test had the result `on`.
    Jump { on: bool, to: usize },
}

/// The calculation of a number.
#[derive(Clone, Debug)]
enum Calculation {
    Negate(ConditionOperand),
    Complement(ConditionOperand),
    Apply(Operator, ConditionOperand, ConditionOperand),
}

impl ClassCondition {
    /// Returns true if an event of the class meets the condition.
    ///
    /// # Errors
    /// The part that does not fit the event, such as a text that is compared with a number. The place is one in the
    /// text that was parsed. If two operands do not fit, the error is about one of them.
    pub fn is_met_by(&self, values: &dyn FieldValues, known: &Known<'_>) -> Result<bool, Invalid> {
        Evaluation::new(values, known).run(&self.ops, self.kept).map_err(|invalid| *invalid)
    }
}
