//! The reader of a stream's events, with the losses between them.

use super::decoder::{Checkpoint, InvalidBytes, PacketDecoder};
use super::index::{self, IndexedPacket};
use super::packet::{CurrentPacket, DecodedItem};
use super::plain::PlainFields;
use super::program::{LossPlace, Register};
use super::source::OpenSource;
use super::trace::StreamContent;
use crate::{Error, PacketSeqno};
use sordino_event::{Event, EventHead, FieldValues, Loss, LossCause, Step, Time};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A reader of a stream's events. It holds a window of one packet in memory, of 256 KiB at most unless an event is
/// longer. All readers together keep no more than 64 files open.
#[derive(Debug)]
pub struct Events {
    stream: Arc<StreamContent>,
    decoder: PacketDecoder,
    /// The index of the next packet; the current one lies before it.
    next: usize,
    /// The index behind the last packet.
    end: usize,
    current: Option<CurrentPacket>,
    /// The file of that packet, and its index among the stream's files.
    opened: Option<(usize, OpenSource)>,
    pending: VecDeque<Loss>,
    /// The time of the last item: nothing that follows is earlier.
    last: Option<Time>,
    /// The count of lost records in the last packet.
    discarded: u64,
    /// The number of lost records that were too large.
    too_large: u64,
    /// The sequence number of the last packet.
    seqno: Option<PacketSeqno>,
    /// The place of the last event's payload in the decoder's window, in bits.
    payload: Range<u64>,
    /// True for classes whose events may lack their fields; indexed by class. If it is empty, all events have their
    /// fields.
    bare: Arc<[bool]>,
}

impl Events {
    pub(super) fn new(stream: Arc<StreamContent>) -> Self {
        Self {
            decoder: PacketDecoder::new(stream.program.slots),
            end: stream.packets.len(),
            stream,
            next: 0,
            current: None,
            opened: None,
            pending: VecDeque::new(),
            last: None,
            discarded: 0,
            too_large: 0,
            seqno: None,
            payload: 0..0,
            bare: Arc::default(),
        }
    }

