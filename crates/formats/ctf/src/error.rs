//! The errors of writing and reading traces, each with its place.

use std::io;
use std::path::PathBuf;

/// The reason why a trace cannot be written or read.
///
/// Corrupt packets are no error: the reader reports them as losses and continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempted operation: "open", "read".
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The text of the metadata is invalid.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Metadata {
        /// The path of the metadata file.
        path: PathBuf,
        /// The line, from 1; in packetized metadata, of the concatenated texts of the packets.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The problem at this place.
        problem: Problem,
    },
    /// The packets around the text of the metadata are invalid.
    #[error("{}: metadata packet at byte {offset}: {problem}", path.display())]
    MetadataPacket {
        /// The path of the metadata file.
        path: PathBuf,
        /// The offset of the packet in bytes.
        offset: usize,
        /// The problem of the packet.
        problem: Problem,
    },
    /// The metadata is too large.
    #[error("{}: metadata of more than {limit} bytes", path.display())]
    MetadataSize {
        /// The path of the metadata file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// A name cannot be written into metadata.
    #[error("{what} name {name:?} is no C identifier")]
    Identifier {
        /// The kind of name: "field", "clock".
        what: &'static str,
        /// The name that was given.
        name: String,
    },
    /// Two fields have the same name.
    #[error("{event} has two fields called {field}")]
    FieldTwice {
        /// The name of the event.
        event: String,
        /// The name of the fields.
        field: String,
    },
    /// A clock's frequency is 0.
    #[error("clock {name:?} has a frequency of 0")]
    Frequency {
        /// The name of the clock.
        name: String,
    },
    /// A stream cannot have packets of this size.
    #[error("packets of {bytes} bytes: no positive multiple of 4096")]
    PacketSize {
        /// The requested size in bytes.
        bytes: usize,
    },
    /// An event is larger than the packets of its stream.
    #[error("an event of {bytes} bytes does not fit a packet of {packet_bytes}")]
    EventTooLarge {
        /// The size of the whole event in bytes.
        bytes: usize,
        /// The size of the stream's packets in bytes.
        packet_bytes: usize,
    },
    /// An event or a gap is older than an event that its stream already has.
    #[error("tick {ticks} after tick {last} in one stream")]
    TimeWentBack {
        /// The time of the refused event or gap, in ticks.
        ticks: u64,
        /// The time of the stream's last one, in ticks.
        last: u64,
    },
    /// A field cannot have the given value.
    #[error("field {field}: {value} is no {expected}")]
    Value {
        /// The name of the field.
        field: String,
        /// The value that was given.
        value: String,
        /// The type of the field.
        expected: String,
    },
    /// The number of values differs from the number of the schema's fields.
    #[error("{given} values for the {expected} fields of {event}")]
    ValueCount {
        /// The name of the event.
        event: String,
        /// The number of its fields.
        expected: usize,
        /// The number of given values.
        given: usize,
    },
    /// Writing to the stream's output failed.
    #[error("cannot write a packet: {0}")]
    Write(#[source] io::Error),
}

/// A problem of metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A character that begins no token.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A comment, text or character constant that doesn't end.
    #[error("{0} without an end")]
    Endless(&'static str),
    /// A backslash before a character that needs none.
    #[error("unknown escape {0:?}")]
    Escape(char),
    /// A number that is above 2^64 - 1, or invalid.
    #[error("bad number `{0}`")]
    Number(String),
    /// Another token than the ones that are allowed in this place.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The tokens that are allowed.
        expected: &'static str,
        /// The token that was found.
        found: String,
    },
    /// Types or parentheses that are nested too deeply.
    #[error("more than {0} types or parentheses within each other")]
    Depth(u32),
    /// Two definitions of the same name.
    #[error("`{0}` is defined twice")]
    Twice(String),
    /// A type that nothing defines.
    #[error("unknown type `{0}`")]
    UnknownType(String),
    /// An attribute or entry with an invalid value.
    #[error("`{name}` can't be {value}")]
    Attribute {
        /// The name of the attribute.
        name: String,
        /// The attribute's value as text.
        value: String,
    },
    /// A required attribute or block is missing.
    #[error("no `{0}`")]
    Missing(&'static str),
    /// A clock that nothing declares.
    #[error("unknown clock `{0}`")]
    UnknownClock(String),
    /// A length or tag that is not an earlier field.
    #[error("`{0}` is no field that lies before this one")]
    UnknownField(String),
    /// A length or tag of the wrong type.
    #[error("`{name}` is no {expected}")]
    Reference {
        /// The field that it refers to.
        name: String,
        /// The required type of the field.
        expected: &'static str,
    },
    /// A variant is used without a tag, which selects its option.
    #[error("variant without a tag")]
    NoTag,
    /// An event is declared for an undeclared stream.
    #[error("event for the unknown stream {0}")]
    UnknownStream(u64),
    /// Types whose expanded form is too large.
    #[error("types with more than {0} parts in all")]
    TooLarge(usize),
    /// Another version of the format.
    #[error("CTF {major}.{minor}, not 1.8")]
    Version {
        /// The major version, before the dot.
        major: i128,
        /// The minor version, behind the dot.
        minor: i128,
    },
    /// CTF 2, whose metadata is JSON.
    #[error("CTF 2, not 1.8")]
    Json,
    /// Metadata packets with different UUIDs.
    #[error("another UUID than the packet before")]
    OtherUuid,
    /// Sizes of a metadata packet that contradict each other or the file's size.
    #[error(
        "content of {content} bits in a packet of {packet} bits, {left} bytes before the end of the file"
    )]
    Sizes {
        /// The size of the packet's content in bits, header included, by its header.
        content: u32,
        /// The size of the packet in bits, by its header.
        packet: u32,
        /// The number of bytes that the file has from there on.
        left: usize,
    },
    /// Checksums, compression or encryption of metadata, which no tracer uses.
    #[error("unknown checksum, compression or encryption scheme {0}")]
    Scheme(u8),
}
