//! The types of fields' values, and their layout in a record.

use crate::point::{Container, FieldDescription, Label};
use std::ffi::{CStr, c_char};

/// A value that has the same size in every record.
///
/// Implemented for the integers, floating-point numbers, `bool`, [`Hex`] and [`Net`] integers, and enumerations
/// declared with [`enumeration!`](crate::enumeration).
pub trait ScalarValue: Copy {
    /// The type's name in a trace.
    const NAME: &'static CStr;
    /// The labels of an enumeration.
    const LABELS: &'static [Label] = &[];
    /// The value's bytes in a record.
    type Bytes: Copy;
    /// Encodes this value as in a record.
    fn bytes(self) -> Self::Bytes;
    /// The value as an integer, if it is one: in the form that a session's [inline
    /// filter](sordino_ring::layout::InlineFilter) compares, a signed one extended to 64 bits. A type whose
    /// [`NAME`](Self::NAME) is an integer's has to return it: a condition is compared with this alone.
    fn integer(self) -> Option<u64>;
}

/// A field's value.
///
/// Implemented for every [`ScalarValue`], arrays and slices of them, `&str`, `&CStr` and [`Blob`].
pub trait Recordable {
    /// The scalar's name; empty for text.
    const SCALAR: &'static CStr;
    /// The number of scalars, and its encoding.
    const CONTAINER: Container;
    /// The length of an array.
    const LENGTH: u32 = 0;
    /// The labels of an enumeration.
    const LABELS: &'static [Label] = &[];
    /// Bytes that a value takes, if all values take the same number.
    const FIXED: Option<usize>;

    /// Bytes that this value takes.
    fn encoded_length(&self) -> usize;

    /// Writes the value to `to`, and returns the address behind it.
    ///
    /// # Safety
    /// `to` has room for [`encoded_length`](Self::encoded_length) bytes. It need not be aligned.
    unsafe fn put(&self, to: *mut u8) -> *mut u8;

    /// [`ScalarValue::integer`] if the shape is [`Container::One`]; `None` for other shapes.
    #[inline(always)]
    fn as_integer(&self) -> Option<u64> {
        None
    }
}

impl FieldDescription {
    /// A field of type `V` called `name`, which ends with a zero byte.
    ///
    /// # Panics
    /// Panics if it does not end with one; in a constant, that is a compile error.
    pub const fn of<V: Recordable>(name: &'static str) -> Self {
        assert!(!name.is_empty() && name.as_bytes()[name.len() - 1] == 0);
        Self {
            name: name.as_ptr().cast::<c_char>(),
            scalar: V::SCALAR.as_ptr(),
            container: V::CONTAINER,
            length: V::LENGTH,
            labels: V::LABELS.as_ptr(),
            label_count: V::LABELS.len(),
        }
    }
}

/// An integer that is printed in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<T>(pub T);

/// An integer that is recorded most significant byte first, as networks do. Give it the host's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net<T>(pub T);

/// Bytes, shown in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob<'a>(pub &'a [u8]);

macro_rules! scalars {
    ($($ty:ty, $name:literal, $value:ident => $bytes:expr, $as_integer:ident => $integer:expr;)*) => {$(
        impl ScalarValue for $ty {
            const NAME: &'static CStr = $name;
            type Bytes = [u8; size_of::<$ty>()];
            #[inline(always)]
            fn bytes(self) -> Self::Bytes {
                let $value = self;
                $bytes
            }
            #[inline(always)]
            fn integer(self) -> Option<u64> {
                let $as_integer = self;
                $integer
            }
        }
    )*};
}

macro_rules! integers {
    ($($ty:ty, $name:literal, $hex:literal, $net:literal;)*) => {
        scalars! { $(
            $ty, $name, value => value.to_ne_bytes(), value => Some(value as u64);
            Hex<$ty>, $hex, value => value.0.to_ne_bytes(), value => Some(value.0 as u64);
            Net<$ty>, $net, value => value.0.to_be_bytes(), value => Some(value.0 as u64);
        )* }
    };
}

integers! {
    u8, c"u8", c"u8x", c"u8n";
    u16, c"u16", c"u16x", c"u16n";
    u32, c"u32", c"u32x", c"u32n";
    u64, c"u64", c"u64x", c"u64n";
    i8, c"i8", c"i8x", c"i8n";
    i16, c"i16", c"i16x", c"i16n";
    i32, c"i32", c"i32x", c"i32n";
    i64, c"i64", c"i64x", c"i64n";
}

#[cfg(target_pointer_width = "64")]
integers! {
    usize, c"u64", c"u64x", c"u64n";
    isize, c"i64", c"i64x", c"i64n";
}

scalars! {
    f32, c"f32", value => value.to_ne_bytes(), _value => None;
    f64, c"f64", value => value.to_ne_bytes(), _value => None;
    bool, c"bool", value => [u8::from(value)], value => Some(u64::from(value));
}

/// An enumeration that [`enumeration!`](crate::enumeration) declared.
pub trait Enumerated: Copy {
    /// The integer that it is recorded as.
    type Integer: ScalarValue;
    /// The type's name in a trace: `enum:` and the integer's name.
    const NAME: &'static CStr;
    /// The labels of its values.
    const LABELS: &'static [Label];
    /// The integer that this value is recorded as.
    fn integer(self) -> Self::Integer;
}

impl<E: Enumerated> ScalarValue for E {
    const NAME: &'static CStr = <E as Enumerated>::NAME;
    const LABELS: &'static [Label] = <E as Enumerated>::LABELS;
    type Bytes = <E::Integer as ScalarValue>::Bytes;
    #[inline(always)]
    fn bytes(self) -> Self::Bytes {
        Enumerated::integer(self).bytes()
    }
    #[inline(always)]
    fn integer(self) -> Option<u64> {
        Enumerated::integer(self).integer()
    }
}

