//! Converts the kernel's pages into a CTF trace after recording has ended.

mod beside;
mod trace;

pub(crate) use trace::KernelTrace;

use crate::directory::page_name;
use crate::directory::{Directory, KERNEL, RAW, names};
use crate::error::Error;
use crate::kernel::{Emptied, FORMATS, PAGE_SIZE};
use crate::summary::{KernelStream, PendingConversion};
use beside::write_whole;
use sordino_clock::Sample;
use sordino_ctf::write::{StreamClass, StreamWriter, event_class, kernel_header, preamble, stream_class};
use sordino_ctf::{Environment, Uuid};
use sordino_dirfd::Dir;
use sordino_event::{Cpu, PriorityNumbering, Ticks};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::dump::{self, Dump};
use sordino_inspect::kernel::RunningKernel;
use sordino_inspect::symbols::Functions;
use sordino_inspect::threads;
use sordino_tracefs::{Converter, EventConversion, Format, Missed, PRIORITIES, Page, PageLayout, lttng};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};

/// The purpose of a recording, which decides how much is added to its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The recording is kept: names are resolved and its events counted.
    Keeping,
    /// The recording is shown at once to a live reader that has the previous records: its events alone.
    Showing,
}

/// The end of a recording: its time and the kernel's buffers.
#[derive(Debug)]
pub struct End<'a> {
    /// The timestamp at which recording ended.
    pub ticks: Ticks,
    /// The state of each CPU's kernel buffer.
    pub kernel: &'a [Emptied],
}

/// Upper limit for the size of an event's format, in bytes.
const MOST_FORMAT: u64 = 1 << 20;
/// Size of a packet in bytes.
const PACKET: usize = 1 << 20;
/// Receives the number of bytes converted, for progress messages.
type Advance<'a> = &'a mut dyn FnMut(u64);

impl KernelTrace {
    /// Begins the trace. If the recording is kept, a thread of its own takes the state dump, timestamped `begin`:
    /// processes can delay it, see [`settle`](Self::settle).
    pub(crate) fn begin(
        directory: &Directory,
        clock: &TraceClock,
        begin: Sample,
        overwrite: bool,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let (begin_ticks, names) = (clock.ticks(&begin), purpose == Purpose::Keeping);
        let (uuid, events) = (sordino_inspect::uuid::random(), Vec::new());
        let mut trace = Self { uuid, events, names, begin_ticks, overwrite, dump: None };
        trace.write_metadata(directory, clock)?;
        if purpose == Purpose::Showing {
            return Ok(trace);
        }
        let kernel = directory.part(KERNEL)?;
        let spawned = threads::start("sordino-state", move || dump_to(&kernel, begin, uuid, begin_ticks));
        trace.dump = Some(spawned.map_err(Error::system("can't start the thread that dumps the state"))?);
        Ok(trace)
    }

    /// Returns the facts needed to convert the remaining pages later.
    pub(crate) fn pending(&self, end: &End<'_>) -> PendingConversion {
        PendingConversion { begin: self.begin_ticks.0, end: end.ticks.0, kernel: end.kernel.to_vec() }
    }

