//! A condition's plan: the tests on the records of one tracepoint, with fields resolved to places and constants folded.

use sordino_filter_vm::{Encoding, Number, Operator, Relation, ValueInterval};

/// A test that a record passes or fails. There is no negation: it is resolved into the comparisons. A comparison that
/// cannot be made therefore fails both with and without a negation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Constant(bool),
    /// The interval's own offset is not used; the place has it.
    Interval(ValueLocation, ValueInterval),
    Match {
        place: ValueLocation,
        length: u16,
        unlike: bool,
        pattern: String,
    },
    Compare(Relation, Calculation, Calculation),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// A number that is calculated at a hit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Calculation {
    Constant(Number),
    Load(ValueLocation, Encoding),
    Tid,
    Negate(Box<Self>),
    Complement(Box<Self>),
    Apply(Operator, Box<Self>, Box<Self>),
}

/// The location of a value in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueLocation {
    /// The number of fields of variable length before it.
    pub(super) varying: usize,
    /// The offset from the end of the last of these fields, in bytes.
    pub(super) offset: u16,
    /// The element, if the value is one of a sequence at the offset.
    pub(super) element: Option<Element>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    /// The size of each element in bytes.
    pub(super) size: u8,
    pub(super) index: u16,
}

impl Test {
    /// Returns the test that all of `tests` hold.
    pub(super) fn all(tests: impl IntoIterator<Item = Self>) -> Self {
        Self::series(tests, true, Self::All)
    }

    /// Returns the test that one of `tests` holds.
    pub(super) fn any(tests: impl IntoIterator<Item = Self>) -> Self {
        Self::series(tests, false, Self::Any)
    }

    /// Joins tests. Tests that are constantly `neutral` are left out; a test that is constantly the opposite decides.
    fn series(tests: impl IntoIterator<Item = Self>, neutral: bool, make: fn(Vec<Self>) -> Self) -> Self {
        let mut left: Vec<_> = tests.into_iter().filter(|test| *test != Self::Constant(neutral)).collect();
        if left.contains(&Self::Constant(!neutral)) {
            return Self::Constant(!neutral);
        }
        match left.len() {
            0 => Self::Constant(neutral),
            1 => left.remove(0),
            _ => make(left),
        }
    }

    /// Returns the test that the relation holds between two numbers.
    pub(super) fn compare(relation: Relation, left: Calculation, right: Calculation) -> Self {
        match (left, right) {
            (Calculation::Constant(Number::Nothing), _) | (_, Calculation::Constant(Number::Nothing)) => {
                Self::Constant(false)
            }
            (Calculation::Constant(a), Calculation::Constant(b)) => Self::Constant(relation.holds(a, b)),
            (Calculation::Constant(a), right) => {
                Self::compare(relation.mirrored(), right, Calculation::Constant(a))
            }
            (Calculation::Load(place, encoding), Calculation::Constant(Number::Integer(bound))) => {
                match encoding.range() {
                    Some(_) => Self::bounded(place, encoding, relation, bound),
                    None => {
                        let bound = Calculation::Constant(Number::Integer(bound));
                        Self::Compare(relation, Calculation::Load(place, encoding), bound)
                    }
                }
            }
            (left, right) => Self::Compare(relation, left, right),
        }
    }

    /// Returns the test that the relation holds between an integer field and a constant.
    fn bounded(place: ValueLocation, encoding: Encoding, relation: Relation, bound: i128) -> Self {
        let (least, greatest) = (i128::MIN, i128::MAX);
        let (low, high) = match relation {
            Relation::Equal | Relation::Unequal => (bound, bound),
            // The ends of `i128` are beyond all integers that a record can hold, so saturating changes nothing.
            Relation::Less => (least, bound.saturating_sub(1)),
            Relation::LessOrEqual => (least, bound),
            Relation::Greater => (bound.saturating_add(1), greatest),
            Relation::GreaterOrEqual => (bound, greatest),
        };
        Self::interval(place, encoding, relation == Relation::Unequal, low, high)
    }

    /// Returns the test that the integer at `place` lies from `low` to `high`, or `outside`.
    pub(super) fn interval(
        place: ValueLocation,
        encoding: Encoding,
        outside: bool,
        low: i128,
        high: i128,
    ) -> Self {
        let (least, greatest) = encoding.range().unwrap_or_default();
        let (low, high) = (low.max(least), high.min(greatest));
        let (outside, low, high) =
            if low > high { (!outside, least, greatest) } else { (outside, low, high) };
        if (low, high) == (least, greatest) {
            match place.element {
                _ if outside => return Self::Constant(false),
                None => return Self::Constant(true),
                // A missing element is neither within nor outside.
                Some(_) => {}
            }
        }
        let (encoding, high) = encoding.of_bytes(high);
        let span = (high - low) as u64;
        Self::Interval(
            place,
            ValueInterval { outside, encoding, offset: place.offset, low: low as u64, span },
        )
    }
}

impl Calculation {
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Constant(number) => Self::Constant(number.negated()),
            value => Self::Negate(Box::new(value)),
        }
    }

    pub(super) fn complement(self) -> Self {
        match self {
            Self::Constant(number) => Self::Constant(number.complement()),
            value => Self::Complement(Box::new(value)),
        }
    }

    pub(super) fn apply(operator: Operator, left: Self, right: Self) -> Self {
        match (left, right) {
            (Self::Constant(a), Self::Constant(b)) => Self::Constant(operator.apply(a, b)),
            (Self::Constant(Number::Nothing), _) | (_, Self::Constant(Number::Nothing)) => {
                Self::Constant(Number::Nothing)
            }
            (left, right) => Self::Apply(operator, Box::new(left), Box::new(right)),
        }
    }

    /// Returns true if the value is calculated in floating point.
    pub(super) fn is_float(&self) -> bool {
        match self {
            Self::Constant(number) => matches!(number, Number::Float(_)),
            Self::Load(_, encoding) => encoding.range().is_none(),
            Self::Tid => false,
            Self::Negate(value) | Self::Complement(value) => value.is_float(),
            Self::Apply(_, left, right) => left.is_float() || right.is_float(),
        }
    }

    /// Returns the number of stack entries that the evaluation takes.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Constant(_) | Self::Load(..) | Self::Tid => 1,
            Self::Negate(value) | Self::Complement(value) => value.depth(),
            Self::Apply(_, left, right) => left.depth().max(1 + right.depth()),
        }
    }
}
