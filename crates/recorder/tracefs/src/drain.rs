//! Moves the kernel's records into files during recording.
//!
//! `splice` moves whole pages through a pipe, without a copy in this process. The caller decides when: each event would
//! wake a blocking reader, which would get a nearly empty page and thereby cause the next event.

use crate::dir::TracefsDir;
use crate::{BufferCounts, Error, Instance, PageLayout};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use sordino_event::Cpu;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Requested capacity of the pipe in bytes; the kernel may permit less.
const PIPE_BYTES: usize = 1 << 20;

/// Moves an instance's pages into one file for each CPU: pages of [`page_size`](PageLayout::page_size) bytes, back to
/// back.
#[derive(Debug)]
pub struct Drain {
    // Dropped first, so that no file is open when the instance is removed.
    sources: Vec<SourceOfCpu>,
    layout: PageLayout,
    /// Index of the next CPU for [`drain_next`](Drain::drain_next).
    next: usize,
    /// Number of pages in one CPU's buffer.
    pages: usize,
    instance: Instance,
}

/// Result of draining one CPU's buffer.
#[derive(Debug)]
pub struct Drained {
    /// Number of the CPU.
    pub cpu: Cpu,
    /// Number of bytes in its file.
    pub bytes: u64,
    /// The kernel's counts at the end, lost records included.
    pub statistics: BufferCounts,
    /// Reason why the file lacks some of the buffer's content, if it does.
    pub failure: Option<Error>,
}

/// A CPU's buffer with its destination.
#[derive(Debug)]
struct SourceOfCpu {
    cpu: Cpu,
    source: OwnedFd,
    /// Read end and write end of the pipe.
    pipe: (OwnedFd, OwnedFd),
    /// Number of bytes in the pipe that are not yet in the file.
    pending: usize,
    file: OwnedFd,
    bytes: u64,
    /// Path of the source, for messages.
    path: PathBuf,
}

impl Drain {
    /// Takes over `instance`. `file` opens the file of each CPU that has a buffer: one that `splice` can write to at
    /// its present offset, so not one opened for appending.
    ///
    /// The sizes of sub-buffers and buffers must not be changed afterwards.
    ///
    /// # Errors
    /// Returns an error if a buffer or file cannot be opened.
    pub fn new(
        instance: Instance,
        mut file: impl FnMut(Cpu) -> std::io::Result<OwnedFd>,
    ) -> Result<Self, Error> {
        let layout = instance.page_layout()?;
        let bytes = instance.buffer_kib()?.saturating_mul(1024);
        let pages = usize::try_from(bytes).unwrap_or(usize::MAX) / layout.page_size() + 1;
        let mut sources = Vec::new();
        for cpu in instance.cpus()? {
            let opened = file(cpu).map_err(|source| Error::Io {
                action: "open the file for",
                path: Path::new("per_cpu").join(format!("cpu{cpu}")),
                source,
            })?;
            sources.push(SourceOfCpu::open(&instance.dir, cpu, opened)?);
        }
        Ok(Self { sources, layout, next: 0, pages, instance })
    }

    /// Returns the instance, whose selection of events may be changed.
    pub fn instance(&mut self) -> &mut Instance {
        &mut self.instance
    }

    /// Returns the layout of the pages in the files.
    pub fn page_layout(&self) -> PageLayout {
        self.layout
    }

    /// Moves all full pages, and returns the number of bytes. Never blocks on the kernel's tracer. Moves at most one
    /// buffer's size for each CPU, because moving causes events as well.
    ///
    /// # Errors
    /// Returns the error of a file that cannot be written. Data in the pipe to that file is written by the next call
    /// that succeeds.
    pub fn drain(&mut self) -> Result<u64, Error> {
        self.drain_next(self.sources.len())
    }

    /// Drains the next `cpus` CPUs like [`drain`](Self::drain). A CPU whose file cannot be written counts as drained.
    ///
    /// # Errors
    /// Returns the same errors as [`drain`](Self::drain).
    pub fn drain_next(&mut self, cpus: usize) -> Result<u64, Error> {
        let (limit, size) = (self.pages, self.layout.page_size());
        let mut moved = 0;
        for _ in 0..cpus.min(self.sources.len()) {
            let place = self.next;
            self.next = (place + 1) % self.sources.len();
            moved += self.sources[place].splice(limit, size)?;
        }
        Ok(moved)
    }

    /// Returns the number of CPUs that have a buffer.
    pub fn cpus(&self) -> usize {
        self.sources.len()
    }

