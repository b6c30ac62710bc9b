//! Decoding of streams side by side, ahead of the merge.
//!
//! Streams are divided into parts, of some packets each, and threads decode the parts of a stream side by side: the
//! streams of CPUs are often dense at different times. Each part has two batches of events: the merge takes events from
//! one while a thread fills the other. A thread that has filled a batch turns to the next part that needs one, so any
//! number of streams needs no more threads than there are CPUs. A stream's items come in the order in which it returns
//! them, whichever threads decode it: the result is that of one thread. Where a part's begin depends on the part before
//! (losses, disorder), it is decoded again, behind that.

use crate::demand::OfStream;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use sordino_ctf::Error;
use sordino_ctf::read::Events;
use sordino_event::{Event, EventBatch, EventHead, FieldValues, Loss, Step, Time};
use sordino_timeline::Source;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::vec;

/// The number of events, and of their bytes, that one batch of each stream may hold, all streams together.
const ALL: BatchLimits = BatchLimits { events: 1 << 16, bytes: 1 << 24 };
/// The maximum of a batch.
const MOST: BatchLimits = BatchLimits { events: 8192, bytes: 1 << 19 };
/// The minimum number of events in a batch with which a thread is worth its while.
const FEWEST: usize = 32;
/// The number of events, left out or not, after which a batch ends.
const SCANNED: usize = 1 << 16;
/// The maximum size of the buffers that a batch keeps for its next events, relative to the bytes at which it ends.
const KEPT: usize = 4;
/// The number of a stream's parts that are decoded side by side.
const PARTS: usize = 4;
/// The smallest and the largest size of a part in the file, in bytes, unless a packet is larger.
const PART: (u64, u64) = (1 << 14, 1 << 20);

/// The numbers of events, and of bytes, at which a batch ends.
#[derive(Clone, Copy, Debug)]
struct BatchLimits {
    events: usize,
    bytes: usize,
}

/// A stream's reader, which can be divided.
pub(crate) trait Divisible: Sized + Send + 'static {
    /// Reads the next item: an event that `rejects` returns false for into `event`.
    ///
    /// # Errors
    /// Those of the stream, which has no items then.
    fn next_unless(
        &mut self,
        event: &mut Event,
        rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
    ) -> Result<Step, Error>;
    /// Returns the number of bytes that are left in the file.
    fn bytes(&self) -> u64;
    /// Ends behind the next part, of this size. Returns a reader of what follows; `None` if nothing does.
    fn split_off(&mut self, bytes: u64) -> Option<Self>;
    /// Also reads the part that follows.
    fn rejoin(&mut self, part: &Self);
    /// Returns the time of the last item.
    fn last(&self) -> Option<Time>;
}

impl Divisible for Events {
    fn next_unless(
        &mut self,
        event: &mut Event,
        rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
    ) -> Result<Step, Error> {
        self.next_unless(event, rejects)
    }

    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn split_off(&mut self, bytes: u64) -> Option<Self> {
        self.split_off(bytes)
    }

    fn rejoin(&mut self, part: &Self) {
        self.rejoin(part);
    }

    fn last(&self) -> Option<Time> {
        self.last()
    }
}

/// The threads that decode streams. They end when it is dropped.
pub(crate) struct Decoders<S> {
    orders: Sender<DecodeOrder<S>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A job, and the way back to the stream's reader. The reader has no copy of that: it notices if the job is dropped. A
/// job does not have it, either, or it would live for ever in a channel to a reader that has ended.
struct DecodeOrder<S> {
    job: DecodeJob<S>,
    back: Sender<DecodeJob<S>>,
}

/// A batch to be filled.
struct DecodeJob<S> {
    part: S,
    demand: OfStream,
    batch: Batch,
    /// The part's first item; `None` if it was not read yet.
    first: Option<FirstItem>,
}

/// The first item of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstItem {
    Event(Time),
    Other,
}

