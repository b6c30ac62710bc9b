//! The Rust twin of `programs/fields.c`: every kind of field.

use sordino::{Blob, Hex, Net, enumeration, mark, snapshot, tracepoint};

enumeration! {
    /// An enumeration of a small type.
    enum SmallEnumeration: u8 {
        Idle = 0,
        Running = 5,
    }
}
enumeration! {
    /// An enumeration of a large type with negative values.
    enum LargeEnumeration: i64 {
        Broken = -2,
        Fine = 1,
    }
}

/// Methods of every value that have the names of methods in the macros' expansion.
trait Namesakes {
    fn as_integer(&self) {}
    fn length(&self) {}
    fn put(&self) {}
}
impl<T> Namesakes for T {}

impl LargeEnumeration {
    fn as_integer(self) -> Option<u64> {
        Some(u64::MAX / 2)
    }
}

fn main() {
    0.as_integer();
    0.length();
    0.put();
    assert!(LargeEnumeration::Fine.as_integer().is_some());
    tracepoint!(fields:least, a: u8 = 0, b: u16 = 0, c: u32 = 0, d: u64 = 0,
        e: i8 = i8::MIN, f: i16 = i16::MIN, g: i32 = i32::MIN, h: i64 = i64::MIN);
    tracepoint!(fields:most, a: u8 = u8::MAX, b: u16 = u16::MAX, c: u32 = u32::MAX, d: u64 = u64::MAX,
        e: i8 = i8::MAX, f: i16 = i16::MAX, g: i32 = i32::MAX, h: i64 = i64::MAX);
    tracepoint!(fields:hexadecimal, a: Hex<u8> = Hex(0xab), b: Hex<u16> = Hex(0xabcd), c: Hex<u32> = Hex(0xabcd_ef01),
        d: Hex<u64> = Hex(0xabcd_ef01_2345_6789), e: Hex<i8> = Hex(-1), f: Hex<i16> = Hex(-2), g: Hex<i32> = Hex(-3),
        h: Hex<i64> = Hex(-4));
    tracepoint!(fields:network, a: Net<u8> = Net(1), b: Net<u16> = Net(0x0102), c: Net<u32> = Net(0x0102_0304),
        d: Net<u64> = Net(0x0102_0304_0506_0708), e: Net<i8> = Net(-1), f: Net<i16> = Net(-2), g: Net<i32> = Net(-3),
        h: Net<i64> = Net(-4));
    tracepoint!(fields:real, single: f32 = 0.25, twice: f64 = -1e100, infinite: f64 = f64::INFINITY, yes: bool = true,
        no: bool = false);
    tracepoint!(fields:labels, idle: SmallEnumeration = SmallEnumeration::Idle,
        running: SmallEnumeration = SmallEnumeration::Running, broken: LargeEnumeration = LargeEnumeration::Broken,
        fine: LargeEnumeration = LargeEnumeration::Fine);
    tracepoint!(fields:text, empty: &str = "", none: &std::ffi::CStr = c"(null)", some: &str = "with \"quotes\" and \\",
        behind: u8 = 7);
    tracepoint!(fields:arrays, numbers: [u32; 3] = [1, 2, u32::MAX], codes: [Hex<i16>; 2] = [Hex(-1), Hex(0x1234)],
        reals: [f64; 2] = [0.5, -2.25], ports: [Net<u16>; 2] = [Net(80), Net(443)], flags: [bool; 2] = [true, false]);
    tracepoint!(fields:sequences, empty: &[u32] = &[], numbers: &[i64] = &[i64::MIN, i64::MAX], reals: &[f32] = &[1.5],
        bytes: Blob = Blob(&[0xde, 0xad, 0, 0xef]), no_bytes: Blob = Blob(&[]), behind: u8 = 9);
    tracepoint!(fields:none);
    tracepoint!(level: Emergency, fields:emergency, level: u8 = 0);
    tracepoint!(level: Debug, fields:debug, level: u8 = 14);
    tracepoint!(fields:with_nul, text: &str = "a\0b", behind: u8 = 3);
    mark!("{} marks", 1);
    snapshot!("after {} mark", 1);
}
