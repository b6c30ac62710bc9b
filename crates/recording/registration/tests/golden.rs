//! The bytes of the protocol, as the page shows them.

use sordino_registration::environment::{READ_BY_PROGRAMS, SESSION_OF_COMMAND};
use sordino_registration::{
    ANSWER_TIME, AnyPacket, AreaSizes, MAX_ENTRIES, MAX_RECORDERS, MAX_SESSION_NAME, NO_PREPARED_AREA,
    PACKET_TIME, PREPARED_AREA, PREPARED_AREA_TIME, PacketError, PreparedAreaRequest, RecorderAddress,
    RecorderReply, RegistrationPacket, Socket, Token, VERSION, WENT_ON, private_name, searched,
};
use std::fmt::Write;

const PAGE: &str = include_str!("../../../../docs/registration.md");

/// A packet to a session's directory, of a program that has closed its descriptor.
const SHORT: &[u8; 16] = b"sordino2\
    \x67\x12\x00\x00\x00\x00\x00\x00"; // inode 4711

/// A packet to a session's directory.
const USUAL: &[u8; 24] = b"sordino2\
    \x67\x12\x00\x00\x00\x00\x00\x00\
    \x03\x00\x00\x00\x00\x00\x00\x00"; // descriptor 3

/// A packet to the recorder that started the program.
const PRIVATE: &[u8; 40] = b"sordino2\
    \x67\x12\x00\x00\x00\x00\x00\x00\
    \x03\x00\x00\x00\x00\x00\x00\x00\
    \xef\xcd\xab\x89\x67\x45\x23\x01\
    \x10\x32\x54\x76\x98\xba\xdc\xfe"; // the token's two words

/// The same of a program that has closed its descriptor.
const CLOSED: &[u8; 40] = b"sordino2\
    \x67\x12\x00\x00\x00\x00\x00\x00\
    \xff\xff\xff\xff\xff\xff\xff\xff\
    \xef\xcd\xab\x89\x67\x45\x23\x01\
    \x10\x32\x54\x76\x98\xba\xdc\xfe";

/// A request for a prepared area to root's recorder.
const REQUEST: &[u8; 32] = b"sordino2\
    \x02\x00\x00\x00\x00\x80\x00\x00\
    \x00\x00\x80\x00\x00\x00\x00\x00\
    \x00\x00\x00\x40\x00\x00\x00\x00"; // 2 CPUs, 32,768 tracepoints, 8 MiB, 1 GiB

/// The same to the recorder that started the program.
const PRIVATE_REQUEST: &[u8; 48] = b"sordino2\
    \x02\x00\x00\x00\x00\x80\x00\x00\
    \x00\x00\x80\x00\x00\x00\x00\x00\
    \x00\x00\x00\x40\x00\x00\x00\x00\
    \xef\xcd\xab\x89\x67\x45\x23\x01\
    \x10\x32\x54\x76\x98\xba\xdc\xfe"; // the token's two words

/// The environment of programs whose packets those are.
const VALUE: &[u8] = b"@sordino-4710-00000000deadbeef/0123456789abcdeffedcba9876543210";

fn token() -> Option<Token> {
    Some(Token::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]))
}

fn packets() -> [(&'static str, RegistrationPacket, &'static [u8]); 4] {
    let packet = |descriptor, token| RegistrationPacket { inode: 4711, descriptor, token };
    [
        ("To a session's directory", packet(Some(3), None), USUAL),
        ("To a session's directory, descriptor closed", packet(None, None), SHORT),
        ("To the recorder that started the program", packet(Some(3), token()), PRIVATE),
        ("To the recorder that started the program, descriptor closed", packet(None, token()), CLOSED),
    ]
}

#[test]
fn packets_have_these_bytes() {
    for (name, packet, bytes) in packets() {
        assert_eq!(packet.encode().as_bytes(), bytes, "{name}");
        assert_eq!(RegistrationPacket::decode(bytes), Ok(packet), "{name}");
    }
    assert_eq!(VERSION, 2);
}

fn requests() -> [(&'static str, PreparedAreaRequest, &'static [u8]); 2] {
    let sizes = AreaSizes { cpus: 2, points: 32_768, catalogue: 8 << 20, reserve: 1 << 30 };
    [
        ("For a prepared area, to root's recorder", PreparedAreaRequest { sizes, token: None }, REQUEST),
        (
            "For a prepared area, to the recorder that started the program",
            PreparedAreaRequest { sizes, token: token() },
            PRIVATE_REQUEST,
        ),
    ]
}

