//! Decoding of streams side by side, ahead of the merge.
//!
//! Each stream has two batches of events: the merge takes events from one while a thread fills the other. A thread that
//! has filled a batch turns to the next stream whose merge has begun a new one, so any number of streams needs no more
//! threads than there are CPUs. A stream's items come in the order in which it returns them, whichever threads decode
//! it: the result is that of one thread.

use crate::demand::OfStream;
use sordino_ctf::Error;
use sordino_event::{Event, Loss, Step};
use sordino_timeline::Source;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::vec;

/// The number of events of all streams together that a batch of each may hold.
const EVENTS: usize = 1 << 14;
/// The maximum number of events in a batch, and the minimum with which a thread is worth its while.
const BATCH: (usize, usize) = (2048, 32);
/// The number of bytes of events at which a batch ends.
const BYTES: usize = 1 << 19;
/// The number of events, left out or not, after which a batch ends.
const SCANNED: usize = 1 << 16;
/// The maximum size of the buffers that an event keeps for the next one in its place.
const KEPT: usize = 1 << 12;

/// A source of a stream's items.
type Decode = Box<dyn FnMut(&mut Event) -> Result<Step, Error> + Send>;

/// The threads that decode streams. They end when it is dropped.
pub(crate) struct Decoders {
    jobs: Sender<DecodeJob>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A batch to be filled.
struct DecodeJob {
    decode: Decode,
    demand: OfStream,
    batch: Batch,
    /// The way back to the stream's reader. The reader has no copy: it notices if a thread dies with the job.
    back: SyncSender<DecodeJob>,
}

/// Items of a stream, in the order in which it returned them.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    /// The number of events that are valid; those behind keep their buffers.
    count: usize,
    /// The items that are no events, each with the number of events before it.
    others: VecDeque<(usize, Result<Step, Error>)>,
    /// True if the stream has nothing behind the batch.
    is_last: bool,
}

/// A stream that is decoded by the reader itself, or ahead of it; or losses that no stream has.
pub(crate) enum StreamReader<'a, S> {
    Own(S, OfStream),
    Ahead(AheadStream<'a>),
    Losses(vec::IntoIter<Loss>),
}

/// A stream that is decoded ahead.
pub(crate) struct AheadStream<'a> {
    batch: Batch,
    /// The number of the batch's events that were taken.
    taken: usize,
    jobs: &'a Sender<DecodeJob>,
    filled: Receiver<DecodeJob>,
}

impl Decoders {
    /// Starts this many threads for this number of streams. `None` if threads bring no gain: there is a single one, or
    /// so many streams that their batches would be tiny.
    pub(crate) fn start(threads: usize, streams: usize) -> Option<Self> {
        let batch = (EVENTS / streams.max(1)).min(BATCH.0);
        if threads < 2 || batch < BATCH.1 {
            return None;
        }
        let (jobs, waiting) = channel();
        let (waiting, is_over) = (Arc::new(Mutex::new(waiting)), Arc::new(AtomicBool::new(false)));
        let mut decoders = Self { jobs, is_over, threads: Vec::new() };
        for _ in 0..threads.min(streams) {
            let (waiting, is_over) = (Arc::clone(&waiting), Arc::clone(&decoders.is_over));
            let thread = thread::Builder::new().name("sordino-decode".into());
            // Without the right to have another thread, those that there are do the work.
            decoders.threads.extend(thread.spawn(move || work(&waiting, &is_over, batch)).ok());
        }
        (!decoders.threads.is_empty()).then_some(decoders)
    }

    /// Begins to decode a stream.
    fn decode(&self, decode: Decode, demand: OfStream) -> AheadStream<'_> {
        let (back, filled) = sync_channel(1);
        // Without a thread that takes it, the job is lost, and the reader notices.
        _ = self.jobs.send(DecodeJob { decode, demand, batch: Batch::default(), back });
        AheadStream { batch: Batch::default(), taken: 0, jobs: &self.jobs, filled }
    }
}

impl Drop for Decoders {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Without a sender, the threads that wait end: readers borrow this one.
        self.jobs = channel().0;
        // A thread that panicked has printed its message; its stream's reader panics, too.
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Fills batches until no stream requests another.
fn work(waiting: &Mutex<Receiver<DecodeJob>>, is_over: &AtomicBool, most: usize) {
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(mut job) = job else { return };
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        job.batch.fill(&mut job.decode, &mut job.demand, most);
        // The reader of the stream may have ended.
        let back = job.back.clone();
        _ = back.send(job);
    }
}

