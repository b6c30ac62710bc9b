//! The collector's thread, seen from the session.

use super::bell::Bell;
use super::cpu_seconds;
use crate::Error;
use crate::clock::TraceClock;
use crate::drain::{self, Order, Orderer, ProgramCopy, ProgramFill, Report, StreamEnd, Whose, Work};
use crate::options::Options;
use crate::output::Output;
use crate::place::Place;
use crate::threads;
use rustix::thread::ClockId;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The thread that looks after the rings.
pub(super) struct Collector {
    orders: Option<Orderer>,
    reports: Receiver<Report>,
    /// CPUs whose rings have moved on.
    moved: (Sender<Vec<u32>>, Receiver<Vec<u32>>),
    thread: Option<JoinHandle<f64>>,
}

impl Collector {
    pub(super) fn start(
        options: &Options,
        work: Work,
        clock: &TraceClock,
        bell: Bell,
    ) -> Result<Self, Error> {
        let (orders, received) = drain::orders();
        let (report, reports) = channel();
        let (ready, is_ready) = channel();
        let place = Place::of(options);
        let now = clock.now();
        let thread = threads::start("sordino-collect", move || {
            let placed = place.take();
            let start = placed.is_ok();
            if ready.send(placed).is_ok() && start {
                drain::run(work, now, &received, &report, || bell.ring());
            }
            cpu_seconds(ClockId::ThreadCPUTime)
        });
        let thread = thread.map_err(Error::system("can't start the collector's thread"))?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Self { orders: Some(orders), reports, moved: channel(), thread: Some(thread) }),
            Ok(Err(reason)) => Err(Error::Collector(reason)),
            Err(_) => Err(Error::Collector("its thread ended".to_owned())),
        }
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // It only ends when we do, or by a panic, which `stop` passes on.
            orders.give(order);
        }
    }

    /// Gives an order and waits for its answer; none if the thread has ended.
    fn ask<T: Default>(&self, order: impl FnOnce(Sender<T>) -> Order) -> T {
        let (answer, answered) = channel();
        self.order(order(answer));
        answered.recv().unwrap_or_default()
    }

    /// Has it write what a program's rings still hold; what became of them.
    pub(super) fn finish(&self, number: usize) -> Vec<StreamEnd> {
        self.ask(|answer| Order::Finish { number, answer })
    }

    /// Has it go on into other files; what became of those before.
    pub(super) fn rotate(&self, number: usize, outputs: Vec<Output>) -> Vec<StreamEnd> {
        self.ask(|answer| Order::Rotate { number, outputs, answer })
    }

    /// The newest of all rings, back to this stamp.
    pub(super) fn copy(&self, since: u64) -> Vec<ProgramCopy> {
        self.ask(|answer| Order::Copy { since, answer })
    }

    /// The newest of a program that is gone.
    pub(super) fn take(&self, number: usize, since: u64) -> Option<ProgramCopy> {
        self.ask(|answer| Order::Take { number, since, answer })
    }

    /// Whether copies are kept of what is written, for [`live`](Self::live).
    pub(super) fn keep_for_live(&self, keep: bool) {
        self.order(Order::KeepForLive(keep));
    }

    /// What was written since it was asked last, and what the rings hold from this stamp on.
    pub(super) fn live(&self, whose: Whose, since: u64) -> Vec<ProgramCopy> {
        self.ask(|answer| Order::Live { whose, since, answer })
    }

    /// Has it look whether programs ask for snapshots; then its reports say so.
    pub(super) fn look(&self) {
        self.ask(Order::Look);
    }

    /// How full the rings are.
    pub(super) fn fill(&self) -> Vec<ProgramFill> {
        self.ask(|answer| Order::Fill { answer })
    }

    /// Has it look which rings have moved on since it was asked last, for [`moved`](Self::moved).
    pub(super) fn ask_what_moved(&self) {
        self.order(Order::Moved { answer: self.moved.0.clone() });
    }

    /// The CPUs of those rings, for each question that was answered since the last call.
    pub(super) fn moved(&self) -> Vec<Vec<u32>> {
        self.moved.1.try_iter().collect()
    }

    /// What it has told since it was asked last.
    pub(super) fn reports(&self) -> Vec<Report> {
        self.reports.try_iter().collect()
    }

    /// Ends it; the CPU time that it took, in seconds.
    pub(super) fn stop(&mut self) -> f64 {
        self.orders = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.transpose().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).unwrap_or(0.0)
    }
}
