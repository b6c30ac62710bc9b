//! Bytes of anybody's: the decoder panics on none of them, and accepts only those that the encoder makes.

use proptest::prelude::*;
use sordino_registration::{
    AnyPacket, AreaSizes, BUFFER_SIZE, Encoded, MAX_PACKET, PacketError, PreparedAreaRequest,
    RecorderAddress, RegistrationPacket, Socket, Token,
};

/// Accepted bytes are those of the packet that they were decoded to.
fn accepts_only_what_is_encoded(bytes: &[u8]) {
    if let Ok(packet) = AnyPacket::decode(bytes) {
        assert_eq!(encoded(packet).as_bytes(), bytes);
    }
}

fn encoded(packet: AnyPacket) -> Encoded {
    match packet {
        AnyPacket::Registration(packet) => packet.encode(),
        AnyPacket::PreparedArea(packet) => packet.encode(),
    }
}

fn packet() -> impl Strategy<Value = AnyPacket> {
    let token = proptest::option::of(any::<[u64; 2]>().prop_map(Token::new));
    (any::<[u64; 2]>(), any::<[u32; 2]>(), any::<Option<u32>>(), token, any::<bool>()).prop_map(
        |([inode, reserve], [cpus, points], descriptor, token, is_registration)| match is_registration {
            true => AnyPacket::Registration(RegistrationPacket { inode, descriptor, token }),
            false => AnyPacket::PreparedArea(PreparedAreaRequest {
                sizes: AreaSizes { cpus, points, catalogue: inode, reserve },
                token,
            }),
        },
    )
}

/// Packets with numbers at their bounds, of each length.
fn samples() -> Vec<AnyPacket> {
    let mut packets = Vec::new();
    for inode in [0, 1, u64::MAX] {
        for descriptor in [None, Some(0), Some(3), Some(u32::MAX)] {
            for token in [None, Some(Token::new([0, u64::MAX]))] {
                packets.push(AnyPacket::Registration(RegistrationPacket { inode, descriptor, token }));
            }
        }
    }
    for (number, word) in [(0, 0), (1, 1), (u32::MAX, u64::MAX)] {
        for token in [None, Some(Token::new([0, u64::MAX]))] {
            let sizes = AreaSizes { cpus: number, points: !number, catalogue: word, reserve: !word };
            packets.push(AnyPacket::PreparedArea(PreparedAreaRequest { sizes, token }));
        }
    }
    packets
}

/// Each length that a buffer can hold, and longer ones; each byte of each packet with each value.
#[test]
fn what_is_close_to_a_packet_is_one_or_is_refused() {
    for packet in samples() {
        let encoded = encoded(packet);
        let bytes = encoded.as_bytes();
        assert!(bytes.len() <= MAX_PACKET && MAX_PACKET < BUFFER_SIZE);
        for length in 0..bytes.len() {
            accepts_only_what_is_encoded(&bytes[..length]);
        }
        let mut longer = [0; 2 * BUFFER_SIZE];
        longer[..bytes.len()].copy_from_slice(bytes);
        (0..longer.len()).for_each(|length| accepts_only_what_is_encoded(&longer[..length]));
        for length in MAX_PACKET + 1..longer.len() {
            assert_eq!(RegistrationPacket::decode(&longer[..length]), Err(PacketError::Nonsense));
            assert_eq!(AnyPacket::decode(&longer[..length]), Err(PacketError::Nonsense));
        }
        for at in 0..bytes.len() {
            for byte in 0..=u8::MAX {
                let mut changed = bytes.to_vec();
                changed[at] = byte;
                accepts_only_what_is_encoded(&changed);
            }
        }
    }
}

/// A number that no descriptor has is nonsense, and the word of a closed one stands only in packets with a token.
#[test]
fn each_packet_is_written_in_one_way() {
    let packet = |word: u64, token: &[u8]| {
        [&b"sordino2"[..], &7u64.to_le_bytes(), &word.to_le_bytes(), token].concat()
    };
    for word in [1 << 32, u64::MAX - 1, u64::MAX] {
        assert_eq!(RegistrationPacket::decode(&packet(word, &[])), Err(PacketError::Nonsense));
    }
    assert_eq!(RegistrationPacket::decode(&packet(1 << 32, &[0; 16])), Err(PacketError::Nonsense));
    assert_eq!(RegistrationPacket::decode(&packet(u64::MAX, &[0; 8])), Err(PacketError::Nonsense));
    let closed = RegistrationPacket::decode(&packet(u64::MAX, &[0; 16])).unwrap();
    assert_eq!((closed.descriptor, closed.token), (None, Some(Token::new([0, 0]))));
}

proptest! {
    #[test]
    fn packets_are_decoded_as_they_were_encoded(packet in packet()) {
        prop_assert_eq!(AnyPacket::decode(encoded(packet).as_bytes()), Ok(packet));
        prop_assert_eq!(packet.token(), AnyPacket::decode(encoded(packet).as_bytes()).unwrap().token());
    }

    #[test]
    fn random_bytes_are_refused_or_a_packet(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        accepts_only_what_is_encoded(&bytes);
    }

    #[test]
    fn random_words_behind_the_magic_are_refused_or_a_packet(words in proptest::collection::vec(any::<u64>(), 0..8)) {
        let mut bytes = b"sordino2".to_vec();
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        accepts_only_what_is_encoded(&bytes);
    }

    #[test]
    fn values_of_the_environment_are_read_back(value in proptest::collection::vec(any::<u8>(), 0..160)) {
        for value in [&value[..], &[b"@", &value[..]].concat()] {
            if let Some(recorder) = RecorderAddress::parse(value) {
                prop_assert!(recorder.to_bytes().eq_ignore_ascii_case(value));
                prop_assert!(matches!(recorder.socket, Socket::Path([_, ..]) | Socket::Abstract([_, ..])));
            }
        }
    }
}