    /// Decodes the next event into `event`, or returns a loss or the end; the content of `event` is then unspecified.
    ///
    /// A loss is returned as soon as the trace shows it. The time of an event and the `from` of a loss are never before
    /// those of earlier items. In streams without a clock, all events are at the epoch.
    ///
    /// # Errors
    /// If a file can't be read; the next call continues with the next packet.
    pub fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
        self.next_unless(event, &mut |_, _| false)
    }

    /// Returns the next item as [`next`](Self::next) does, without the events that `rejects` returns true for. Rejected
    /// events are not decoded if the fields that `rejects` reads can be read by themselves.
    ///
    /// # Errors
    /// As for [`next`](Self::next).
    pub fn next_unless(
        &mut self,
        event: &mut Event,
        rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
    ) -> Result<Step, Error> {
        loop {
            if let Some(loss) = self.pending.pop_front() {
                return Ok(Step::Loss(loss));
            }
            let Some(current) = self.current else {
                if self.next == self.end {
                    self.opened = None;
                    return Ok(Step::End);
                }
                self.enter()?;
                continue;
            };
            let (mask, checkpoint) =
                (self.stream.program.streams[current.class].event_mask, self.decoder.checkpoint());
            if (checkpoint.position + mask) & !mask >= self.decoder.end {
                if !self.slide(checkpoint)? {
                    self.leave(current);
                }
                continue;
            }
            match self.decode(current, event, rejects) {
                Ok(DecodedItem::Rejected(time)) => self.last = Some(time),
                Ok(DecodedItem::Event(time)) => {
                    self.last = Some(time);
                    return Ok(Step::Event);
                }
                Ok(DecodedItem::Gap(time, lost)) => {
                    self.decoder.rewind(checkpoint);
                    self.place_gap(current, time, lost);
                }
                Err(InvalidBytes) => {
                    let offset = self.decoder.base + checkpoint.position / 8;
                    if !self.decoder.take_short() || !self.slide(checkpoint)? {
                        self.decoder.end = 0;
                        self.push_corrupt(offset);
                    }
                }
            }
        }
    }

    /// Leaves out the fields of events of the classes for which `bare` is true, by index, if that saves time.
    /// Everything else about these events remains, and so do losses.
    #[must_use]
    pub fn without_fields(self, bare: Arc<[bool]>) -> Self {
        Self { bare, ..self }
    }

    /// Returns the bytes of the last event's fields, without contexts, as they lie in the trace.
    pub fn payload(&self) -> &[u8] {
        self.decoder.bytes(&self.payload)
    }

    /// Skips the packets that lie wholly before `time` by their headers, and the losses in them.
    pub fn skip_to(&mut self, time: Time) {
        self.pending.retain(|loss| loss.to >= time);
        if self.current.is_some() && self.ends_before(self.next - 1, time) {
            self.current = None;
        }
        while self.current.is_none() && self.next < self.end && self.ends_before(self.next, time) {
            self.pass();
        }
    }

    /// Passes over the next packet, but for its counts.
    fn pass(&mut self) {
        let packet = &self.stream.packets[self.next];
        if packet.content_bits > 0 {
            if let Some(count) = packet.discarded {
                (self.discarded, self.too_large) = (count, packet.too_large.unwrap_or(0));
            }
            self.seqno = packet.seqno;
        }
        self.next += 1;
    }

    /// Returns the size of the packets that are left, in bytes.
    pub fn bytes(&self) -> u64 {
        self.stream.packets[self.next..self.end].iter().map(|packet| packet.bytes).sum()
    }

    /// Splits off the packets behind the next ones, which have this size together or are one: this reader ends before
    /// them. Returns a reader of them; `None` if there are none, or none whose header has the whole clock.
    ///
    /// The events and losses of both are those of the undivided reader if this one returns no error, the other one
    /// begins with an event, and that is not earlier than the [`last`](Self::last) item of this one. Otherwise, this
    /// reader has to [read on](Self::rejoin) in place of the other.
    pub fn split_off(&mut self, bytes: u64) -> Option<Self> {
        let mut rest =
            Self { bare: Arc::clone(&self.bare), end: self.end, ..Self::new(Arc::clone(&self.stream)) };
        (rest.next, rest.discarded, rest.too_large, rest.seqno) =
            (self.next, self.discarded, self.too_large, self.seqno);
        let mut passed = 0;
        while rest.next < rest.end && passed < bytes.max(1) {
            passed += self.stream.packets[rest.next].bytes;
            rest.pass();
        }
        while rest.next < rest.end && !self.stream.has_whole_clock(rest.next) {
            rest.pass();
        }
        if rest.next == rest.end {
            return None;
        }
        self.end = rest.next;
        Some(rest)
    }

    /// Reads on to the end of a reader that was [split off](Self::split_off) from this one, and takes its place.
    pub fn rejoin(&mut self, rest: &Self) {
        self.end = rest.end;
    }

    /// Returns the time of the last item.
    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// Returns true if the whole packet at `index` lies before `time`.
    fn ends_before(&self, index: usize, time: Time) -> bool {
        let last = index + 1 == self.stream.packets.len();
        let end = if last { self.stream.packets[index].end } else { self.stream.begin_of(index + 1) };
        end.is_some_and(|end| end < time)
    }

    /// Enters the next packet: loads it, and reports the losses before and in it by its header.
    fn enter(&mut self) -> Result<(), Error> {
        let stream = Arc::clone(&self.stream);
        let packet = &stream.packets[self.next];
        self.next += 1;
        if packet.content_bits == 0 {
            self.push_corrupt(0);
            return Ok(());
        }
        self.load(packet)?;
        if let (Some(previous), Some(seqno)) = (self.seqno, packet.seqno)
            && seqno.missing_since(previous) > 0
        {
            // Before the lost records, there may be no event that has a time.
            self.last = self.last.or_else(|| stream.packets.get(self.next.checked_sub(2)?)?.end);
            let cause = match stream.program.streams[packet.class].loss {
                LossPlace::Packet(LossCause::Unanswered) => LossCause::Unanswered,
                _ => LossCause::Discarded,
            };
            self.push(packet.begin, None, cause);
        }
        self.seqno = packet.seqno;
        let limit = stream.begin_of(self.next);
        let mut current = CurrentPacket {
            class: packet.class,
            limit,
            unplaced: 0,
            too_large: 0,
            lost: self.discarded as u16,
        };
        if let Some(count) = packet.discarded {
            self.count_lost(&mut current, count, packet);
        }
        if index::header(&mut self.decoder, &stream.program, stream.uuid) != Ok(packet.class) {
            self.decoder.end = 0;
            self.push_corrupt(0);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Loads the first window of `packet`.
    fn load(&mut self, packet: &IndexedPacket) -> Result<(), Error> {
        let stream = Arc::clone(&self.stream);
        let open = self.open(packet.file)?;
        let reader = open.reader(&stream.sources[packet.file]);
        let bytes = packet.content_bits.div_ceil(8);
        self.decoder.load(bytes, |room| reader.read(packet.offset, room))?;
        self.decoder.end = self.decoder.end.min(packet.content_bits);
        self.opened = open.keep().map(|open| (packet.file, open));
        Ok(())
    }

    /// Moves the window to `checkpoint` and loads more of the current packet. Returns false if there is no more: the
    /// content ends, a hole in the file begins, or no event may be as long.
    #[cold]
    #[inline(never)]
    fn slide(&mut self, checkpoint: Checkpoint) -> Result<bool, Error> {
        let (place, loaded) = (self.next - 1, self.decoder.base * 8 + self.decoder.end);
        if self.decoder.end == 0 || loaded >= self.stream.packets[place].content_bits {
            return Ok(false);
        }
        let stream = Arc::clone(&self.stream);
        let packet = &stream.packets[place];
        let open = self.open(packet.file)?;
        let reader = open.reader(&stream.sources[packet.file]);
        if reader.is_hole(packet.offset + loaded / 8) {
            return Ok(false);
        }
        let bytes = packet.content_bits.div_ceil(8);
        let fill = |offset, room: &mut [u8]| reader.read(packet.offset + offset, room);
        let Some(filled) = self.decoder.slide(checkpoint, bytes, fill) else { return Ok(false) };
        filled?;
        self.decoder.end = self.decoder.end.min(packet.content_bits - self.decoder.base * 8);
        self.opened = open.keep().map(|open| (packet.file, open));
        Ok(self.decoder.base * 8 + self.decoder.end > loaded)
    }

    /// Opens the stream's file with this index.
    fn open(&mut self, file: usize) -> Result<OpenSource, Error> {
        match self.opened.take() {
            Some((kept, open)) if kept == file => Ok(open),
            _ => self.stream.sources[file].open(),
        }
    }

    /// Processes the packet's `count` of lost records.
    fn count_lost(&mut self, current: &mut CurrentPacket, count: u64, packet: &IndexedPacket) {
        let class = &self.stream.program.streams[packet.class];
        let (loss, mask) = (class.loss, u64::MAX >> (64 - class.discarded_bits));
        let missing = count.wrapping_sub(self.discarded) & mask;
        let too_large = packet.too_large.unwrap_or(0).wrapping_sub(self.too_large) & u64::from(u32::MAX);
        (self.discarded, self.too_large) = (count, packet.too_large.unwrap_or(0));
        match loss {
            // A count that went back is corrupt.
            _ if missing > mask / 2 => {
                self.push(packet.end, None, LossCause::Corrupt);
                self.place_corrupt(0);
            }
            LossPlace::Event => (current.unplaced, current.too_large) = (missing, too_large.min(missing)),
            LossPlace::Packet(cause) if missing > 0 => self.push(packet.end, Some(missing), cause),
            LossPlace::Packet(_) => {}
        }
    }

    /// Leaves the current packet, whose events are all read.
    fn leave(&mut self, current: CurrentPacket) {
        self.current = None;
        let packet = &self.stream.packets[self.next - 1];
        let end = self.decoder.base * 8 + self.decoder.end;
        let missing = !packet.sound || end < packet.content_bits;
        // A packet that has been reported as corrupt (its end is 0) is not reported again.
        let cut_off = missing && self.decoder.end > 0;
        self.push_lost(current.limit.max(packet.end), current.unplaced, current.too_large);
        if cut_off {
            self.push_corrupt(end / 8);
        }
    }

    /// Decodes the event or gap in the current place.
    #[inline]
    fn decode(
        &mut self,
        current: CurrentPacket,
        event: &mut Event,
        rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
    ) -> Result<DecodedItem, InvalidBytes> {
        let program = &self.stream.program;
        let class = &program.streams[current.class];
        let decoder = &mut self.decoder;
        let start = decoder.position;
        decoder.begin_event();
        decoder.run_hidden(&program.ops, &class.event_header, event)?;
        let registers = decoder.registers();
        let id = registers.get(Register::Id);
        let event_class = class.event(id).ok_or(InvalidBytes)?;
        let time = index::time(class, registers, registers.ticks).unwrap_or(Time(0));
        if self.last.is_some_and(|last| time < last) || current.limit.is_some_and(|limit| limit < time) {
            return Err(InvalidBytes);
        }
        if class.loss == LossPlace::Event {
            let lost = registers.get(Register::Lost).unwrap_or(0) as u16;
            let missing = lost.wrapping_sub(current.lost);
            if missing > 0 && u64::from(missing) <= current.unplaced {
                return Ok(DecodedItem::Gap(time, lost));
            }
        }
        let context = decoder.position;
        decoder.run_hidden(&program.ops, &class.event_context.hidden, event)?;
        let own_context = decoder.position;
        decoder.run_hidden(&program.ops, &event_class.context.hidden, event)?;
        let payload = decoder.position;
        let is_bare = self.bare.get(event_class.class.index()).is_some_and(|bare| *bare);
        let fixed = event_class.fixed.filter(|_| payload.is_multiple_of(8));
        // These fields are decoded later, if at all.
        let plain = event_class.plain.as_deref().filter(|_| fixed.is_some());
        let contexts = [(context, &class.event_context.shown), (own_context, &event_class.context.shown)];
        if plain.is_none() {
            event.begin(time, event_class.class);
        }
        match fixed.filter(|_| is_bare || plain.is_some()) {
            Some(bits) => decoder.skip(bits)?,
            None => decoder.run_payload(&program.ops, event_class.payload.clone(), contexts, event)?,
        }
        let stop = decoder.position;
        let registers = decoder.registers();
        let first_bit = (start + class.event_mask) & !class.event_mask;
        let length = registers.get(Register::Length);
        let agrees = length.is_none_or(|bytes| bytes.checked_mul(8) == Some(stop - first_bit));
        // An event without a bit would be followed by infinitely many.
        if stop == start || !agrees {
            return Err(InvalidBytes);
        }
        let head = index::head(registers, time, event_class.class, self.stream.pid);
        let is_rejected = match plain {
            Some(fields) => rejects(&head, &PlainFields { fields, payload: decoder.bytes_from(payload) }),
            None => rejects(&head, event),
        };
        if is_rejected {
            return Ok(DecodedItem::Rejected(time));
        }
        if plain.is_some() {
            event.begin(time, event_class.class);
            if !is_bare {
                decoder.position = payload;
                decoder.run_payload(&program.ops, event_class.payload.clone(), contexts, event)?;
            }
        }
        self.payload = payload..stop;
        (event.cpu, event.pid, event.tid) = (head.cpu, head.pid, head.tid);
        Ok(DecodedItem::Event(time))
    }

    /// Reports the records that were lost before the event at `time`, which contains the count `lost`.
    ///
    /// The ring is full only at the end of a sub-buffer, so the records that are missing here were too large, up to the
    /// count of those.
    fn place_gap(&mut self, mut current: CurrentPacket, time: Time, lost: u16) {
        let missing = u64::from(lost.wrapping_sub(current.lost));
        let too_large = missing.min(current.too_large);
        (current.lost, current.unplaced) = (lost, current.unplaced - missing);
        current.too_large -= too_large;
        self.current = Some(current);
        self.push_lost(Some(time), missing, too_large);
    }

    /// Reports `missing` records, `too_large` of which were larger than a sub-buffer.
    fn push_lost(&mut self, to: Option<Time>, missing: u64, too_large: u64) {
        for (count, cause) in [(too_large, LossCause::TooLarge), (missing - too_large, LossCause::RingFull)] {
            if count > 0 {
                self.push(to, Some(count), cause);
            }
        }
    }

    /// Reports a loss after the last item and before `to`.
    fn push(&mut self, to: Option<Time>, count: Option<u64>, cause: LossCause) {
        let begin = match (self.stream.begin_of(self.next - 1), self.stream.begin_of(self.next)) {
            (Some(begin), Some(limit)) => Some(begin.min(limit)),
            (begin, _) => begin,
        };
        let from = self.last.or(begin).or(to).unwrap_or_default();
        self.last = Some(from);
        let to = to.unwrap_or(from).max(from);
        let cpu = self.stream.packets[self.next - 1].cpu;
        self.pending.push_back(Loss { from, to, cpu, pid: self.stream.pid, count, cause, place: None });
    }

    /// Reports that the current packet is invalid from this offset on, in bytes.
    fn push_corrupt(&mut self, offset: u64) {
        let packet = &self.stream.packets[self.next - 1];
        let end = packet.end.filter(|_| packet.content_bits > 0);
        self.push(self.stream.begin_of(self.next).or(end), None, LossCause::Corrupt);
        self.place_corrupt(offset);
    }

    /// Adds the place of the invalid bytes to the last loss: the current packet at this offset, in bytes.
    fn place_corrupt(&mut self, offset: u64) {
        let place = self.stream.place(self.next - 1, offset);
        self.pending.back_mut().into_iter().for_each(|loss| loss.place = Some(place.as_str().into()));
    }
}