impl<S: ScalarValue> Recordable for S {
    const SCALAR: &'static CStr = S::NAME;
    const CONTAINER: Container = Container::One;
    const LABELS: &'static [Label] = <S as ScalarValue>::LABELS;
    const FIXED: Option<usize> = Some(size_of::<S::Bytes>());

    #[inline(always)]
    fn encoded_length(&self) -> usize {
        size_of::<S::Bytes>()
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, the size of `Bytes`; an unaligned write.
        unsafe { to.cast::<S::Bytes>().write_unaligned(self.bytes()) };
        to.wrapping_add(size_of::<S::Bytes>())
    }

    #[inline(always)]
    fn as_integer(&self) -> Option<u64> {
        self.integer()
    }
}

impl<S: ScalarValue, const N: usize> Recordable for [S; N] {
    const SCALAR: &'static CStr = S::NAME;
    const CONTAINER: Container = Container::Array;
    const LENGTH: u32 = N as u32;
    const LABELS: &'static [Label] = <S as ScalarValue>::LABELS;
    const FIXED: Option<usize> = Some(N * size_of::<S::Bytes>());

    #[inline(always)]
    fn encoded_length(&self) -> usize {
        N * size_of::<S::Bytes>()
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, those of all elements.
        unsafe { put_all(self, to) }
    }
}

impl<S: ScalarValue, const N: usize> Recordable for &[S; N] {
    const SCALAR: &'static CStr = S::NAME;
    const CONTAINER: Container = Container::Array;
    const LENGTH: u32 = N as u32;
    const LABELS: &'static [Label] = <S as ScalarValue>::LABELS;
    const FIXED: Option<usize> = Some(N * size_of::<S::Bytes>());

    #[inline(always)]
    fn encoded_length(&self) -> usize {
        N * size_of::<S::Bytes>()
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, those of all elements.
        unsafe { put_all(*self, to) }
    }
}

impl<S: ScalarValue> Recordable for &[S] {
    const SCALAR: &'static CStr = S::NAME;
    const CONTAINER: Container = Container::Sequence;
    const LABELS: &'static [Label] = <S as ScalarValue>::LABELS;
    const FIXED: Option<usize> = None;

    /// Bytes of the length and all elements. The length's 16 bits are exceeded no sooner than a record's size.
    #[inline(always)]
    fn encoded_length(&self) -> usize {
        2 + self.len() * size_of::<S::Bytes>()
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, of which the length takes two; an unaligned
        // write.
        unsafe { to.cast::<[u8; 2]>().write_unaligned((self.len() as u16).to_ne_bytes()) };
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, which are those of all elements behind the
        // length's two.
        unsafe { put_all(self, to.wrapping_add(2)) }
    }
}

/// # Safety
/// `to` has room for the bytes of all values.
#[inline(always)]
unsafe fn put_all<S: ScalarValue>(values: &[S], mut to: *mut u8) -> *mut u8 {
    for value in values {
        // SAFETY: the caller guarantees room for all values, of which this is the next; an unaligned write.
        unsafe { to.cast::<S::Bytes>().write_unaligned(value.bytes()) };
        to = to.wrapping_add(size_of::<S::Bytes>());
    }
    to
}

impl Recordable for Blob<'_> {
    const SCALAR: &'static CStr = c"u8x";
    const CONTAINER: Container = Container::Sequence;
    const FIXED: Option<usize> = None;

    #[inline(always)]
    fn encoded_length(&self) -> usize {
        self.0.encoded_length()
    }

    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) -> *mut u8 {
        // SAFETY: the caller guarantees room for `encoded_length()` bytes, which is the slice's own.
        unsafe { self.0.put(to) }
    }
}

macro_rules! texts {
    ($($ty:ty, $bytes:ident;)*) => {$(
        impl Recordable for $ty {
            const SCALAR: &'static CStr = c"";
            const CONTAINER: Container = Container::String;
            const FIXED: Option<usize> = None;

            #[inline(always)]
            fn encoded_length(&self) -> usize {
                self.$bytes().len() + 1
            }

            #[inline(always)]
            unsafe fn put(&self, to: *mut u8) -> *mut u8 {
                // SAFETY: the caller guarantees room for `encoded_length()` bytes, one more than the text has.
                unsafe { put_text(self.$bytes(), to) }
            }
        }
    )*};
}

texts! {
    &str, as_bytes;
    &String, as_bytes;
    &CStr, to_bytes;
}

/// Copies text and ends it with a zero byte. Zero bytes inside become `?`: they would end the text early in the trace
/// and displace the fields behind it.
///
/// # Safety
/// `to` has room for one byte more than `text`.
unsafe fn put_text(text: &[u8], to: *mut u8) -> *mut u8 {
    // SAFETY: the caller guarantees room for the text, in the stage, which does not overlap with it.
    unsafe { to.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
    // SAFETY: these bytes were just written, and nothing else uses the stage.
    let copy = unsafe { std::slice::from_raw_parts_mut(to, text.len()) };
    copy.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b'?');
    let end = to.wrapping_add(text.len());
    // SAFETY: the caller guarantees room for one byte more than the text.
    unsafe { end.write(0) };
    end.wrapping_add(1)
}

/// Bytes that all values take together.
#[inline(always)]
pub fn encoded_length<const N: usize>(lengths: [usize; N]) -> usize {
    lengths.into_iter().fold(0, usize::saturating_add)
}

/// Bytes that all values take together, if that number is constant.
pub const fn fixed_length(lengths: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut index) = (0, 0);
    while index < lengths.len() {
        match lengths[index] {
            Some(encoded_length) => sum += encoded_length,
            None => return None,
        }
        index += 1;
    }
    Some(sum)
}