    /// Waits until the state dump is written, unless that is done: some seconds at most where processes do not answer.
    /// Returns notes on missing parts.
    pub(crate) fn settle(&mut self) -> Result<Vec<String>, Error> {
        let Some(thread) = self.dump.take() else { return Ok(Vec::new()) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Continues a trace that an earlier recorder began.
    pub(crate) fn resume(uuid: Uuid, overwrite: bool, begin_ticks: Ticks) -> Self {
        Self { uuid, events: Vec::new(), names: false, begin_ticks, overwrite, dump: None }
    }

    /// Completes a trace that has only the state dump.
    pub(crate) fn finish_without_events(
        &self,
        directory: &Directory,
        clock: &TraceClock,
    ) -> Result<(), Error> {
        self.write_metadata(directory, clock)?;
        remove_raw(directory)
    }

    /// Writes the metadata file as a whole.
    pub(crate) fn write_metadata(&self, directory: &Directory, clock: &TraceClock) -> Result<(), Error> {
        let mut environment = Environment::default();
        clock.relate(&mut environment);
        RunningKernel::read().describe(&mut environment);
        environment
            .set("domain", "kernel")
            .set(PriorityNumbering::ENTRY, PRIORITIES.name())
            .set("tracer_name", "sordino")
            .set("tracer_version", env!("CARGO_PKG_VERSION"));
        let mut text = preamble(self.uuid, &environment, &clock.ctf())?;
        text += &Dump::metadata()?;
        if !self.events.is_empty() {
            text += &stream_class(StreamClass::Kernel);
        }
        for (id, (_, mapping)) in (0u16..).zip(&self.events) {
            text += &event_class(StreamClass::Kernel, id, &mapping.schema.name, &mapping.schema)?;
        }
        let kernel = directory.part(KERNEL)?;
        let replaced = kernel.replace("metadata", text.as_bytes());
        replaced.map_err(Error::output(kernel.path().join("metadata")))
    }

    /// Converts all pages of a recording, adds each CPU's result to `streams`, and removes the pages. The pages of a
    /// CPU whose conversion fails stay, and its stream records a gap. `advance` is called with the number of bytes
    /// converted. Returns a note if the kernel's functions could not be named.
    ///
    /// # Errors
    /// The error of the first CPU whose conversion failed.
    pub(crate) fn convert(
        &mut self,
        directory: &Directory,
        clock: &TraceClock,
        end: &End<'_>,
        streams: &mut Vec<KernelStream>,
        advance: Advance<'_>,
    ) -> Result<Option<String>, Error> {
        let raw = directory.part(RAW)?;
        self.events = formats(&raw)?;
        self.write_metadata(directory, clock)?;
        let converter = Converter::new(self.events.iter().map(|(format, mapping)| (format, mapping)))?;
        let layout = page_layout(&raw)?;
        let mut functions = Functions::of(self.events.iter().map(|(format, _)| format));
        let (kernel, mut failure) = (directory.part(KERNEL)?, None);
        for (cpu, name) in pages(&raw)? {
            let failed = || Error::output(raw.path().join(&name));
            let file = raw.read(&name).map_err(failed())?;
            match self.stream((cpu, end), file, &kernel, (&converter, &layout), &mut functions, advance) {
                Ok(stream) => {
                    raw.remove_file(&name).map_err(failed())?;
                    streams.push(stream);
                }
                Err(error) => {
                    self.leave_out(cpu, end.ticks, &kernel);
                    failure.get_or_insert(error);
                }
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        remove_raw(directory)?;
        let named = if self.names { self.write_symbols(directory, &functions) } else { Ok(()) };
        Ok(named.err().map(|error| format!("the kernel's functions are not named: {error}")))
    }

    /// Writes a stream with a single gap for a CPU whose pages cannot be converted; without space for it, no stream.
    fn leave_out(&self, cpu: Cpu, end: Ticks, kernel: &Dir) {
        let name = page_name(cpu);
        // The partial stream takes space that the summary needs.
        let _ = kernel.remove_file(&name);
        // If the recorder was killed, the end of the recording is unknown.
        let file = if end > Ticks(0) { kernel.create(&name).ok() } else { None };
        let Some(file) = file else { return };
        let writer = StreamWriter::new(file, self.uuid, StreamClass::Kernel, Some(cpu), PACKET);
        let written = writer.and_then(|mut writer| {
            writer.begin(self.begin_ticks.min(end))?;
            writer.skip(end)?;
            writer.finish()
        });
        if written.is_err() {
            let _ = kernel.remove_file(&name);
        }
    }

    fn write_symbols(&self, directory: &Directory, functions: &Functions) -> Result<(), Error> {
        let names = functions.names();
        write_whole(directory, "symbols", |file| {
            dump::write_symbols(&names, file, self.uuid, self.begin_ticks)
        })
    }

    fn stream(
        &self,
        (cpu, end): (Cpu, &End<'_>),
        pages: File,
        kernel: &Dir,
        (converter, layout): (&Converter, &PageLayout),
        functions: &mut Functions,
        advance: Advance<'_>,
    ) -> Result<KernelStream, Error> {
        let mut source = BufReader::with_capacity(1 << 20, pages);
        let name = page_name(cpu);
        let failed = || Error::output(kernel.path().join(&name));
        // An earlier conversion that was killed may have created it.
        let _ = kernel.remove_file(&name);
        let file = kernel.create(&name).map_err(failed())?;
        let out = BufWriter::with_capacity(PACKET, file);
        let writer = StreamWriter::new(out, self.uuid, StreamClass::Kernel, Some(cpu), PACKET)?;
        let mut stream = StreamConversion {
            writer,
            converter,
            functions,
            overwrite: self.overwrite,
            last: Ticks(0),
            result: KernelStream::of(cpu),
            payload: Vec::new(),
        };
        let mut bytes = vec![0; layout.page_size()];
        loop {
            match source.read_exact(&mut bytes) {
                Ok(()) => stream.page(&bytes, layout)?,
                // A truncated page was being written when its recorder was killed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(failed()(error)),
            }
            advance(bytes.len() as u64);
        }
        if let Some(emptied) = end.kernel.iter().find(|emptied| emptied.cpu == cpu) {
            stream.finish(emptied, self.begin_ticks, end.ticks)?;
        }
        let mut result = stream.result;
        let mut out = stream.writer.finish()?;
        out.flush().map_err(failed())?;
        result.bytes = out.get_ref().metadata().map_err(failed())?.len();
        Ok(result)
    }
}

/// Returns the streams of CPUs whose pages are not converted.
pub(crate) fn unconverted(directory: &Directory) -> Vec<KernelStream> {
    let Ok(raw) = directory.part(RAW) else { return Vec::new() };
    let bytes = |name: &str| raw.read(name).and_then(|file| file.metadata()).map_or(0, |file| file.len());
    let stream =
        |(cpu, name): (Cpu, String)| KernelStream { unconverted: bytes(&name), ..KernelStream::of(cpu) };
    pages(&raw).unwrap_or_default().into_iter().map(stream).collect()
}

/// Takes the state dump. The file is renamed when it is complete, because the recorder may be killed before. Returns
/// notes on missing parts.
fn dump_to(kernel: &Dir, begin: Sample, uuid: Uuid, ticks: Ticks) -> Result<Vec<String>, Error> {
    const NEW: &str = ".statedump.new";
    let failed = || Error::output(kernel.path().join("statedump"));
    let dump = Dump::take(begin);
    let written = dump.write(kernel.create(NEW).map_err(failed())?, uuid, ticks).map_err(Error::from);
    let named = written.and_then(|()| kernel.rename(NEW, "statedump").map_err(failed()));
    // A partial dump takes space that other files may need.
    named.inspect_err(|_| _ = kernel.remove_file(NEW))?;
    Ok(dump.notes)
}

struct StreamConversion<'a, W> {
    writer: StreamWriter<W>,
    converter: &'a Converter,
    functions: &'a mut Functions,
    /// True if the kernel's buffer overwrites its oldest records, as in [`KernelTrace`].
    overwrite: bool,
    /// The last event's timestamp.
    last: Ticks,
    result: KernelStream,
    payload: Vec<u8>,
}

impl<W: Write> StreamConversion<'_, W> {
    fn page(&mut self, bytes: &[u8], layout: &PageLayout) -> Result<(), Error> {
        let page = match Page::parse(bytes, layout) {
            Ok(page) => page,
            Err(damage) => return self.damaged(&damage.to_string()),
        };
        match page.missed {
            Missed::Count(count) if self.overwrite && self.result.events == 0 => {
                self.result.overwritten += count;
            }
            Missed::Unknown if self.overwrite && self.result.events == 0 => return self.records(&page),
            Missed::None => {}
            Missed::Count(count) => self.gap(page.ticks, count)?,
            Missed::Unknown => self.gap(page.ticks, 1)?,
        }
        self.result.uncounted |= page.missed == Missed::Unknown;
        self.records(&page)
    }

    fn records(&mut self, page: &Page<'_>) -> Result<(), Error> {
        for record in page.records() {
            match record {
                Ok(record) => self.record(record.ticks, record.bytes)?,
                Err(damage) => return self.damaged(&damage.to_string()),
            }
        }
        Ok(())
    }

    fn record(&mut self, ticks: Ticks, bytes: &[u8]) -> Result<(), Error> {
        self.payload.clear();
        let header = match self.converter.convert(bytes, &mut self.payload) {
            Ok(header) => header,
            Err(damage) => return self.damaged(&damage.to_string()),
        };
        self.functions.note(header.event, bytes);
        // The kernel's timestamps of a CPU never decrease. If they did, the order of the records would be correct.
        self.last = self.last.max(ticks);
        let id = kernel_header(header.event as u16, header.flags, header.preempt_count);
        self.writer.append(self.last, id, &header.tid.0.to_ne_bytes(), &self.payload)?;
        self.result.events += 1;
        Ok(())
    }

    fn gap(&mut self, ticks: Ticks, count: u64) -> Result<(), Error> {
        self.last = self.last.max(ticks);
        self.writer.gap(self.last, count)?;
        self.result.lost += count;
        Ok(())
    }

    /// Accounts for records that are in no page: those overwritten after the last page that was read, and those that
    /// could not be written.
    fn finish(&mut self, emptied: &Emptied, begin: Ticks, end: Ticks) -> Result<(), Error> {
        let known = self.result.lost + self.result.overwritten;
        let more = emptied.lost.saturating_sub(known);
        let is_overwritten = self.overwrite && emptied.failure.is_none();
        if is_overwritten {
            self.result.overwritten += more;
            self.result.uncounted &= more == 0;
            return Ok(());
        }
        if more > 0 {
            self.result.uncounted = false;
        }
        if emptied.failure.is_some() {
            let rest = emptied.recorded.saturating_sub(emptied.lost.max(known));
            self.result.unwritten = rest.saturating_sub(self.result.events);
        }
        if more + self.result.unwritten > 0 {
            self.writer.begin(begin.min(end))?;
            self.gap(end, more + self.result.unwritten)?;
            self.result.lost -= self.result.unwritten;
        }
        Ok(())
    }

    /// Records damage: invalid bytes in a page mean that at least one record is missing.
    fn damaged(&mut self, what: &str) -> Result<(), Error> {
        if self.result.damage.is_none() {
            self.result.damage = Some(what.to_owned());
        }
        self.result.uncounted = true;
        self.gap(self.last, 1)
    }
}

fn remove_raw(directory: &Directory) -> Result<(), Error> {
    directory.dir().remove_all(RAW).map_err(Error::output(directory.path().join(RAW)))
}

/// Reads the saved formats, sorted by system and name.
fn formats(raw: &Dir) -> Result<Vec<(Format, EventConversion)>, Error> {
    let mut events = Vec::new();
    let formats = raw.dir(FORMATS).map_err(Error::output(raw.path().join(FORMATS)))?;
    for system in names(&formats)? {
        let dir = formats.dir(&system).map_err(Error::output(formats.path().join(&system)))?;
        for name in names(&dir)? {
            let text = dir.read_text(&name, MOST_FORMAT).map_err(Error::output(dir.path().join(&name)))?;
            let format = Format::parse(&system, &text)?;
            let mapping = lttng(&format.schema());
            events.push((format, mapping));
        }
    }
    Ok(events)
}

fn page_layout(raw: &Dir) -> Result<PageLayout, Error> {
    let text = raw.read_text(PAGE_SIZE, 64).map_err(Error::output(raw.path().join(PAGE_SIZE)))?;
    Ok(PageLayout::of_size(text.trim().parse().unwrap_or(0))?)
}

/// Returns the CPUs and the names of their files of pages, sorted by CPU.
fn pages(raw: &Dir) -> Result<Vec<(Cpu, String)>, Error> {
    let cpus = names(raw)?.into_iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
    let mut cpus: Vec<u32> = cpus.collect();
    cpus.sort_unstable();
    Ok(cpus.into_iter().map(|cpu| (Cpu(cpu), page_name(Cpu(cpu)))).collect())
}

/// Returns the size of the pages not yet converted, in bytes.
pub fn raw_bytes(directory: &Directory) -> u64 {
    unconverted(directory).iter().map(|stream| stream.unconverted).sum()
}
