//! The collector's side of a ring. The writers are not trusted: their words are checked, and read once.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `read:B`, giving a sub-buffer back (`room`) | `view:C` | if a writer sees it put, it writes after it was read |
//! | `exchange:A`, exchanging a sub-buffer | `view:B`, `view:E` | if a writer claims the sub-buffer that was given, it writes after it was read |
//!
//! A broken or hostile program can spoil the bytes of its own records and nothing else: sizes and offsets are the
//! reader's own, the file cannot shrink under it, and an impossible head is an error.

mod copy;
mod exchange;
mod newest;
mod packet;
mod part;
mod room;
mod salvage;

pub(crate) use exchange::Exchange;
pub use newest::Newest;
pub use packet::{Content, Lost, MOST_IN_A_WRITE, Packet, SubBuffer, write};
pub(crate) use part::HandedOut;
pub(crate) use room::{Bounds, Room};

use crate::area::map::Mapping;
use crate::layout::{
    CommitHeader, Geometry, LEFT, MARKED, MarkWord, PACKET_HEADER, RECORD_HEADER, RingHeader,
};
use crate::number::Seqno;
use crate::offset::Head;
use crate::table::Spare;
use crate::view::all_committed;
use sordino_event::{Cpu, Ticks};
use sordino_percpu::primitive::{Acquire, Relaxed};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The head is impossible: the program overwrote it, or is hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The value of the head.
    pub head: Head,
    /// The sequence number of the sub-buffer that comes next.
    pub seqno: Seqno,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the ring's head {:#x} is impossible after sub-buffer {}", self.head.0, self.seqno)
    }
}

impl std::error::Error for Corrupt {}

/// The fill level of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bytes between the oldest sub-buffer that the reader has not put and the head, at most `capacity`.
    pub used: u64,
    /// Bytes of all sub-buffers that writers use in turn.
    pub capacity: u64,
}

/// A ring's header in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct HeaderRef {
    pub(crate) control: Arc<Mapping>,
    pub(crate) offset: usize,
}

impl Deref for HeaderRef {
    type Target = RingHeader;
    fn deref(&self) -> &RingHeader {
        // SAFETY: `offset` lies within the mapping and is aligned (`control` computes it); all fields are atomics.
        unsafe { &*self.control.at(self.offset).cast() }
    }
}

/// The reader of one ring.
#[derive(Debug)]
pub struct Reader {
    pub(crate) header: HeaderRef,
    /// The offset of the sub-buffers in `region`.
    pub(crate) data: usize,
    /// The offset of the commit words in `region`; only the shared ring has them.
    pub(crate) commits: Option<usize>,
    pub(crate) region: Arc<Mapping>,
    pub(crate) geometry: Geometry,
    /// The sub-buffers that its writers may enter, if the ring does not overwrite.
    pub(crate) room: Arc<Room>,
    /// The sub-buffer sequence number at which the ring began.
    pub(crate) first_seqno: Seqno,
    /// The sequence number of the sub-buffer that is read next.
    pub(crate) seqno: Seqno,
    /// The part of that sub-buffer that was handed out.
    pub(crate) handed_out: HandedOut,
    /// The additional state for a ring that overwrites.
    pub(crate) exchange: Option<Exchange>,
    /// The ring's CPU; `None` for the shared ring.
    pub(crate) cpu: Option<Cpu>,
}

impl Reader {
    /// The ring's CPU; `None` for the shared ring.
    pub fn cpu(&self) -> Option<Cpu> {
        self.cpu
    }

    /// The size and the number of the ring's sub-buffers.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Records lost so far. More may be lost at any time while the program lives.
    pub fn lost(&self) -> Lost {
        let total = self.header.lost.load(Relaxed);
        Lost { total, too_large: self.header.too_large.load(Relaxed).min(total) }
    }

    /// Sub-buffers that were overwritten before this reader came to them.
    pub fn overwritten(&self) -> u64 {
        self.exchange.as_ref().map_or(0, |exchange| exchange.overwritten)
    }

    /// Returns true if the ring's [pager](crate::area::control::Pager) is to be called: the writers have reached its
    /// mark.
    pub fn calls_pager(&self) -> bool {
        self.room.calls()
    }

    /// Returns true if some of the ring's sub-buffers have no pages: then one that is put is of no use before the
    /// writers have come round to it.
    pub fn lacks_pages(&self) -> bool {
        self.exchange.is_none() && self.room.bounds().length() < self.geometry.count
    }

