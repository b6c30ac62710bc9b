//! The session's handle of the collector's thread.

use super::bell::Bell;
use rustix::thread::ClockId;
use sordino_collect::Error;
use sordino_collect::drain::{
    self, Addressees, DrainReport, Order, Orderer, ProgramCopy, ProgramFill, StreamEnd, Work,
};
use sordino_collect::number::ProgramNumber;
use sordino_collect::options::RecordingOptions;
use sordino_collect::output::Output;
use sordino_collect::place::CollectorPlace;
use sordino_event::{Cpu, Ticks};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::threads;
use sordino_inspect::threads::cpu_seconds;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The collector's thread, which reads the rings.
pub(super) struct Collector {
    orders: Option<Orderer>,
    reports: Receiver<DrainReport>,
    /// Answers to [`request_moved`](Self::request_moved): CPUs whose rings have advanced.
    moved: (Sender<Vec<Cpu>>, Receiver<Vec<Cpu>>),
    thread: Option<JoinHandle<f64>>,
}

impl Collector {
    pub(super) fn start(
        options: &RecordingOptions,
        work: Work,
        clock: &TraceClock,
        bell: Bell,
    ) -> Result<Self, Error> {
        let (orders, received) = drain::orders();
        let (report, reports) = channel();
        let (ready, is_ready) = channel();
        let place = CollectorPlace::of(options);
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
            // The thread ends only when this handle is stopped or dropped, or by a panic, which `stop` passes on.
            orders.give(order);
        }
    }

    /// Sends an order and waits for its answer; the default value if the thread has ended.
    fn request<T: Default>(&self, order: impl FnOnce(Sender<T>) -> Order) -> T {
        let (answer, answered) = channel();
        self.order(order(answer));
        answered.recv().unwrap_or_default()
    }

    /// Makes the thread write the rest of a program's rings. Returns the ends of the streams.
    pub(super) fn finish(&self, number: ProgramNumber) -> Vec<StreamEnd> {
        self.request(|answer| Order::Finish { number, answer })
    }

    /// Makes the thread continue in other files. Returns the ends of the previous streams.
    pub(super) fn rotate(&self, number: ProgramNumber, outputs: Vec<Output>) -> Vec<StreamEnd> {
        self.request(|answer| Order::Rotate { number, outputs, answer })
    }

    /// Returns copies of the newest packets of all rings, back to this timestamp.
    pub(super) fn copy(&self, since: Ticks) -> Vec<ProgramCopy> {
        self.request(|answer| Order::Copy { since, answer })
    }

    /// Returns copies of the newest packets of a program that has ended.
    pub(super) fn take(&self, number: ProgramNumber, since: Ticks) -> Option<ProgramCopy> {
        self.request(|answer| Order::Take { number, since, answer })
    }

    /// Starts or stops keeping copies of written packets for [`live`](Self::live).
    pub(super) fn keep_for_live(&self, keep: bool) {
        self.order(Order::KeepForLive(keep));
    }

    /// Returns the packets written since the last call, and the rings' records from this timestamp on.
    pub(super) fn live(&self, owner: Addressees, since: Ticks) -> Vec<ProgramCopy> {
        self.request(|answer| Order::Live { owner, since, answer })
    }

    /// Makes the thread check for programs that request snapshots, and waits until it has reported them.
    pub(super) fn look(&self) {
        self.request(Order::Sync);
    }

    /// Returns the fill level of the rings.
    pub(super) fn fill(&self) -> Vec<ProgramFill> {
        self.request(|answer| Order::Fill { answer })
    }

    /// Asks the thread which rings have advanced since the last such order, for [`moved`](Self::moved).
    pub(super) fn request_moved(&self) {
        self.order(Order::Moved { answer: self.moved.0.clone() });
    }

    /// Returns the CPUs of those rings, for each answer since the last call.
    pub(super) fn moved(&self) -> Vec<Vec<Cpu>> {
        self.moved.1.try_iter().collect()
    }

    /// Returns the thread's reports since the last call.
    pub(super) fn reports(&self) -> Vec<DrainReport> {
        self.reports.try_iter().collect()
    }

    /// Ends the thread. Returns the CPU time that it took, in seconds.
    pub(super) fn stop(&mut self) -> f64 {
        self.orders = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.transpose().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).unwrap_or(0.0)
    }
}
