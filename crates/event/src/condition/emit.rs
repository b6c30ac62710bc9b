//! A plan as code.

use super::code::{JUMP, Op};
use super::layout::Varying;
use super::number::{Number, Relation};
use super::payload::Interval;
use super::plan::{Place, Test, Value};

/// The code that tests it in records with these fields of variable length.
pub(super) fn emit(test: &Test, varying: &[Varying]) -> Vec<u8> {
    let mut emitter = Emitter { code: Vec::new(), varying, base: Some(0) };
    emitter.test(test);
    emitter.code
}

struct Emitter<'a> {
    code: Vec<u8>,
    varying: &'a [Varying],
    /// Behind how many fields of variable length the base is when the code comes here; `None` if it depends, or if it is at an
    /// element.
    base: Option<usize>,
}

impl Emitter<'_> {
    fn put(&mut self, op: Op<'_>) {
        op.write(&mut self.code);
    }

    fn test(&mut self, test: &Test) {
        match test {
            // Only if it is alone: series leave constants out.
            Test::Constant(holds) => {
                self.put(Op::Integer(i128::from(*holds)));
                self.put(Op::Integer(1));
                self.put(Op::Compare(Relation::Equal));
            }
            Test::Interval(place, interval) => {
                let offset = self.go(*place);
                self.put(Op::Interval(Interval { offset, ..*interval }));
            }
            Test::Match { place, length, unlike, pattern } => {
                let offset = self.go(*place);
                self.put(Op::Match { unlike: *unlike, offset, length: *length, pattern: pattern.as_bytes() });
            }
            Test::Compare(relation, left, right) => {
                self.value(left);
                self.value(right);
                self.put(Op::Compare(*relation));
            }
            Test::All(tests) => self.series(tests, |skip| Op::IfFalse { skip }),
            Test::Any(tests) => self.series(tests, |skip| Op::IfTrue { skip }),
        }
    }

    /// Tests one after the other until a jump skips the rest.
    fn series(&mut self, tests: &[Test], jump: fn(u16) -> Op<'static>) {
        let mut jumps = Vec::new();
        let Some((last, others)) = tests.split_last() else { return };
        for test in others {
            self.test(test);
            jumps.push((self.code.len(), self.base));
            self.put(jump(0));
        }
        self.test(last);
        let end = self.code.len();
        for (at, base) in jumps {
            // More than a jump can skip is also more than a condition may have, and refused.
            let skip = u16::try_from(end - at - JUMP).unwrap_or(u16::MAX);
            let mut op = Vec::new();
            jump(skip).write(&mut op);
            self.code[at..at + JUMP].copy_from_slice(&op);
            self.base = self.base.filter(|known| base == Some(*known));
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Constant(Number::Integer(value)) => self.put(Op::Integer(*value)),
            Value::Constant(Number::Float(value)) => self.put(Op::Float(*value)),
            // Nothing is equal to it either.
            Value::Constant(Number::Nothing) => self.put(Op::Float(f64::NAN)),
            Value::Load(place, encoding) => {
                let offset = self.go(*place);
                self.put(Op::Load { encoding: *encoding, offset });
            }
            Value::Tid => self.put(Op::Tid),
            Value::Negate(value) => {
                self.value(value);
                self.put(Op::Negate);
            }
            Value::Complement(value) => {
                self.value(value);
                self.put(Op::Complement);
            }
            Value::Apply(operator, left, right) => {
                self.value(left);
                self.value(right);
                self.put(Op::Apply(*operator));
            }
        }
    }

    /// Moves the base as far as `place` needs it: the offset that is left.
    fn go(&mut self, place: Place) -> u16 {
        let from = self.base.filter(|base| *base <= place.varying).unwrap_or_else(|| {
            self.put(Op::Start);
            0
        });
        for varying in &self.varying[from..place.varying] {
            let offset = varying.offset;
            self.put(match varying.size {
                None => Op::PastString { offset },
                Some(size) => Op::PastSequence { offset, size },
            });
        }
        self.base = Some(place.varying);
        let Some(element) = place.element else { return place.offset };
        self.put(Op::Element { offset: place.offset, size: element.size, index: element.index });
        self.base = None;
        0
    }
}
