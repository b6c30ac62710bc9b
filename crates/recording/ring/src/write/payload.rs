//! A record to be written, and the forms of its payload.

use crate::layout::MAX_RECORD;
use crate::number::Tag;
use crate::offset::EncodedLength;
use sordino_percpu::{Bytes, Payload, Words};

/// The length of the longest payload in bytes: of the largest record in either kind of ring, with some room left.
pub const MAX_PAYLOAD: usize = MAX_RECORD - 64;

/// A record to be written: its tag and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Record<P = Bytes> {
    /// The tag, without the count of lost records.
    pub tag: Tag,
    /// The payload, readable up to the next multiple of 8 bytes.
    pub payload: P,
    /// The payload's encoded length.
    pub encoded_length: EncodedLength,
}

/// A record's payload, in two words.
///
/// # Safety
/// `record` returns a payload of as many bytes as its encoded length gives, and `in_memory` passes the same one.
pub unsafe trait PayloadSource: Copy {
    /// The payload's form for the restartable section.
    type Payload: Payload;

    /// Returns the record with this tag.
    fn record(self, tag: Tag) -> Record<Self::Payload>;

    /// Calls `go` with the payload in memory.
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T;
}

/// A payload in memory, of which `encoded_length.copied()` bytes are readable.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Address of the first byte.
    pub from: *const u8,
    /// The payload's encoded length.
    pub encoded_length: EncodedLength,
}

impl Staged {
    /// The payload; `None` for one that no ring has room for, which has no bytes.
    ///
    /// # Safety
    /// The payload stays readable, and unchanged, for `'a`.
    #[inline(always)]
    pub unsafe fn payload<'a>(self) -> Option<&'a [u8]> {
        let length = self.encoded_length.payload();
        // SAFETY: `length` is at most the number of copied bytes, which are readable; the caller guarantees that they
        // stay so and unchanged.
        (length <= MAX_PAYLOAD).then(|| unsafe { std::slice::from_raw_parts(self.from, length) })
    }
}

// SAFETY: the payload has `encoded_length.copied()` bytes, as the record's encoded length gives; `in_memory` passes the
// value itself.
unsafe impl PayloadSource for Staged {
    type Payload = Bytes;

    #[inline(always)]
    fn record(self, tag: Tag) -> Record {
        let payload = Bytes { from: self.from, length: self.encoded_length.copied() };
        Record { tag, payload, encoded_length: self.encoded_length }
    }

    #[inline(always)]
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T {
        go(self)
    }
}

/// Two words in registers: 11.3 ns instead of 12.9 by way of the stack.
// SAFETY: two words are 16 bytes, as the encoded length gives; `in_memory` passes the same words.
unsafe impl PayloadSource for Words {
    type Payload = Self;

    #[inline(always)]
    fn record(self, tag: Tag) -> Record<Self> {
        Record { tag, payload: self, encoded_length: EncodedLength::of(16) }
    }

    #[inline(always)]
    fn in_memory<T>(self, go: impl FnOnce(Staged) -> T) -> T {
        let words = [self.0, self.1];
        go(Staged { from: words.as_ptr().cast(), encoded_length: EncodedLength::of(16) })
    }
}
