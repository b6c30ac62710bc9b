//! The kernel's newest pages, kept by a flight recorder: pages that one snapshot has read from the kernel belong to the
//! next one, too.

use crate::directory::page_file;
use crate::error::Error;
use rustix::fs::{MemfdFlags, memfd_create};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, Ticks};
use sordino_tracefs::{Missed, Page, PageLayout};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The newest pages of each CPU, in memory.
#[derive(Debug)]
pub struct History {
    cpus: Vec<OfCpu>,
    /// Maximum size for each CPU, in bytes.
    most: usize,
}

/// The file for each CPU's pages, open for writing.
pub type PageFiles = Vec<(Cpu, OwnedFd)>;

/// A CPU and its pages, in order of time.
pub type Pages = (Cpu, Vec<Arc<[u8]>>);

#[derive(Debug)]
struct OfCpu {
    cpu: Cpu,
    /// The file into which the kernel's buffer is emptied.
    memory: File,
    pages: VecDeque<Arc<[u8]>>,
}

impl History {
    /// Creates a history of at most `bytes` for each CPU.
    pub fn new(bytes: u64) -> Self {
        Self { cpus: Vec::new(), most: usize::try_from(bytes).unwrap_or(usize::MAX) }
    }

    /// Adds a CPU, and returns the file for its pages.
    pub fn add(&mut self, cpu: Cpu) -> std::io::Result<OwnedFd> {
        let (memory, theirs) = memory()?;
        self.cpus.push(OfCpu { cpu, memory, pages: VecDeque::new() });
        Ok(theirs)
    }

    /// Creates a new file for each CPU, and returns the writing and the reading ends.
    pub fn fresh(&self) -> Result<(PageFiles, Vec<File>), Error> {
        let fresh = |of_cpu: &OfCpu| {
            let (ours, theirs) = memory()?;
            Ok(((of_cpu.cpu, theirs), ours))
        };
        let fresh: std::io::Result<_> = self.cpus.iter().map(fresh).collect();
        fresh.map_err(Error::system("can't make memory for the kernel's pages"))
    }

    /// Continues in the `fresh` files, and adds the pages of the previous ones. If records are missing between the
    /// known pages and the new ones, the known ones are dropped.
    pub fn take(&mut self, fresh: Vec<File>, layout: &PageLayout) -> Result<(), Error> {
        for (of_cpu, fresh) in self.cpus.iter_mut().zip(fresh) {
            let mut file = std::mem::replace(&mut of_cpu.memory, fresh);
            let mut page = vec![0; layout.page_size()];
            file.rewind().map_err(Error::system("can't read the kernel's pages back"))?;
            while file.read_exact(&mut page).is_ok() {
                if Page::parse(&page, layout).is_ok_and(|page| page.missed != Missed::None) {
                    of_cpu.pages.clear();
                }
                of_cpu.pages.push_back(page.as_slice().into());
                if of_cpu.pages.len() * page.len() > self.most {
                    of_cpu.pages.pop_front();
                }
            }
        }
        Ok(())
    }

    /// Returns the pages with events from `since` on.
    pub fn pages(&self, since: Ticks, layout: &PageLayout) -> Vec<Pages> {
        let pages = |of_cpu: &OfCpu| {
            let first = of_cpu.first(since, layout);
            (of_cpu.cpu, of_cpu.pages.iter().skip(first).cloned().collect())
        };
        self.cpus.iter().map(pages).collect()
    }
}

/// Writes a CPU's pages into the directory from which they are converted.
pub fn write_pages(raw: &Dir, (cpu, pages): &Pages) -> Result<(), Error> {
    let file = page_file(raw, *cpu).map_err(Error::output(raw.path()))?;
    let mut out = BufWriter::with_capacity(1 << 20, File::from(file));
    let written = pages.iter().try_for_each(|page| out.write_all(page));
    written.and_then(|()| out.flush()).map_err(Error::output(raw.path()))
}

impl OfCpu {
    /// Returns the index of the first page with an event from `since` on: the last one that begins before it.
    fn first(&self, since: Ticks, layout: &PageLayout) -> usize {
        let begins_later = |page: &[u8]| Page::parse(page, layout).is_ok_and(|page| page.ticks > since);
        let later = self.pages.iter().position(|page| begins_later(page)).unwrap_or(self.pages.len());
        later.saturating_sub(1)
    }
}

/// Creates a file in memory, with a reading and a writing end that share one file offset.
fn memory() -> std::io::Result<(File, OwnedFd)> {
    let file = memfd_create(c"sordino-kernel", MemfdFlags::CLOEXEC)?;
    Ok((File::from(file.try_clone()?), file))
}
