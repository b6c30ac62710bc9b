//! The bytes of a compiled condition: each operation with its operands, written and read.
//!
//! `docs/conditions.md` describes the bytes for authors of other evaluators.

use crate::number::{Operator, Relation};
use crate::payload::{Encoding, ValueInterval};
use std::mem::offset_of;

/// The longest code of a condition, in bytes.
pub const MAX_CODE: usize = 512;
/// The capacity of the evaluator's stack, in numbers.
pub const STACK: usize = 8;
/// The longest pattern, in bytes: its length is stored in one byte.
pub const MAX_PATTERN: usize = u8::MAX as usize;

/// One operation. Offsets count from the *base*, which is the payload's first byte until an operation moves it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each operation describes its operands")]
pub enum Op<'a> {
    /// Moves the base to the payload's first byte.
    Start,
    /// Moves the base behind the zero byte that ends the string at `offset`.
    PastString { offset: u16 },
    /// Moves the base behind the sequence at `offset`, whose elements have `size` bytes.
    PastSequence { offset: u16, size: u8 },
    /// Moves the base to an element of the sequence at `offset`.
    Element { offset: u16, size: u8, index: u16 },
    /// Tests whether an integer lies within the interval, or outside of it.
    Interval(ValueInterval),
    /// Tests whether the text of `length` bytes at `offset` matches `pattern`. With `unlike`, the result is inverted.
    Match { unlike: bool, offset: u16, length: u16, pattern: &'a [u8] },
    /// Pushes a constant integer.
    Integer(i128),
    /// Pushes a constant floating-point number.
    Float(f64),
    /// Pushes the number at `offset`.
    Load { encoding: Encoding, offset: u16 },
    /// Pushes the thread's id.
    Tid,
    /// Replaces the number on top by its negative.
    Negate,
    /// Replaces the number on top by its complement.
    Complement,
    /// Replaces the two numbers on top by one; the right operand is the upper one.
    Apply(Operator),
    /// Compares the two numbers on top and drops them; the right operand is the upper one.
    Compare(Relation),
    /// Skips this number of bytes of code if the last test held.
    IfTrue { skip: u16 },
    /// Skips this number of bytes of code if the last test did not hold.
    IfFalse { skip: u16 },
}

const START: u8 = 0x01;
const PAST_STRING: u8 = 0x02;
const PAST_SEQUENCE: u8 = 0x03;
const ELEMENT: u8 = 0x04;
const WITHIN: u8 = 0x10;
const OUTSIDE: u8 = 0x11;
const LIKE: u8 = 0x12;
const UNLIKE: u8 = 0x13;
const INTEGER: u8 = 0x20;
const LARGE_INTEGER: u8 = 0x21;
const FLOAT: u8 = 0x22;
const LOAD: u8 = 0x23;
const TID: u8 = 0x24;
const NEGATE: u8 = 0x25;
const COMPLEMENT: u8 = 0x26;
const IF_TRUE: u8 = 0x50;
const IF_FALSE: u8 = 0x51;

/// The byte of the first operator; the others follow in their order.
const OPERATOR: u8 = 0x30;
/// The byte of the first relation; the others follow in their order.
const RELATION: u8 = 0x40;

/// The encoded length of a jump, in bytes.
pub const JUMP: usize = 3;

impl<'a> Op<'a> {
    /// Appends the operation to `code`.
    pub fn write(self, code: &mut Vec<u8>) {
        match self {
            Self::Start => code.push(START),
            Self::PastString { offset } => put(code, PAST_STRING, &[&offset.to_ne_bytes()]),
            Self::PastSequence { offset, size } => {
                put(code, PAST_SEQUENCE, &[&offset.to_ne_bytes(), &[size]])
            }
            Self::Element { offset, size, index } => {
                put(code, ELEMENT, &[&offset.to_ne_bytes(), &[size], &index.to_ne_bytes()]);
            }
            Self::Interval(ValueInterval { outside, encoding, offset, low, span }) => {
                let op = if outside { OUTSIDE } else { WITHIN };
                let [low, span] = [low, span].map(u64::to_ne_bytes);
                put(code, op, &[&[encoding.byte()], &offset.to_ne_bytes(), &low, &span]);
            }
            Self::Match { unlike, offset, length, pattern } => {
                let op = if unlike { UNLIKE } else { LIKE };
                let [offset, length] = [offset, length].map(u16::to_ne_bytes);
                put(code, op, &[&offset, &length, &[pattern.len() as u8], pattern]);
            }
            Self::Integer(value) => match i64::try_from(value) {
                Ok(value) => put(code, INTEGER, &[&value.to_ne_bytes()]),
                Err(_) => put(code, LARGE_INTEGER, &[&value.to_ne_bytes()]),
            },
            Self::Float(value) => put(code, FLOAT, &[&value.to_ne_bytes()]),
            Self::Load { encoding, offset } => put(code, LOAD, &[&[encoding.byte()], &offset.to_ne_bytes()]),
            Self::Tid => code.push(TID),
            Self::Negate => code.push(NEGATE),
            Self::Complement => code.push(COMPLEMENT),
            Self::Apply(operator) => code.push(OPERATOR + operator as u8),
            Self::Compare(relation) => code.push(RELATION + relation as u8),
            Self::IfTrue { skip } => put(code, IF_TRUE, &[&skip.to_ne_bytes()]),
            Self::IfFalse { skip } => put(code, IF_FALSE, &[&skip.to_ne_bytes()]),
        }
    }

