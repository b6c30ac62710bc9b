//! The thread that empties the rings, or copies them when something happens.

mod stream;

pub(crate) use stream::{Stream, StreamCopy, StreamEnd, StreamFill, StreamState, unwritable};

use crate::options::Polling;
use crate::output::Output;
use crate::supply::Waker;
use rustix::thread::futex;
use sordino_ring::control::Program;
use sordino_ring::map::wait_any;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The rings of one program.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Which program, for the thread's owner.
    pub(crate) number: usize,
    pub(crate) program: Arc<Program>,
    pub(crate) slot: usize,
    pub(crate) streams: Vec<Stream>,
    /// Gives its rings pages, if not all have theirs.
    pub(crate) waker: Option<Waker>,
    /// How often it had asked for a snapshot when that was last looked at.
    pub(crate) triggered: u32,
}

/// What the thread is told. Who waits for an answer gets none if the thread has ended.
#[derive(Debug)]
pub(crate) enum Order {
    /// Look after these rings too.
    Add(Streams),
    /// This program is gone, or its events are switched off: write what is left.
    Finish { number: usize, answer: Sender<Vec<StreamEnd>> },
    /// Write all that this program has published, and go on into these files, in the order of its streams.
    Rotate { number: usize, outputs: Vec<Output>, answer: Sender<Vec<StreamEnd>> },
    /// Copy the newest of all rings, back to this stamp.
    Copy { since: u64, answer: Sender<Vec<ProgramCopy>> },
    /// This program is gone: copy what it leaves.
    Take { number: usize, since: u64, answer: Sender<Option<ProgramCopy>> },
    /// Keep copies of what is written, or no longer.
    KeepForLive(bool),
    /// Hand out these copies, and those of what the rings hold from this stamp on.
    Live { whose: Whose, since: u64, answer: Sender<Vec<ProgramCopy>> },
    /// Let go of this when it is known whether programs ask for snapshots.
    Look(Sender<()>),
    /// Say on which CPUs rings have moved on since this was asked last.
    Moved { answer: Sender<Vec<u32>> },
    /// Say how full the rings are.
    Fill { answer: Sender<Vec<ProgramFill>> },
}

/// Of which programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    All,
    /// Of the one with this number.
    Only(usize),
}

/// What the thread tells.
#[derive(Debug)]
pub(crate) enum Report {
    /// A file can't be written to.
    OutputFailed,
    /// Programs use the rings of these CPUs faster than they have pages for.
    Used { cpus: Vec<u32> },
    /// A program has asked for a snapshot: which, at which of its tracepoints, and all rings as they were from this stamp on.
    Triggered { number: usize, point: u16, at: u64, copies: Vec<ProgramCopy> },
}

/// When programs ask for snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Triggers {
    /// How much is wanted of the time before, in ticks.
    pub(crate) last: u64,
    /// For so long after one, the next ones are counted only.
    pub(crate) hold_off: Duration,
}

/// Returns both ends of a way for orders to the thread.
pub(crate) fn orders() -> (Orderer, Orders) {
    let ((sender, received), knocks) = (channel(), Arc::<AtomicU32>::default());
    (Orderer { sender, knocks: Arc::clone(&knocks) }, Orders { received, knocks })
}

/// Gives the thread orders, and wakes it where it sleeps on words.
#[derive(Debug)]
pub(crate) struct Orderer {
    sender: Sender<Order>,
    knocks: Arc<AtomicU32>,
}

/// The thread's end of the queue of orders.
#[derive(Debug)]
pub(crate) struct Orders {
    received: Receiver<Order>,
    /// Counts them, for a thread that sleeps until one of several words changes.
    knocks: Arc<AtomicU32>,
}

impl Orderer {
    /// Gives an order. Lost if the thread has ended.
    pub(crate) fn give(&self, order: Order) {
        let _ = self.sender.send(order);
        // With the acquire in `wake_words`: who sees the number sees the order.
        self.knocks.fetch_add(1, Release);
        // Nobody sleeps on it, or is woken.
        let _ = futex::wake(&self.knocks, futex::Flags::empty(), 1);
    }
}

