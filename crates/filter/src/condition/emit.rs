//! Translation of a plan to code.

use super::layout::Varying;
use super::plan::{Calculation, Test, ValueLocation};
use sordino_filter_vm::{JUMP, Number, Op, Relation, ValueInterval};

/// Returns the code that runs `test` on records with these fields of variable length.
pub(super) fn emit(test: &Test, varying: &[Varying]) -> Vec<u8> {
    let mut emitter = Emitter { code: Vec::new(), varying, base: Some(0) };
    emitter.test(test);
    emitter.code
}

struct Emitter<'a> {
    code: Vec<u8>,
    varying: &'a [Varying],
    /// The number of fields of variable length that lie before the base at this point of the code; `None` if it differs
    /// between the paths to this point, or if the base is at an element.
    base: Option<usize>,
}

impl Emitter<'_> {
    fn put(&mut self, op: Op<'_>) {
        op.write(&mut self.code);
    }

    fn test(&mut self, test: &Test) {
        match test {
            // A constant is tested only where it is the whole condition: series leave constants out.
            Test::Constant(holds) => {
                self.put(Op::Integer(i128::from(*holds)));
                self.put(Op::Integer(1));
                self.put(Op::Compare(Relation::Equal));
            }
            Test::Interval(place, interval) => {
                let offset = self.go(*place);
                self.put(Op::Interval(ValueInterval { offset, ..*interval }));
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

    /// Emits the tests in order, each followed by a jump that skips the rest.
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
            // A jump that is too long for its operand exceeds the limit on a condition's code, too, and is refused
            // there.
            let skip = u16::try_from(end - at - JUMP).unwrap_or(u16::MAX);
            let mut op = Vec::new();
            jump(skip).write(&mut op);
            self.code[at..at + JUMP].copy_from_slice(&op);
            self.base = self.base.filter(|known| base == Some(*known));
        }
    }

    fn value(&mut self, value: &Calculation) {
        match value {
            Calculation::Constant(Number::Integer(value)) => self.put(Op::Integer(*value)),
            Calculation::Constant(Number::Float(value)) => self.put(Op::Float(*value)),
            // No number is equal to NaN either.
            Calculation::Constant(Number::Nothing) => self.put(Op::Float(f64::NAN)),
            Calculation::Load(place, encoding) => {
                let offset = self.go(*place);
                self.put(Op::Load { encoding: *encoding, offset });
            }
            Calculation::Tid => self.put(Op::Tid),
            Calculation::Negate(value) => {
                self.value(value);
                self.put(Op::Negate);
            }
            Calculation::Complement(value) => {
                self.value(value);
                self.put(Op::Complement);
            }
            Calculation::Apply(operator, left, right) => {
                self.value(left);
                self.value(right);
                self.put(Op::Apply(*operator));
            }
        }
    }

    /// Moves the base as far as `place` needs it. Returns the offset from there.
    fn go(&mut self, place: ValueLocation) -> u16 {
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
