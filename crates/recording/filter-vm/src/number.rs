//! Arithmetic, which the compiler and the evaluator share.

use std::cmp::Ordering;

/// The result of an arithmetic expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An exact integer; it wraps beyond 128 bits.
    Integer(i128),
    /// A floating-point number of double precision.
    Float(f64),
    /// No number: the result of a missing element, of a division by zero, and of every calculation with such a result.
    Nothing,
}

/// An operator with two operands. Its discriminant is part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// A comparison of two numbers. Its discriminant is part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Number {
    #[inline]
    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
            Self::Nothing => f64::NAN,
        }
    }

    /// Returns the number with the opposite sign.
    pub fn negated(self) -> Self {
        match self {
            Self::Integer(value) => Self::Integer(value.wrapping_neg()),
            Self::Float(value) => Self::Float(-value),
            Self::Nothing => Self::Nothing,
        }
    }

    /// Returns the integer with all bits inverted.
    pub fn complement(self) -> Self {
        match self {
            Self::Integer(value) => Self::Integer(!value),
            Self::Float(_) | Self::Nothing => Self::Nothing,
        }
    }

    /// Compares two numbers; `None` where one is missing or not a number.
    #[inline]
    fn compared(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => Some(a.cmp(&b)),
            (a, b) => a.float().partial_cmp(&b.float()),
        }
    }
}

impl Operator {
    /// The operators in the order in which they are declared.
    pub const ALL: [Self; 10] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Remainder,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::ShiftLeft,
        Self::ShiftRight,
    ];

    /// Returns true if the operator works on the bits of integers, so that floating-point numbers do not have it.
    pub fn is_bitwise(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Xor | Self::ShiftLeft | Self::ShiftRight)
    }

    /// Applies the operator to `a` and `b`.
    #[inline]
    pub fn apply(self, a: Number, b: Number) -> Number {
        match (a, b) {
            (Number::Integer(a), Number::Integer(b)) => {
                self.exact(a, b).map_or(Number::Nothing, Number::Integer)
            }
            (Number::Nothing, _) | (_, Number::Nothing) => Number::Nothing,
            (a, b) => self.rounded(a.float(), b.float()).map_or(Number::Nothing, Number::Float),
        }
    }

    #[inline]
    fn exact(self, a: i128, b: i128) -> Option<i128> {
        let amount = || u32::try_from(b).ok();
        match self {
            Self::Add => Some(a.wrapping_add(b)),
            Self::Subtract => Some(a.wrapping_sub(b)),
            Self::Multiply => Some(a.wrapping_mul(b)),
            Self::Divide => divided(a, b, i64::checked_div, i128::wrapping_div),
            Self::Remainder => divided(a, b, i64::checked_rem, i128::wrapping_rem),
            Self::And => Some(a & b),
            Self::Or => Some(a | b),
            Self::Xor => Some(a ^ b),
            Self::ShiftLeft => a.checked_shl(amount()?),
            Self::ShiftRight => a.checked_shr(amount()?),
        }
    }

    fn rounded(self, a: f64, b: f64) -> Option<f64> {
        match self {
            Self::Add => Some(a + b),
            Self::Subtract => Some(a - b),
            Self::Multiply => Some(a * b),
            Self::Divide => Some(a / b),
            Self::Remainder => Some(a % b),
            Self::And | Self::Or | Self::Xor | Self::ShiftLeft | Self::ShiftRight => None,
        }
    }
}

/// Divides with 64 bits if both numbers have no more: processors do that themselves, and some ten times faster.
#[inline]
fn divided(
    a: i128,
    b: i128,
    narrow: fn(i64, i64) -> Option<i64>,
    wide: fn(i128, i128) -> i128,
) -> Option<i128> {
    let narrow = i64::try_from(a).ok().zip(i64::try_from(b).ok()).and_then(|(a, b)| narrow(a, b));
    narrow.map(Into::into).or_else(|| (b != 0).then(|| wide(a, b)))
}

impl Relation {
    /// The relations in the order in which they are declared.
    pub const ALL: [Self; 6] =
        [Self::Equal, Self::Unequal, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];

    /// Returns true if the relation holds. No relation holds for a missing number or a NaN, not even `Unequal`.
    #[inline]
    pub fn holds(self, a: Number, b: Number) -> bool {
        a.compared(b).is_some_and(|order| match self {
            Self::Equal => order.is_eq(),
            Self::Unequal => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        })
    }

    /// Returns the relation that holds for two numbers where this one does not.
    pub fn opposite(self) -> Self {
        match self {
            Self::Equal => Self::Unequal,
            Self::Unequal => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// Returns the same relation with its sides exchanged.
    pub fn mirrored(self) -> Self {
        match self {
            Self::Equal | Self::Unequal => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Number::{Float, Integer, Nothing};
    use super::*;

    #[test]
    fn integers_are_exact_and_wrap() {
        assert_eq!(Operator::Add.apply(Integer(i128::MAX), Integer(1)), Integer(i128::MIN));
        assert_eq!(Operator::Divide.apply(Integer(i128::MIN), Integer(-1)), Integer(i128::MIN));
        assert_eq!(Operator::Remainder.apply(Integer(-7), Integer(3)), Integer(-1));
        assert_eq!(Operator::ShiftLeft.apply(Integer(1), Integer(64)), Integer(1 << 64));
        assert_eq!(Integer(i128::MIN).negated(), Integer(i128::MIN));
    }

    #[test]
    fn what_cannot_be_calculated_is_nothing() {
        for operator in [Operator::Divide, Operator::Remainder] {
            assert_eq!(operator.apply(Integer(1), Integer(0)), Nothing);
        }
        for amount in [-1, 128, i128::MAX] {
            assert_eq!(Operator::ShiftLeft.apply(Integer(1), Integer(amount)), Nothing);
            assert_eq!(Operator::ShiftRight.apply(Integer(1), Integer(amount)), Nothing);
        }
        assert_eq!(Operator::Multiply.apply(Nothing, Float(0.0)), Nothing);
        assert_eq!(Operator::And.apply(Float(1.0), Integer(1)), Nothing);
        assert_eq!(Float(1.0).complement(), Nothing);
    }

    #[test]
    fn no_relation_holds_of_nothing() {
        for relation in [Relation::Equal, Relation::Unequal, Relation::LessOrEqual, Relation::Greater] {
            for (a, b) in [(Nothing, Nothing), (Nothing, Integer(0)), (Float(f64::NAN), Float(0.0))] {
                assert!(!relation.holds(a, b) && !relation.opposite().holds(a, b));
            }
        }
    }

    #[test]
    fn mixed_numbers_are_compared_as_floating_point() {
        assert!(Relation::Less.holds(Integer(1), Float(1.5)));
        assert!(Relation::GreaterOrEqual.holds(Float(2.0), Integer(2)));
        assert_eq!(Operator::Divide.apply(Integer(3), Float(2.0)), Float(1.5));
    }
}