    /// Number of complete sub-buffers that wait to be read, without the one that is being filled.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn waiting(&self) -> Result<u32, Corrupt> {
        let ahead = self.head()?.seqno().since(self.seqno);
        Ok(ahead.min(self.geometry.count - 1))
    }

    /// The fill level of the ring, for display: it changes at any time.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn fill(&self) -> Result<Fill, Corrupt> {
        let (head, size) = (self.head()?, self.geometry.size() as u64);
        let waiting = u64::from(head.seqno().since(self.seqno)) * size;
        let capacity = u64::from(self.geometry.count) * size;
        let used = (waiting + (u64::from(head.start().within(size as u32)))).min(capacity);
        Ok(Fill { used, capacity })
    }

    /// Gets the next complete sub-buffer; `None` if there is none yet. In a ring that overwrites, this is the oldest
    /// that is still there. If [parts](Self::part) of it were handed out, it holds the rest.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn get(&mut self) -> Result<Option<SubBuffer<'_>>, Corrupt> {
        Ok(self.get_run(1)?.pop())
    }

    /// Gets the next sub-buffers, at most `most`, in order, each as [`get`](Self::get) returns it. From a ring that
    /// overwrites it gets one at most.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored the head.
    pub fn get_run(&mut self, most: u32) -> Result<Vec<SubBuffer<'_>>, Corrupt> {
        let head = self.head()?;
        let first = if self.exchange.is_some() { self.get_oldest(head) } else { self.next(head, self.seqno) };
        let Some(first) = first else { return Ok(Vec::new()) };
        self.close_up(first);
        self.handed_out.taken = true;
        let most = if self.exchange.is_some() { 1 } else { most };
        let later = (1..most).map_while(|ahead| self.next(head, self.seqno.after(ahead)));
        Ok([first].into_iter().chain(later).map(|number| self.sub_buffer(number)).collect())
    }

    fn sub_buffer<'a>(&self, number: u32) -> SubBuffer<'a> {
        let source = self.source(number, false);
        let [timestamp, head, lost] = source.words(LEFT);
        let (end, lost) = (self.end(Head(head)), self.lost().when(lost));
        let has_record = end as usize >= PACKET_HEADER + RECORD_HEADER;
        let first = has_record.then(|| source.words(PACKET_HEADER)).map(|[timestamp]| Ticks(timestamp));
        let content = Content::new(end, first, Ticks(timestamp), lost);
        let (bytes, size) = (self.data(number), self.geometry.size());
        SubBuffer { bytes, size, content, _reader: std::marker::PhantomData }
    }

    /// The index of the sub-buffer with sequence number `seqno` in a ring that does not overwrite, if it is complete.
    fn next(&self, head: Head, seqno: Seqno) -> Option<u32> {
        let sub_buffer = self.sub_buffer_of(seqno)?;
        let done = head.seqno() != seqno && self.is_committed(sub_buffer);
        done.then_some(sub_buffer.number)
    }

    /// Puts the sub-buffer that [`get`](Self::get) returned: writers may use it again.
    pub fn put(&mut self) {
        self.put_run(1);
    }

    /// Puts the first `count` of the sub-buffers that [`get_run`](Self::get_run) returned: writers may use them again.
    pub fn put_run(&mut self, count: u32) {
        self.seqno = self.seqno.after(count);
        self.handed_out = HandedOut::default();
        match &mut self.exchange {
            Some(exchange) => exchange.put(),
            None => self.room.put(self.seqno),
        }
    }

    /// Returns true if all records of a sub-buffer behind the head are complete. They always are in a CPU's ring.
    fn is_committed(&self, sub_buffer: Spare) -> bool {
        // ORDER(read:C) pairs with commit:B and commit:G: if the load sees all bytes committed, then it sees all
        // records and the words of the sub-buffer switch.
        let committed = |commits: &CommitHeader| commits.committed.load(Acquire);
        self.commit_words(sub_buffer.number)
            .is_none_or(|(commits, _)| all_committed(self.geometry, committed(commits), sub_buffer.uses))
    }

    fn commit_words(&self, number: u32) -> Option<(&CommitHeader, &[MarkWord])> {
        let offset = self.commits? + number as usize * self.geometry.commit_stride();
        let first = self.region.at(offset).cast::<CommitHeader>();
        let marks = first.wrapping_add(1).cast::<MarkWord>();
        // SAFETY: `control` laid out one header for each sub-buffer inside the region, aligned to 64; all fields are
        // atomics.
        let commits = unsafe { &*first };
        // SAFETY: `commit_stride` leaves room for the marks behind the header, inside the region; all are atomics.
        let marks = unsafe { std::slice::from_raw_parts(marks, self.geometry.size() / MARKED) };
        Some((commits, marks))
    }

    /// The head, which differs after each record.
    ///
    /// # Errors
    /// [`Corrupt`] if no writer could have stored it.
    pub fn head(&self) -> Result<Head, Corrupt> {
        // ORDER(read:A) pairs with write:A: if the load sees this head, then it sees the records before it and the
        // words of sub-buffer switches.
        let head = Head(self.header.head.load(Acquire));
        let ahead = head.seqno().since(self.seqno);
        let offset = head.start().within(self.geometry.size() as u32);
        let number = head.start().sub_buffer(self.geometry.bits);
        let in_its_place = match self.exchange {
            Some(_) => ahead <= i32::MAX as u32 && (number as usize) < self.geometry.sub_buffers(),
            None => {
                let is_at_its_number = number == head.seqno().entry(self.geometry.count);
                ahead < self.geometry.count && is_at_its_number && self.room.has_pages(head.seqno())
            }
        };
        let possible = in_its_place && offset >= PACKET_HEADER as u32;
        if possible { Ok(head) } else { Err(Corrupt { head, seqno: self.seqno }) }
    }

    /// Sequence numbers of sub-buffers that may hold unread records, newest first.
    fn seqnos(&self, head: Head) -> impl Iterator<Item = Seqno> + use<> {
        let ahead = head.seqno().since(self.seqno);
        let seqnos = (ahead + 1 - u32::from(self.handed_out.taken)).min(self.geometry.count);
        (0..seqnos).map(move |back| head.seqno().before(back))
    }

    /// The sub-buffer with a sequence number that the reader has not got; `None` if it has a later one by now. Without
    /// overwriting they are used in the order in which they lie.
    fn sub_buffer_of(&self, seqno: Seqno) -> Option<Spare> {
        if self.exchange.is_some() {
            return self.in_table(seqno);
        }
        let uses = seqno.since(self.first_seqno) / self.geometry.count + 1;
        Some(Spare { number: seqno.entry(self.geometry.count), uses: uses as u16 })
    }

    fn data(&self, number: u32) -> *mut u8 {
        self.region.at(self.data + ((number as usize) << self.geometry.bits))
    }
}
