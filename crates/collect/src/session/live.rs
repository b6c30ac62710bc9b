//! What a session shows while it records: all that came since it was asked last, as a recording in its own directory.
//!
//! One process follows at a time: it has a lock, and removes what it has read. What a follower that was killed left is replaced.

use super::snapshots::{Contents, Running};
use super::writer::Job;
use super::{Session, Sink};
use crate::Error;
use crate::chunk::Purpose;
use crate::clock::TraceClock;
use crate::directory::{Directory, RAW};
use crate::drain::Whose;
use crate::history::Pages;
use crate::kernel::page_name;
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

/// Who has not asked for so long is gone, and nothing is kept for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// What programs that have ended leave in memory until it is shown, in bytes; those that end then are told of.
const ENDED: usize = 64 << 20;
/// Bytes of a CPU's kernel pages that are shown at a time; the rest stays on disk until the next.
const AT_ONCE: usize = 16 << 20;
/// Pages of each CPU that the first time shows.
const FIRST: u64 = 16;

/// What is kept for who follows.
pub(super) struct Live {
    asked: Instant,
    /// Stamps before this were shown.
    since: u64,
    /// As of the first time: stamps stay the same times, whatever is learnt of the clock meanwhile.
    clock: TraceClock,
    /// Of a session that writes to disk: the files of kernel pages, oldest first, and how much of each was shown.
    files: BTreeMap<Cpu, VecDeque<(File, u64)>>,
    /// Programs that have ended since the last time.
    ended: Vec<Running>,
    /// Those that there was no room for.
    left_out: u64,
}

/// Where it is shown, in the session's directory.
const PLACE: &str = "live";

/// Removes what was shown; nobody reads it any more.
pub(super) fn clean(runtime: &Path) {
    let _ = Dir::open_own(runtime).map(|runtime| runtime.remove_all(PLACE));
}

impl Session<'_> {
    /// Shows what came since the last time, or what there is, if this is the first; what is left to do writes it.
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
        let copies = self.collector.live(Whose::All, since);
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
        let (end, told) = (Sample::take(), self.watcher.since(since));
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
                told,
                hits: None,
            }
            .write()
        }))
    }

    /// A program has ended: what was not shown of it is taken along.
    pub(super) fn leave_program(&mut self, program: &Traced) {
        let Some(live) = &mut self.live else { return };
        let copies = self.collector.live(Whose::Only(program.number()), live.since);
        for copy in copies.into_iter().map(|copy| Running::of(program, copy)) {
            let bytes: usize = live.ended.iter().map(Running::bytes).sum();
            if bytes < ENDED {
                live.ended.push(copy);
            } else {
                live.left_out += 1;
            }
        }
    }

    /// Keeps nothing more for who no longer asks.
    pub(super) fn forget_live(&mut self) {
        if self.live.as_ref().is_some_and(|live| live.asked.elapsed() > PATIENCE) {
            self.live = None;
            self.collector.keep_for_live(false);
            self.options.session.iter().for_each(|session| clean(&session.runtime));
        }
    }

    /// The kernel's pages that were not shown.
    fn pages_to_show(&mut self, since: u64) -> Result<Vec<Pages>, Error> {
        let Some(kernel) = &self.kernel else { return Ok(Vec::new()) };
        let layout = kernel.formats.layout;
        if let Sink::Memory(_) = self.sink {
            self.empty_kernel()?;
            let Sink::Memory(memory) = &self.sink else { return Ok(Vec::new()) };
            return Ok(memory.pages(since, &layout));
        }
        // What can't be written now is shown when it can.
        let flushed = kernel.flush();
        let pages = self.live.as_mut().map_or(Ok(Vec::new()), |live| live.pages(layout.page_size()));
        if let Err(error) = flushed {
            self.tell(error.to_string());
        }
        pages.map_err(Error::system("can't read the kernel's pages back"))
    }

    /// The kernel's pages go on in the files of this chunk; those of the one before are complete.
    pub(super) fn show_pages_of(&mut self, directory: &Directory) -> Result<(), Error> {
        if self.live.is_some() { self.show_pages_from(directory, false) } else { Ok(()) }
    }

    /// Shows a chunk's pages: those to come, or also all that are there.
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

    /// What came to the files of kernel pages.
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

/// The page there, if there is a whole one.
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
        // A page that is cut off may be whole later, in the newest file.
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
