//! The evaluator's access to a payload: nothing is trusted, and whatever is missing is `None`.

use crate::number::Number;
use std::ffi::CStr;

/// A value in place of a text's length: the text ends with a zero byte.
pub const UP_TO_ZERO: u16 = u16::MAX;

/// The encoding of a number in a payload, as one byte that compiler and evaluator share. Every byte is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Encoding(u8);

/// The logarithm of the size in bytes.
const WIDTH: u8 = 0b11;
const SIGNED: u8 = 1 << 2;
const NETWORK: u8 = 1 << 3;
const FLOAT: u8 = 1 << 4;
/// A byte in which every value but 0 counts as 1.
const BOOL: u8 = 1 << 5;

/// An integer in a payload, and the interval that it has to lie within or outside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueInterval {
    /// True if the integer has to lie outside of the interval.
    pub outside: bool,
    /// The encoding of the integer in a payload.
    pub encoding: Encoding,
    /// The integer's offset from the base.
    pub offset: u16,
    /// The least value. A negative one is stored as its two's complement.
    pub low: u64,
    /// The greatest value less the least.
    pub span: u64,
}

impl Encoding {
    /// One byte that is false if it is 0, and true otherwise.
    pub const BOOL: Self = Self(BOOL);

    /// Returns the encoding of an integer of 1, 2, 4 or 8 bytes, in this machine's or in network byte order.
    pub const fn integer(bytes: u32, signed: bool, network: bool) -> Self {
        let signed = if signed { SIGNED } else { 0 };
        let order = if network { NETWORK } else { 0 };
        Self(width(bytes) | signed | order)
    }

    /// Returns the encoding of a floating-point number of 4 or 8 bytes.
    pub const fn float(bytes: u32) -> Self {
        Self(width(bytes) | FLOAT)
    }

    /// Returns the encoding that this byte of code stands for.
    #[inline(always)]
    pub const fn of_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// Returns the byte of code that stands for the encoding.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// Returns the least and the greatest integer that the encoding can hold; `None` for a floating-point number.
    pub fn range(self) -> Option<(i128, i128)> {
        let bits = 8 << (self.0 & WIDTH);
        match self.0 & (FLOAT | BOOL | SIGNED) {
            0 => Some((0, (1 << bits) - 1)),
            SIGNED => Some((-1 << (bits - 1), (1 << (bits - 1)) - 1)),
            BOOL => Some((0, 1)),
            _ => None,
        }
    }

    /// Returns the encoding without `bool`, and the upper bound that replaces `high` in it: the bytes from 1 on are all
    /// true.
    pub fn of_bytes(self, high: i128) -> (Self, i128) {
        let greatest = if self.0 & BOOL != 0 && high == 1 { u8::MAX.into() } else { high };
        (Self(self.0 & !BOOL), greatest)
    }

    /// Returns the bits of the number at `at`; a signed integer is extended to 64 bits as its two's complement.
    #[inline(always)]
    fn bits(self, payload: &[u8], at: usize) -> Option<u64> {
        let signed = self.0 & SIGNED != 0;
        macro_rules! load {
            ($unsigned:ty, $signed:ty) => {{
                let bytes = payload.get(at..at.checked_add(size_of::<$unsigned>())?)?;
                let bytes = *bytes.first_chunk()?;
                let value = if self.0 & NETWORK == 0 {
                    <$unsigned>::from_ne_bytes(bytes)
                } else {
                    <$unsigned>::from_be_bytes(bytes)
                };
                if signed { value as $signed as u64 } else { u64::from(value) }
            }};
        }
        // Two branches on single bits: a jump table would take registers that the hit's caller has to save.
        let value = match (self.0 & 0b10 != 0, self.0 & 0b01 != 0) {
            (false, false) => load!(u8, i8),
            (false, true) => load!(u16, i16),
            (true, false) => load!(u32, i32),
            (true, true) => load!(u64, i64),
        };
        Some(value)
    }

    /// Returns the number at `at`, or [`Number::Nothing`] where the payload ends before.
    pub fn number(self, payload: &[u8], at: usize) -> Number {
        let Some(bits) = self.bits(payload, at) else { return Number::Nothing };
        match self.0 & (FLOAT | BOOL | SIGNED) {
            0 => Number::Integer(bits.into()),
            SIGNED => Number::Integer((bits as i64).into()),
            BOOL => Number::Integer((bits != 0).into()),
            _ if self.0 & WIDTH == 2 => Number::Float(f32::from_bits(bits as u32).into()),
            _ => Number::Float(f64::from_bits(bits)),
        }
    }
}

/// Returns the logarithm of a size in bytes.
const fn width(bytes: u32) -> u8 {
    bytes.ilog2() as u8
}

impl ValueInterval {
    /// Returns true if the integer in `payload` is where it has to be. [`holds`](crate::holds) returns the same for the
    /// code that this interval was made from.
    ///
    /// Real-time: some twenty instructions.
    #[inline(always)]
    pub fn holds(self, payload: &[u8]) -> bool {
        self.holds_behind(payload, 0)
    }

    /// Returns the same as [`holds`](Self::holds), with another base. A missing integer is neither within nor outside.
    #[inline(always)]
    pub(crate) fn holds_behind(self, payload: &[u8], base: usize) -> bool {
        match self.encoding.bits(payload, base.saturating_add(self.offset.into())) {
            // One comparison tests both ends: a value below the least wraps and becomes large.
            Some(value) => (value.wrapping_sub(self.low) <= self.span) != self.outside,
            None => false,
        }
    }
}

/// Returns the text at `at`, which has `length` bytes or ends with a zero byte.
pub(crate) fn text(payload: &[u8], at: usize, length: u16) -> Option<&[u8]> {
    let bytes = payload.get(at..)?;
    let until_zero = |bytes| CStr::from_bytes_until_nul(bytes).ok().map(CStr::to_bytes);
    if length == UP_TO_ZERO {
        return until_zero(bytes);
    }
    let bytes = bytes.get(..length.into())?;
    Some(until_zero(bytes).unwrap_or(bytes))
}

/// Returns the offset behind the string at `at`.
pub(crate) fn past_string(payload: &[u8], at: usize) -> Option<usize> {
    Some(at + text(payload, at, UP_TO_ZERO)?.len() + 1)
}

/// Returns the offset behind the sequence at `at`, whose elements have `size` bytes.
pub(crate) fn past_sequence(payload: &[u8], at: usize, size: u8) -> Option<usize> {
    Some(elements(at, size, sequence_length(payload, at)?))
}

/// Returns the offset of the element with this index in the sequence at `at`.
pub(crate) fn element(payload: &[u8], at: usize, size: u8, index: u16) -> Option<usize> {
    (index < sequence_length(payload, at)?).then(|| elements(at, size, index))
}

fn sequence_length(payload: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*payload.get(at..)?.first_chunk()?))
}

/// Returns the offset behind the first `count` elements of the sequence at `at`.
fn elements(at: usize, size: u8, count: u16) -> usize {
    at + size_of::<u16>() + usize::from(size) * usize::from(count)
}
