//! The collector's reports, and the ends of processes.

use super::recordings::RecordSink;
use super::state::RecordingSession;
use crate::exit::exit_of;
use sordino_collect::drain::DrainReport;
use sordino_collect::number::ProgramNumber;

impl RecordingSession<'_> {
    /// Handles the collector's reports.
    pub(super) fn take_reports(&mut self) {
        for report in self.collector.reports() {
            match report {
                DrainReport::Used { cpus } => self.placing.keep_off(&mut self.recordings, [cpus]),
                // A session keeps the records in memory, and tries again.
                DrainReport::OutputFailed => self.progress.failed |= self.recordings.outlet.is_none(),
                DrainReport::Triggered { number, point, at, copies } => {
                    self.triggered(number, point, at, copies)
                }
            }
        }
    }

    /// Handles the end of a process, which may trigger a snapshot.
    pub(super) fn has_gone(&mut self, number: ProgramNumber) {
        if let RecordSink::Memory(_) = self.recordings.sink {
            // The program may have requested one just before.
            self.collector.look();
            self.take_reports();
        }
        let Some(program) = self.recorded.programs.iter().find(|program| program.number() == number) else {
            return;
        };
        let ends = self.options.series.as_ref().map_or(&[][..], |series| &series.snapshots.ends);
        let exit = (!ends.is_empty()).then(|| exit_of(program));
        if let Some(exit) = exit.filter(|exit| ends.iter().any(|&end| exit.is(end))) {
            let why = format!("{} {exit}", program.trace.identity.name);
            self.ended_badly(&why);
        }
        self.let_go(number);
    }
}
