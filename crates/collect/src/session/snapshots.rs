//! A flight recorder's snapshots: the newest of all rings and of the kernel's buffers, written while recording goes on.

use super::programs::summarise;
use super::writer::{Job, Whom};
use super::{Nobody, Session, Sink};
use crate::Error;
use crate::chunk::{Chunk, Rest};
use crate::clock::TraceClock;
use crate::directory::Directory;
use crate::drain::{ProgramCopy, StreamCopy, StreamEnd};
use crate::history::{History, Pages, write_pages};
use crate::kernel::{Emptied, Formats};
use crate::options::Options;
use crate::program::{ProgramTrace, Traced};
use crate::steal::Stolen;
use crate::summary::Summary;
use sordino_clock::Sample;
use sordino_event::Cpu;
use sordino_ring::read::Packet;
use sordino_tracefs::{Page, PageLayout};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What programs that have ended leave in memory, in bytes, for snapshots to come.
const LEGACY: usize = 64 << 20;

/// What a flight recorder keeps besides the rings and the kernel's buffers.
#[derive(Debug)]
pub(super) struct Memory {
    kernel: History,
    /// Programs that have ended, oldest first.
    ended: VecDeque<Running>,
    /// How many of them there was no more room for.
    forgotten: u64,
}

/// A program's newest data, and what they are.
#[derive(Clone, Debug)]
pub(super) struct Running {
    trace: ProgramTrace,
    copy: Arc<ProgramCopy>,
    notes: Vec<String>,
}

impl Running {
    /// As they are now.
    pub(super) fn of(program: &Traced, copy: ProgramCopy) -> Self {
        Self { trace: program.trace.clone(), copy: Arc::new(copy), notes: program.notes.clone() }
    }

    fn bytes(&self) -> usize {
        let packets = self.copy.streams.iter().flat_map(|stream| &stream.packets);
        packets.map(|packet| packet.bytes.len()).sum()
    }
}

impl Memory {
    pub(super) fn new(options: &Options) -> Self {
        let kernel = History::new(options.kernel_buffer_kib << 10);
        Self { kernel, ended: VecDeque::new(), forgotten: 0 }
    }

    /// Where the kernel's pages of a CPU go.
    pub(super) fn add_cpu(&mut self, cpu: Cpu) -> std::io::Result<OwnedFd> {
        self.kernel.add(cpu)
    }

    /// The kernel's pages with events from `since` on.
    pub(super) fn pages(&self, since: u64, layout: &PageLayout) -> Vec<Pages> {
        self.kernel.pages(since, layout)
    }

    /// How many programs that have ended it still has, and how many no longer.
    pub(super) fn ended(&self) -> (usize, u64) {
        (self.ended.len(), self.forgotten)
    }

    /// Keeps what a program left, and forgets the oldest that there is no room for.
    fn keep(&mut self, ended: Running) {
        self.ended.push_back(ended);
        let mut bytes: usize = self.ended.iter().map(Running::bytes).sum();
        while bytes > LEGACY && self.ended.len() > 1 {
            bytes -= self.ended.pop_front().map_or(0, |oldest| oldest.bytes());
            self.forgotten += 1;
        }
    }
}

/// All that a snapshot is made of, for the thread that writes it.
pub(super) struct Contents {
    pub(super) directory: Directory,
    pub(super) summary: Summary,
    pub(super) clock: TraceClock,
    pub(super) since: u64,
    pub(super) end: Sample,
    pub(super) programs: Vec<Running>,
    pub(super) formats: Option<Arc<Formats>>,
    pub(super) pages: Vec<Pages>,
    pub(super) kernel: Result<Vec<Emptied>, Error>,
    pub(super) stolen: Vec<Stolen>,
}