/// Items of a stream, in the order in which it returned them.
#[derive(Default)]
struct Batch {
    events: EventBatch,
    /// The items that are no events, each with the number of events before it.
    others: VecDeque<(usize, Result<Step, Error>)>,
    end: BatchEnd,
}

/// What follows a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BatchEnd {
    /// Further batches of the part.
    #[default]
    Open,
    /// The next part of the stream.
    PartEnded,
    /// Nothing: the stream can't be read further.
    Failed,
}

/// A stream that is decoded by the reader itself, or ahead of it; or losses that no stream has.
pub(crate) enum StreamReader<'a, S> {
    Own(S, OfStream),
    Ahead(Box<AheadStream<'a, S>>),
    Losses(vec::IntoIter<Loss>),
}

/// A stream that is decoded ahead.
pub(crate) struct AheadStream<'a, S> {
    batch: Batch,
    orders: &'a Sender<DecodeOrder<S>>,
    /// The parts that are being decoded, in order. The batch is of the first.
    parts: VecDeque<Receiver<DecodeJob<S>>>,
    /// What follows these parts.
    rest: Option<S>,
    /// The size of a part in bytes.
    part: u64,
    demand: OfStream,
    /// The demand at the end of the part before, until it cannot differ any more from that of the part: a part begins
    /// without knowledge of the last thread.
    before: Option<OfStream>,
    /// The first part, when the batch is its last.
    ended: Option<DecodeJob<S>>,
    /// Batches for further parts, which keep their buffers.
    spare: Vec<Batch>,
}

impl<S: Divisible> Decoders<S> {
    /// Starts this many threads for this number of streams. `None` if threads bring no gain: there is a single one, or
    /// so many streams that their batches would be tiny.
    pub(crate) fn start(threads: usize, streams: usize) -> Option<Self> {
        let limits = BatchLimits {
            events: (ALL.events / streams.max(1)).min(MOST.events),
            bytes: (ALL.bytes / streams.max(1)).min(MOST.bytes),
        };
        if threads < 2 || limits.events < FEWEST {
            return None;
        }
        let (orders, waiting) = unbounded();
        let is_over = Arc::new(AtomicBool::new(false));
        let mut decoders = Self { orders, is_over, threads: Vec::new() };
        for _ in 0..threads.min(streams * PARTS) {
            let (waiting, is_over) = (waiting.clone(), Arc::clone(&decoders.is_over));
            let thread = thread::Builder::new().name("sordino-decode".into());
            // Without the right to have another thread, those that there are do the work.
            decoders.threads.extend(thread.spawn(move || work(&waiting, &is_over, limits)).ok());
        }
        (!decoders.threads.is_empty()).then_some(decoders)
    }

    /// Begins to decode a stream.
    fn decode(&self, stream: S, demand: OfStream) -> AheadStream<'_, S> {
        let mut ahead = AheadStream {
            batch: Batch { end: BatchEnd::PartEnded, ..Batch::default() },
            orders: &self.orders,
            parts: VecDeque::new(),
            part: (stream.bytes() / (4 * PARTS as u64)).clamp(PART.0, PART.1),
            rest: Some(stream),
            demand,
            before: None,
            ended: None,
            spare: Vec::new(),
        };
        ahead.begin_parts();
        ahead
    }
}

impl<S> Drop for Decoders<S> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Without a sender, the threads that wait end: readers borrow this one.
        self.orders = unbounded().0;
        // They do not panic: see `work`.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Fills batches until no stream requests another.
fn work<S: Divisible>(waiting: &Receiver<DecodeOrder<S>>, is_over: &AtomicBool, limits: BatchLimits) {
    let mut event = Event::default();
    for DecodeOrder { mut job, back } in waiting {
        if event.memory() > KEPT * limits.bytes {
            event = Event::default();
        }
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        // A panic, which has printed its message, ends this job alone; its reader panics, too. The thread has the jobs
        // of other streams.
        let fill = AssertUnwindSafe(|| job.fill(&mut event, limits));
        if catch_unwind(fill).is_ok() {
            // The reader of the stream may have ended.
            _ = back.send(job);
        }
    }
}

