//! A flight recorder's snapshots: the newest contents of all rings and of the kernel's buffers, written while recording
//! continues.

use super::contents::{Contents, KernelSnapshot};
use super::memory::ProgramSnapshot;
use super::recordings::{BACKLOG, RecordSink};
use super::state::RecordingSession;
use super::writer::WriteJob;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::convert::Purpose;
use sordino_collect::drain::ProgramCopy;
use sordino_collect::number::ProgramNumber;
use sordino_collect::rank::Hits;
use sordino_collect::summary::Summary;
use sordino_collect::why::SNAPSHOT_REQUEST;
use sordino_event::Ticks;
use sordino_ring::number::PointId;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl RecordingSession<'_> {
    /// Takes a snapshot now. Returns the job that writes it.
    pub(super) fn snapshot(&mut self, last: Option<Duration>, why: &str) -> WriteJob {
        let since = self.since(last);
        let copies = self.collector.copy(since);
        self.snapshot_of(since, copies, why, None)
    }

    /// Handles a program's request for a snapshot, for which the collector has copied the rings.
    pub(super) fn triggered(
        &mut self,
        number: ProgramNumber,
        point: PointId,
        at: Ticks,
        copies: Vec<ProgramCopy>,
    ) {
        let program = self.recorded.programs.iter().find(|program| program.number() == number);
        let name = program.and_then(|program| program.trace.tracepoint(point));
        let why = name.unwrap_or_else(|| "a program that has ended".to_owned());
        self.snapshot_by_itself(&why, (why != SNAPSHOT_REQUEST).then_some(at), |_| copies);
    }

    /// Returns the hits that rank a snapshot, up to timestamp `at`. Those that come while the rings are copied may rank
    /// two snapshots.
    fn hits_before(&mut self, at: Ticks) -> Option<Hits> {
        let worst = self.options.series.as_ref()?.snapshots.worst.as_ref()?;
        let since = std::mem::replace(&mut self.recordings.outlet.as_mut()?.ranks.since, at);
        Some(Hits {
            ranking: worst.ranking.clone(),
            user: self.user.clone(),
            since: self.clock.ctf().time(since),
        })
    }

    /// Takes a snapshot because of a program's end, unless the last automatic one was a moment ago.
    pub(super) fn ended_badly(&mut self, why: &str) {
        let (Some(outlet), Some(series)) = (&mut self.recordings.outlet, &self.options.series) else {
            return;
        };
        if outlet.triggers.last_taken.is_some_and(|last| last.elapsed() < series.snapshots.hold_off) {
            outlet.triggers.all += 1;
            return;
        }
        self.snapshot_by_itself(why, None, |session| session.collector.copy(session.since(None)));
    }

    /// Takes an automatic snapshot, within the limit for their number. A ranked one is ranked by the events up to
    /// `ranked`.
    fn snapshot_by_itself(
        &mut self,
        why: &str,
        ranked: Option<Ticks>,
        copy: impl FnOnce(&Self) -> Vec<ProgramCopy>,
    ) {
        let backlog = self.recordings.has_backlog();
        let (Some(outlet), Some(series)) = (&mut self.recordings.outlet, &self.options.series) else {
            return;
        };
        outlet.triggers.all += 1;
        if series.snapshots.most.is_some_and(|most| outlet.triggers.taken >= most) {
            return;
        }
        if backlog {
            return self
                .recordings
                .add_note(format!("no snapshot for {why}: {BACKLOG} others are still being written"));
        }
        outlet.triggers.taken += 1;
        outlet.triggers.last_taken = Some(Instant::now());
        let copies = copy(self);
        // Hits for a snapshot that is not taken rank the next one.
        let hits = ranked.and_then(|at| self.hits_before(at));
        let job = self.snapshot_of(self.since(None), copies, why, hits);
        self.recordings.write(job, None);
    }

    fn snapshot_of(
        &mut self,
        since: Ticks,
        copies: Vec<ProgramCopy>,
        why: &str,
        hits: Option<Hits>,
    ) -> WriteJob {
        // First, so that all events from the rings are declared.
        self.refresh();
        let emptied = self.kernel.empty_into(&mut self.recordings.sink);
        let end = Sample::take();
        self.clock.refine(&end);
        let (stolen, observations) =
            (self.machine.steal.stolen_since(since), self.machine.watcher.since(since));
        self.findings.has_events |= copies.iter().any(ProgramCopy::has_any);
        let shortfall = self.shortfall();
        let (Some(outlet), RecordSink::Memory(memory)) = (&mut self.recordings.outlet, &self.recordings.sink)
        else {
            let name = self.options.recording.name.clone();
            return Box::new(move || Err(Error::Kind(name)));
        };
        let running = copies.into_iter().filter_map(|copy| {
            let program = self.recorded.programs.iter().find(|program| program.number() == copy.number)?;
            Some(ProgramSnapshot::of(program, copy))
        });
        let ended = memory.ended.iter().filter(|ended| ended.has_any_since(since)).cloned();
        let programs = ended.chain(running).collect();
        let formats = self.kernel.recorder.as_ref().map(|kernel| Arc::clone(&kernel.formats));
        let pages = formats.as_ref().map(|formats| memory.kernel.pages(since, &formats.layout));
        let directory = match outlet.series.next() {
            Ok(directory) => directory,
            Err(error) => return Box::new(move || Err(error)),
        };
        let contents = Contents {
            directory,
            summary: Summary { reason: Some(why.to_owned()), shortfall, ..self.recordings.template.clone() },
            purpose: Purpose::Keeping,
            misses: self.recordings.misses.clone(),
            clock: self.clock.clone(),
            since,
            end,
            programs,
            kernel: KernelSnapshot { formats, pages: pages.unwrap_or_default(), emptied },
            stolen,
            observations,
            hits,
        };
        Box::new(move || contents.write())
    }
}
