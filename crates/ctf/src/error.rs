//! What can go wrong, and where.

use std::io;
use std::path::PathBuf;

/// Why a trace can't be written or read.
///
/// Corrupt packets are none of this: the reader reports them as losses and goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: "open", "read".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The text of the metadata does not make sense.
    #[error("{}:{line}:{column}: {problem}", path.display())]
    Metadata {
        /// The metadata file.
        path: PathBuf,
        /// From 1; in packetized metadata, of the packets' texts put together.
        line: usize,
        /// In characters, from 1.
        column: usize,
        /// What is wrong there.
        problem: Problem,
    },
    /// The packets around the text of the metadata do not make sense.
    #[error("{}: metadata packet at byte {offset}: {problem}", path.display())]
    MetadataPacket {
        /// The metadata file.
        path: PathBuf,
        /// Where the packet starts.
        offset: usize,
        /// What is wrong with it.
        problem: Problem,
    },
    /// Metadata so large that it can't be any.
    #[error("{}: metadata of more than {limit} bytes", path.display())]
    MetadataSize {
        /// The metadata file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// A name that metadata can't hold.
    #[error("{what} name {name:?} is no C identifier")]
    Identifier {
        /// Of what: "field", "clock".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that two fields have.
    #[error("{event} has two fields called {field}")]
    FieldTwice {
        /// The event.
        event: String,
        /// The name.
        field: String,
    },
    /// A clock that doesn't tick.
    #[error("clock {name:?} has a frequency of 0")]
    Frequency {
        /// The clock.
        name: String,
    },
    /// A size that packets of a stream can't have.
    #[error("packets of {bytes} bytes: no positive multiple of 4096")]
    PacketSize {
        /// What was asked for.
        bytes: usize,
    },
    /// An event that no packet of its stream can take.
    #[error("an event of {bytes} bytes does not fit a packet of {packet_bytes}")]
    EventTooLarge {
        /// Of the whole event.
        bytes: usize,
        /// Of the stream's packets.
        packet_bytes: usize,
    },
    /// An event or a gap older than what its stream holds already.
    #[error("tick {ticks} after tick {last} in one stream")]
    TimeWentBack {
        /// When the refused event happened.
        ticks: u64,
        /// When the stream's last one did.
        last: u64,
    },
    /// A value that its field can't hold.
    #[error("field {field}: {value} is no {expected}")]
    Value {
        /// The field.
        field: String,
        /// What was given.
        value: String,
        /// The field's type.
        expected: String,
    },
    /// More or fewer values than the schema has fields.
    #[error("{given} values for the {expected} fields of {event}")]
    ValueCount {
        /// The event.
        event: String,
        /// How many fields it has.
        expected: usize,
        /// How many values were given.
        given: usize,
    },
    /// The stream's output took no more.
    #[error("cannot write a packet: {0}")]
    Write(#[source] io::Error),
}

/// What is wrong with metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A character that starts nothing.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A comment, text or character constant that doesn't end.
    #[error("{0} without an end")]
    Endless(&'static str),
    /// A backslash before something that needs none.
    #[error("unknown escape {0:?}")]
    Escape(char),
    /// A number above 2^64 - 1, or none.
    #[error("bad number `{0}`")]
    Number(String),
    /// Something else stands here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// Types within types within types.
    #[error("more than {0} types or parentheses within each other")]
    Depth(u32),
    /// Two things of one name.
    #[error("`{0}` is defined twice")]
    Twice(String),
    /// A type that nothing defines.
    #[error("unknown type `{0}`")]
    UnknownType(String),
    /// An attribute or entry whose value makes no sense.
    #[error("`{name}` can't be {value}")]
    Attribute {
        /// The attribute.
        name: String,
        /// Its value.
        value: String,
    },
    /// An attribute or block that must be there.
    #[error("no `{0}`")]
    Missing(&'static str),
    /// A clock that nothing declares.
    #[error("unknown clock `{0}`")]
    UnknownClock(String),
    /// A length or tag that is no earlier field.
    #[error("`{0}` is no field that lies before this one")]
    UnknownField(String),
    /// A length or tag of the wrong type.
    #[error("`{name}` is no {expected}")]
    Reference {
        /// What it refers to.
        name: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A variant used without saying what selects its option.
    #[error("variant without a tag")]
    NoTag,
    /// A stream or event that is declared for a stream that isn't.
    #[error("event for the unknown stream {0}")]
    UnknownStream(u64),
    /// Types whose written-out form is too large.
    #[error("types with more than {0} parts in all")]
    TooLarge(usize),
    /// Another version of the format.
    #[error("CTF {major}.{minor}, not 1.8")]
    Version {
        /// Before the dot.
        major: i128,
        /// Behind it.
        minor: i128,
    },
    /// CTF 2, whose metadata is JSON.
    #[error("CTF 2, not 1.8")]
    Json,
    /// Metadata packets that say two different things.
    #[error("another UUID than the packet before")]
    OtherUuid,
    /// Sizes of a metadata packet that contradict each other or the file.
    #[error(
        "content of {content} bits in a packet of {packet} bits, {left} bytes before the end of the file"
    )]
    Sizes {
        /// What the packet says of its content, header included.
        content: u32,
        /// What it says of itself.
        packet: u32,
        /// What the file has.
        left: usize,
    },
    /// Checksums, compression or encryption of metadata, which no tracer uses.
    #[error("unknown checksum, compression or encryption scheme {0}")]
    Scheme(u8),
}