impl Session<'_> {
    /// The stamp that lies `last` back, or as much as this session's snapshots have.
    pub(super) fn since(&self, last: Option<Duration>) -> u64 {
        let last = last.or(self.options.session.as_ref().and_then(|session| session.snapshots.last));
        let back = last.map_or(u64::MAX, |last| self.clock.ticks_in(last));
        self.clock.now()().saturating_sub(back)
    }

    /// Takes a snapshot now; `whom` is told when it is written.
    pub(super) fn snapshot(&mut self, last: Option<Duration>, why: &str, whom: Option<Whom>) {
        let since = self.since(last);
        let copies = self.collector.copy(since);
        self.write_snapshot(since, copies, why, whom);
    }

    /// A program has asked for one, and the collector has copied.
    pub(super) fn triggered(&mut self, number: usize, point: u16, copies: Vec<ProgramCopy>) {
        let program = self.programs.iter().find(|program| program.number() == number);
        let name = program.and_then(|program| program.trace.tracepoint(point));
        let why = name.unwrap_or_else(|| "a program that has ended".to_owned());
        self.snapshot_by_itself(&why, |_| copies);
    }

    /// Takes one that no person asked for, unless there were enough of them.
    pub(super) fn snapshot_by_itself(&mut self, why: &str, copy: impl FnOnce(&Self) -> Vec<ProgramCopy>) {
        let (Some(outlet), Some(session)) = (&mut self.outlet, &self.options.session) else { return };
        outlet.triggers += 1;
        if session.snapshots.most.is_none_or(|most| outlet.triggers <= most) {
            let copies = copy(self);
            self.write_snapshot(self.since(None), copies, why, None);
        }
    }

    /// Keeps what a program left for snapshots to come.
    pub(super) fn keep(&mut self, program: Traced, copy: Option<ProgramCopy>) {
        let (Sink::Memory(memory), Some(copy)) = (&mut self.sink, copy) else { return };
        memory.keep(Running { trace: program.trace, copy: Arc::new(copy), notes: program.notes });
    }

    fn write_snapshot(&mut self, since: u64, copies: Vec<ProgramCopy>, why: &str, whom: Option<Whom>) {
        // What comes out of the rings was declared before.
        self.refresh();
        let kernel = self.empty_kernel();
        let end = Sample::take();
        self.clock.refine(&end);
        let stolen = self.steal.stolen_since(since);
        let (Some(outlet), Sink::Memory(memory)) = (&mut self.outlet, &self.sink) else { return };
        let running = copies.into_iter().filter_map(|copy| {
            let program = self.programs.iter().find(|program| program.number() == copy.number)?;
            Some(Running::of(program, copy))
        });
        let programs = memory.ended.iter().cloned().chain(running).collect();
        let formats = self.kernel.as_ref().map(|kernel| Arc::clone(&kernel.formats));
        let pages = formats.as_ref().map(|formats| memory.kernel.pages(since, &formats.layout));
        let summary = Summary { reason: Some(why.to_owned()), ..self.template.clone() };
        let clock = self.clock.clone();
        let pages = pages.unwrap_or_default();
        let job: Job = match outlet.series.next() {
            Ok(directory) => {
                let contents = Contents {
                    directory,
                    summary,
                    clock,
                    since,
                    end,
                    programs,
                    formats,
                    pages,
                    kernel,
                    stolen,
                };
                Box::new(move || contents.write())
            }
            Err(error) => Box::new(move || Err(error)),
        };
        outlet.writer.give(job, whom);
    }

    /// Moves what the kernel has into the history.
    pub(super) fn empty_kernel(&mut self) -> Result<Vec<Emptied>, Error> {
        let (Some(kernel), Sink::Memory(memory)) = (&mut self.kernel, &mut self.sink) else {
            return Ok(Vec::new());
        };
        let (next, before) = memory.kernel.exchange()?;
        let emptied = kernel.empty(next)?;
        memory.kernel.take(before, &kernel.formats.layout)?;
        Ok(emptied)
    }
}

impl Contents {
    pub(super) fn write(self) -> Result<(Directory, Summary), Error> {
        let directory = self.directory.clone();
        self.write_all().inspect_err(|_| directory.remove(false))
    }

    fn write_all(self) -> Result<(Directory, Summary), Error> {
        if let Some(formats) = &self.formats {
            formats.save(&self.directory)?;
        }
        let raw = self.directory.raw();
        self.pages.iter().try_for_each(|pages| write_pages(&raw, pages))?;
        let begin = self.clock.sample_at(self.begin(), &self.end);
        let mut chunk = Chunk::begin(self.directory, self.summary, &self.clock, begin)?;
        chunk.announce()?;
        for program in &self.programs {
            let trace = program.trace.put_in(&chunk.directory, &self.clock)?;
            let ends =
                program.copy.streams.iter().filter_map(|stream| write_stream(&trace, stream, self.since));
            let ends = ends.collect();
            chunk.add(summarise(&trace, program.notes.clone(), ends, &chunk.directory), trace);
        }
        let rest = Rest { end: self.end, kernel: self.kernel, stolen: self.stolen };
        chunk.finish(&self.clock, rest, &mut Nobody)
    }

    /// The first stamp in it.
    fn begin(&self) -> u64 {
        let packets =
            self.programs.iter().flat_map(|program| &program.copy.streams).flat_map(|stream| &stream.packets);
        let user = packets
            .filter(|packet| packet.content.last_stamp >= self.since)
            .map(|packet| packet.content.first_stamp);
        let page = |(_, pages): &Pages| {
            let layout = &self.formats.as_ref()?.layout;
            Some(Page::parse(pages.first()?, layout).ok()?.ticks)
        };
        let kernel = self.pages.iter().filter_map(page);
        user.chain(kernel).min().unwrap_or(self.clock.ticks(&self.end))
    }
}

/// Writes what was copied of a ring, as far as it is not older than wanted.
fn write_stream(trace: &ProgramTrace, stream: &StreamCopy, since: u64) -> Option<StreamEnd> {
    let packets = stream.packets.iter().filter(|packet| packet.content.last_stamp >= since);
    let mut packets = packets.cloned().peekable();
    // What was lost before the first of them is not missing from it.
    let before = packets.peek().map_or(stream.lost, Packet::lost_before);
    let mut output = trace.output(stream.cpu)?.after(before);
    let failure = packets.try_for_each(|mut packet| output.write_packet(&mut packet)).err();
    Some(StreamEnd {
        cpu: stream.cpu,
        bytes: output.bytes(),
        lost: output.since(stream.lost),
        overwritten: stream.overwritten,
        unfinished: 0,
        corrupt: stream.corrupt,
        unwritten: stream.left_out + u64::from(failure.is_some()),
        failure,
        path: output.path().to_owned(),
    })
}