    /// Moves everything that is in the buffers, partly filled pages included, while recording goes on. Later records go
    /// into the files of `next`, from their beginning, for the CPUs that have one there. Returns the result for each
    /// CPU, whose bytes are counted from 0 again.
    ///
    /// Moves at most one buffer's size and a page for each CPU.
    ///
    /// # Errors
    /// Returns the errors of [`drain`](Self::drain), or an error if the kernel's counts cannot be read. No file is
    /// replaced then.
    pub fn empty(&mut self, next: Vec<(Cpu, OwnedFd)>) -> Result<Vec<Drained>, Error> {
        let mut page = vec![0; self.layout.page_size()];
        let mut drained = Vec::with_capacity(self.sources.len());
        for source in &mut self.sources {
            source.splice(self.pages, page.len())?;
            source.read_page(&mut page)?;
            let statistics = self.instance.statistics(source.cpu)?;
            drained.push(Drained { cpu: source.cpu, bytes: source.bytes, statistics, failure: None });
        }
        for (cpu, file) in next {
            if let Some(source) = self.sources.iter_mut().find(|source| source.cpu == cpu) {
                (source.file, source.bytes) = (file, 0);
            }
        }
        Ok(drained)
    }

    /// Returns the number of records lost since recording began: the kernel overwrote them, or had no room.
    ///
    /// # Errors
    /// Returns an error if the kernel's counts cannot be read.
    pub fn lost(&self) -> Result<u64, Error> {
        let statistics = self.sources.iter().map(|source| self.instance.statistics(source.cpu));
        statistics.map(|statistics| Ok(statistics?.lost())).sum()
    }

    /// Stops recording, moves everything that is left, and removes the instance. Returns the result for each CPU, even
    /// if its file cannot be written.
    ///
    /// # Errors
    /// Returns an error if the kernel's counts cannot be read, or if the instance cannot be stopped or removed.
    pub fn finish(self) -> Result<Vec<Drained>, Error> {
        self.instance.set_tracing(false)?;
        let mut page = vec![0; self.layout.page_size()];
        let mut drained = Vec::with_capacity(self.sources.len());
        for mut source in self.sources {
            let failure = source.take_all(self.pages, &mut page).err();
            let statistics = self.instance.statistics(source.cpu)?;
            drained.push(Drained { cpu: source.cpu, bytes: source.bytes, statistics, failure });
        }
        self.instance.remove()?;
        Ok(drained)
    }
}

impl SourceOfCpu {
    fn open(instance: &TracefsDir, cpu: Cpu, file: OwnedFd) -> Result<Self, Error> {
        let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
        let path = instance.path(&name);
        let source = instance.source(&name)?;
        let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| Error::io("make a pipe for", &path, errno))?;
        // A small pipe only costs more system calls.
        let _ = fcntl_setpipe_size(&pipe.1, PIPE_BYTES);
        Ok(Self { cpu, source, pipe, pending: 0, file, bytes: 0, path })
    }

    /// Moves everything that is left in a buffer after recording has stopped.
    fn take_all(&mut self, limit: usize, page: &mut [u8]) -> Result<(), Error> {
        self.splice(limit, page.len())?;
        while self.read_page(page)? {}
        Ok(())
    }

    /// Moves at most `limit` full pages of `size` bytes.
    fn splice(&mut self, limit: usize, size: usize) -> Result<u64, Error> {
        let before = self.bytes;
        self.flush()?;
        let mut left = limit.saturating_mul(size);
        while left > 0 {
            let requested = left.min(PIPE_BYTES).max(size);
            match splice(&self.source, None, &self.pipe.1, None, requested, SpliceFlags::NONBLOCK) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(moved) => {
                    self.pending = moved;
                    left = left.saturating_sub(moved);
                    self.flush()?;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("splice from", &self.path, errno)),
            }
        }
        Ok(self.bytes - before)
    }

    /// Moves the pipe's content to the file.
    fn flush(&mut self) -> Result<(), Error> {
        while self.pending > 0 {
            match splice(&self.pipe.0, None, &self.file, None, self.pending, SpliceFlags::empty()) {
                Ok(0) => return Err(self.file_error(Errno::IO)),
                Ok(moved) => {
                    self.pending = self.pending.saturating_sub(moved);
                    self.bytes += moved as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.file_error(errno)),
            }
        }
        Ok(())
    }

    /// Copies a partly filled page, which `splice` does not return. Returns true if there was one; during recording,
    /// there may be another at once. It goes through the pipe, too, where it stays if the file cannot be written.
    fn read_page(&mut self, page: &mut [u8]) -> Result<bool, Error> {
        loop {
            match rustix::io::read(&self.source, &mut *page) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(false),
                Ok(length) => return self.pass(&page[..length]).map(|()| true),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::io("read", &self.path, errno)),
            }
        }
    }

    /// Moves a page to the file through the pipe, which is empty and has room for one.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.pipe.1, bytes) {
                Ok(written) => {
                    (self.pending, bytes) = (written, &bytes[written..]);
                    self.flush()?;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.file_error(errno)),
            }
        }
        Ok(())
    }

    fn file_error(&self, errno: Errno) -> Error {
        Error::Io { action: "write to the file for", path: self.path.clone(), source: errno.into() }
    }
}
