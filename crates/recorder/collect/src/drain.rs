//! The thread that reads the rings: it writes them to files, or copies them when a snapshot is due.

mod stream;

pub use stream::{Now, StreamCopy, StreamEnd, StreamFill, unwritable};
pub(crate) use stream::{RingStream, StreamState};

use crate::number::ProgramNumber;
use crate::options::Polling;
use crate::output::Output;
use rustix::thread::futex;
use sordino_event::{Cpu, Ticks};
use sordino_intake::SupplyWaker;
use sordino_ring::area::control::Program;
use sordino_ring::area::map::wait_any;
use sordino_ring::number::{PointId, SlotIndex};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The rings of one program.
#[derive(Debug)]
pub struct Streams {
    /// The program's number in the session.
    pub(crate) number: ProgramNumber,
    pub(crate) program: Arc<Program>,
    pub(crate) slot: SlotIndex,
    pub(crate) streams: Vec<RingStream>,
    /// Wakes the supplier of memory, unless all pages of the rings are present.
    pub(crate) waker: Option<SupplyWaker>,
    /// The program's count of snapshot requests at the last check.
    pub(crate) triggered: u32,
}

/// An order to the thread. If the thread has ended, the answer's channel is closed.
#[derive(Debug)]
#[expect(missing_docs, reason = "each order describes its parts")]
pub enum Order {
    /// Add the rings of a program.
    Add(Streams),
    /// Write all remaining records: the program has ended, or its events are disabled.
    Finish { number: ProgramNumber, answer: Sender<Vec<StreamEnd>> },
    /// Write all published records of this program and continue in these files, in the order of its streams.
    Rotate { number: ProgramNumber, outputs: Vec<Output>, answer: Sender<Vec<StreamEnd>> },
    /// Copy the newest sub-buffers of all rings, back to this timestamp.
    Copy { since: Ticks, answer: Sender<Vec<ProgramCopy>> },
    /// Copy the remaining records of a program that has ended.
    Take { number: ProgramNumber, since: Ticks, answer: Sender<Option<ProgramCopy>> },
    /// Start or stop keeping copies of written packets for live readers.
    KeepForLive(bool),
    /// Return the kept copies, and copies of the rings' records from this timestamp on.
    Live { owner: Addressees, since: Ticks, answer: Sender<Vec<ProgramCopy>> },
    /// Drop this value once all programs have been checked for snapshot requests.
    Sync(Sender<()>),
    /// Return the CPUs whose rings have advanced since the last such order.
    Moved { answer: Sender<Vec<Cpu>> },
    /// Return the fill level of all rings.
    Fill { answer: Sender<Vec<ProgramFill>> },
}

/// The programs that an order applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressees {
    /// All programs of the session.
    All,
    /// The program with this number.
    Only(ProgramNumber),
}

/// A report of the thread.
#[derive(Debug)]
#[expect(missing_docs, reason = "each report describes its parts")]
pub enum DrainReport {
    /// A file cannot be written to.
    OutputFailed,
    /// Programs use the rings of these CPUs faster than pages are supplied.
    Used { cpus: Vec<Cpu> },
    /// A program has requested a snapshot: its number, the tracepoint, the time, and copies of all rings from the
    /// requested time before it on.
    Triggered { number: ProgramNumber, point: PointId, at: Ticks, copies: Vec<ProgramCopy> },
}

/// The settings for snapshots requested by programs.
#[derive(Clone, Copy, Debug)]
pub struct TriggerSettings {
    /// The requested time before a snapshot, in ticks.
    pub last: u64,
    /// Minimum time between two snapshots; requests within it are only counted.
    pub hold_off: Duration,
}

/// Returns both ends of a queue of orders to the thread.
pub fn orders() -> (Orderer, Orders) {
    let ((sender, received), knocks) = (channel(), Arc::<AtomicU32>::default());
    (Orderer { sender, knocks: Arc::clone(&knocks) }, Orders { received, knocks })
}

/// Sends orders to the thread, and wakes it while it sleeps on futex words.
#[derive(Debug)]
pub struct Orderer {
    sender: Sender<Order>,
    knocks: Arc<AtomicU32>,
}

/// The thread's end of the queue of orders.
#[derive(Debug)]
pub struct Orders {
    received: Receiver<Order>,
    /// The number of orders: one of the futex words on which the thread sleeps.
    knocks: Arc<AtomicU32>,
}

impl Orderer {
    /// Sends an order. It is lost if the thread has ended.
    pub fn give(&self, order: Order) {
        let _ = self.sender.send(order);
        // Pairs with the acquire in `wake_words`: a thread that reads the new number also sees the order.
        self.knocks.fetch_add(1, Release);
        // The thread either does not sleep, or is woken.
        let _ = futex::wake(&self.knocks, futex::Flags::empty(), 1);
    }
}

/// The thread's task beside its orders.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Empties rings into files, with this polling.
    Empty(Polling),
    /// Nothing: rings are read at the end, or copied by order.
    Wait,
    /// Checks at this interval for programs that request a snapshot.
    Heed(Duration, TriggerSettings),
}

