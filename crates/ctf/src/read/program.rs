//! A trace's types, compiled: flat lists of operations that a [`Machine`](super::machine::Machine) runs over a
//! packet.

use super::types::Enumeration;
use crate::clock::Conversion;
use sordino_event::{Base, Cause, ClassId};
use std::ops::Range;
use std::sync::Arc;

/// All operations of a trace; its scopes are ranges of them.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    /// How many integers are remembered as lengths and tags.
    pub(super) slots: usize,
    pub(super) packet_header: Range<usize>,
    pub(super) streams: Vec<StreamProgram>,
}

/// How to decode the packets of one stream class.
#[derive(Debug)]
pub(super) struct StreamProgram {
    pub(super) id: u64,
    pub(super) packet_context: Range<usize>,
    pub(super) event_header: Range<usize>,
    /// Alignment of events in bits - 1.
    pub(super) event_mask: u64,
    pub(super) event_context: Context,
    /// Sorted by id.
    pub(super) events: Vec<EventProgram>,
    /// Of the clock that stamps the events, if one does.
    pub(super) clock: Option<Conversion>,
    pub(super) loss: LossPlace,
    /// How many bits the packets' count of lost records has; it wraps.
    pub(super) discarded_bits: u32,
}

#[derive(Debug)]
pub(super) struct EventProgram {
    pub(super) id: u64,
    pub(super) class: ClassId,
    pub(super) context: Context,
    pub(super) payload: Range<usize>,
}

/// A context lies before the payload but its values follow the payload's: it is run over twice.
#[derive(Debug)]
pub(super) struct Context {
    /// Fills registers and shows nothing.
    pub(super) hidden: Range<usize>,
    /// Shows what isn't in registers; empty if there is nothing.
    pub(super) shown: Range<usize>,
}

/// Where a stream class says that records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossPlace {
    /// In the packets' counts only.
    Packet(Cause),
    /// sordino's user streams: also in every event, as the low 16 bits of the count.
    Event,
}

/// How an integer lies in the packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Int {
    /// Alignment in bits - 1.
    pub(super) mask: u64,
    /// 1 to 64.
    pub(super) bits: u32,
    pub(super) signed: bool,
    pub(super) big: bool,
    /// Where to remember the value, or [`NO_SLOT`].
    pub(super) slot: u32,
}

/// Nobody asks for the value later.
pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Debug)]
pub(super) enum Op {
    /// Shows an integer.
    Integer(Int, Base),
    /// Shows a floating-point number.
    Float(Int),
    /// Shows an enumeration's value and label.
    Label(Int, Arc<Enumeration>),
    /// Shows text up to a zero byte.
    String,
    /// Shows text of fixed room.
    Text(Times),
    /// Announces a structure of so many members.
    Group(u32),
    /// Shows the name of a member.
    Name(Box<str>),
    /// Runs the operations up to `end` so many times; a list if `shown`.
    Repeat { times: Times, end: usize, shown: bool },
    /// Runs the operations of the arm that the tag selects, then goes on at `end`.
    Select { slot: u32, signed: bool, arms: Box<[Arm]>, end: usize },
    /// Goes to the next multiple of one more than so many bits.
    Align(u64),
    /// Puts an integer in a register.
    Register(Int, Register),
    /// Puts the trace's UUID in its place.
    Uuid,
    /// Skips text up to a zero byte.
    SkipString,
    /// Skips so many bytes.
    SkipBytes(Times),
}

/// How often to repeat.
#[derive(Clone, Copy, Debug)]
pub(super) enum Times {
    Fixed(u64),
    /// As an earlier integer says.
    Slot(u32),
}

#[derive(Debug)]
pub(super) struct Arm {
    pub(super) low: i128,
    pub(super) high: i128,
    pub(super) body: Range<usize>,
}

/// What an integer outside of the payload is for.
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
    /// sordino's: how many of the lost records no sub-buffer could take.
    TooLarge,
    /// From here on, of an event.
    Id,
    Ticks,
    Lost,
    /// Of the whole record, in bytes.
    Length,
    Cpu,
    Pid,
    Tid,
    /// For nothing.
    Nowhere,
}

impl Register {
    pub(super) const COUNT: usize = Self::Nowhere as usize + 1;
    /// The first that belongs to an event.
    pub(super) const FIRST_OF_EVENT: Self = Self::Id;
}
