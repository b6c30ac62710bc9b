//! The address of a recorder's socket, and the token of the programs that it starts.
//!
//! `SORDINO_SESSION` holds the path of a socket, or `@NAME` for an abstract name, behind which `/TOKEN` may follow.
//! Everybody on the machine can see an abstract name (`/proc/net/unix`), so only packets with the token are accepted
//! there. A token is 32 hexadecimal digits in the environment and two words in a packet; the first 16 digits are the
//! first word.

use std::fmt;

/// The longest path or abstract name of a socket, in bytes: `sun_path` of `struct sockaddr_un` has 108, one of them a
/// zero byte.
pub const MAX_ADDRESS: usize = 107;

/// The secret that a recorder's own programs inherit, and that other users' programs do not get.
#[derive(Clone, Copy)]
pub struct Token([u64; 2]);

impl Token {
    /// Returns the token of these words, which have to be random.
    pub const fn new(words: [u64; 2]) -> Self {
        Self(words)
    }

    /// Returns the words in the order in which a packet has them.
    pub const fn words(self) -> [u64; 2] {
        self.0
    }

    /// Returns the token of exactly 32 hexadecimal digits.
    fn parse(digits: &[u8]) -> Option<Self> {
        if digits.len() != 32 {
            return None;
        }
        let mut words = [0; 2];
        for (word, digits) in words.iter_mut().zip(digits.chunks(16)) {
            for digit in digits {
                *word = *word << 4 | u64::from(char::from(*digit).to_digit(16)?);
            }
        }
        Some(Self(words))
    }
}

/// Compares all bits of two tokens, so that the time does not reveal the first difference.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let ([first, second], [other_first, other_second]) = (self.0, other.0);
        (first ^ other_first) | (second ^ other_second) == 0
    }
}

impl Eq for Token {}

/// Writes 32 hexadecimal digits.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.0;
        write!(f, "{first:016x}{second:016x}")
    }
}

/// Keeps the secret out of messages.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The address of a recorder's socket, 1 to [`MAX_ADDRESS`] bytes with the zero byte of an abstract name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket<'a> {
    /// A path in the file system.
    Path(&'a [u8]),
    /// An abstract name, without its leading zero byte.
    Abstract(&'a [u8]),
}

impl<'a> Socket<'a> {
    /// Returns the address that `text` spells: a path, or an abstract name behind `@`. `None` if it is empty or too
    /// long.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [] | [b'@'] => None,
            _ if text.len() > MAX_ADDRESS => None,
            [b'@', name @ ..] => Some(Self::Abstract(name)),
            path => Some(Self::Path(path)),
        }
    }
}

/// The value of `SORDINO_SESSION`: the recorder that started a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderAddress<'a> {
    /// The socket to which the program connects.
    pub socket: Socket<'a>,
    /// The token for its packets; `None` if the socket is not private.
    pub token: Option<Token>,
}

impl<'a> RecorderAddress<'a> {
    /// Returns the recorder that the variable's value names. `None` if the value makes no sense.
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        let end = value.iter().rposition(|byte| *byte == b'/').filter(|_| value.starts_with(b"@"));
        let Some((name, [_, digits @ ..])) = end.and_then(|end| value.split_at_checked(end)) else {
            return Some(Self { socket: Socket::parse(value)?, token: None });
        };
        Some(Self { socket: Socket::parse(name)?, token: Some(Token::parse(digits)?) })
    }

    /// Returns the variable's value. Allocates: for the recorder.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self.socket {
            Socket::Path(path) => path.to_vec(),
            Socket::Abstract(name) => [b"@", name].concat(),
        };
        if let Some(token) = self.token {
            bytes.extend(format!("/{token}").bytes());
        }
        bytes
    }
}

/// Returns the abstract name of a recorder's private socket, which `random` makes unique. Allocates: for the recorder.
pub fn private_name(pid: u32, random: u64) -> String {
    format!("sordino-{pid}-{random:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_stands_behind_an_abstract_name() {
        let value = b"@sordino-1-2/00000000000000010123456789abcDEF";
        let token = Some(Token::new([1, 0x0123_4567_89ab_cdef]));
        let socket = Socket::Abstract(b"sordino-1-2");
        assert_eq!(RecorderAddress::parse(value), Some(RecorderAddress { socket, token }));
        let path = RecorderAddress { socket: Socket::Path(b"/run/a/programs"), token: None };
        assert_eq!(RecorderAddress::parse(b"/run/a/programs"), Some(path));
        let open = RecorderAddress { socket: Socket::Abstract(b"nobody"), token: None };
        assert_eq!(RecorderAddress::parse(b"@nobody"), Some(open));
        let wrong = [
            "",
            "@",
            "@/00000000000000010123456789abcdef",
            "@a/",
            "@a/12",
            "@a/+000000000000001+000000000000001",
            "@a/0123456789abcdefg123456789abcdef",
            "@a/00000000000000010123456789abcdef0",
        ];
        for value in wrong {
            assert_eq!(RecorderAddress::parse(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn values_are_read_as_they_were_written() {
        let token = Token::new([u64::MAX, 0]);
        let name = private_name(u32::MAX, u64::MAX);
        for recorder in [
            RecorderAddress { socket: Socket::Abstract(name.as_bytes()), token: Some(token) },
            RecorderAddress { socket: Socket::Abstract(name.as_bytes()), token: None },
            RecorderAddress { socket: Socket::Path(b"/run/sordino/sessions/s/programs"), token: None },
        ] {
            assert_eq!(RecorderAddress::parse(&recorder.to_bytes()), Some(recorder));
        }
    }

    #[test]
    fn addresses_have_the_length_that_the_kernel_takes() {
        let fits = "x".repeat(MAX_ADDRESS);
        assert_eq!(Socket::parse(fits.as_bytes()), Some(Socket::Path(fits.as_bytes())));
        assert_eq!(Socket::parse(format!("{fits}x").as_bytes()), None);
        assert_eq!(Socket::parse(format!("@{fits}").as_bytes()), None);
    }

    #[test]
    fn tokens_differ_in_any_bit_and_are_not_printed() {
        let token = Token::new([0x1234, 0x5678]);
        for bit in 0..64 {
            assert_ne!(token, Token::new([0x1234 ^ 1 << bit, 0x5678]));
            assert_ne!(token, Token::new([0x1234, 0x5678 ^ 1 << bit]));
        }
        assert_eq!(token, Token::new([0x1234, 0x5678]));
        assert_eq!(format!("{token:?}"), "Token(..)");
    }
}