/// Copies of the newest sub-buffers of a program's rings.
#[derive(Debug)]
pub struct ProgramCopy {
    /// The program's number in the session.
    pub number: ProgramNumber,
    /// The copies, one for each ring.
    pub streams: Vec<StreamCopy>,
}

impl ProgramCopy {
    /// Returns true if the rings held anything, or lost records.
    pub fn has_any(&self) -> bool {
        self.streams.iter().any(|stream| !stream.packets.is_empty() || stream.lost.total > 0)
    }
}

/// The fill level of a program's rings.
#[derive(Debug)]
pub struct ProgramFill {
    /// The program's number in the session.
    pub number: ProgramNumber,
    /// The fill levels, one for each ring.
    pub streams: Vec<StreamFill>,
}

impl ProgramFill {
    /// Returns true if anything was ever written to the rings, or lost.
    pub fn has_any(&self) -> bool {
        self.streams.iter().any(|stream| stream.fill.used > 0 || stream.bytes > 0 || stream.lost.total > 0)
    }
}

/// Runs the thread until all senders of orders are gone. `reported` is called after each report.
pub fn run(work: Work, now: Now, orders: &Orders, reports: &Sender<DrainReport>, reported: impl Fn()) {
    let mut drain = DrainState { programs: Vec::new(), now, room: None };
    let report = |report| {
        let has_listener = reports.send(report).is_ok();
        reported();
        has_listener
    };
    match work {
        Work::Empty(polling) => drain.empty(polling, orders, report),
        Work::Wait => orders.received.iter().for_each(|order| drain.carry_out(order)),
        Work::Heed(often, triggers) => drain.heed(often, triggers, orders, report),
    }
}

/// The state of the thread.
struct DrainState {
    programs: Vec<Streams>,
    now: Now,
    /// The number of bytes that may still be kept for live readers; `None` without one.
    room: Option<usize>,
}

/// Longest time that the thread sleeps.
const PATIENCE: Duration = Duration::from_millis(20);

/// Maximum size of the copies kept for live readers, in bytes.
const MOST_KEPT: usize = 64 << 20;

