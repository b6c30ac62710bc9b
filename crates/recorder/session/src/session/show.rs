//! Live reading of a session: the records since the last request, written as a recording into the session's runtime
//! directory.
//!
//! There is one live reader at a time: it holds a lock, and removes each recording after reading it. A recording left
//! by a killed reader is replaced.

use super::contents::{Contents, KernelSnapshot};
use super::live::{Live, PLACE, clean};
use super::memory::ProgramSnapshot;
use super::recordings::RecordSink;
use super::state::RecordingSession;
use super::writer::WriteJob;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::convert::Purpose;
use sordino_collect::directory::{Directory, RAW, page_name};
use sordino_collect::drain::Addressees;
use sordino_collect::history::Pages;
use sordino_collect::summary::Summary;
use sordino_event::text::count;
use sordino_event::{Cpu, Ticks};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without a request after which the live reader is considered gone, and nothing is kept for it.
pub const LIVE_PATIENCE: Duration = Duration::from_secs(10);

/// Number of each CPU's latest pages in the first reply.
const FIRST: u64 = 16;

impl RecordingSession<'_> {
    /// Prepares the records since the last request, or on the first one the most recent records. Returns the job that
    /// writes them.
    pub(super) fn show(&mut self) -> Result<WriteJob, Error> {
        let now = self.clock.now()();
        if self.recordings.live.is_none() {
            self.recordings.live =
                Some(Live::new(self.since(Some(Duration::from_millis(100))), self.clock.clone()));
            self.collector.keep_for_live(true);
            if let RecordSink::Chunk(chunk) = &self.recordings.sink {
                let directory = chunk.directory.clone();
                self.show_pages_from(&directory, true)?;
            }
        }
        let Some(live) = &mut self.recordings.live else {
            return Err(Error::Kind(self.options.recording.name.clone()));
        };
        live.requested = Instant::now();
        let (since, clock) = (std::mem::replace(&mut live.since, now), live.clock.clone());
        let (ended, left_out) = (std::mem::take(&mut live.ended), std::mem::take(&mut live.left_out));
        let copies = self.collector.live(Addressees::All, since);
        self.refresh();
        let pages = self.pages_to_show(since)?;
        let running = copies.into_iter().filter_map(|copy| {
            let program = self.recorded.programs.iter().find(|program| program.number() == copy.number)?;
            Some(ProgramSnapshot::of(program, copy))
        });
        let mut summary = Summary { overwrite: true, ..self.recordings.template.clone() };
        if left_out > 0 {
            let ended = count(left_out, "ended program");
            summary.notes.push(format!("{ended} not shown: there were too many"));
        }
        let misses = self.recordings.misses.clone();
        let (end, observations) = (Sample::take(), self.machine.watcher.since(since));
        let programs = ended.into_iter().chain(running).collect();
        let formats = self.kernel.recorder.as_ref().map(|kernel| Arc::clone(&kernel.formats));
        let runtime = self.options.series.as_ref().map(|series| series.runtime.clone()).unwrap_or_default();
        Ok(Box::new(move || {
            clean(&runtime);
            let directory = Directory::create(&runtime.join(PLACE))?;
            let kernel = KernelSnapshot { formats, pages, emptied: Ok(Vec::new()) };
            let (stolen, purpose) = (Vec::new(), Purpose::Showing);
            Contents {
                directory,
                summary,
                purpose,
                misses,
                clock,
                since,
                end,
                programs,
                kernel,
                stolen,
                observations,
                hits: None,
            }
            .write()
        }))
    }

    /// Drops the state of a live reader that has stopped sending requests.
    pub(super) fn forget_live(&mut self) {
        if self.recordings.live.as_ref().is_some_and(|live| live.requested.elapsed() > LIVE_PATIENCE) {
            self.recordings.live = None;
            self.collector.keep_for_live(false);
            self.options.series.iter().for_each(|series| clean(&series.runtime));
        }
    }

    /// Returns the kernel's pages that have not been shown.
    fn pages_to_show(&mut self, since: Ticks) -> Result<Vec<Pages>, Error> {
        let Some(kernel) = &self.kernel.recorder else { return Ok(Vec::new()) };
        let layout = kernel.formats.layout;
        if let RecordSink::Memory(_) = self.recordings.sink {
            self.kernel.empty_into(&mut self.recordings.sink)?;
            let RecordSink::Memory(memory) = &self.recordings.sink else { return Ok(Vec::new()) };
            return Ok(memory.pages(since, &layout));
        }
        // Pages that can't be written now are shown once they are written.
        let flushed = kernel.flush();
        let pages =
            self.recordings.live.as_mut().map_or(Ok(Vec::new()), |live| live.pages(layout.page_size()));
        if let Err(error) = flushed {
            self.recordings.add_note(error.to_string());
        }
        pages.map_err(Error::system("can't read the kernel's pages back"))
    }

    /// Adds a chunk's files of kernel pages; those of the previous chunk are complete.
    pub(super) fn show_pages_of(&mut self, directory: &Directory) -> Result<(), Error> {
        if self.recordings.live.is_some() { self.show_pages_from(directory, false) } else { Ok(()) }
    }

    /// Adds a chunk's files of kernel pages: without the pages so far if `begins_now`, except the latest.
    fn show_pages_from(&mut self, directory: &Directory, begins_now: bool) -> Result<(), Error> {
        let (Some(live), Some(kernel)) = (&mut self.recordings.live, &self.kernel.recorder) else {
            return Ok(());
        };
        let page_size = kernel.formats.layout.page_size() as u64;
        for &cpu in self.options.recording.cpus.as_slice() {
            let name = format!("{RAW}/{}", page_name(Cpu(cpu)));
            let path = directory.path().join(&name);
            let file = match directory.dir().read(&name) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                file => file.map_err(Error::output(&path))?,
            };
            let pages = file.metadata().map_err(Error::output(&path))?.len() / page_size;
            let shown = if begins_now { pages.saturating_sub(FIRST) * page_size } else { 0 };
            live.files.entry(Cpu(cpu)).or_default().push_back((file, shown));
        }
        Ok(())
    }
}