    /// Decodes the operation at the start of `code` and removes it; `None` at the end, and where no whole operation
    /// follows.
    #[inline]
    pub fn read(code: &mut &'a [u8]) -> Option<Self> {
        let op = byte(code)?;
        Some(match op {
            START => Self::Start,
            PAST_STRING => Self::PastString { offset: offset(code)? },
            PAST_SEQUENCE => Self::PastSequence { offset: offset(code)?, size: byte(code)? },
            ELEMENT => Self::Element { offset: offset(code)?, size: byte(code)?, index: offset(code)? },
            WITHIN | OUTSIDE => Self::Interval(interval(op, code)?),
            LIKE | UNLIKE => {
                let (offset, length) = (offset(code)?, offset(code)?);
                let bytes = usize::from(byte(code)?);
                let (pattern, behind) = code.split_at_checked(bytes)?;
                *code = behind;
                Self::Match { unlike: op == UNLIKE, offset, length, pattern }
            }
            INTEGER => Self::Integer(i64::from_ne_bytes(take(code)?).into()),
            LARGE_INTEGER => Self::Integer(i128::from_ne_bytes(take(code)?)),
            FLOAT => Self::Float(f64::from_ne_bytes(take(code)?)),
            LOAD => Self::Load { encoding: Encoding::of_byte(byte(code)?), offset: offset(code)? },
            TID => Self::Tid,
            NEGATE => Self::Negate,
            COMPLEMENT => Self::Complement,
            IF_TRUE => Self::IfTrue { skip: offset(code)? },
            IF_FALSE => Self::IfFalse { skip: offset(code)? },
            _ => match Operator::ALL.get(usize::from(op.wrapping_sub(OPERATOR))) {
                Some(operator) => Self::Apply(*operator),
                None => Self::Compare(*Relation::ALL.get(usize::from(op.wrapping_sub(RELATION)))?),
            },
        })
    }
}

/// A condition's code as it lies in memory if it is the test of one interval and nothing else, by far the most frequent
/// condition.
///
/// The type lets the code go from memory to registers without a copy in between. Any bytes are a valid value.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub struct Sole {
    op: u8,
    encoding: Encoding,
    offset: u16,
    low: u64,
    span: u64,
}

impl Sole {
    /// Returns the code in its memory layout; `None` if it is not as long as the test of one interval.
    pub fn of(code: &[u8]) -> Option<Self> {
        let &[op, encoding, ref rest @ ..] = <&[u8; size_of::<Self>()]>::try_from(code).ok()?;
        let mut rest = &rest[..];
        Some(Self {
            op,
            encoding: Encoding::of_byte(encoding),
            offset: offset(&mut rest)?,
            low: u64::from_ne_bytes(take(&mut rest)?),
            span: u64::from_ne_bytes(take(&mut rest)?),
        })
    }

    /// Returns the interval; `None` if the code is something else.
    #[inline(always)]
    pub fn interval(self) -> Option<ValueInterval> {
        let Self { op, encoding, offset, low, span } = self;
        matches!(op, WITHIN | OUTSIDE).then_some(ValueInterval {
            outside: op == OUTSIDE,
            encoding,
            offset,
            low,
            span,
        })
    }
}

#[inline(always)]
fn interval(op: u8, code: &mut &[u8]) -> Option<ValueInterval> {
    Some(ValueInterval {
        outside: op == OUTSIDE,
        encoding: Encoding::of_byte(byte(code)?),
        offset: offset(code)?,
        low: u64::from_ne_bytes(take(code)?),
        span: u64::from_ne_bytes(take(code)?),
    })
}

// The offsets are those that `write` and `read` use.
const _: () = assert!(offset_of!(Sole, encoding) == 1 && offset_of!(Sole, offset) == 2);
const _: () = assert!(offset_of!(Sole, low) == 4 && offset_of!(Sole, span) == 12 && size_of::<Sole>() == 20);

fn put(code: &mut Vec<u8>, op: u8, operands: &[&[u8]]) {
    code.push(op);
    operands.iter().for_each(|operand| code.extend_from_slice(operand));
}

#[inline(always)]
fn take<const N: usize>(code: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = code.split_first_chunk()?;
    *code = behind;
    Some(*bytes)
}

#[inline(always)]
fn byte(code: &mut &[u8]) -> Option<u8> {
    take(code).map(|[byte]| byte)
}

#[inline(always)]
fn offset(code: &mut &[u8]) -> Option<u16> {
    take(code).map(u16::from_ne_bytes)
}
