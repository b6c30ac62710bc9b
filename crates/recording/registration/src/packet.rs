//! The packet of a registration, and the bytes that follow it on the connection.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 7 | `sordino` |
//! | 7 | 1 | the [`VERSION`], as an ASCII digit |
//! | 8 | 8 | the area's inode number |
//! | 16 | 8 | the program's descriptor for the area; all ones in a packet with a token if the descriptor is closed |
//! | 24 | 16 | the token, two words |
//!
//! Words are little-endian. A packet ends behind the last part that it has, so it is 16, 24 or 40 bytes long.

use crate::address::Token;

/// The version of the protocol, 1 to 9. A recorder refuses packets of other versions.
pub const VERSION: u8 = 2;

/// The length of the longest packet, in bytes: that of a [`PreparedAreaRequest`](crate::PreparedAreaRequest) with a
/// token.
pub const MAX_PACKET: usize = 48;

/// The size of the buffer into which a packet is received, in bytes. The kernel cuts longer packets off there, and what
/// is left of them is still too long for a packet.
pub const BUFFER_SIZE: usize = 56;

/// The byte that a program sends behind its packet when it goes on without an answer.
pub const WENT_ON: [u8; 1] = *b"w";

/// The first bytes of each packet.
const MAGIC: [u8; 7] = *b"sordino";
/// The word of a closed descriptor, in a packet with a token.
const NO_DESCRIPTOR: u64 = u64::MAX;

/// The registration of a program's area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistrationPacket {
    /// The area's inode number. It only selects one of the program's own areas; a recorder trusts it for nothing else.
    pub inode: u64,
    /// The number of the program's own descriptor for the area; `None` if the program has closed it.
    pub descriptor: Option<u32>,
    /// The token of the recorder that started the program; `None` for other recorders.
    pub token: Option<Token>,
}

/// The reason why bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// A packet of another version; its other bytes were not decoded.
    Version,
    /// No packet of any version, or one of this version that is never encoded.
    Nonsense,
}

/// The bytes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    bytes: [u8; MAX_PACKET],
    length: usize,
}

impl Encoded {
    /// Returns the packet's bytes, to be sent as one packet.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }

    /// Returns the start of each packet: the magic bytes and the version.
    pub(crate) fn begin() -> Self {
        let mut encoded = Self { bytes: [0; MAX_PACKET], length: 0 };
        encoded.push(&MAGIC);
        encoded.push(&[b'0' + VERSION]);
        encoded
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.length..).and_then(|rest| rest.get_mut(..bytes.len())) {
            to.copy_from_slice(bytes);
            self.length += bytes.len();
        }
    }

    pub(crate) fn push_word(&mut self, word: u64) {
        self.push(&word.to_le_bytes());
    }
}

/// Returns the words behind the magic bytes of a packet of this version.
pub(crate) fn words(bytes: &[u8]) -> Result<&[[u8; 8]], PacketError> {
    let behind = bytes.strip_prefix(&MAGIC).and_then(|behind| behind.split_first());
    let (version, rest) = behind.ok_or(PacketError::Nonsense)?;
    if *version != b'0' + VERSION {
        return Err(PacketError::Version);
    }
    let (words, []) = rest.as_chunks() else { return Err(PacketError::Nonsense) };
    Ok(words)
}

impl RegistrationPacket {
    /// Returns the packet's bytes, of the current version.
    pub fn encode(&self) -> Encoded {
        let mut encoded = Encoded::begin();
        encoded.push_word(self.inode);
        match (self.descriptor, self.token) {
            (None, None) => {}
            (Some(descriptor), None) => encoded.push_word(descriptor.into()),
            (descriptor, Some(token)) => {
                encoded.push_word(descriptor.map_or(NO_DESCRIPTOR, u64::from));
                token.words().into_iter().for_each(|word| encoded.push_word(word));
            }
        }
        encoded
    }

    /// Returns the packet that [`encode`](Self::encode) makes these bytes of. The bytes are untrusted.
    ///
    /// # Errors
    /// [`PacketError`], if there is no such packet.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let words = words(bytes)?;
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        // A number of more than 32 bits is no descriptor's.
        let number = |bytes: &[u8; 8]| u32::try_from(word(bytes)).map_err(|_| PacketError::Nonsense);
        match words {
            [inode] => Ok(Self { inode: word(inode), descriptor: None, token: None }),
            [inode, descriptor] => {
                Ok(Self { inode: word(inode), descriptor: Some(number(descriptor)?), token: None })
            }
            [inode, descriptor, first, second] => {
                let is_closed = word(descriptor) == NO_DESCRIPTOR;
                let descriptor = if is_closed { None } else { Some(number(descriptor)?) };
                let token = Some(Token::new([word(first), word(second)]));
                Ok(Self { inode: word(inode), descriptor, token })
            }
            _ => Err(PacketError::Nonsense),
        }
    }
}

/// The recorder's reply to a registration: one byte, after which the program goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecorderReply {
    /// The recorder has answered in the area, where it takes itself out of the count of awaited recorders.
    Answered,
    /// The recorder has not answered in the area and will not.
    GoOn,
}

impl RecorderReply {
    /// Returns the reply's bytes, to be sent as one packet.
    pub const fn encode(self) -> [u8; 1] {
        match self {
            Self::Answered => *b"a",
            Self::GoOn => *b"g",
        }
    }

    /// Returns the reply of received bytes: [`GoOn`](Self::GoOn) for all that is not [`Answered`](Self::Answered), also
    /// for no bytes, the end of the connection.
    pub fn decode(bytes: &[u8]) -> Self {
        if bytes == Self::Answered.encode() { Self::Answered } else { Self::GoOn }
    }
}