impl Batch {
    /// Replaces the content with the next items of a stream.
    fn fill(&mut self, decode: &mut Decode, demand: &mut OfStream, most: usize) {
        self.count = 0;
        let (mut bytes, mut scanned) = (0, 0);
        while self.count < most && bytes < BYTES && scanned < SCANNED && !self.is_last {
            scanned += 1;
            if self.events.len() == self.count {
                self.events.push(Event::default());
            }
            let event = &mut self.events[self.count];
            if event.memory() > KEPT {
                *event = Event::default();
            }
            match decode(event) {
                Ok(Step::Event) if demand.rejects(event) => {}
                Ok(Step::Event) => {
                    bytes += size_of::<Event>() + event.memory();
                    self.count += 1;
                }
                other => {
                    bytes += size_of_val(&other);
                    self.is_last = !matches!(other, Ok(Step::Loss(_)));
                    self.others.push_back((self.count, other));
                }
            }
        }
    }
}

impl<'a, S> StreamReader<'a, S>
where
    S: FnMut(&mut Event) -> Result<Step, Error> + Send + 'static,
{
    /// Reads a stream by these threads, if there are any.
    pub(crate) fn new(decode: S, demand: OfStream, decoders: Option<&'a Decoders>) -> Self {
        match decoders {
            Some(decoders) => Self::Ahead(decoders.decode(Box::new(decode), demand)),
            None => Self::Own(decode, demand),
        }
    }
}

impl<S> Source for StreamReader<'_, S>
where
    S: FnMut(&mut Event) -> Result<Step, Error>,
{
    type Error = Error;

    fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
        match self {
            Self::Own(decode, demand) => loop {
                let step = decode(event)?;
                if step != Step::Event || !demand.rejects(event) {
                    return Ok(step);
                }
            },
            Self::Ahead(ahead) => ahead.next(event),
            Self::Losses(losses) => Ok(losses.next().map_or(Step::End, Step::Loss)),
        }
    }
}

