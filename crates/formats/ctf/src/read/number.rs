//! Numbers and texts at their places in the bytes of a packet.

use super::program::Int;
use std::ffi::CStr;

/// Returns the integer at this byte and bit of it, sign-extended if it is signed.
#[inline]
pub(super) fn integer_at(bytes: &[u8], byte: usize, bit: u32, int: &Int) -> u64 {
    // The value is placed at the top of 64 bits.
    let high = match (bit, int.big) {
        (0, false) => u64::from_le_bytes(chunk(bytes, byte)) << (64 - int.bits),
        _ => unusual(bytes, byte, bit, int),
    };
    extended(high, int.bits, int.signed)
}

/// Reads an integer that is big-endian or does not begin with a byte, placed at the top of 64 bits.
#[inline(never)]
fn unusual(bytes: &[u8], byte: usize, bit: u32, int: &Int) -> u64 {
    match (bit, int.big) {
        (0, true) => u64::from_be_bytes(chunk(bytes, byte)),
        (_, true) => (u128::from_be_bytes(chunk(bytes, byte)) << bit >> 64) as u64,
        (_, false) => ((u128::from_le_bytes(chunk(bytes, byte)) >> bit) as u64) << (64 - int.bits),
    }
}

#[inline]
pub(super) fn chunk<const N: usize>(bytes: &[u8], byte: usize) -> [u8; N] {
    bytes[byte..].first_chunk().copied().unwrap_or([0; N])
}

/// Returns the floating-point number that these bits of its size are.
pub(super) fn float(bits: u64, int: &Int) -> f64 {
    match int.bits {
        32 => f64::from(f32::from_bits(bits as u32)),
        _ => f64::from_bits(bits),
    }
}

/// Returns the value that lies at the top of 64 bits.
#[inline]
pub(super) fn extended(high: u64, bits: u32, signed: bool) -> u64 {
    let unused = 64 - bits;
    if signed { (high as i64 >> unused) as u64 } else { high >> unused }
}

pub(super) fn widen(value: u64, signed: bool) -> i128 {
    if signed { i128::from(value as i64) } else { i128::from(value) }
}

pub(super) fn until_zero(text: &[u8]) -> &[u8] {
    CStr::from_bytes_until_nul(text).map_or(text, CStr::to_bytes)
}
