//! The beginning of a recording: the processes that the user named, and the command.

use super::finish::SessionOutcome;
use super::recordings::RecordSink;
use super::state::RecordingSession;
use crate::command;
use crate::options::Programs;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sordino_collect::Error;
use sordino_collect::place::CollectorPlace;
use sordino_collect::watch::Watch;
use sordino_event::Nanos;
use sordino_inspect::{interrupted, rights};
use sordino_intake::{Job, limits};
use std::time::{Duration, Instant};

/// Longest wait, before recording begins, for programs that are running already.
const FIRST_SCAN: Duration = Duration::from_secs(2);

/// Preparation time beyond which the summary gets a note.
const SLOW_START: Duration = Duration::from_secs(3);

/// Longest wait, before the command starts, for an area that is prepared for it.
const AREA: Duration = Duration::from_millis(500);

/// Longest wait for a process that the user named.
const NAMED: Duration = Duration::from_secs(10);

impl<'a> RecordingSession<'a> {
    /// Attaches to running programs, and starts the command. On failure, programs are detached from and nothing is left
    /// behind.
    pub(super) fn begun(mut self, watch: &mut dyn Watch) -> Result<Self, Error> {
        match self.begin() {
            Ok(()) => Ok(self),
            Err(error) => {
                if let Some(outlet) = &mut self.recordings.outlet {
                    outlet.last_snapshot = false;
                }
                let ended = self.finish(watch);
                if let Ok(SessionOutcome { chunk: Some((directory, _)), .. }) = ended {
                    directory.remove();
                }
                Err(error)
            }
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.machine.look_at_steal(&self.clock);
        if let RecordSink::Chunk(chunk) = &self.recordings.sink {
            chunk.announce()?;
        }
        for index in 0..self.arrivals.named.len() {
            self.attach_named(self.arrivals.named[index])?;
        }
        if let Some(kernel) = &mut self.kernel.recorder {
            kernel.start(CollectorPlace::of(&self.options.recording))?;
            if kernel.formats.events().any(|event| event.name == "local_timer_exit") {
                self.machine.gaps = interrupted::measure(self.clock.now(), |time| self.clock.ticks_in(time));
            }
        }
        match &self.options.programs {
            Programs::Command(line) => {
                self.arrivals.intake.wait_for_area(AREA);
                let reserve = self.reserve();
                let environment = self.listener.environment();
                let child =
                    limits::with(self.command.descriptors, || command::start(line, environment, reserve));
                let failed = |source| Error::Command { command: line.program.clone(), source };
                let child = child.map_err(failed)?;
                let name = line.program.file_name().unwrap_or_default().to_string_lossy();
                self.findings.sightings.add(child.id() as i32, &name, None);
                self.command.pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
                self.command.child = Some(child);
            }
            Programs::Pids(_) => {}
            Programs::All if self.options.kernel_only => {}
            Programs::All => {
                self.search_all();
                self.take_up_all_until(Instant::now() + FIRST_SCAN);
            }
        }
        if self.options.confine {
            rights::confine();
        }
        let prepared = self.progress.began.elapsed();
        if prepared > SLOW_START {
            let prepared = Nanos::from(prepared);
            self.recordings.add_note(format!(
                "it took {prepared} until recording began: the machine was busy, as when real-time threads of others have its CPUs; \
                 one that they leave free helps (taskset, sordino shield)"
            ));
        }
        self.progress.began = Instant::now();
        Ok(())
    }

    /// Returns the address space that a program should reserve for this session and a few others, in bytes.
    fn reserve(&self) -> u64 {
        let geometry = self.options.recording.geometry;
        let ring = geometry.data_size() + geometry.table_size();
        let rings = self.options.recording.cpus.as_slice().len() + 1;
        (2 * (rings * ring + geometry.commits_size()) + (64 << 20)).max(1 << 30) as u64
    }

    /// Attaches to a process that the user named, without which recording does not start. Waits for it, since nothing
    /// is recorded yet.
    pub(super) fn attach_named(&mut self, pid: i32) -> Result<(), Error> {
        let refused = |reason: String| Error::Program { pid, reason };
        let ticket = self.submit_named(pid)?;
        let end = Instant::now() + NAMED;
        loop {
            // Other programs wait for an answer meanwhile.
            self.take_registrations();
            let (mut mine, others): (Vec<Job>, Vec<Job>) =
                self.arrivals.intake.finished_until(end).into_iter().partition(|job| job.ticket == ticket);
            others.into_iter().for_each(|job| self.take_up(job));
            match mine.pop() {
                Some(job) => return self.take_up_named(job),
                None if Instant::now() >= end => {
                    return Err(refused("it could not be looked into (timed out)".to_owned()));
                }
                None => {}
            }
        }
    }
}