impl DrainState {
    /// Empties rings until the receiver of reports is gone.
    fn empty(&mut self, polling: Polling, orders: &Orders, report: impl Fn(DrainReport) -> bool) {
        loop {
            let seen = self.wake_words(polling, orders);
            let (mut has_failed, mut taken) = (false, false);
            // Pages come before anything that waits for a disk.
            let used: Vec<Cpu> = self.programs.iter().flat_map(Streams::call_pagers).collect();
            if !used.is_empty() && !report(DrainReport::Used { cpus: used }) {
                return;
            }
            for program in &mut self.programs {
                for stream in &mut program.streams {
                    if stream.is_left_alone() {
                        continue;
                    }
                    let had_failed = stream.has_failed();
                    taken |= stream.drain(&mut self.room);
                    has_failed |= stream.has_failed() && !had_failed;
                }
            }
            if has_failed && !report(DrainReport::OutputFailed) {
                return;
            }
            loop {
                match next_order(&orders.received, self.programs.is_empty()) {
                    Ok(order) => self.carry_out(order),
                    Err(TryRecvError::Empty) => break,
                    // The sender of orders is gone and does not need the rest of the rings.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if !taken && !self.pause(polling, orders, &seen) {
                return;
            }
        }
    }

    /// Returns the values of the futex words on which the thread sleeps with [`Polling::Wakeup`], read before the rings
    /// and the orders.
    fn wake_words(&self, polling: Polling, orders: &Orders) -> Vec<u32> {
        // ORDER(drain:A) pairs with write:D: if the load sees a count, then this thread sees the completed sub-buffer;
        // if it misses one, then the word has changed since, and this thread does not fall asleep.
        let words = || self.words(orders).map(|word| word.load(Acquire)).collect();
        if polling == Polling::Wakeup { words() } else { Vec::new() }
    }

    /// Returns the futex words: that of the orders, and those that writers increment at a sub-buffer switch.
    fn words<'a>(&'a self, orders: &'a Orders) -> impl Iterator<Item = &'a AtomicU32> {
        let of_programs = self.programs.iter().map(|program| program.program.wake_word(program.slot));
        std::iter::once(&*orders.knocks).chain(of_programs)
    }

    /// Sleeps until the next check of the rings is due, or an order arrives. Returns false if no more orders will come.
    fn pause(&mut self, polling: Polling, orders: &Orders, seen: &[u32]) -> bool {
        let time = match polling {
            Polling::Busy => return true,
            Polling::Timer(time) => time.min(PATIENCE),
            Polling::Wakeup => {
                let words: Vec<_> = self.words(orders).zip(seen.iter().copied()).collect();
                if wait_any(&words, PATIENCE).is_ok() {
                    return true;
                }
                Duration::from_millis(1)
            }
        };
        match orders.received.recv_timeout(time) {
            Ok(order) => self.carry_out(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        true
    }

    /// Copies all rings when a program requests a snapshot.
    fn heed(
        &mut self,
        often: Duration,
        triggers: TriggerSettings,
        orders: &Orders,
        report: impl Fn(DrainReport) -> bool,
    ) {
        let mut last: Option<Instant> = None;
        loop {
            // Held until the end of this iteration.
            let mut _looking = None;
            match orders.received.recv_timeout(often) {
                Ok(Order::Sync(looking)) => _looking = Some(looking),
                Ok(order) => self.carry_out(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.programs.iter_mut().flat_map(|program| &mut program.streams).for_each(RingStream::keep_up);
            let Some((number, point)) = self.last_request() else { continue };
            if last.is_some_and(|last| last.elapsed() < triggers.hold_off) {
                continue;
            }
            let at = (self.now)();
            let copies = self.copy(at.before(triggers.last));
            last = Some(Instant::now());
            if !report(DrainReport::Triggered { number, point, at, copies }) {
                return;
            }
        }
    }

    /// Returns the program that has requested a snapshot since the last check, and the tracepoint that did; the last
    /// one of several.
    fn last_request(&mut self) -> Option<(ProgramNumber, PointId)> {
        let request = |program: &mut Streams| {
            let now = program.program.triggers(program.slot);
            let is_new = std::mem::replace(&mut program.triggered, now.count) != now.count;
            is_new.then_some((program.number, now.point))
        };
        // All programs are checked: one snapshot answers all requests.
        self.programs.iter_mut().filter_map(request).last()
    }

    fn carry_out(&mut self, order: Order) {
        // An answer that cannot be sent was for a caller that is gone.
        match order {
            Order::Add(program) => self.programs.push(program),
            Order::Finish { number, answer } => {
                let streams = self.remove(number).map_or(Vec::new(), |program| program.streams);
                let _ = answer.send(streams.into_iter().map(|stream| stream.finish(self.now)).collect());
            }
            Order::Rotate { number, outputs, answer } => {
                let (now, room) = (self.now, &mut self.room);
                let program = self.programs.iter_mut().find(|program| program.number == number);
                let streams = program.map_or(&mut [][..], |program| &mut program.streams).iter_mut();
                let rotated = streams.zip(outputs).map(|(stream, output)| stream.rotate(output, now, room));
                let _ = answer.send(rotated.collect());
            }
            Order::Copy { since, answer } => _ = answer.send(self.copy(since)),
            Order::Take { number, since, answer } => {
                let program = self.remove(number);
                let _ = answer.send(program.map(|program| program.copy(since, self.now)));
            }
            Order::KeepForLive(keep) => {
                self.room = keep.then_some(MOST_KEPT);
                self.programs
                    .iter_mut()
                    .flat_map(|program| &mut program.streams)
                    .for_each(RingStream::forget_retained);
            }
            Order::Live { owner, since, answer } => {
                let (now, all) = (self.now, owner == Addressees::All);
                if all {
                    self.room = self.room.map(|_| MOST_KEPT);
                }
                let programs = self.programs.iter_mut();
                let chosen = programs.filter(|program| all || owner == Addressees::Only(program.number));
                let _ = answer.send(chosen.map(|program| program.live(since, now)).collect());
            }
            Order::Sync(looking) => drop(looking),
            Order::Moved { answer } => {
                let streams = self.programs.iter_mut().flat_map(|program| &mut program.streams);
                let _ = answer.send(streams.filter_map(RingStream::moved).collect());
            }
            Order::Fill { answer } => _ = answer.send(self.programs.iter().map(Streams::fill).collect()),
        }
    }

    fn remove(&mut self, number: ProgramNumber) -> Option<Streams> {
        let index = self.programs.iter().position(|program| program.number == number)?;
        Some(self.programs.swap_remove(index))
    }

    fn copy(&self, since: Ticks) -> Vec<ProgramCopy> {
        self.programs.iter().map(|program| program.copy(since, self.now)).collect()
    }
}

impl Streams {
    /// Wakes the supplier of memory if writers approach the end of the present pages. Returns the CPUs of these rings.
    fn call_pagers(&self) -> impl Iterator<Item = Cpu> {
        let called = self.streams.iter().filter(|stream| self.waker.is_some() && stream.calls_pager());
        let called = called.inspect(|_| self.waker.iter().for_each(SupplyWaker::wake));
        called.filter_map(RingStream::cpu)
    }

    fn copy(&self, since: Ticks, now: Now) -> ProgramCopy {
        let streams = self.streams.iter().map(|stream| stream.copy(since, now)).collect();
        ProgramCopy { number: self.number, streams }
    }

    fn live(&mut self, since: Ticks, now: Now) -> ProgramCopy {
        let streams = self.streams.iter_mut().map(|stream| stream.live(since, now)).collect();
        ProgramCopy { number: self.number, streams }
    }

    fn fill(&self) -> ProgramFill {
        ProgramFill { number: self.number, streams: self.streams.iter().map(RingStream::fill).collect() }
    }
}

/// Returns the next order; waits for one if the thread is idle.
fn next_order(orders: &Receiver<Order>, idle: bool) -> Result<Order, TryRecvError> {
    if idle { orders.recv().map_err(|_| TryRecvError::Disconnected) } else { orders.try_recv() }
}
