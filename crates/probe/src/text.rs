//! Text without allocation: into a fixed room, or only its hash.

use std::fmt;

/// Writes into a slice; an error when it is full.
pub(crate) struct Cursor<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, length: 0 }
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl fmt::Write for Cursor<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length.checked_add(text.len()).ok_or(fmt::Error)?;
        self.room.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// The 64-bit FNV-1a hash of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl fmt::Write for &mut Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 =
            text.bytes().fold(self.0, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn a_cursor_takes_what_fits_and_refuses_the_rest() {
        let mut room = [0; 5];
        let mut cursor = Cursor::new(&mut room);
        assert!(write!(cursor, "{}", 123).is_ok());
        assert!(cursor.write_str("456").is_err());
        assert!(cursor.write_str("45").is_ok());
        assert_eq!((cursor.length(), &room), (5, b"12345"));
    }

    #[test]
    fn the_hash_is_that_of_the_whole_text() {
        let (mut one, mut two) = (Hash::default(), Hash::default());
        (&mut one).write_str("foobar").unwrap();
        (&mut two).write_str("foo").and_then(|()| (&mut two).write_str("bar")).unwrap();
        assert_eq!((one, one.0), (two, 0x8594_4171_f739_67e8));
    }
}
