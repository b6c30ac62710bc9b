//! A session's loop while it records.

use super::search::{BETWEEN_STEPS, STEP};
use super::{Session, Sink, TICK};
use crate::Error;
use crate::drain::Report;
use crate::kernel::{Kernel, Problem};
use crate::options::Programs;
use crate::watch::Watch;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time until the next attempt for a program whose lock is held, or whose answer has to wait.
const RETRY: Duration = Duration::from_millis(5);

/// Time after the last failed attempt after which the kernel's files count as working again: several attempts take
/// less.
const KERNEL_SETTLED: Duration = Duration::from_secs(3);

impl Session<'_> {
    pub(super) fn run(&mut self, stop: BorrowedFd<'_>, watch: &mut dyn Watch) -> Result<(), Error> {
        let mut ticked = Instant::now();
        loop {
            let left = self.options.duration.map_or(TICK, |all| all.saturating_sub(self.began.elapsed()));
            if left.is_zero() || self.failed || self.stopped {
                return Ok(());
            }
            let wait = match self.has_steps() {
                true => BETWEEN_STEPS,
                false if self.detachments.is_empty() && self.postponed.is_empty() => TICK,
                false => RETRY,
            };
            let wait = wait.min(left);
            if self.wait(stop, wait)? || self.has_ended()? {
                return Ok(());
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
                watch.recording(self.began.elapsed(), self.programs.len());
            } else {
                self.step();
            }
        }
    }

    /// Waits until something happens, and handles it. Returns true if `stop` is readable.
    fn wait(&mut self, stop: BorrowedFd<'_>, time: Duration) -> Result<bool, Error> {
        let pidfds = self.programs.iter().map(|program| program.pidfd.as_fd());
        let all = pidfds.chain([stop, self.bell.as_fd()]).chain(self.signals()).chain(self.listener.fds());
        let mut waiting: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut waiting, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("can't wait for programs")(error)),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let stopped = ready(&waiting[self.programs.len()]);
        let ended = waiting.iter().zip(&self.programs).filter(|(fd, _)| ready(fd));
        let ended: Vec<usize> = ended.map(|(_, program)| program.number()).collect();
        if ready(&waiting[self.programs.len() + 1]) {
            self.bell.silence();
        }
        // Checked first, because accept(2) creates a whole socket before it finds that nobody has connected.
        let has_connections =
            waiting[self.programs.len() + 2..].iter().any(ready) || self.listener.has_silent();
        // First, so that the requests of a program that registered and ended at once are handled while it exists.
        if has_connections {
            self.take_registrations();
        }
        self.take_up_finished();
        // Requests by people come before those by programs: there may be room for one snapshot only.
        self.answer_signals();
        self.take_reports();
        self.answer_requests();
        for number in ended {
            self.has_gone(number);
        }
        self.finish_detachments(false);
        Ok(stopped)
    }

    /// Returns true if the command, or every process that was named, has ended.
    fn has_ended(&mut self) -> Result<bool, Error> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose();
        if let Some(status) = ended.map_err(Error::system("can't wait for the command"))?.flatten() {
            (self.status, self.child) = (Some(status), None);
            return Ok(true);
        }
        // A program that is being attached to may be a child of the last one.
        let is_empty = self.programs.is_empty() && self.intake.outstanding() == 0;
        Ok(is_empty && matches!(self.options.programs, Programs::Pids(_)))
    }

    fn tick(&mut self) {
        // Without its runtime directory nobody could stop it.
        self.stopped |= self.outlet.as_ref().is_some_and(|outlet| !outlet.control.is_there());
        self.intake.look_after();
        self.place();
        self.watcher.begin_if_due(&self.programs);
        self.failed |= self.kernel.as_ref().is_some_and(Kernel::has_failed);
        self.look_at_kernel();
        self.refresh();
        self.search_if_due();
        self.finish_chunks();
        self.forget_live();
        self.rotate_if_due();
    }

    /// Returns true if work is left that is done in short steps, so that it does not delay a program that shares the
    /// CPU.
    fn has_steps(&self) -> bool {
        self.is_steal_due() || self.watcher.is_busy() || self.search.is_busy()
    }

    /// Performs a short step of this work.
    fn step(&mut self) {
        if self.is_steal_due() {
            return self.look_at_steal();
        }
        // Both, so that a session with many threads to visit finds programs, too.
        let begin = Instant::now();
        while self.watcher.is_busy() && begin.elapsed() < STEP {
            self.watcher.step(&self.programs, &self.clock);
        }
        self.search_step();
    }

    fn is_steal_due(&self) -> bool {
        self.steal.is_due(self.looked.elapsed(), TICK)
    }

    /// Checks for errors in writing the kernel's pages, and for events that the kernel overwrote meanwhile.
    fn look_at_kernel(&mut self) {
        let Some(Problem { reason, lost }) = self.kernel.as_ref().and_then(Kernel::problem) else {
            // The kernel kept everything that could not be written, and it has been written by now.
            let is_over = self.kernel_lost == 0
                && self.kernel_failed.take_if(|failed| failed.elapsed() > KERNEL_SETTLED).is_some();
            if let (true, Sink::Chunk(chunk)) = (is_over, &mut self.sink) {
                chunk.summary.kernel_problem = None;
            }
            return;
        };
        (self.kernel_lost, self.kernel_failed) = (lost, Some(Instant::now()));
        let lost = if lost > 0 { ", and the oldest of them lost" } else { "" };
        self.tell(format!("the kernel's events were not written for a while{lost}: {reason}"));
        if let Sink::Chunk(chunk) = &mut self.sink {
            chunk.summary.kernel_problem.get_or_insert(reason);
        }
    }

    /// Handles the collector's reports.
    pub(super) fn take_reports(&mut self) {
        for report in self.collector.reports() {
            match report {
                Report::Used { cpus } => self.keep_off([cpus]),
                // A session keeps the records in memory, and tries again.
                Report::OutputFailed => self.failed |= self.outlet.is_none(),
                Report::Triggered { number, point, at, copies } => self.triggered(number, point, at, copies),
            }
        }
    }

    pub(super) fn look_at_steal(&mut self) {
        let window = self.looked.elapsed().as_nanos() as u64;
        self.looked = Instant::now();
        self.steal.look(self.clock.now()(), window);
    }
}