#[test]
fn requests_have_these_bytes() {
    for (name, request, bytes) in requests() {
        assert_eq!(request.encode().as_bytes(), bytes, "{name}");
        assert_eq!(AnyPacket::decode(bytes), Ok(AnyPacket::PreparedArea(request)), "{name}");
        assert_eq!(RegistrationPacket::decode(bytes), Err(PacketError::Nonsense), "{name}");
    }
    for (name, packet, bytes) in packets() {
        assert_eq!(AnyPacket::decode(bytes), Ok(AnyPacket::Registration(packet)), "{name}");
    }
}

#[test]
fn other_bytes_are_these() {
    assert_eq!((PREPARED_AREA, NO_PREPARED_AREA), (*b"p", *b"g"));
    assert_eq!(
        (RecorderReply::Answered.encode(), RecorderReply::GoOn.encode(), WENT_ON),
        (*b"a", *b"g", *b"w")
    );
    assert_eq!(RecorderReply::decode(b"a"), RecorderReply::Answered);
    for other in [&b""[..], b"g", b"b", b"aa", b"A", b"\0"] {
        assert_eq!(RecorderReply::decode(other), RecorderReply::GoOn, "{other:?}");
    }
    let name = private_name(4710, 0xdead_beef);
    let recorder = RecorderAddress { socket: Socket::Abstract(name.as_bytes()), token: token() };
    assert_eq!(recorder.to_bytes(), VALUE);
    assert_eq!(RecorderAddress::parse(VALUE), Some(recorder));
}

/// Eight bytes a line, with their offset.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, offset) in bytes.chunks(8).zip((0..).step_by(8)) {
        let _ = write!(text, "{offset:02x}:");
        line.iter().for_each(|byte| {
            let _ = write!(text, " {byte:02x}");
        });
        text.push('\n');
    }
    text
}

/// The block of the page behind a heading.
fn block(heading: &str) -> &'static str {
    let rest = PAGE.split_once(&format!("### {heading}\n")).expect(heading).1;
    rest.split_once("```text\n").expect(heading).1.split_once("```").expect(heading).0
}

#[test]
fn the_page_shows_them() {
    for (name, packet, _) in packets() {
        assert_eq!(block(name), dump(packet.encode().as_bytes()), "{name}");
    }
    for (name, request, _) in requests() {
        assert_eq!(block(name), dump(request.encode().as_bytes()), "{name}");
    }
    let value = String::from_utf8_lossy(VALUE);
    assert!(PAGE.contains(&format!("`{value}`")));
    assert!(PAGE.contains(&format!("Version {VERSION}.")));
    for variable in READ_BY_PROGRAMS.into_iter().chain([SESSION_OF_COMMAND]) {
        assert!(PAGE.contains(&format!("| `{variable}` |")), "{variable}");
    }
    for base in searched(1000, false) {
        let path = base.to_string().replace("1000", "UID");
        assert!(PAGE.contains(&format!("`{path}/sessions`")), "{path}");
    }
    for bound in [
        format!("| {} s |", ANSWER_TIME.as_secs()),
        format!("| {} ms |", PACKET_TIME.as_millis()),
        format!("| {} ms |", PREPARED_AREA_TIME.as_millis()),
        format!("| {MAX_RECORDERS} |"),
        format!("| {MAX_ENTRIES} |"),
        format!("| {MAX_SESSION_NAME} |"),
    ] {
        assert!(PAGE.contains(&bound), "{bound}");
    }
}

#[test]
fn another_version_is_told_from_nonsense() {
    for version in (0..=u8::MAX).filter(|version| *version != b'0' + VERSION) {
        for length in 8..=64 {
            let mut bytes = [0xa5; 64];
            bytes[..7].copy_from_slice(b"sordino");
            bytes[7] = version;
            assert_eq!(RegistrationPacket::decode(&bytes[..length]), Err(PacketError::Version));
            assert_eq!(AnyPacket::decode(&bytes[..length]), Err(PacketError::Version));
        }
    }
    assert_eq!(RegistrationPacket::decode(b"sordino"), Err(PacketError::Nonsense));
    assert_eq!(RegistrationPacket::decode(b"Sordino1"), Err(PacketError::Nonsense));
}
