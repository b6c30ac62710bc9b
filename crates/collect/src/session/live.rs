//! What a session shows while it records: all that came since it was asked last, as a recording that whoever asked removes.

use super::snapshots::{Contents, Running};
use super::writer::{Job, Whom};
use super::{Session, Sink};
use crate::Error;
use crate::directory::Directory;
use crate::drain::Whose;
use crate::history::Pages;
use crate::kernel::raw_path;
use crate::program::Traced;
use crate::summary::Summary;
use sordino_clock::Sample;
use sordino_event::Cpu;
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who has not asked for so long is gone, and nothing is kept for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is kept for who follows.
#[derive(Debug)]
pub(super) struct Live {
    asked: Instant,
    /// Counts what was shown.
    number: u64,
    /// Stamps before this were shown.
    since: u64,
    /// Of a session that writes to disk: how much of each CPU's file of kernel pages was shown, and what is to be.
    shown: HashMap<Cpu, u64>,
    pages: HashMap<Cpu, Vec<Arc<[u8]>>>,
    /// Programs that have ended since the last time.
    ended: Vec<Running>,
}

impl Session<'_> {
    /// Shows what came since the last time, or what there is, if this is the first.
    pub(super) fn show(&mut self, whom: Whom) -> Result<(), Error> {
        let begins_now = self.live.is_none();
        let now = self.clock.now()();
        let last = self.since(Some(Duration::from_millis(100)));
        let live = self.live.get_or_insert_with(|| Live::new(last));
        (live.asked, live.number) = (Instant::now(), live.number + 1);
        let (number, since) = (live.number, std::mem::replace(&mut live.since, now));
        let ended = std::mem::take(&mut live.ended);
        self.collector.keep_for_live(true);
        let copies = self.collector.live(Whose::All, since);
        self.refresh();
        let kernel = self.kernel_since(since, begins_now);
        let Some(session) = &self.options.session else { return Ok(()) };
        let end = Sample::take();
        let programs = copies.into_iter().filter_map(|copy| {
            let program = self.programs.iter().find(|program| program.number() == copy.number)?;
            Some(Running::of(program, copy))
        });
        let contents = Contents {
            directory: Directory::create(&session.runtime.join(format!("live-{number}")))?,
            summary: Summary { overwrite: true, ..self.template.clone() },
            clock: self.clock.clone(),
            since,
            end,
            programs: ended.into_iter().chain(programs).collect(),
            formats: self.kernel.as_ref().map(|kernel| Arc::clone(&kernel.formats)),
            pages: kernel?,
            kernel: Ok(Vec::new()),
            stolen: Vec::new(),
        };
        let job: Job = Box::new(move || contents.write());
        if let Some(outlet) = &mut self.outlet {
            outlet.writer.give(job, Some(whom));
        }
        Ok(())
    }

    /// A program has ended: what was not shown of it is taken along.
    pub(super) fn leave_program(&mut self, program: &Traced) {
        let Some(live) = &mut self.live else { return };
        let copies = self.collector.live(Whose::Only(program.number()), live.since);
        live.ended.extend(copies.into_iter().map(|copy| Running::of(program, copy)));
    }

    /// Keeps nothing more for who no longer asks.
    pub(super) fn forget_live(&mut self) {
        if self.live.as_ref().is_some_and(|live| live.asked.elapsed() > PATIENCE) {
            self.live = None;
            self.collector.keep_for_live(false);
        }
    }

    /// The kernel's pages that were not shown.
    fn kernel_since(&mut self, since: u64, begins_now: bool) -> Result<Vec<Pages>, Error> {
        let Some(kernel) = &mut self.kernel else { return Ok(Vec::new()) };
        let layout = kernel.formats.layout;
        if let Sink::Memory(_) = self.sink {
            self.empty_kernel()?;
            let Sink::Memory(memory) = &self.sink else { return Ok(Vec::new()) };
            return Ok(memory.pages(since, &layout));
        }
        kernel.flush()?;
        let Sink::Chunk(chunk) = &self.sink else { return Ok(Vec::new()) };
        let (directory, Some(live)) = (chunk.directory.clone(), &mut self.live) else {
            return Ok(Vec::new());
        };
        live.read(&directory, self.options.cpus.as_slice(), layout.page_size())?;
        let mut pages: Vec<Pages> = live.pages.drain().collect();
        if begins_now {
            // All of it may be much.
            pages.iter_mut().for_each(|(_, pages)| _ = pages.drain(..pages.len().saturating_sub(16)));
        }
        Ok(pages)
    }

    /// A chunk's kernel pages are complete: what was not shown of them is taken along.
    pub(super) fn leave_chunk(&mut self, directory: &Directory) -> Result<(), Error> {
        let (Some(live), Some(kernel)) = (&mut self.live, &self.kernel) else { return Ok(()) };
        live.read(directory, self.options.cpus.as_slice(), kernel.formats.layout.page_size())?;
        live.shown.clear();
        Ok(())
    }
}

impl Live {
    fn new(since: u64) -> Self {
        Self {
            asked: Instant::now(),
            number: 0,
            since,
            shown: HashMap::new(),
            pages: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// Reads what came to the files of kernel pages.
    fn read(&mut self, directory: &Directory, cpus: &[u32], page_size: usize) -> Result<(), Error> {
        for &cpu in cpus {
            let path = raw_path(&directory.raw(), Cpu(cpu));
            let shown = self.shown.entry(Cpu(cpu)).or_default();
            let pages = self.pages.entry(Cpu(cpu)).or_default();
            let read = || -> std::io::Result<()> {
                let mut file = File::open(&path)?;
                file.seek(SeekFrom::Start(*shown))?;
                let mut page = vec![0; page_size];
                while file.read_exact(&mut page).is_ok() {
                    pages.push(page.as_slice().into());
                    *shown += page_size as u64;
                }
                Ok(())
            };
            let mut read = read;
            match read() {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(Error::output(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }
}
