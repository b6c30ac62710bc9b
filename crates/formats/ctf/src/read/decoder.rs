//! The decoder that runs a [`TraceProgram`](super::program::TraceProgram) over the bytes of a packet.

use super::hidden::{HiddenProgram, RegisterLoad, RegisterLoads};
use super::number::{chunk, extended, float, integer_at, until_zero, widen};
use super::program::{DecodeOp, Int, NO_SLOT, Register, Times};
use super::registers::Registers;
use crate::Uuid;
use sordino_event::{Event, Value};
use std::ffi::CStr;
use std::ops::Range;

/// The error for bytes that are invalid by the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidBytes;

type Result<T> = std::result::Result<T, InvalidBytes>;

/// The number of zero bytes behind the packet, with which every integer can be loaded by one read of 16 bytes.
const SLACK: usize = 16;

/// The most operations that an event's lists may repeat. A value takes 24 bytes in memory and may take one bit in the
/// file.
const MAX_REPEATED: u64 = 1 << 20;

/// The most bytes of labels and names, which come from the metadata, that an event's lists may repeat.
const MAX_LABELS: usize = 1 << 22;

/// The size of a packet's first window in bytes; the next ones have up to [`WINDOW_MAX`]. Holes are noticed at the ends
/// of windows, so these depend on the packet alone.
const WINDOW_MIN: usize = 64 << 10;

/// The size of a packet's window in bytes, unless one event is longer.
const WINDOW_MAX: usize = 256 << 10;

/// The longest event that is read, in bytes.
pub(super) const EVENT_MAX: usize = 4 << 20;

/// The alignment of the window in the packet. It is the largest alignment of a type, so that alignments within the
/// window are those within the packet.
const STEP: usize = 4096;

/// The most list elements without any bits that a packet may have, as the file's size does not limit them.
const MAX_EMPTY: u32 = 1 << 16;

/// A window of a packet's bytes, the current place in it, and the values read so far. All of it is reused.
#[derive(Debug, Default)]
pub(super) struct PacketDecoder {
    bytes: Vec<u8>,
    /// The number of the packet's bytes that lie before the window.
    pub(super) base: u64,
    /// The size of the packet's next window in bytes, unless an event needs more.
    window: usize,
    /// The next bit in the window.
    pub(super) position: u64,
    /// The bit behind the window's content.
    pub(super) end: u64,
    /// True if the last value to be read lies, in part, behind `end`.
    short: bool,
    slots: Vec<u64>,
    registers: Registers,
    /// The number of operations that the event's lists may still repeat.
    repeated: u64,
    /// The number of bytes of labels and names that the event may still have.
    labels: usize,
    /// The number of list elements without any bits that the packet may still have.
    empty: u32,
}

/// The state at an event's begin that is needed to read it again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) position: u64,
    ticks: u64,
    empty: u32,
}

