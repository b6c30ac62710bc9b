//! A flight recorder's snapshots: the newest contents of all rings and of the kernel's buffers, written while recording
//! continues.

use super::answers::Misses;
use super::summarise::summarise;
use super::writer::Job;
use super::{Session, Sink};
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::chunk::{Chunk, ChunkEnd};
use sordino_collect::convert::Purpose;
use sordino_collect::directory::{Directory, RAW};
use sordino_collect::drain::{ProgramCopy, StreamCopy, StreamEnd, unwritable};
use sordino_collect::history::{History, Pages, write_pages};
use sordino_collect::kernel::{Emptied, Formats};
use sordino_collect::options::Options;
use sordino_collect::output::Output;
use sordino_collect::program::{ProgramTrace, Traced};
use sordino_collect::rank::Hits;
use sordino_collect::summary::Summary;
use sordino_collect::watch::Nobody;
use sordino_collect::why::ASKED;
use sordino_event::Cpu;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::Observation;
use sordino_inspect::steal::StolenTime;
use sordino_ring::read::Packet;
use sordino_tracefs::{Page, PageLayout};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum size of the records of ended programs that are kept in memory for later snapshots, in bytes.
const LEGACY: usize = 64 << 20;
/// Approximate memory for an ended program beside its records, in bytes.
const EACH: usize = 16 << 10;
/// Maximum number of snapshots that wait to be written, each with a copy of all rings.
const BACKLOG: usize = 4;

/// The data that a flight recorder keeps beside the rings and the kernel's buffers.
#[derive(Debug)]
pub(super) struct Memory {
    kernel: History,
    /// Programs that have ended, oldest first.
    ended: VecDeque<Running>,
    /// The number of ended programs for which there was no more room.
    forgotten: u64,
}

/// A program's newest records, and its trace's description.
#[derive(Clone, Debug)]
pub(super) struct Running {
    trace: ProgramTrace,
    copy: Arc<ProgramCopy>,
    notes: Vec<String>,
}

impl Running {
    /// Combines a program's present description with a copy of its records.
    pub(super) fn of(program: &Traced, copy: ProgramCopy) -> Self {
        Self { trace: program.trace.clone(), copy: Arc::new(copy), notes: program.notes.clone() }
    }

    pub(super) fn bytes(&self) -> usize {
        let packets = self.copy.streams.iter().flat_map(|stream| &stream.packets);
        EACH + packets.map(|packet| packet.bytes.len()).sum::<usize>()
    }

    /// Returns true if there is any record from this timestamp on.
    fn has_any_since(&self, since: u64) -> bool {
        let mut packets = self.copy.streams.iter().flat_map(|stream| &stream.packets);
        packets.any(|packet| packet.content.last_timestamp >= since)
    }
}

impl Memory {
    pub(super) fn new(options: &Options) -> Self {
        let kernel = History::new(options.kernel_buffer_kib << 10);
        Self { kernel, ended: VecDeque::new(), forgotten: 0 }
    }

    /// Adds a CPU, and returns the file for its kernel pages.
    pub(super) fn add_cpu(&mut self, cpu: Cpu) -> io::Result<OwnedFd> {
        self.kernel.add(cpu)
    }

    /// Returns the kernel's pages with events from `since` on.
    pub(super) fn pages(&self, since: u64, layout: &PageLayout) -> Vec<Pages> {
        self.kernel.pages(since, layout)
    }

    /// Returns the number of ended programs that are kept, and of those that are not any more.
    pub(super) fn ended(&self) -> (usize, u64) {
        (self.ended.len(), self.forgotten)
    }

    /// Keeps the records of an ended program, and drops the oldest programs that exceed the limit.
    fn keep(&mut self, ended: Running) {
        if !ended.has_any_since(0) {
            return;
        }
        self.ended.push_back(ended);
        let mut bytes: usize = self.ended.iter().map(Running::bytes).sum();
        while bytes > LEGACY && self.ended.len() > 1 {
            bytes -= self.ended.pop_front().map_or(0, |oldest| oldest.bytes());
            self.forgotten += 1;
        }
    }
}

/// The contents of a snapshot, for the thread that writes it.
pub(super) struct Contents {
    pub(super) directory: Directory,
    pub(super) summary: Summary,
    pub(super) purpose: Purpose,
    pub(super) misses: Misses,
    pub(super) clock: TraceClock,
    pub(super) since: u64,
    pub(super) end: Sample,
    pub(super) programs: Vec<Running>,
    pub(super) formats: Option<Arc<Formats>>,
    pub(super) pages: Vec<Pages>,
    pub(super) kernel: Result<Vec<Emptied>, Error>,
    pub(super) stolen: Vec<StolenTime>,
    pub(super) observations: Vec<Observation>,
    /// The hits that rank the snapshot, if it is ranked.
    pub(super) hits: Option<Hits>,
}

