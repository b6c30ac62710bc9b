//! The packet by which a program without an area requests one that the recorder has prepared.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 7 | `sordino` |
//! | 7 | 1 | the [`VERSION`](crate::VERSION), as an ASCII digit |
//! | 8 | 4 | CPUs for which the area has room |
//! | 12 | 4 | tracepoints for which it has room |
//! | 16 | 8 | bytes of its catalogue |
//! | 24 | 8 | bytes of address space that the program reserves for it |
//! | 32 | 16 | the token, two words, on a private socket |
//!
//! The lengths, 32 and 48 bytes, are those of no [`RegistrationPacket`].

use crate::address::Token;
use crate::packet::{Encoded, PacketError, RegistrationPacket, words};
use std::time::Duration;

/// The time that a program waits for a prepared area. It makes its own area then.
pub const PREPARED_AREA_TIME: Duration = Duration::from_millis(20);

/// The byte that a recorder sends with the descriptor of a prepared area. It sends [`NO_PREPARED_AREA`], or closes the
/// connection, if it has none.
pub const PREPARED_AREA: [u8; 1] = *b"p";

/// The byte that a recorder sends if it has no prepared area for this program.
pub const NO_PREPARED_AREA: [u8; 1] = *b"g";

/// The sizes of the area that a program would make. A prepared one has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSizes {
    /// CPUs for which the area has room.
    pub cpus: u32,
    /// Tracepoints for which it has room.
    pub points: u32,
    /// Bytes of its catalogue.
    pub catalogue: u64,
    /// Bytes of address space that the program reserves for it.
    pub reserve: u64,
}

/// The request for a prepared area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedAreaRequest {
    /// The sizes of the area that the program would make.
    pub sizes: AreaSizes,
    /// The token of the recorder that started the program; `None` for root's recorders.
    pub token: Option<Token>,
}

impl PreparedAreaRequest {
    /// Returns the packet's bytes, of the current version.
    pub fn encode(&self) -> Encoded {
        let AreaSizes { cpus, points, catalogue, reserve } = self.sizes;
        let mut encoded = Encoded::begin();
        encoded.push_word(u64::from(points) << 32 | u64::from(cpus));
        [catalogue, reserve].into_iter().for_each(|word| encoded.push_word(word));
        self.token.iter().flat_map(|token| token.words()).for_each(|word| encoded.push_word(word));
        encoded
    }

    /// Returns the packet that [`encode`](Self::encode) makes these bytes of. The bytes are untrusted.
    ///
    /// # Errors
    /// [`PacketError`], if there is no such packet.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let (&[numbers, catalogue, reserve], token) = match words(bytes)?.split_first_chunk() {
            Some((sizes, [])) => (sizes, None),
            Some((sizes, [first, second])) => (sizes, Some(Token::new([word(first), word(second)]))),
            _ => return Err(PacketError::Nonsense),
        };
        let numbers = word(&numbers);
        let sizes = AreaSizes {
            cpus: numbers as u32,
            points: (numbers >> 32) as u32,
            catalogue: word(&catalogue),
            reserve: word(&reserve),
        };
        Ok(Self { sizes, token })
    }
}

/// A packet that a recorder receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyPacket {
    /// The registration of an area.
    Registration(RegistrationPacket),
    /// The request for a prepared area.
    PreparedArea(PreparedAreaRequest),
}

impl AnyPacket {
    /// Returns the packet of these bytes, which are untrusted.
    ///
    /// # Errors
    /// [`PacketError`], if there is no such packet.
    pub fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        match PreparedAreaRequest::decode(bytes) {
            Err(PacketError::Nonsense) => RegistrationPacket::decode(bytes).map(Self::Registration),
            decoded => decoded.map(Self::PreparedArea),
        }
    }

    /// The token that the packet has.
    pub const fn token(&self) -> Option<Token> {
        match self {
            Self::Registration(packet) => packet.token,
            Self::PreparedArea(packet) => packet.token,
        }
    }
}
