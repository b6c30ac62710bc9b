//! A session's loop while it records.

use super::bell::TICK;
use super::prepare::awaits_programs;
use super::search::{BETWEEN_STEPS, STEP};
use super::state::RecordingSession;
use crate::options::Programs;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use sordino_collect::Error;
use sordino_collect::kernel::KernelRecorder;
use sordino_collect::number::ProgramNumber;
use sordino_collect::watch::Watch;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time until the next attempt for a program whose lock is held, or whose answer has to wait.
const RETRY: Duration = Duration::from_millis(5);

impl RecordingSession<'_> {
    pub(super) fn run(&mut self, stop: BorrowedFd<'_>, watch: &mut dyn Watch) -> Result<(), Error> {
        let mut ticked = Instant::now();
        loop {
            let left =
                self.options.duration.map_or(TICK, |all| all.saturating_sub(self.progress.began.elapsed()));
            if left.is_zero() || self.progress.failed || self.progress.stopped {
                return Ok(());
            }
            let wait = match self.has_steps() {
                true => BETWEEN_STEPS,
                false if self.recorded.detachments.is_empty() && self.arrivals.postponed.is_empty() => TICK,
                false => RETRY,
            };
            let wait = wait.min(left);
            if self.wait(stop, wait)? || self.has_ended()? {
                return Ok(());
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick();
                watch.recording(self.progress.began.elapsed(), self.recorded.programs.len());
            } else {
                self.step();
            }
        }
    }

    /// Waits until something happens, and handles it. Returns true if `stop` is readable.
    fn wait(&mut self, stop: BorrowedFd<'_>, time: Duration) -> Result<bool, Error> {
        let pidfds = self.recorded.programs.iter().map(|program| program.pidfd.as_fd());
        let command = self.command.pidfd.iter().map(AsFd::as_fd);
        let all = pidfds.chain([stop, self.bell.as_fd()]).chain(self.signals_in_time());
        let all = all.chain(self.listener.fds()).chain(command);
        let mut waiting: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut waiting, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("can't wait for programs")(error)),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let stopped = ready(&waiting[self.recorded.programs.len()]);
        let ended = waiting.iter().zip(&self.recorded.programs).filter(|(fd, _)| ready(fd));
        let ended: Vec<ProgramNumber> = ended.map(|(_, program)| program.number()).collect();
        if ready(&waiting[self.recorded.programs.len() + 1]) {
            self.bell.silence();
        }
        // Checked first, because accept(2) creates a whole socket before it finds that nobody has connected.
        let has_connections =
            waiting[self.recorded.programs.len() + 2..].iter().any(ready) || self.listener.has_silent();
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
        let ended = self.command.child.as_mut().map(Child::try_wait).transpose();
        if let Some(status) = ended.map_err(Error::system("can't wait for the command"))?.flatten() {
            (self.command.status, self.command.child, self.command.pidfd) = (Some(status), None, None);
            return Ok(true);
        }
        // A program that is being attached to may be a child of the last one.
        let is_empty = self.recorded.programs.is_empty() && self.arrivals.intake.outstanding() == 0;
        Ok(is_empty && matches!(self.options.programs, Programs::Pids(_)))
    }

    fn tick(&mut self) {
        // Without its runtime directory nobody could stop it.
        self.progress.stopped |=
            self.recordings.outlet.as_ref().is_some_and(|outlet| !outlet.control.is_there());
        self.arrivals.intake.look_after();
        if awaits_programs(self.options) {
            self.arrivals.intake.look_after_areas(!self.recorded.programs.is_empty());
        }
        self.placing.update(self.recorded.numbered, &self.collector, &mut self.recordings);
        let cpus = || self.placing.placement.unshielded();
        self.machine.look_at_counters(&mut self.clock, cpus);
        self.machine.watcher.begin_if_due(&self.recorded.programs);
        self.progress.failed |= self.kernel.recorder.as_ref().is_some_and(KernelRecorder::has_failed);
        self.kernel.look(&mut self.recordings);
        self.refresh();
        self.look_at_code();
        self.search_if_due();
        self.recordings.finish_written(self.options);
        self.forget_live();
        self.rotate_if_due();
    }

    /// Returns true if work is left that is done in short steps, so that it does not delay a program that shares the
    /// CPU.
    fn has_steps(&self) -> bool {
        self.machine.is_steal_due() || self.machine.watcher.is_busy() || self.arrivals.search.is_busy()
    }

    /// Performs a short step of this work.
    fn step(&mut self) {
        if self.machine.is_steal_due() {
            return self.machine.look_at_steal(&self.clock);
        }
        // Both, so that a session with many threads to visit finds programs, too.
        let begin = Instant::now();
        while self.machine.watcher.is_busy() && begin.elapsed() < STEP {
            self.machine.watcher.step(&self.recorded.programs, &self.clock);
        }
        self.search_step();
    }
}