/// What the thread does by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// Empties rings into files; looks at them so often.
    Empty(Polling),
    /// Nothing: rings are read at the end, or copied when that is ordered.
    Wait,
    /// Looks this often whether a program asks for a snapshot.
    Heed(Duration, Triggers),
}

/// The newest of a program's rings.
#[derive(Debug)]
pub(crate) struct ProgramCopy {
    pub(crate) number: usize,
    pub(crate) streams: Vec<StreamCopy>,
}

impl ProgramCopy {
    /// Whether there was anything in its rings.
    pub(crate) fn has_any(&self) -> bool {
        self.streams.iter().any(|stream| !stream.packets.is_empty() || stream.lost.total > 0)
    }
}

/// How full a program's rings are.
#[derive(Debug)]
pub(crate) struct ProgramFill {
    pub(crate) number: usize,
    pub(crate) streams: Vec<StreamFill>,
}

impl ProgramFill {
    /// Whether there was ever anything in the rings.
    pub(crate) fn has_any(&self) -> bool {
        self.streams.iter().any(|stream| stream.fill.used > 0 || stream.bytes > 0 || stream.lost.total > 0)
    }
}

/// The stamp that is now, in the recording's clock.
pub(crate) type Now = fn() -> u64;

/// Looks after rings until all senders of orders are gone. `told` is called after each report.
pub(crate) fn run(work: Work, now: Now, orders: &Orders, reports: &Sender<Report>, told: impl Fn()) {
    let mut drain = Drain { programs: Vec::new(), now, room: None };
    let report = |report| {
        let is_heard = reports.send(report).is_ok();
        told();
        is_heard
    };
    match work {
        Work::Empty(polling) => drain.empty(polling, orders, report),
        Work::Wait => orders.received.iter().for_each(|order| drain.carry_out(order)),
        Work::Heed(often, triggers) => drain.heed(often, triggers, orders, report),
    }
}

/// The thread's own.
struct Drain {
    programs: Vec<Streams>,
    now: Now,
    /// How many bytes may still be kept for who follows; `None` if nobody does.
    room: Option<usize>,
}

/// For how long the thread sleeps at most.
const PATIENCE: Duration = Duration::from_millis(20);

/// How many bytes wait to be shown, at most.
const MOST_KEPT: usize = 64 << 20;

