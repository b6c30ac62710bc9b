//! The evaluator: a stack machine whose code only jumps forward.

use crate::code::{MAX_CODE, Op, STACK};
use crate::glob;
use crate::number::Number;
use crate::payload::{element, past_sequence, past_string, text};

/// Returns true if `payload`, recorded by the thread `tid`, fulfils the condition that `code` encodes.
///
/// Neither the code nor the payload is trusted: garbage yields either result.
///
/// Real-time: no allocation, no recursion, no panic. Jumps only lead forward, and each operation is bounded by the
/// payload's length, or for a pattern by that times the pattern's length: together at most `code.len() * (payload.len()
/// + 1)` small steps. At most [`MAX_CODE`] bytes of code are read. Code that is the test of one
/// [`ValueInterval`](crate::ValueInterval) runs faster by that.
pub fn holds(code: &[u8], payload: &[u8], tid: u32) -> bool {
    let mut code = code.get(..MAX_CODE).unwrap_or(code);
    let mut stack = Stack { numbers: [Number::Nothing; STACK], height: 0 };
    let (mut base, mut truth) = (0, false);
    while let Some(op) = Op::read(&mut code) {
        match op {
            Op::Start => base = 0,
            Op::PastString { offset } => base = past_string(payload, behind(base, offset)).unwrap_or(NOWHERE),
            Op::PastSequence { offset, size } => {
                base = past_sequence(payload, behind(base, offset), size).unwrap_or(NOWHERE);
            }
            Op::Element { offset, size, index } => {
                base = element(payload, behind(base, offset), size, index).unwrap_or(NOWHERE);
            }
            Op::Interval(interval) => truth = interval.holds_behind(payload, base),
            Op::Match { unlike, offset, length, pattern } => {
                truth = text(payload, behind(base, offset), length)
                    .is_some_and(|text| glob::matches(pattern, text) != unlike);
            }
            Op::Integer(value) => stack.push(Number::Integer(value)),
            Op::Float(value) => stack.push(Number::Float(value)),
            Op::Load { encoding, offset } => stack.push(encoding.number(payload, behind(base, offset))),
            Op::Tid => stack.push(Number::Integer(tid.into())),
            Op::Negate => {
                let number = stack.pop().negated();
                stack.push(number);
            }
            Op::Complement => {
                let number = stack.pop().complement();
                stack.push(number);
            }
            Op::Apply(operator) => {
                let (left, right) = stack.pair();
                stack.push(operator.apply(left, right));
            }
            Op::Compare(relation) => {
                let (left, right) = stack.pair();
                truth = relation.holds(left, right);
            }
            Op::IfTrue { skip } if truth => code = code.get(skip.into()..).unwrap_or_default(),
            Op::IfFalse { skip } if !truth => code = code.get(skip.into()..).unwrap_or_default(),
            Op::IfTrue { .. } | Op::IfFalse { .. } => {}
        }
    }
    truth
}

/// A base behind every payload, used where the field to be skipped is missing.
const NOWHERE: usize = usize::MAX;

/// Numbers that wait for their operator. The compiler makes sure that all fit; those that do not are dropped.
struct Stack {
    numbers: [Number; STACK],
    height: usize,
}

impl Stack {
    fn push(&mut self, number: Number) {
        if let Some(place) = self.numbers.get_mut(self.height) {
            *place = number;
            self.height += 1;
        }
    }

    fn pop(&mut self) -> Number {
        self.height = self.height.saturating_sub(1);
        self.numbers.get(self.height).copied().unwrap_or(Number::Nothing)
    }

    /// Pops the two numbers on top; the upper one is the right operand.
    fn pair(&mut self) -> (Number, Number) {
        let right = self.pop();
        (self.pop(), right)
    }
}

fn behind(base: usize, offset: u16) -> usize {
    base.saturating_add(offset.into())
}
