//! Integers of variable length, as protocol buffers have them.

/// A position in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByteCursor {
    at: usize,
}

impl ByteCursor {
    pub(crate) fn at(self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(self, bytes: &[u8]) -> bool {
        self.at >= bytes.len()
    }

    pub(crate) fn byte(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = *bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Reads an integer; `None` if it does not end, or has more than 64 bits.
    pub(crate) fn integer(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(bytes)?;
            let bits = u64::from(byte & 0x7f);
            if bits > u64::MAX >> shift {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// Reads that many bytes.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8], count: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(count).ok()?)?;
        let taken = bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_end_within_64_bits() {
        let read = |bytes: &[u8]| ByteCursor::default().integer(bytes);
        assert_eq!(read(&[0x2c]), Some(44));
        assert_eq!(read(&[0xac, 0x02]), Some(300));
        let mut greatest = [0xff; 10];
        greatest[9] = 1;
        assert_eq!(read(&greatest), Some(u64::MAX));
        greatest[9] = 2;
        assert_eq!(read(&greatest), None);
        assert_eq!(read(&[0x80; 11]), None);
        assert_eq!(read(&[0x80]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn no_more_bytes_are_taken_than_there_are() {
        let mut cursor = ByteCursor::default();
        assert_eq!(cursor.take(b"abc", 4), None);
        assert_eq!(cursor.take(b"abc", u64::MAX), None);
        assert_eq!(cursor.take(b"abc", 3), Some(&b"abc"[..]));
        assert!(cursor.is_at_end(b"abc"));
    }
}