impl Drain {
    /// Until nobody listens to what `report` says.
    fn empty(&mut self, polling: Polling, orders: &Orders, report: impl Fn(Report) -> bool) {
        loop {
            let seen = self.wake_words(polling, orders);
            let (mut has_failed, mut taken) = (false, false);
            // Before anything that waits for a disk.
            let used: Vec<u32> = self.programs.iter().flat_map(Streams::call_pagers).collect();
            if !used.is_empty() && !report(Report::Used { cpus: used }) {
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
            if has_failed && !report(Report::OutputFailed) {
                return;
            }
            loop {
                match next_order(&orders.received, self.programs.is_empty()) {
                    Ok(order) => self.carry_out(order),
                    Err(TryRecvError::Empty) => break,
                    // Whoever gives orders is gone, and does not want what the rings hold.
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if !taken && !self.pause(polling, orders, &seen) {
                return;
            }
        }
    }

    /// Returns the values of the words on which the thread sleeps with [`Polling::Wakeup`], before it reads rings and orders.
    fn wake_words(&self, polling: Polling, orders: &Orders) -> Vec<u32> {
        let words = || self.words(orders).map(|word| word.load(Acquire)).collect();
        if polling == Polling::Wakeup { words() } else { Vec::new() }
    }

    /// The words that are counted up with each order, and by writers when they leave a sub-buffer.
    fn words<'a>(&'a self, orders: &'a Orders) -> impl Iterator<Item = &'a AtomicU32> {
        let of_programs = self.programs.iter().map(|program| program.program.wake_word(program.slot));
        std::iter::once(&*orders.knocks).chain(of_programs)
    }

    /// Sleeps until it is time to look at the rings, or an order is given. Returns false if there will be no orders any more.
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

    /// Copies all rings when a program asks for it.
    fn heed(
        &mut self,
        often: Duration,
        triggers: Triggers,
        orders: &Orders,
        report: impl Fn(Report) -> bool,
    ) {
        let mut last: Option<Instant> = None;
        loop {
            // Until the end of this turn.
            let mut _looking = None;
            match orders.received.recv_timeout(often) {
                Ok(Order::Look(looking)) => _looking = Some(looking),
                Ok(order) => self.carry_out(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.programs.iter_mut().flat_map(|program| &mut program.streams).for_each(Stream::keep_up);
            let Some((number, point)) = self.asks() else { continue };
            if last.is_some_and(|last| last.elapsed() < triggers.hold_off) {
                continue;
            }
            let at = (self.now)();
            let copies = self.copy(at.saturating_sub(triggers.last));
            last = Some(Instant::now());
            if !report(Report::Triggered { number, point, at, copies }) {
                return;
            }
        }
    }

    /// The program that has asked for a snapshot since the last look, and at which of its tracepoints; the last of them, if there are
    /// several.
    fn asks(&mut self) -> Option<(usize, u16)> {
        let asks = |program: &mut Streams| {
            let now = program.program.triggers(program.slot);
            let is_new = std::mem::replace(&mut program.triggered, now.count) != now.count;
            is_new.then_some((program.number, now.point))
        };
        // All are looked at: one snapshot answers them.
        self.programs.iter_mut().filter_map(asks).last()
    }

    fn carry_out(&mut self, order: Order) {
        // Who asked waits for the answer, or is gone, and so are the orders.
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
                    .for_each(Stream::forget_kept);
            }
            Order::Live { whose, since, answer } => {
                let (now, all) = (self.now, whose == Whose::All);
                if all {
                    self.room = self.room.map(|_| MOST_KEPT);
                }
                let programs = self.programs.iter_mut();
                let wanted = programs.filter(|program| all || whose == Whose::Only(program.number));
                let _ = answer.send(wanted.map(|program| program.live(since, now)).collect());
            }
            Order::Look(looking) => drop(looking),
            Order::Moved { answer } => {
                let streams = self.programs.iter_mut().flat_map(|program| &mut program.streams);
                let _ = answer.send(streams.filter_map(Stream::moved).collect());
            }
            Order::Fill { answer } => _ = answer.send(self.programs.iter().map(Streams::fill).collect()),
        }
    }

    fn remove(&mut self, number: usize) -> Option<Streams> {
        let index = self.programs.iter().position(|program| program.number == number)?;
        Some(self.programs.swap_remove(index))
    }

    fn copy(&self, since: u64) -> Vec<ProgramCopy> {
        self.programs.iter().map(|program| program.copy(since, self.now)).collect()
    }
}

impl Streams {
    /// Wakes who gives rings pages if writers come near the end of them. Returns the CPUs of those rings.
    fn call_pagers(&self) -> impl Iterator<Item = u32> {
        let called = self.streams.iter().filter(|stream| self.waker.is_some() && stream.calls_pager());
        let called = called.inspect(|_| self.waker.iter().for_each(Waker::wake));
        called.filter_map(Stream::cpu)
    }

    fn copy(&self, since: u64, now: Now) -> ProgramCopy {
        let streams = self.streams.iter().map(|stream| stream.copy(since, now)).collect();
        ProgramCopy { number: self.number, streams }
    }

    fn live(&mut self, since: u64, now: Now) -> ProgramCopy {
        let streams = self.streams.iter_mut().map(|stream| stream.live(since, now)).collect();
        ProgramCopy { number: self.number, streams }
    }

    fn fill(&self) -> ProgramFill {
        ProgramFill { number: self.number, streams: self.streams.iter().map(Stream::fill).collect() }
    }
}

/// The next order; waits for it if there is nothing else to do.
fn next_order(orders: &Receiver<Order>, idle: bool) -> Result<Order, TryRecvError> {
    if idle { orders.recv().map_err(|_| TryRecvError::Disconnected) } else { orders.try_recv() }
}
