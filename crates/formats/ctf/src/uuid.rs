//! The identity of a trace or a clock.

use std::fmt;
use std::str::FromStr;

/// A universally unique identifier: 16 bytes, as RFC 9562 writes them.
///
/// ```
/// use sordino_ctf::Uuid;
/// let text = "2a6422d0-6cee-11e0-8c08-cb07d7b3a564";
/// assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// The places of dashes in the text.
const DASHES: [usize; 4] = [8, 13, 18, 23];

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The error for a text that is no UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUuid;

impl FromStr for Uuid {
    type Err = NoUuid;
    fn from_str(text: &str) -> Result<Self, NoUuid> {
        let text = text.as_bytes();
        if text.len() != 36 || DASHES.iter().any(|&at| text[at] != b'-') {
            return Err(NoUuid);
        }
        let digits = text.iter().enumerate().filter(|(at, _)| !DASHES.contains(at));
        let mut bytes = [0; 16];
        for (index, (_, &digit)) in digits.enumerate() {
            let value = char::from(digit).to_digit(16).ok_or(NoUuid)? as u8;
            bytes[index / 2] = bytes[index / 2] << 4 | value;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_uuid_is_refused() {
        let good = "00112233-4455-6677-8899-aAbBcCdDeEfF";
        assert_eq!(
            good.parse(),
            Ok(Uuid([
                0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff
            ]))
        );
        for bad in [
            "",
            "00112233445566778899aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddeef",
            "00112233-4455-6677-8899-aabbccddeefg",
            "0011223--4455-6677-8899-aabbccddeeff",
            "00112233-4455-6677-8899-aabbccddee\u{e9}",
        ] {
            assert_eq!(bad.parse::<Uuid>(), Err(NoUuid), "{bad}");
        }
    }
}