impl Session<'_> {
    /// Returns the timestamp `last` before now; without `last`, by the session's setting for snapshots.
    pub(super) fn since(&self, last: Option<Duration>) -> u64 {
        let last = last.or(self.options.session.as_ref().and_then(|session| session.snapshots.last));
        let back = last.map_or(u64::MAX, |last| self.clock.ticks_in(last));
        self.clock.now()().saturating_sub(back)
    }

    /// Takes a snapshot now. Returns the job that writes it.
    pub(super) fn snapshot(&mut self, last: Option<Duration>, why: &str) -> Job {
        let since = self.since(last);
        let copies = self.collector.copy(since);
        self.snapshot_of(since, copies, why, None)
    }

    /// Returns true if there is no memory for another snapshot until earlier ones are written.
    pub(super) fn has_backlog(&self) -> bool {
        self.outlet.as_ref().is_some_and(|outlet| outlet.writer.open() >= BACKLOG)
    }

    /// Handles a program's request for a snapshot, for which the collector has copied the rings.
    pub(super) fn triggered(&mut self, number: usize, point: u16, at: u64, copies: Vec<ProgramCopy>) {
        let program = self.programs.iter().find(|program| program.number() == number);
        let name = program.and_then(|program| program.trace.tracepoint(point));
        let why = name.unwrap_or_else(|| "a program that has ended".to_owned());
        self.snapshot_by_itself(&why, (why != ASKED).then_some(at), |_| copies);
    }

    /// Returns the hits that rank a snapshot, up to timestamp `at`. Those that come while the rings are copied may rank
    /// two snapshots.
    fn hits_before(&mut self, at: u64) -> Option<Hits> {
        let worst = self.options.session.as_ref()?.snapshots.worst.as_ref()?;
        let since = std::mem::replace(&mut self.outlet.as_mut()?.unranked, at);
        Some(Hits {
            ranking: worst.ranking.clone(),
            user: self.user.clone(),
            since: self.clock.ctf().time(since),
        })
    }

    /// Takes a snapshot because of a program's end, unless the last automatic one was a moment ago.
    pub(super) fn ended_badly(&mut self, why: &str) {
        let (Some(outlet), Some(session)) = (&mut self.outlet, &self.options.session) else { return };
        if outlet.triggered.is_some_and(|last| last.elapsed() < session.snapshots.hold_off) {
            outlet.triggers += 1;
            return;
        }
        self.snapshot_by_itself(why, None, |session| session.collector.copy(session.since(None)));
    }

    /// Takes an automatic snapshot, within the limit for their number. A ranked one is ranked by the events up to
    /// `ranked`.
    fn snapshot_by_itself(
        &mut self,
        why: &str,
        ranked: Option<u64>,
        copy: impl FnOnce(&Self) -> Vec<ProgramCopy>,
    ) {
        let backlog = self.has_backlog();
        let (Some(outlet), Some(session)) = (&mut self.outlet, &self.options.session) else { return };
        outlet.triggers += 1;
        if session.snapshots.most.is_some_and(|most| outlet.taken >= most) {
            return;
        }
        if backlog {
            return self.tell(format!("no snapshot for {why}: {BACKLOG} others are still being written"));
        }
        (outlet.taken, outlet.triggered) = (outlet.taken + 1, Some(Instant::now()));
        let copies = copy(self);
        // Hits for a snapshot that is not taken rank the next one.
        let hits = ranked.and_then(|at| self.hits_before(at));
        let job = self.snapshot_of(self.since(None), copies, why, hits);
        self.write(job, None);
    }

    /// Keeps the records of an ended program for later snapshots.
    pub(super) fn keep(&mut self, program: Traced, copy: Option<ProgramCopy>) {
        let (Sink::Memory(memory), Some(copy)) = (&mut self.sink, copy) else { return };
        memory.keep(Running { trace: program.trace, copy: Arc::new(copy), notes: program.notes });
    }

    fn snapshot_of(&mut self, since: u64, copies: Vec<ProgramCopy>, why: &str, hits: Option<Hits>) -> Job {
        // First, so that all events from the rings are declared.
        self.refresh();
        let kernel = self.empty_kernel();
        let end = Sample::take();
        self.clock.refine(&end);
        let (stolen, observations) = (self.steal.stolen_since(since), self.watcher.since(since));
        self.has_events |= copies.iter().any(ProgramCopy::has_any);
        let shortfall = self.shortfall();
        let (Some(outlet), Sink::Memory(memory)) = (&mut self.outlet, &self.sink) else {
            let name = self.options.name.clone();
            return Box::new(move || Err(Error::Kind(name)));
        };
        let running = copies.into_iter().filter_map(|copy| {
            let program = self.programs.iter().find(|program| program.number() == copy.number)?;
            Some(Running::of(program, copy))
        });
        let ended = memory.ended.iter().filter(|ended| ended.has_any_since(since)).cloned();
        let programs = ended.chain(running).collect();
        let formats = self.kernel.as_ref().map(|kernel| Arc::clone(&kernel.formats));
        let pages = formats.as_ref().map(|formats| memory.kernel.pages(since, &formats.layout));
        let directory = match outlet.series.next() {
            Ok(directory) => directory,
            Err(error) => return Box::new(move || Err(error)),
        };
        let contents = Contents {
            directory,
            summary: Summary { reason: Some(why.to_owned()), shortfall, ..self.template.clone() },
            purpose: Purpose::Keeping,
            misses: self.misses.clone(),
            clock: self.clock.clone(),
            since,
            end,
            programs,
            formats,
            pages: pages.unwrap_or_default(),
            kernel,
            stolen,
            observations,
            hits,
        };
        Box::new(move || contents.write())
    }

    /// Moves the kernel's pages into the history.
    pub(super) fn empty_kernel(&mut self) -> Result<Vec<Emptied>, Error> {
        let (Some(kernel), Sink::Memory(memory)) = (&mut self.kernel, &mut self.sink) else {
            return Ok(Vec::new());
        };
        let (theirs, ours) = memory.kernel.fresh()?;
        let emptied = kernel.empty(theirs)?;
        memory.kernel.take(ours, &kernel.formats.layout)?;
        Ok(emptied)
    }
}

