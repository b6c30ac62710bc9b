//! The state that a session keeps for its live reader.

use super::collector::Collector;
use super::memory::ProgramSnapshot;
use sordino_collect::drain::Addressees;
use sordino_collect::history::Pages;
use sordino_collect::program::Traced;
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Ticks};
use sordino_inspect::clock::TraceClock;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Maximum size of the copies of ended programs that are kept for the reader, in bytes; further ended programs are only
/// counted.
const ENDED: usize = 64 << 20;

/// Maximum size of a CPU's kernel pages in one reply, in bytes; the rest stays on disk for the next.
const AT_ONCE: usize = 16 << 20;

/// Name of the recording for the reader, in the session's directory.
pub(super) const PLACE: &str = "live";

/// The state kept for a live reader.
pub(super) struct Live {
    pub(super) requested: Instant,
    /// The timestamp up to which records have been shown.
    pub(super) since: Ticks,
    /// The clock at the first request, so that timestamps keep their times while the clock is refined.
    pub(super) clock: TraceClock,
    /// The files of kernel pages of a session that writes to disk, oldest first, each with the number of bytes shown.
    pub(super) files: BTreeMap<Cpu, VecDeque<(File, u64)>>,
    /// Programs that have ended since the last request.
    pub(super) ended: Vec<ProgramSnapshot>,
    /// The number of ended programs for which there was no room.
    pub(super) left_out: u64,
}

impl Live {
    pub(super) fn new(since: Ticks, clock: TraceClock) -> Self {
        let (requested, files, ended) = (Instant::now(), BTreeMap::new(), Vec::new());
        Self { requested, since, clock, files, ended, left_out: 0 }
    }

    /// Returns the new pages in the files of kernel pages.
    pub(super) fn pages(&mut self, size: usize) -> io::Result<Vec<Pages>> {
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

    /// Copies the records of an ended program that have not been shown.
    pub(super) fn keep_ended(&mut self, program: &Traced, collector: &Collector) {
        let copies = collector.live(Addressees::Only(program.number()), self.since);
        for copy in copies.into_iter().map(|copy| ProgramSnapshot::of(program, copy)) {
            let bytes: usize = self.ended.iter().map(ProgramSnapshot::bytes).sum();
            if bytes < ENDED {
                self.ended.push(copy);
            } else {
                self.left_out += 1;
            }
        }
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

/// Removes the last recording for a reader that is gone.
pub(super) fn clean(runtime: &Path) {
    let _ = Dir::open_own(runtime).map(|runtime| runtime.remove_all(PLACE));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_inspect::clock::FirstLook;
    use std::io::Write;

    #[test]
    fn pages_are_shown_once_and_in_order_across_files() {
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        let mut live = Live::new(Ticks(0), FirstLook::begin().end());
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