impl<S: Divisible> DecodeJob<S> {
    /// Replaces the batch's content with the next items of the part. `event` is only a buffer.
    fn fill(&mut self, event: &mut Event, limits: BatchLimits) {
        let Self { part, demand, batch, first, .. } = self;
        batch.clear(KEPT * limits.bytes);
        let mut scanned = 0;
        while scanned < SCANNED && !batch.reaches(limits) && batch.end == BatchEnd::Open {
            let item = part.next_unless(event, &mut |head, values| {
                scanned += 1;
                first.get_or_insert(FirstItem::Event(head.time));
                // The last event of the batch is returned, and left out below.
                scanned < SCANNED && demand.rejects(head, values)
            });
            first.get_or_insert(FirstItem::Other);
            match item {
                Ok(Step::Event) if scanned == SCANNED && demand.rejects(&event.head(), event) => {}
                Ok(Step::Event) => batch.events.push(event),
                Ok(Step::End) => batch.end = BatchEnd::PartEnded,
                other => {
                    if other.is_err() {
                        batch.end = BatchEnd::Failed;
                    }
                    batch.others.push_back((batch.events.len(), other));
                }
            }
        }
    }

    /// Returns true if the part's items are those that a single reader would return behind `before`. Losses at its
    /// begin, and an event that is earlier than the last item, depend on that item.
    fn follows(&self, before: &Self) -> bool {
        match self.first {
            Some(FirstItem::Event(time)) => before.part.last().is_none_or(|last| last <= time),
            Some(FirstItem::Other) | None => false,
        }
    }
}

impl Batch {
    /// Removes all items. Buffers of more bytes, which have grown for a large event, are not kept.
    fn clear(&mut self, kept: usize) {
        match self.events.memory() > kept {
            true => self.events = EventBatch::default(),
            false => self.events.clear(),
        }
        self.others.clear();
        self.end = BatchEnd::Open;
    }

    fn reaches(&self, limits: BatchLimits) -> bool {
        let others = self.others.len() * size_of::<(usize, Result<Step, Error>)>();
        self.events.len() >= limits.events || self.events.bytes() + others >= limits.bytes
    }
}

impl<'a, S: Divisible> StreamReader<'a, S> {
    /// Reads a stream by these threads, if there are any.
    pub(crate) fn new(stream: S, demand: OfStream, decoders: Option<&'a Decoders<S>>) -> Self {
        match decoders {
            Some(decoders) => Self::Ahead(Box::new(decoders.decode(stream, demand))),
            None => Self::Own(stream, demand),
        }
    }
}

impl<S: Divisible> Source for StreamReader<'_, S> {
    type Error = Error;

    fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
        match self {
            Self::Own(stream, demand) => {
                stream.next_unless(event, &mut |head, values| demand.rejects(head, values))
            }
            Self::Ahead(ahead) => ahead.next(event),
            Self::Losses(losses) => Ok(losses.next().map_or(Step::End, Step::Loss)),
        }
    }
}

