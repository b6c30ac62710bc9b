//! Live reading of a session: the records since the last request, written as a recording into the session's runtime
//! directory.
//!
//! There is one live reader at a time: it holds a lock, and removes each recording after reading it. A recording left
//! by a killed reader is replaced.

use super::snapshots::{Contents, Running};
use super::writer::Job;
use super::{Session, Sink};
use crate::Error;
use crate::clock::TraceClock;
use crate::convert::Purpose;
use crate::directory::page_name;
use crate::directory::{Directory, RAW};
use crate::drain::Owner;
use crate::history::Pages;
use crate::program::Traced;
use crate::summary::Summary;
use sordino_clock::Sample;
use sordino_dirfd::Dir;
use sordino_event::Cpu;
use sordino_event::text::count;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time without a request after which the live reader is considered gone, and nothing is kept for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum size of the copies of ended programs that are kept for the reader, in bytes; further ended programs are only
/// counted.
const ENDED: usize = 64 << 20;
/// Maximum size of a CPU's kernel pages in one reply, in bytes; the rest stays on disk for the next.
const AT_ONCE: usize = 16 << 20;
/// Number of each CPU's latest pages in the first reply.
const FIRST: u64 = 16;

/// The state kept for a live reader.
pub(super) struct Live {
    asked: Instant,
    /// The timestamp up to which records have been shown.
    since: u64,
    /// The clock at the first request, so that timestamps keep their times while the clock is refined.
    clock: TraceClock,
    /// The files of kernel pages of a session that writes to disk, oldest first, each with the number of bytes shown.
    files: BTreeMap<Cpu, VecDeque<(File, u64)>>,
    /// Programs that have ended since the last request.
    ended: Vec<Running>,
    /// The number of ended programs for which there was no room.
    left_out: u64,
}

/// Name of the recording for the reader, in the session's directory.
const PLACE: &str = "live";

/// Removes the last recording for a reader that is gone.
pub(super) fn clean(runtime: &Path) {
    let _ = Dir::open_own(runtime).map(|runtime| runtime.remove_all(PLACE));
}