impl PacketDecoder {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![0; slots], ..Self::default() }
    }

    /// Returns the whole bytes between two places.
    pub(super) fn bytes(&self, bits: &Range<u64>) -> &[u8] {
        self.bytes.get((bits.start / 8) as usize..(bits.end / 8) as usize).unwrap_or_default()
    }

    /// Returns the bytes of the window from this bit on, which is at a whole byte, and the zero bytes behind them.
    #[inline]
    pub(super) fn bytes_from(&self, bit: u64) -> &[u8] {
        self.bytes.get((bit / 8) as usize..).unwrap_or_default()
    }

    #[inline]
    pub(super) fn registers(&self) -> &Registers {
        &self.registers
    }

    /// Starts over on a packet of `bytes`. `fill` gets room for the first of them, up to a window, and returns the
    /// number that it filled.
    pub(super) fn load<E>(
        &mut self,
        bytes: u64,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<(), E> {
        (self.position, self.base, self.window) = (0, 0, WINDOW_MIN);
        self.registers.clear();
        self.empty = MAX_EMPTY;
        self.short = false;
        self.begin_event();
        self.fill(0, bytes.min(self.window as u64) as usize, fill)
    }

    /// Moves the window to the event at `checkpoint`, where reading continues, and enlarges it if that event is longer.
    /// `fill` gets the offset in the packet and room for the missing bytes, and returns the number that it filled.
    /// `None` if the length of this event exceeds the limit; nothing has changed then.
    pub(super) fn slide<E>(
        &mut self,
        checkpoint: Checkpoint,
        bytes: u64,
        fill: impl FnOnce(u64, &mut [u8]) -> std::result::Result<usize, E>,
    ) -> Option<std::result::Result<(), E>> {
        let loaded = (self.end / 8) as usize;
        let passed = ((checkpoint.position / 8) as usize).min(loaded) & !(STEP - 1);
        if passed == 0 && loaded >= EVENT_MAX {
            return None;
        }
        self.window = (2 * self.window).min(WINDOW_MAX);
        self.rewind(checkpoint);
        self.position -= passed as u64 * 8;
        self.base += passed as u64;
        self.bytes.copy_within(passed..loaded, 0);
        let kept = loaded - passed;
        let left = usize::try_from(bytes - self.base).unwrap_or(usize::MAX);
        let length = (2 * kept).clamp(self.window, EVENT_MAX).min(left);
        let offset = self.base + kept as u64;
        Some(self.fill(kept, length, |room| fill(offset, room)))
    }

    /// Fills the window from `kept` to `length` bytes.
    fn fill<E>(
        &mut self,
        kept: usize,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> std::result::Result<usize, E>,
    ) -> std::result::Result<(), E> {
        if self.bytes.capacity() > 2 * WINDOW_MAX && length <= WINDOW_MAX {
            self.bytes.truncate(length + SLACK);
            self.bytes.shrink_to_fit();
        }
        // Bytes of the window before are overwritten, or cleared below.
        self.bytes.resize(length + SLACK, 0);
        let filled = match fill(&mut self.bytes[kept..length]) {
            Ok(filled) => kept + filled.min(length - kept),
            Err(error) => {
                self.end = 0;
                return Err(error);
            }
        };
        self.bytes[filled..].fill(0);
        self.end = filled as u64 * 8;
        Ok(())
    }

    /// Returns the state at the begin of the next event.
    #[inline]
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint { position: self.position, ticks: self.registers.ticks, empty: self.empty }
    }

    /// Returns to the state `checkpoint`.
    pub(super) fn rewind(&mut self, checkpoint: Checkpoint) {
        (self.position, self.registers.ticks, self.empty) =
            (checkpoint.position, checkpoint.ticks, checkpoint.empty);
    }

    /// Returns true once if the last value could not be read for want of bytes.
    pub(super) fn take_short(&mut self) -> bool {
        std::mem::take(&mut self.short)
    }

    /// Forgets the values of the event before.
    #[inline]
    pub(super) fn begin_event(&mut self) {
        self.registers.begin_event();
        self.repeated = MAX_REPEATED;
        self.labels = MAX_LABELS;
    }

    /// Runs the operations of a header or a context.
    #[inline(always)]
    pub(super) fn run_hidden(
        &mut self,
        ops: &[DecodeOp],
        hidden: &HiddenProgram,
        event: &mut Event,
    ) -> Result<()> {
        if hidden.is_empty() {
            return Ok(());
        }
        if let Some(loads) = &hidden.loads {
            let start = (self.position + loads.mask) & !loads.mask;
            if start.is_multiple_of(8) {
                return self.fill_registers(start, loads);
            }
        }
        self.run(ops, hidden.ops.clone(), event)
    }

    /// Fills registers from the integers at `start`, a whole byte.
    #[inline(always)]
    fn fill_registers(&mut self, start: u64, loads: &RegisterLoads) -> Result<()> {
        let stop = start + loads.bits;
        if stop > self.end && loads.bits > 0 {
            return Err(self.behind_the_end());
        }
        self.position = stop;
        let first = (start / 8) as usize;
        if let Some(load) = &loads.ticks {
            let ticks = Registers::extend(self.registers.ticks, self.loaded(first, load), load.bits);
            self.registers.ticks = ticks;
            self.registers.values[Register::Ticks as usize] = ticks;
        }
        for load in &loads.loads {
            self.registers.values[load.register as usize] = self.loaded(first, load);
        }
        // All at once: a read of the whole word, shortly after writes of its bytes, would wait for these.
        self.registers.present |= loads.present;
        Ok(())
    }

    /// Returns the integer that `load` reads, where the first integer begins with the byte `first`.
    #[inline(always)]
    fn loaded(&self, first: usize, load: &RegisterLoad) -> u64 {
        let low = u64::from_le_bytes(chunk(&self.bytes, first + load.byte));
        extended(low << (64 - load.bits), load.bits, load.signed)
    }

    /// Runs the operations `range`, and shows values in `event`.
    pub(super) fn run(&mut self, ops: &[DecodeOp], range: Range<usize>, event: &mut Event) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let next = at + 1;
            match &ops[at] {
                DecodeOp::Integer(int, base) => {
                    let value = self.integer(int)?;
                    event.push(if int.signed {
                        Value::Signed(value as i64, *base)
                    } else {
                        Value::Unsigned(value, *base)
                    });
                }
                DecodeOp::Register(int, register) => {
                    let value = self.integer(int)?;
                    self.store(*register, value, int.bits);
                }
                DecodeOp::Text(times) => {
                    let length = self.times(*times);
                    let text = until_zero(self.take(length)?);
                    event.push_text(text);
                }
                DecodeOp::String => event.push_text(self.string()?),
                DecodeOp::SkipString => {
                    self.string()?;
                }
                DecodeOp::SkipBytes(times) => {
                    let length = self.times(*times);
                    self.take(length)?;
                }
                DecodeOp::Label(int, enumeration) => {
                    let value = self.integer(int)?;
                    let wide = widen(value, int.signed);
                    let label =
                        enumeration.ranges.iter().find(|range| range.low <= wide && wide <= range.high);
                    let length = label.map_or(0, |range| range.label.len());
                    self.labels = self.labels.checked_sub(length).ok_or(InvalidBytes)?;
                    let text = label.map(|range| event.intern(range.label.as_bytes()));
                    event.push(Value::Label(value as i64, text));
                }
                DecodeOp::Float(int) => {
                    let bits = self.integer(int)?;
                    event.push(Value::Float(float(bits, int)));
                }
                DecodeOp::Group(members) => event.push(Value::Group(*members)),
                DecodeOp::Name(name) => {
                    self.labels = self.labels.checked_sub(name.len()).ok_or(InvalidBytes)?;
                    event.push_text(name.as_bytes());
                }
                DecodeOp::Align(mask) => self.position = (self.position + mask) & !mask,
                DecodeOp::Uuid => {
                    let uuid = self.take(16)?.first_chunk().copied();
                    self.registers.uuid = uuid.map(Uuid);
                }
                DecodeOp::Repeat { times, end, shown } => {
                    let times = self.times(*times);
                    let operations = times.saturating_mul((*end - next) as u64);
                    self.repeated = self.repeated.checked_sub(operations).ok_or(InvalidBytes)?;
                    if *shown {
                        event.push(Value::List(u32::try_from(times).or(Err(InvalidBytes))?));
                    }
                    for _ in 0..times {
                        let before = self.position;
                        self.run(ops, next..*end, event)?;
                        if self.position == before {
                            self.empty = self.empty.checked_sub(1).ok_or(InvalidBytes)?;
                        }
                    }
                    at = *end;
                    continue;
                }
                DecodeOp::Select { slot, signed, arms, end } => {
                    let tag = widen(self.slots[*slot as usize], *signed);
                    let arm =
                        arms.iter().find(|arm| arm.low <= tag && tag <= arm.high).ok_or(InvalidBytes)?;
                    self.run(ops, arm.body.clone(), event)?;
                    at = *end;
                    continue;
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Runs the operations of a payload and, at their places before it, of the contexts that show fields.
    pub(super) fn run_payload(
        &mut self,
        ops: &[DecodeOp],
        payload: Range<usize>,
        contexts: [(u64, &Range<usize>); 2],
        event: &mut Event,
    ) -> Result<()> {
        self.run(ops, payload, event)?;
        let stop = self.position;
        for (place, shown) in contexts {
            if !shown.is_empty() {
                self.position = place;
                self.run(ops, shown.clone(), event)?;
            }
        }
        self.position = stop;
        Ok(())
    }

    /// Skips a payload of this many bits. The current place is at a whole byte.
    #[inline]
    pub(super) fn skip(&mut self, bits: u64) -> Result<()> {
        let stop = self.position + bits;
        if stop > self.end {
            return Err(self.behind_the_end());
        }
        self.position = stop;
        Ok(())
    }

    /// Reads an integer, sign-extended if it is signed.
    #[inline]
    fn integer(&mut self, int: &Int) -> Result<u64> {
        let start = (self.position + int.mask) & !int.mask;
        let stop = start + u64::from(int.bits);
        if stop > self.end {
            return Err(self.behind_the_end());
        }
        self.position = stop;
        let value = integer_at(&self.bytes, (start / 8) as usize, (start % 8) as u32, int);
        if int.slot != NO_SLOT {
            self.slots[int.slot as usize] = value;
        }
        Ok(value)
    }

    /// Stores the value of an integer of `bits` in a register.
    #[inline]
    fn store(&mut self, register: Register, value: u64, bits: u32) {
        match register {
            Register::Nowhere => {}
            Register::Ticks | Register::Begin => {
                self.registers.ticks = Registers::extend(self.registers.ticks, value, bits);
                self.registers.set(register, self.registers.ticks);
            }
            Register::End => {
                let end = Registers::extend(self.registers.ticks, value, bits);
                self.registers.set(register, end);
            }
            _ => self.registers.set(register, value),
        }
    }

    fn times(&self, times: Times) -> u64 {
        match times {
            Times::Fixed(times) => times,
            Times::Slot(slot) => self.slots[slot as usize],
        }
    }

    #[cold]
    #[inline(never)]
    fn behind_the_end(&mut self) -> InvalidBytes {
        self.short = true;
        InvalidBytes
    }

    /// Reads this number of whole bytes.
    fn take(&mut self, length: u64) -> Result<&[u8]> {
        let start = self.position.div_ceil(8);
        let Some(stop) = start.checked_add(length).filter(|stop| *stop <= self.end / 8) else {
            return Err(self.behind_the_end());
        };
        self.position = stop * 8;
        self.bytes.get(start as usize..stop as usize).ok_or(InvalidBytes)
    }

    /// Reads a text that ends with a zero byte, and returns it without that.
    fn string(&mut self) -> Result<&[u8]> {
        let start = self.position.div_ceil(8);
        let left = self.bytes.get(start as usize..(self.end / 8) as usize);
        let Some(text) = left.and_then(|left| CStr::from_bytes_until_nul(left).ok()) else {
            return Err(self.behind_the_end());
        };
        let length = text.count_bytes();
        self.position = (start + length as u64 + 1) * 8;
        Ok(&self.bytes[start as usize..start as usize + length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoder(bytes: &[u8]) -> PacketDecoder {
        let mut decoder = PacketDecoder::new(0);
        let fill = |room: &mut [u8]| {
            room.copy_from_slice(bytes);
            Ok::<_, ()>(bytes.len())
        };
        decoder.load(bytes.len() as u64, fill).unwrap();
        decoder
    }

    /// Reads an integer bit by bit, as the specification defines it.
    fn slow(bytes: &[u8], start: u64, bits: u32, big: bool) -> u64 {
        (0..u64::from(bits)).fold(0, |value, index| {
            let at = start + index;
            let byte = bytes[(at / 8) as usize];
            if big {
                value << 1 | u64::from(byte >> (7 - at % 8) & 1)
            } else {
                value | u64::from(byte >> (at % 8) & 1) << index
            }
        })
    }

    proptest! {
        #[test]
        fn integers_of_any_width_lie_anywhere(
            bytes in prop::collection::vec(any::<u8>(), 16),
            start in 0..64_u64, bits in 1..=64_u32, big: bool, signed: bool,
        ) {
            let mut decoder = decoder(&bytes);
            decoder.position = start;
            let int = Int { mask: 0, bits, signed, big, slot: NO_SLOT };
            let value = decoder.integer(&int);
            let plain = slow(&bytes, start, bits, big);
            let unused = 64 - bits;
            let expected = if signed { ((plain << unused) as i64 >> unused) as u64 } else { plain };
            prop_assert_eq!(value, Ok(expected));
            prop_assert_eq!(decoder.position, start + u64::from(bits));
        }
    }

    #[test]
    fn nothing_is_read_past_the_content() {
        let mut decoder = decoder(&[0xff; 8]);
        let int = Int { mask: 0, bits: 64, signed: false, big: false, slot: NO_SLOT };
        assert_eq!(decoder.integer(&int), Ok(u64::MAX));
        assert_eq!(decoder.integer(&Int { bits: 1, ..int }), Err(InvalidBytes));
        assert_eq!(decoder.take(u64::MAX), Err(InvalidBytes));
        assert_eq!(decoder.take(0), Ok(&[][..]));
        assert_eq!(decoder.string(), Err(InvalidBytes));
        decoder.position = 0;
        assert_eq!(decoder.string(), Err(InvalidBytes), "no zero byte before the end");
    }
}
