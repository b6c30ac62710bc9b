//! Compiled types of a trace: flat lists of operations that a [`PacketDecoder`](super::decoder::PacketDecoder) runs
//! over a packet.

use super::hidden::HiddenProgram;
use super::types::EnumerationType;
use crate::clock::TickConversion;
use sordino_event::{Base, ClassId, LossCause};
use std::ops::Range;
use std::sync::Arc;

/// All operations of a trace; its scopes are ranges of them.
#[derive(Debug)]
pub(super) struct TraceProgram {
    pub(super) ops: Vec<DecodeOp>,
    /// The number of integers that are remembered as lengths and tags.
    pub(super) slots: usize,
    pub(super) packet_header: Range<usize>,
    pub(super) streams: Vec<StreamProgram>,
}

/// The operations that decode the packets of one stream class.
#[derive(Debug)]
pub(super) struct StreamProgram {
    pub(super) id: u64,
    pub(super) packet_context: Range<usize>,
    pub(super) event_header: HiddenProgram,
    /// The alignment of events in bits, minus 1.
    pub(super) event_mask: u64,
    pub(super) event_context: ContextProgram,
    /// The event classes, sorted by id.
    pub(super) events: Vec<EventProgram>,
    /// The clock of the events' timestamps, if they have any.
    pub(super) clock: Option<TickConversion>,
    pub(super) loss: LossPlace,
    /// True if the packets have the whole clock at their begin, so that it does not depend on earlier packets.
    pub(super) has_whole_clock: bool,
    /// The number of bits of the packets' count of lost records; it wraps.
    pub(super) discarded_bits: u32,
}

impl StreamProgram {
    /// Returns the event class with `id`. Most tracers number them from 0 without gaps; a single one needs no number.
    #[inline]
    pub(super) fn event(&self, id: Option<u64>) -> Option<&EventProgram> {
        let events = &self.events;
        let Some(id) = id else { return events.first().filter(|_| events.len() == 1) };
        match usize::try_from(id).ok().and_then(|index| events.get(index)) {
            Some(event) if event.id == id => Some(event),
            _ => events.binary_search_by_key(&id, |event| event.id).ok().and_then(|index| events.get(index)),
        }
    }
}

#[derive(Debug)]
pub(super) struct EventProgram {
    pub(super) id: u64,
    pub(super) class: ClassId,
    pub(super) context: ContextProgram,
    pub(super) payload: Range<usize>,
    /// The size of the payload in bits, if it is the same in each event that has it at a whole byte.
    pub(super) fixed: Option<u64>,
    /// The fields of such a payload, if each can be read by itself and no context shows further fields.
    pub(super) plain: Option<Box<[PlainField]>>,
}

/// A field at a fixed offset in each payload of its class that begins with a whole byte.
#[derive(Debug)]
pub(super) struct PlainField {
    /// The offset in the payload, in bytes.
    pub(super) byte: usize,
    pub(super) ty: PlainType,
}

/// The type of a field whose value takes whole bytes and depends on them alone.
#[derive(Debug)]
pub(super) enum PlainType {
    Integer(Int, Base),
    Float(Int),
    /// Text of a fixed number of bytes.
    Text(usize),
}

/// The operations of a context. It lies before the payload, but its values follow the payload's: it is run over twice.
#[derive(Debug)]
pub(super) struct ContextProgram {
    pub(super) hidden: HiddenProgram,
    /// The operations that show fields which are not in registers; empty if there are none.
    pub(super) shown: Range<usize>,
}

/// The place in which a stream class counts missing records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossPlace {
    /// The packets' counts only.
    Packet(LossCause),
    /// The packets' counts and every event, which has the low 16 bits of the count: sordino's user streams.
    Event,
}

/// The encoding of an integer in the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Int {
    /// The alignment in bits, minus 1.
    pub(super) mask: u64,
    /// The size in bits, 1 to 64.
    pub(super) bits: u32,
    pub(super) signed: bool,
    pub(super) big: bool,
    /// The slot that remembers the value, or [`NO_SLOT`].
    pub(super) slot: u32,
}

/// The slot of a value that is not needed later.
pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
pub(super) enum DecodeOp {
    /// Shows an integer, in this base.
    Integer(Int, Base),
    /// Shows a floating-point number.
    Float(Int),
    /// Shows an enumeration's value and label.
    Label(Int, Arc<EnumerationType>),
    /// Shows text up to a zero byte.
    String,
    /// Shows text of a fixed number of bytes.
    Text(Times),
    /// Begins a structure of this many members.
    Group(u32),
    /// Shows the name of a member.
    Name(Box<str>),
    /// Runs the operations up to `end` this many times; a list if `shown`.
    Repeat { times: Times, end: usize, shown: bool },
    /// Runs the operations of the arm that the tag selects, and continues at `end`.
    Select { slot: u32, signed: bool, arms: Box<[Arm]>, end: usize },
    /// Advances to a multiple of the alignment in bits; the value is the alignment minus 1.
    Align(u64),
    /// Stores an integer in a register.
    Register(Int, Register),
    /// Stores the trace's UUID in the registers.
    Uuid,
    /// Skips text up to a zero byte.
    SkipString,
    /// Skips this many bytes.
    SkipBytes(Times),
}

/// The number of repetitions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Times {
    Fixed(u64),
    /// The value of an earlier integer.
    Slot(u32),
}

impl DecodeOp {
    /// Returns the number of bits from a whole byte to another that the operation passes over. `None` if the number
    /// depends on the content, or if anything depends on the operation's value.
    pub(super) fn fixed_bits(&self) -> Option<u64> {
        match self {
            Self::Integer(int, _) | Self::Float(int) => {
                let is_whole = int.mask <= 7 && int.bits.is_multiple_of(8) && int.slot == NO_SLOT;
                is_whole.then_some(int.bits.into())
            }
            Self::Text(Times::Fixed(bytes)) | Self::SkipBytes(Times::Fixed(bytes)) => bytes.checked_mul(8),
            Self::Align(mask) => (*mask <= 7).then_some(0),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Arm {
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) body: Range<usize>,
}

/// The purpose of an integer outside of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    Magic,
    StreamId,
    InstanceId,
    PacketSize,
    ContentSize,
    Begin,
    End,
    Discarded,
    Sequence,
    PacketCpu,
    /// The number of the lost records that were larger than a sub-buffer, in sordino's streams.
    TooLarge,
    /// The id of an event. The registers from here on belong to an event.
    Id,
    Ticks,
    Lost,
    /// The size of the whole record, in bytes.
    Length,
    Cpu,
    Pid,
    Tid,
    /// The value has no use.
    Nowhere,
}

impl Register {
    pub(super) const COUNT: usize = Self::Nowhere as usize + 1;
    /// The first register that belongs to an event.
    pub(super) const FIRST_OF_EVENT: Self = Self::Id;

    /// Returns the register's bit in a word.
    pub(super) const fn bit(self) -> u32 {
        1 << self as u32
    }
}