impl AheadStream<'_> {
    /// Returns the stream's next item: an event in `event`.
    ///
    /// # Errors
    /// Those of the stream.
    ///
    /// # Panics
    /// If the thread that decoded the stream has panicked.
    fn next(&mut self, event: &mut Event) -> Result<Step, Error> {
        loop {
            if let Some((_, item)) = self.batch.others.pop_front_if(|(before, _)| *before == self.taken) {
                return item;
            }
            if self.taken < self.batch.count {
                std::mem::swap(event, &mut self.batch.events[self.taken]);
                self.taken += 1;
                return Ok(Step::Event);
            }
            if self.batch.is_last {
                return Ok(Step::End);
            }
            let Ok(mut job) = self.filled.recv() else { panic!("a stream's decoder has panicked") };
            std::mem::swap(&mut self.batch, &mut job.batch);
            self.taken = 0;
            if !self.batch.is_last {
                // If no thread is left, the job is lost, and the next turn notices.
                _ = self.jobs.send(job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sordino_event::{Classes, Loss, LossCause, Time};
    use sordino_timeline::{Merge, Merged};
    use std::io;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// An item of a stream, of which an event has a text of this length.
    #[derive(Clone, Copy, Debug)]
    enum Item {
        Event(usize),
        Loss,
        Error,
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let item = prop_oneof![
            60 => (0..40_usize).prop_map(Item::Event),
            3 => (0..KEPT * 3).prop_map(Item::Event),
            3 => Just(Item::Loss),
            1 => Just(Item::Error),
        ];
        prop::collection::vec(item, 0..200)
    }

    /// Returns a stream of these items, one each nanosecond, repeated so often.
    fn stream(
        items: Vec<Item>,
        times: usize,
    ) -> impl FnMut(&mut Event) -> Result<Step, Error> + Send + 'static {
        let count = items.len() * times;
        let mut next = 0;
        move |event| {
            if next == count {
                return Ok(Step::End);
            }
            let (item, at) = (items[next % items.len()], Time(next as i64));
            next += 1;
            match item {
                Item::Event(length) => {
                    event.begin(at, Default::default());
                    event.push_text(&vec![next as u8; length]);
                    Ok(Step::Event)
                }
                Item::Loss => {
                    let cause = LossCause::RingFull;
                    Ok(Step::Loss(Loss {
                        from: at,
                        to: at,
                        cpu: None,
                        pid: None,
                        count: Some(next as u64),
                        cause,
                    }))
                }
                Item::Error => {
                    let source = io::Error::other(format!("item {next}"));
                    Err(Error::Io { action: "read", path: PathBuf::from("cpu0"), source })
                }
            }
        }
    }

    /// Returns all results of a merge of streams.
    fn merged(streams: &[Vec<Item>], times: usize, decoders: Option<&Decoders>) -> Vec<String> {
        let readers = streams
            .iter()
            .map(|items| StreamReader::new(stream(items.clone(), times), OfStream::default(), decoders));
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
            streams in prop::collection::vec(items(), 1..9), times in 1..4_usize, threads in 2..6_usize,
        ) {
            let decoders = Decoders::start(threads, streams.len()).expect("threads");
            prop_assert_eq!(merged(&streams, times, None), merged(&streams, times, Some(&decoders)));
        }
    }

    #[test]
    fn batches_that_are_full_continue_where_they_end() {
        let streams =
            [vec![Item::Event(8), Item::Loss, Item::Event(30)], vec![Item::Event(3)], vec![Item::Loss]];
        let decoders = Decoders::start(2, streams.len()).expect("threads");
        let times = 3 * BATCH.0 + 7;
        assert!(merged(&streams, times, None) == merged(&streams, times, Some(&decoders)));
    }

    #[test]
    fn a_batch_is_bounded_in_events_and_in_bytes() {
        let large = Item::Event(KEPT * 50);
        let few_large = [&[Item::Event(0); 300][..], &[large]].concat();
        for items in [vec![Item::Event(0)], vec![Item::Loss], vec![large], few_large] {
            let mut batch = Batch::default();
            let mut decode: Decode = Box::new(stream(items.clone(), 1 << 40));
            // Large events come at other places in each batch.
            for most in (50..BATCH.0).step_by(7) {
                batch.others.clear();
                batch.fill(&mut decode, &mut OfStream::default(), most);
                assert!(batch.count <= most && batch.others.len() <= BYTES / 32, "{:?}", items.last());
                let bytes: usize = batch.events.iter().map(Event::memory).sum();
                assert!(bytes <= 4 * BYTES, "{:?}: {bytes} bytes", items.last());
                // Buffers that large events have left behind do not fill the batch.
                let small = items.iter().filter(|item| matches!(item, Item::Event(0))).count();
                assert!(batch.count >= most.min(small), "{:?}: {} events", items.last(), batch.count);
            }
        }
    }

    #[test]
    fn threads_end_soon_if_nobody_reads_on() {
        let decoded = Arc::new(AtomicUsize::new(0));
        let decoders = Decoders::start(2, 100).expect("threads");
        let endless = || {
            let (decoded, mut next) = (Arc::clone(&decoded), stream(vec![Item::Event(1)], usize::MAX));
            move |event: &mut Event| {
                decoded.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(200));
                next(event)
            }
        };
        let mut readers: Vec<_> =
            (0..100).map(|_| StreamReader::new(endless(), OfStream::default(), Some(&decoders))).collect();
        assert_eq!(readers[0].next(&mut Event::default()).unwrap(), Step::Event);
        drop(readers);
        drop(decoders);
        assert!(decoded.load(Ordering::Relaxed) < EVENTS / 2, "most streams were decoded for nobody");
    }

    #[test]
    fn a_panic_of_a_decoder_is_one_of_its_reader_and_of_no_other() {
        let decoders = Decoders::start(2, 2).expect("threads");
        let mut whole = StreamReader::new(
            stream(vec![Item::Event(1)], 10 * BATCH.0),
            OfStream::default(),
            Some(&decoders),
        );
        let mut spoilt = StreamReader::new(
            |_: &mut Event| -> Result<Step, Error> { panic!("planted") },
            OfStream::default(),
            Some(&decoders),
        );
        let mut event = Event::default();
        let read = std::panic::AssertUnwindSafe(|| spoilt.next(&mut Event::default()));
        assert!(std::panic::catch_unwind(read).is_err());
        for _ in 0..10 * BATCH.0 {
            assert_eq!(whole.next(&mut event).unwrap(), Step::Event);
        }
        assert_eq!(whole.next(&mut event).unwrap(), Step::End);
    }
}