impl<S: Divisible> AheadStream<'_, S> {
    /// Returns the stream's next item: an event in `event`.
    ///
    /// # Errors
    /// Those of the stream.
    ///
    /// # Panics
    /// If the decoding of the stream has panicked.
    fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
        loop {
            let taken = self.batch.events.taken();
            if let Some((_, item)) = self.batch.others.pop_front_if(|(before, _)| *before == taken) {
                return item;
            }
            if self.batch.events.take(event) {
                if self.is_left_out(event) {
                    continue;
                }
                return Ok(Step::Event);
            }
            if !self.advance() {
                return Ok(Step::End);
            }
        }
    }

    /// Returns true if a single reader would have left out the event, the first of a thread in its part.
    #[inline]
    fn is_left_out(&mut self, event: &Event) -> bool {
        let Some(before) = &mut self.before else { return false };
        let is_left_out = before.rejects(&event.head(), event);
        if event.pid.zip(event.tid).is_some() {
            self.before = None;
        }
        is_left_out
    }

    /// Gets the next batch. Returns false if there is none.
    fn advance(&mut self) -> bool {
        match self.batch.end {
            BatchEnd::Failed => return false,
            BatchEnd::Open => self.get_batch(),
            BatchEnd::PartEnded => {
                let ended = self.ended.take();
                if ended.is_some() {
                    self.parts.pop_front();
                }
                if self.parts.is_empty() {
                    return false;
                }
                self.get_batch_after(ended);
                self.begin_parts();
            }
        }
        true
    }

    /// Gets the next batch of the first part.
    fn get_batch(&mut self) {
        let job = self.receive();
        self.take_up(job);
    }

    /// Gets the first batch of the part behind `ended`, if that is `Some`, or else of the stream.
    fn get_batch_after(&mut self, ended: Option<DecodeJob<S>>) {
        let mut job = self.receive();
        if let Some(mut ended) = ended {
            if job.follows(&ended) {
                self.before = Some(ended.demand.behind(self.before.take()));
                self.spare_batch(ended.batch);
            } else {
                ended.part.rejoin(&job.part);
                self.spare_batch(std::mem::take(&mut job.batch));
                self.parts[0] = self.order(ended);
                job = self.receive();
            }
        }
        self.take_up(job);
    }

    /// Keeps a batch for another part, unless it has grown for a large event.
    fn spare_batch(&mut self, batch: Batch) {
        if batch.events.memory() <= KEPT * MOST.bytes {
            self.spare.push(batch);
        }
    }

    /// Waits for a batch of the first part.
    fn receive(&self) -> DecodeJob<S> {
        let job = self.parts.front().and_then(|filled| filled.recv().ok());
        job.unwrap_or_else(|| panic!("a stream's decoder has panicked"))
    }

    /// Continues with the batch of `job`, while the part's next one is filled.
    fn take_up(&mut self, mut job: DecodeJob<S>) {
        std::mem::swap(&mut self.batch, &mut job.batch);
        match self.batch.end {
            BatchEnd::Open => self.parts[0] = self.order(job),
            BatchEnd::PartEnded | BatchEnd::Failed => self.ended = Some(job),
        }
    }

    /// Has a batch filled. Returns the way on which it comes.
    fn order(&self, job: DecodeJob<S>) -> Receiver<DecodeJob<S>> {
        let (back, filled) = bounded(1);
        // If no thread is left, the job is lost, and the reader notices.
        _ = self.orders.send(DecodeOrder { job, back });
        filled
    }

    /// Begins to decode as many parts as may be decoded side by side.
    fn begin_parts(&mut self) {
        while self.parts.len() < PARTS
            && let Some(mut part) = self.rest.take()
        {
            self.rest = part.split_off(self.part);
            let batch = self.spare.pop().unwrap_or_default();
            let filled = self.order(DecodeJob { part, demand: self.demand.clone(), batch, first: None });
            self.parts.push_back(filled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Demand;
    use proptest::prelude::*;
    use sordino_event::{Class, Classes, Domain, Loss, LossCause, Pid, Tid};
    use sordino_timeline::{Merge, Merged};
    use std::io;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// An item of a stream, of which an event has a text of this length.
    #[derive(Clone, Copy, Debug)]
    enum TestItem {
        Event(usize),
        /// An event whose time lies some nanoseconds back. It is lost if it is earlier than the item before.
        Early(i64),
        /// An event of the process's only thread.
        OfThread,
        Loss,
        Error,
    }

    /// The length of a text that takes a good part of a batch.
    const LARGE: usize = MOST.bytes / 10;

    fn items() -> impl Strategy<Value = Vec<TestItem>> {
        let item = prop_oneof![
            60 => (0..40_usize).prop_map(TestItem::Event),
            3 => (0..1000_usize).prop_map(TestItem::Event),
            1 => (0..LARGE).prop_map(TestItem::Event),
            3 => (0..4_i64).prop_map(TestItem::Early),
            3 => Just(TestItem::Loss),
        ];
        let items = prop::collection::vec(item, 0..200);
        (items, prop::bool::weighted(0.2)).prop_map(|(mut items, has_error)| {
            items.extend(has_error.then_some(TestItem::Error));
            items
        })
    }

    /// A stream of items, one each nanosecond, repeated, in parts of some items.
    #[derive(Clone, Debug)]
    struct TestStream {
        items: Arc<[TestItem]>,
        next: usize,
        end: usize,
        part: usize,
        last: Option<Time>,
        decoded: Arc<AtomicUsize>,
        pause: Duration,
    }

    impl TestStream {
        fn new(items: &[TestItem], times: usize, part: usize) -> Self {
            Self {
                items: items.into(),
                next: 0,
                end: items.len().saturating_mul(times),
                part,
                last: None,
                decoded: Arc::default(),
                pause: Duration::ZERO,
            }
        }

        /// Returns a loss from the last item to now.
        fn loss(&mut self, at: Time, cause: LossCause) -> Step {
            let from = self.last.unwrap_or(at);
            self.last = Some(from.max(at));
            Step::Loss(Loss {
                from,
                to: at.max(from),
                cpu: None,
                pid: None,
                count: Some(self.next as u64),
                cause,
                place: None,
            })
        }
    }

    impl Divisible for TestStream {
        fn next_unless(
            &mut self,
            event: &mut Event,
            rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
        ) -> Result<Step, Error> {
            loop {
                let step = self.next(event)?;
                if step != Step::Event || !rejects(&event.head(), event) {
                    return Ok(step);
                }
            }
        }

        fn bytes(&self) -> u64 {
            0
        }

        fn split_off(&mut self, _: u64) -> Option<Self> {
            let next = self.next.checked_add(self.part).filter(|next| *next < self.end)?;
            let rest = Self { next, last: None, ..self.clone() };
            self.end = next;
            Some(rest)
        }

        fn rejoin(&mut self, part: &Self) {
            self.end = part.end;
        }

        fn last(&self) -> Option<Time> {
            self.last
        }
    }

    impl TestStream {
        fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
            self.decoded.fetch_add(1, Ordering::Relaxed);
            thread::sleep(self.pause);
            if self.next == self.end {
                return Ok(Step::End);
            }
            let item = self.items[self.next % self.items.len()];
            let back = if let TestItem::Early(back) = item { back } else { 0 };
            let at = Time(self.next as i64 - back);
            self.next += 1;
            match item {
                TestItem::Early(_) if self.last.is_some_and(|last| last > at) => {
                    Ok(self.loss(at, LossCause::Corrupt))
                }
                TestItem::Event(_) | TestItem::Early(_) | TestItem::OfThread => {
                    let length = if let TestItem::Event(length) = item { length } else { 1 };
                    event.begin(at, Default::default());
                    if matches!(item, TestItem::OfThread) {
                        (event.pid, event.tid) = (Some(Pid(1)), Some(Tid(1)));
                    }
                    event.push_text(&vec![self.next as u8; length]);
                    self.last = Some(at);
                    Ok(Step::Event)
                }
                TestItem::Loss => Ok(self.loss(at, LossCause::RingFull)),
                TestItem::Error => {
                    let source = io::Error::other(format!("item {}", self.next));
                    Err(Error::Io { action: "read", path: PathBuf::from("cpu0"), source })
                }
            }
        }
    }

    /// Returns all results of a merge of streams.
    fn merged(
        streams: &[Vec<TestItem>],
        times: usize,
        part: usize,
        decoders: Option<&Decoders<TestStream>>,
    ) -> Vec<String> {
        let readers = streams.iter().map(|items| {
            StreamReader::new(TestStream::new(items, times, part), OfStream::default(), decoders)
        });
        let mut merge = Merge::new(&Classes::default(), readers);
        let mut seen = Vec::new();
        loop {
            seen.push(match merge.next() {
                Ok(None) => return seen,
                Ok(Some(Merged::Event(event))) => format!("{:?} {:?}", event.time, event.text(0)),
                other => format!("{other:?}"),
            });
        }
    }

    proptest! {
        #[test]
        fn threads_change_nothing_in_what_is_read(
            streams in prop::collection::vec(items(), 1..9),
            times in 1..4_usize,
            threads in 2..6_usize,
            part in prop_oneof![1..20_usize, 1..600_usize],
        ) {
            let decoders = Decoders::start(threads, streams.len()).expect("threads");
            let alone = merged(&streams, times, part, None);
            prop_assert_eq!(alone, merged(&streams, times, part, Some(&decoders)));
        }
    }

    #[test]
    fn batches_that_are_full_continue_where_they_end() {
        let streams = [
            vec![TestItem::Event(8), TestItem::Loss, TestItem::Event(30)],
            vec![TestItem::Event(3)],
            vec![TestItem::Loss],
        ];
        let decoders = Decoders::start(2, streams.len()).expect("threads");
        let times = 3 * MOST.events + 7;
        for part in [MOST.events + 3, usize::MAX] {
            let alone = merged(&streams, times, part, None);
            assert!(alone == merged(&streams, times, part, Some(&decoders)), "parts of {part}");
        }
    }

    #[test]
    fn a_thread_that_is_known_is_left_out_behind_a_part_without_threads() {
        let mut classes = Classes::default();
        let class = classes.add(Class::new(Domain::User, "t:e", ["text"]));
        assert_eq!(class, Default::default());
        let demand = Demand::default().without(&classes, Arc::new(|_, _| true));
        let items = [&[TestItem::OfThread][..], &[TestItem::Event(1); 25], &[TestItem::OfThread]].concat();
        let count = |decoders: Option<&Decoders<TestStream>>| {
            let stream = TestStream::new(&items, 1, 9);
            let mut reader = StreamReader::new(stream, demand.of_stream(Time::MAX), decoders);
            let mut event = Event::default();
            std::iter::from_fn(|| Some(reader.next(&mut event).unwrap()).filter(|step| *step == Step::Event))
                .count()
        };
        assert_eq!((count(None), count(Decoders::start(2, 1).as_ref())), (1, 1));
    }

    #[test]
    fn parts_of_one_stream_are_decoded_side_by_side() {
        let decoders = Decoders::start(2, 1).expect("threads");
        let stream = TestStream::new(&[TestItem::Event(1)], 1000, 10);
        let decoded = Arc::clone(&stream.decoded);
        let _reader = StreamReader::new(stream, OfStream::default(), Some(&decoders));
        // Each part has ten events and an end.
        while decoded.load(Ordering::Relaxed) < PARTS * 11 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(decoded.load(Ordering::Relaxed), PARTS * 11, "nobody has read on");
    }

    #[test]
    fn a_batch_is_bounded_in_events_and_in_bytes() {
        let large = TestItem::Event(4 * LARGE);
        let few_large = [&[TestItem::Event(0); 300][..], &[large]].concat();
        for items in [vec![TestItem::Event(0)], vec![TestItem::Loss], vec![large], few_large] {
            let part = TestStream::new(&items, 1 << 40, usize::MAX);
            let (demand, batch) = (OfStream::default(), Batch::default());
            let mut job = DecodeJob { part, demand, batch, first: None };
            let mut event = Event::default();
            // Large events come at other places in each batch.
            for most in (50..MOST.events).step_by(7) {
                job.fill(&mut event, BatchLimits { events: most, ..MOST });
                let (events, others) = (&job.batch.events, job.batch.others.len());
                assert!(events.len() <= most && others <= MOST.bytes / 32, "{:?}", items.last());
                let bytes = events.memory();
                assert!(bytes <= KEPT * MOST.bytes, "{:?}: {bytes} bytes", items.last());
                // Buffers that large events have left behind do not fill the batch.
                let small = items.iter().filter(|item| matches!(item, TestItem::Event(0))).count();
                assert!(events.len() >= most.min(small), "{:?}: {} events", items.last(), events.len());
            }
        }
    }

    #[test]
    fn threads_end_soon_if_nobody_reads_on() {
        let decoders = Decoders::start(2, 100).expect("threads");
        let mut endless = TestStream::new(&[TestItem::Event(1)], usize::MAX, usize::MAX);
        endless.pause = Duration::from_micros(200);
        let mut readers: Vec<_> = (0..100)
            .map(|_| StreamReader::new(endless.clone(), OfStream::default(), Some(&decoders)))
            .collect();
        assert_eq!(readers[0].next(&mut Event::default()).unwrap(), Step::Event);
        drop(readers);
        drop(decoders);
        let decoded = endless.decoded.load(Ordering::Relaxed);
        assert!(decoded < ALL.events / 2, "most streams were decoded for nobody");
    }

    #[test]
    fn a_reader_that_ends_early_leaves_nothing_behind() {
        let stream = TestStream::new(&[TestItem::Event(1)], 1000, 10);
        let decoded = Arc::clone(&stream.decoded);
        let decoders = Decoders::start(2, 1).expect("threads");
        let mut reader = StreamReader::new(stream, OfStream::default(), Some(&decoders));
        assert_eq!(reader.next(&mut Event::default()).unwrap(), Step::Event);
        while decoded.load(Ordering::Relaxed) < PARTS * 11 {
            thread::yield_now();
        }
        drop(reader);
        drop(decoders);
        assert_eq!(Arc::strong_count(&decoded), 1, "a part is kept, with its file");
    }

    /// A stream whose decoder panics if it has no items.
    struct SpoiltStream(TestStream);

    impl Divisible for SpoiltStream {
        fn next_unless(
            &mut self,
            event: &mut Event,
            rejects: &mut impl FnMut(&EventHead, &dyn FieldValues) -> bool,
        ) -> Result<Step, Error> {
            assert!(!self.0.items.is_empty(), "planted");
            self.0.next_unless(event, rejects)
        }

        fn bytes(&self) -> u64 {
            0
        }

        fn split_off(&mut self, bytes: u64) -> Option<Self> {
            self.0.split_off(bytes).map(Self)
        }

        fn rejoin(&mut self, part: &Self) {
            self.0.rejoin(&part.0);
        }

        fn last(&self) -> Option<Time> {
            self.0.last()
        }
    }

    #[test]
    fn a_panic_of_a_decoder_is_one_of_its_reader_and_of_no_other() {
        let decoders = Decoders::start(2, 2).expect("threads");
        let stream = |items: &[TestItem]| SpoiltStream(TestStream::new(items, 10 * MOST.events, 100));
        let whole = stream(&[TestItem::Event(1)]);
        let mut whole = StreamReader::new(whole, OfStream::default(), Some(&decoders));
        let mut event = Event::default();
        // More than there are threads.
        for _ in 0..4 {
            let mut spoilt = StreamReader::new(stream(&[]), OfStream::default(), Some(&decoders));
            let read = AssertUnwindSafe(|| spoilt.next(&mut Event::default()));
            assert!(catch_unwind(read).is_err());
        }
        for _ in 0..10 * MOST.events {
            assert_eq!(whole.next(&mut event).unwrap(), Step::Event);
        }
        assert_eq!(whole.next(&mut event).unwrap(), Step::End);
    }
}
