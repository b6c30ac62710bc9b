//! The thread that empties the rings.

use crate::options::Polling;
use crate::output::Output;
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::Timespec;
use sordino_ring::control::Program;
use sordino_ring::map::wait_any;
use sordino_ring::read::{Corrupt, Lost, Reader};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

/// One ring and the file it goes to.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) reader: Reader,
    pub(crate) output: Output,
    pub(crate) state: StreamState,
}

/// How a stream fares.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// The program wrote what cannot be; the ring is not read any further.
    corrupt: Option<Corrupt>,
    /// Sub-buffers that were read but not written, and why the first was not.
    unwritten: u64,
    failure: Option<io::Error>,
}

/// The rings of one program.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Which program, for the thread's owner.
    pub(crate) number: usize,
    pub(crate) program: Arc<Program>,
    pub(crate) slot: usize,
    pub(crate) streams: Vec<Stream>,
}

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Empty these rings too.
    Add(Streams),
    /// This program is gone, or its events are switched off: take what is left.
    Finish(usize),
}

/// What the thread tells.
#[derive(Debug)]
pub(crate) enum Report {
    /// A file can't be written to: the recording had better end.
    OutputFailed,
    /// The answer to [`Order::Finish`].
    Finished { number: usize, streams: Vec<StreamEnd> },
}

/// How a stream ended.
#[derive(Debug)]
pub(crate) struct StreamEnd {
    /// Whose ring it was; `None` for the shared one.
    pub(crate) cpu: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) lost: Lost,
    /// Sub-buffers that were overwritten.
    pub(crate) overwritten: u64,
    /// Records in the shared ring that writers reserved and did not finish.
    pub(crate) unfinished: u64,
    pub(crate) corrupt: Option<Corrupt>,
    /// Sub-buffers that were read but not written, and why.
    pub(crate) unwritten: u64,
    pub(crate) failure: Option<io::Error>,
    pub(crate) path: PathBuf,
}

/// The stamp that is now, in the recording's clock.
pub(crate) type Now = fn() -> u64;

/// Empties rings until all senders of orders are gone; without `polling`, none before its end.
pub(crate) fn run(polling: Option<Polling>, now: Now, orders: &Receiver<Order>, reports: &Sender<Report>) {
    let mut programs: Vec<Streams> = Vec::new();
    let Some(polling) = polling else { return wait_for_ends(&mut programs, now, orders, reports) };
    loop {
        let seen = wake_words(polling, &programs);
        let mut failed = false;
        let mut taken = false;
        for stream in programs.iter_mut().flat_map(|program| &mut program.streams) {
            let had_failed = stream.state.failure.is_some();
            taken |= stream.drain();
            failed |= stream.state.failure.is_some() && !had_failed;
        }
        if failed && reports.send(Report::OutputFailed).is_err() {
            return;
        }
        loop {
            match next_order(orders, programs.is_empty()) {
                Ok(order) => carry_out(order, &mut programs, now, reports),
                Err(TryRecvError::Empty) => break,
                // Whoever gives orders is gone, and does not want what the rings hold.
                Err(TryRecvError::Disconnected) => return,
            }
        }
        if !taken {
            pause(polling, &programs, &seen);
        }
    }
}

/// For rings that overwrite: they are read when they are full of what is wanted.
fn wait_for_ends(programs: &mut Vec<Streams>, now: Now, orders: &Receiver<Order>, reports: &Sender<Report>) {
    for order in orders {
        carry_out(order, programs, now, reports);
    }
}

fn carry_out(order: Order, programs: &mut Vec<Streams>, now: Now, reports: &Sender<Report>) {
    match order {
        Order::Add(program) => programs.push(program),
        Order::Finish(number) => {
            let streams = finish(programs, number, now);
            // Who asked waits for it, or is gone, and so are the orders.
            let _ = reports.send(Report::Finished { number, streams });
        }
    }
}

/// The next order; waits for it if there is nothing else to do.
fn next_order(orders: &Receiver<Order>, idle: bool) -> Result<Order, TryRecvError> {
    if idle { orders.recv().map_err(|_| TryRecvError::Disconnected) } else { orders.try_recv() }
}

/// What writers count up when they leave a sub-buffer, before the rings are looked at.
fn wake_words(polling: Polling, programs: &[Streams]) -> Vec<u32> {
    if polling != Polling::Wakeup {
        return Vec::new();
    }
    let word = |program: &Streams| program.program.wake_word(program.slot).load(Acquire);
    programs.iter().map(word).collect()
}

/// For how long at most the thread does not look at its orders.
const PATIENCE: Duration = Duration::from_millis(20);

fn pause(polling: Polling, programs: &[Streams], seen: &[u32]) {
    match polling {
        Polling::Busy => std::hint::spin_loop(),
        Polling::Timer(time) => sleep(time.min(PATIENCE)),
        Polling::Wakeup => {
            let words = programs.iter().map(|program| program.program.wake_word(program.slot));
            let words: Vec<_> = words.zip(seen.iter().copied()).collect();
            if wait_any(&words, PATIENCE).is_err() {
                sleep(Duration::from_millis(1));
            }
        }
    }
}

fn sleep(time: Duration) {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    // Interrupted or not, the rings are looked at.
    let _: NanosleepRelativeResult = clock_nanosleep_relative(ClockId::Monotonic, &time);
}

impl Stream {
    /// Writes the sub-buffers that wait, but not for ever, however fast they come; whether there was any.
    fn drain(&mut self) -> bool {
        let mut any = false;
        for _ in 0..self.reader.geometry().count {
            if self.state.corrupt.is_some() {
                break;
            }
            match self.reader.take() {
                Ok(None) => break,
                Ok(Some(mut sub_buffer)) => self.state.write(|| self.output.write(&mut sub_buffer)),
                Err(corrupt) => {
                    self.state.corrupt = Some(corrupt);
                    break;
                }
            }
            self.reader.give_back();
            any = true;
        }
        any
    }

    /// Takes what the ring still holds.
    fn finish(mut self, now: Now) -> StreamEnd {
        // Twice: writers that were on their way may have gone on into the next sub-buffer.
        self.drain();
        self.drain();
        let mut unfinished = 0;
        if self.state.corrupt.is_none() {
            let salvaged = self.reader.salvage(now(), |mut packet| {
                if self.output.is_news(&packet.content) {
                    self.state.write(|| self.output.write_packet(&mut packet));
                }
            });
            match salvaged {
                Ok(places) => unfinished = places,
                Err(corrupt) => self.state.corrupt = Some(corrupt),
            }
        }
        StreamEnd {
            cpu: self.reader.cpu(),
            bytes: self.output.bytes(),
            lost: self.reader.lost(),
            overwritten: self.reader.overwritten(),
            unfinished,
            corrupt: self.state.corrupt,
            unwritten: self.state.unwritten,
            failure: self.state.failure,
            path: self.output.path().to_owned(),
        }
    }
}

impl StreamState {
    /// Has `write` write a packet, unless one before failed: a gap in the middle of a file would be one more thing to
    /// explain.
    fn write(&mut self, write: impl FnOnce() -> io::Result<()>) {
        let failure = match self.failure {
            Some(_) => None,
            None => write().err(),
        };
        self.failure = self.failure.take().or(failure);
        self.unwritten += u64::from(self.failure.is_some());
    }
}

fn finish(programs: &mut Vec<Streams>, number: usize, now: Now) -> Vec<StreamEnd> {
    let Some(index) = programs.iter().position(|program| program.number == number) else { return Vec::new() };
    programs.swap_remove(index).streams.into_iter().map(|stream| stream.finish(now)).collect()
}
