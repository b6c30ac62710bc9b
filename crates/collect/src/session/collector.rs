//! The collector's thread, seen from the session.

use crate::Error;
use crate::clock::TraceClock;
use crate::drain::{self, Order, Report, StreamEnd};
use crate::options::Options;
use crate::place::Place;
use crate::session::cpu_seconds;
use rustix::time::ClockId;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The thread that empties the rings.
pub(super) struct Collector {
    orders: Option<Sender<Order>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<f64>>,
    /// Whether an output failed while something else was waited for.
    failed: bool,
}

impl Collector {
    pub(super) fn start(options: &Options, clock: &TraceClock) -> Result<Self, Error> {
        let (orders, received) = channel();
        let (report, reports) = channel();
        let (ready, is_ready) = channel();
        let place = Place::of(options);
        let polling = if options.geometry.overwrite { None } else { Some(options.polling) };
        let now = clock.now();
        let thread = std::thread::Builder::new().name("sordino-collect".to_owned());
        let thread = thread.spawn(move || {
            let placed = place.take();
            let start = placed.is_ok();
            if ready.send(placed).is_ok() && start {
                drain::run(polling, now, &received, &report);
            }
            cpu_seconds(ClockId::ThreadCPUTime)
        });
        let thread = thread.map_err(Error::system("can't start the collector's thread"))?;
        match is_ready.recv() {
            Ok(Ok(())) => Ok(Self { orders: Some(orders), reports, thread: Some(thread), failed: false }),
            Ok(Err(reason)) => Err(Error::Collector(reason)),
            Err(_) => Err(Error::Collector("its thread ended".to_owned())),
        }
    }

    pub(super) fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // It only ends when we do, or by a panic, which `stop` passes on.
            let _ = orders.send(order);
        }
    }

    /// Has it take what a program's rings still hold; what became of them.
    pub(super) fn finish(&mut self, number: usize) -> Vec<StreamEnd> {
        self.order(Order::Finish(number));
        while let Ok(report) = self.reports.recv() {
            match report {
                Report::Finished { number: finished, streams } if finished == number => return streams,
                Report::Finished { .. } => {}
                Report::OutputFailed => self.failed = true,
            }
        }
        Vec::new()
    }

    /// Whether an output has failed.
    pub(super) fn has_failed(&mut self) -> bool {
        self.failed |= self.reports.try_iter().any(|report| matches!(report, Report::OutputFailed));
        self.failed
    }

    /// Ends it; the CPU time that it took, in seconds.
    pub(super) fn stop(&mut self) -> f64 {
        self.orders = None;
        let ended = self.thread.take().map(JoinHandle::join);
        ended.transpose().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).unwrap_or(0.0)
    }
}