impl Session<'_> {
    /// Prepares the records since the last request, or on the first one the most recent records. Returns the job that
    /// writes them.
    pub(super) fn show(&mut self) -> Result<Job, Error> {
        let now = self.clock.now()();
        if self.live.is_none() {
            self.live = Some(Live::new(self.since(Some(Duration::from_millis(100))), self.clock.clone()));
            self.collector.keep_for_live(true);
            if let Sink::Chunk(chunk) = &self.sink {
                let directory = chunk.directory.clone();
                self.show_pages_from(&directory, true)?;
            }
        }
        let Some(live) = &mut self.live else { return Err(Error::Kind(self.options.name.clone())) };
        live.asked = Instant::now();
        let (since, clock) = (std::mem::replace(&mut live.since, now), live.clock.clone());
        let (ended, left_out) = (std::mem::take(&mut live.ended), std::mem::take(&mut live.left_out));
        let copies = self.collector.live(Owner::All, since);
        self.refresh();
        let pages = self.pages_to_show(since)?;
        let running = copies.into_iter().filter_map(|copy| {
            let program = self.programs.iter().find(|program| program.number() == copy.number)?;
            Some(Running::of(program, copy))
        });
        let mut summary = Summary { overwrite: true, ..self.template.clone() };
        if left_out > 0 {
            let ended = count(left_out, "ended program");
            summary.notes.push(format!("{ended} not shown: there were too many"));
        }
        let misses = self.misses.clone();
        let (end, observations) = (Sample::take(), self.watcher.since(since));
        let programs = ended.into_iter().chain(running).collect();
        let formats = self.kernel.as_ref().map(|kernel| Arc::clone(&kernel.formats));
        let runtime =
            self.options.session.as_ref().map(|session| session.runtime.clone()).unwrap_or_default();
        Ok(Box::new(move || {
            clean(&runtime);
            let directory = Directory::create(&runtime.join(PLACE))?;
            let (kernel, stolen, purpose) = (Ok(Vec::new()), Vec::new(), Purpose::Showing);
            Contents {
                directory,
                summary,
                purpose,
                misses,
                clock,
                since,
                end,
                programs,
                formats,
                pages,
                kernel,
                stolen,
                observations,
                hits: None,
            }
            .write()
        }))
    }

    /// Copies the records of an ended program that have not been shown.
    pub(super) fn leave_program(&mut self, program: &Traced) {
        let Some(live) = &mut self.live else { return };
        let copies = self.collector.live(Owner::Only(program.number()), live.since);
        for copy in copies.into_iter().map(|copy| Running::of(program, copy)) {
            let bytes: usize = live.ended.iter().map(Running::bytes).sum();
            if bytes < ENDED {
                live.ended.push(copy);
            } else {
                live.left_out += 1;
            }
        }
    }

    /// Drops the state of a live reader that has stopped sending requests.
    pub(super) fn forget_live(&mut self) {
        if self.live.as_ref().is_some_and(|live| live.asked.elapsed() > PATIENCE) {
            self.live = None;
            self.collector.keep_for_live(false);
            self.options.session.iter().for_each(|session| clean(&session.runtime));
        }
    }

    /// Returns the kernel's pages that have not been shown.
    fn pages_to_show(&mut self, since: u64) -> Result<Vec<Pages>, Error> {
        let Some(kernel) = &self.kernel else { return Ok(Vec::new()) };
        let layout = kernel.formats.layout;
        if let Sink::Memory(_) = self.sink {
            self.empty_kernel()?;
            let Sink::Memory(memory) = &self.sink else { return Ok(Vec::new()) };
            return Ok(memory.pages(since, &layout));
        }
        // Pages that can't be written now are shown once they are written.
        let flushed = kernel.flush();
        let pages = self.live.as_mut().map_or(Ok(Vec::new()), |live| live.pages(layout.page_size()));
        if let Err(error) = flushed {
            self.tell(error.to_string());
        }
        pages.map_err(Error::system("can't read the kernel's pages back"))
    }

    /// Adds a chunk's files of kernel pages; those of the previous chunk are complete.
    pub(super) fn show_pages_of(&mut self, directory: &Directory) -> Result<(), Error> {
        if self.live.is_some() { self.show_pages_from(directory, false) } else { Ok(()) }
    }

    /// Adds a chunk's files of kernel pages: without the pages so far if `begins_now`, except the latest.
    fn show_pages_from(&mut self, directory: &Directory, begins_now: bool) -> Result<(), Error> {
        let (Some(live), Some(kernel)) = (&mut self.live, &self.kernel) else { return Ok(()) };
        let page_size = kernel.formats.layout.page_size() as u64;
        for &cpu in self.options.cpus.as_slice() {
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

impl Live {
    fn new(since: u64, clock: TraceClock) -> Self {
        let (asked, files, ended) = (Instant::now(), BTreeMap::new(), Vec::new());
        Self { asked, since, clock, files, ended, left_out: 0 }
    }

    /// Returns the new pages in the files of kernel pages.
    fn pages(&mut self, size: usize) -> io::Result<Vec<Pages>> {
        let mut all = Vec::new();
        for (cpu, files) in &mut self.files {
            let mut pages = Vec::new();
            while let Some((file, shown)) = files.front_mut() {
                while let Some(page) = page_at(file, *shown, size)?.filter(|_| pages.len() * size < AT_ONCE) {
                    pages.push(page);
                    *shown += size as u64;
                }
                if files.len() == 1 || pages.len() * size >= AT_ONCE {
                    break;
                }
                files.pop_front();
            }
            all.push((*cpu, pages));
        }
        Ok(all)
    }
}

/// Returns the page at this offset, if it is complete.
fn page_at(file: &File, at: u64, size: usize) -> io::Result<Option<Arc<[u8]>>> {
    let mut page = vec![0; size];
    match file.read_exact_at(&mut page, at) {
        Ok(()) => Ok(Some(page.into())),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_are_shown_once_and_in_order_across_files() {
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let mut live = Live::new(0, TraceClock::choose());
        // A truncated page may be completed later, in the newest file.
        live.files.insert(Cpu(3), [(file("aabb"), 2), (file("ccddx"), 0)].into());
        let shown = |live: &mut Live| -> Vec<u8> {
            live.pages(2)
                .unwrap()
                .iter()
                .flat_map(|(_, pages)| pages.iter().flat_map(|page| page.to_vec()))
                .collect()
        };
        assert_eq!(shown(&mut live), b"bbccdd");
        assert_eq!(shown(&mut live), b"");
        live.files.get_mut(&Cpu(3)).unwrap()[0].0.write_all(b"y").unwrap();
        assert_eq!(shown(&mut live), b"xy");
    }
}