impl Contents {
    pub(super) fn write(self) -> Result<(Directory, Summary), Error> {
        let directory = self.directory.clone();
        self.write_all().inspect_err(|_| directory.remove())
    }

    fn write_all(self) -> Result<(Directory, Summary), Error> {
        if let Some(formats) = &self.formats {
            formats.save(&self.directory)?;
        }
        let raw = self.directory.part(RAW)?;
        self.pages.iter().try_for_each(|pages| write_pages(&raw, pages))?;
        let begin = self.begin();
        let mut streams = self.programs.iter().flat_map(|program| &program.copy.streams);
        // Records from before that time are not part of the snapshot, so none of them is missing.
        let from = if streams.any(|stream| stream.overwritten > 0) { begin } else { self.since };
        let begin = self.clock.sample_at(begin, &self.end);
        let summary = Summary { unrecorded: self.misses.since(from), ..self.summary };
        let mut chunk = Chunk::begin(self.directory, summary, &self.clock, begin, self.purpose)?;
        chunk.announce()?;
        for program in &self.programs {
            let mut trace = program.trace.put_in(&chunk.directory, &self.clock)?;
            if let Some(lack) = program.trace.lack.filter(|lack| lack.to >= self.since) {
                trace.add_lack(lack)?;
            }
            let ends =
                program.copy.streams.iter().filter_map(|stream| write_stream(&trace, stream, self.since));
            let ends = ends.collect();
            chunk.add(summarise(&trace, program.notes.clone(), ends), trace);
        }
        chunk.tell_why();
        if let Some(hits) = &self.hits {
            chunk.rank(hits);
        }
        let rest = ChunkEnd {
            end: self.end,
            kernel: self.kernel,
            stolen: self.stolen,
            gaps: Vec::new(),
            observations: self.observations,
        };
        chunk.finish(&self.clock, rest, &mut Nobody)
    }

    /// Returns the first timestamp in the snapshot, limited to the time of the session: only a faulty program has
    /// others.
    fn begin(&self) -> u64 {
        let streams = self.programs.iter().flat_map(|program| &program.copy.streams);
        let user = streams.filter_map(|stream| stream.first_since(self.since));
        let page = |(_, pages): &Pages| {
            let layout = &self.formats.as_ref()?.layout;
            Some(Page::parse(pages.first()?, layout).ok()?.ticks)
        };
        let kernel = self.pages.iter().filter_map(page);
        let [earliest, latest] = [&self.clock.begin, &self.end].map(|sample| self.clock.ticks(sample));
        user.chain(kernel).min().unwrap_or(latest).max(earliest).min(latest)
    }
}

/// Writes the copied packets of a ring that are not older than `since`.
fn write_stream(trace: &ProgramTrace, stream: &StreamCopy, since: u64) -> Option<StreamEnd> {
    let is_selected = |packet: &&Packet| packet.content.last_timestamp >= since;
    // Records lost before the first packet are not missing from the snapshot.
    let before = stream.packets.iter().find(is_selected).map_or(stream.lost, Packet::lost_before);
    let mut output = trace.output(stream.cpu)?.after(before);
    let (older, newer) = stream.packets.split_at(stream.gap);
    let older = write_packets(older.iter().filter(is_selected), &mut output);
    output.leave_out(stream.left_out);
    let newer = write_packets(newer.iter().filter(is_selected), &mut output);
    Some(StreamEnd {
        cpu: stream.cpu,
        lost: output.since(stream.lost),
        overwritten: stream.overwritten,
        unfinished: 0,
        corrupt: stream.corrupt,
        failure: older.or(newer).map(|error| unwritable(&output, &error)),
        output: Some(output),
    })
}

/// Writes packets, and leaves out those that can't be written. Returns the first error.
fn write_packets<'a>(packets: impl Iterator<Item = &'a Packet>, output: &mut Output) -> Option<io::Error> {
    let mut failure = None;
    for packet in packets {
        if let Err(error) = output.write_packet(&mut packet.clone()) {
            output.skip(&packet.content);
            failure.get_or_insert(error);
        }
    }
    failure
}
