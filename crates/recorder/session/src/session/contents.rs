//! The contents of a snapshot, and how another thread writes them.

use super::memory::ProgramSnapshot;
use super::misses::Misses;
use super::summarise::summarise;
use sordino_clock::Sample;
use sordino_collect::Error;
use sordino_collect::chunk::{Chunk, ChunkEnd};
use sordino_collect::convert::Purpose;
use sordino_collect::directory::{Directory, RAW};
use sordino_collect::drain::{StreamCopy, StreamEnd, unwritable};
use sordino_collect::history::{Pages, write_pages};
use sordino_collect::kernel::{Emptied, Formats};
use sordino_collect::output::Output;
use sordino_collect::program::ProgramTrace;
use sordino_collect::rank::Hits;
use sordino_collect::summary::Summary;
use sordino_collect::watch::Nobody;
use sordino_event::Ticks;
use sordino_inspect::clock::TraceClock;
use sordino_inspect::context::Observation;
use sordino_inspect::steal::StolenTime;
use sordino_ring::read::Packet;
use sordino_tracefs::Page;
use std::io;
use std::sync::Arc;

/// The contents of a snapshot, for the thread that writes it.
pub(super) struct Contents {
    pub(super) directory: Directory,
    pub(super) summary: Summary,
    pub(super) purpose: Purpose,
    pub(super) misses: Misses,
    pub(super) clock: TraceClock,
    pub(super) since: Ticks,
    pub(super) end: Sample,
    pub(super) programs: Vec<ProgramSnapshot>,
    pub(super) kernel: KernelSnapshot,
    pub(super) stolen: Vec<StolenTime>,
    pub(super) observations: Vec<Observation>,
    /// The hits that rank the snapshot, if it is ranked.
    pub(super) hits: Option<Hits>,
}

/// The kernel's part of a snapshot.
pub(super) struct KernelSnapshot {
    /// The formats of the events, if the kernel is recorded.
    pub(super) formats: Option<Arc<Formats>>,
    /// The kept pages of each CPU.
    pub(super) pages: Vec<Pages>,
    /// The state of each CPU's buffer, or the error in emptying them.
    pub(super) emptied: Result<Vec<Emptied>, Error>,
}

impl Contents {
    pub(super) fn write(self) -> Result<(Directory, Summary), Error> {
        let directory = self.directory.clone();
        self.write_all().inspect_err(|_| directory.remove())
    }

    fn write_all(self) -> Result<(Directory, Summary), Error> {
        if let Some(formats) = &self.kernel.formats {
            formats.save(&self.directory)?;
        }
        let raw = self.directory.part(RAW)?;
        self.kernel.pages.iter().try_for_each(|pages| write_pages(&raw, pages))?;
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
        chunk.add_reason();
        if let Some(hits) = &self.hits {
            chunk.rank(hits);
        }
        let rest = ChunkEnd {
            end: self.end,
            kernel: self.kernel.emptied,
            stolen: self.stolen,
            gaps: Vec::new(),
            observations: self.observations,
        };
        chunk.finish(&self.clock, rest, &mut Nobody)
    }

    /// Returns the first timestamp in the snapshot, limited to the time of the session: only a faulty program has
    /// others.
    fn begin(&self) -> Ticks {
        let streams = self.programs.iter().flat_map(|program| &program.copy.streams);
        let user = streams.filter_map(|stream| stream.first_since(self.since));
        let page = |(_, pages): &Pages| {
            let layout = &self.kernel.formats.as_ref()?.layout;
            Some(Page::parse(pages.first()?, layout).ok()?.ticks)
        };
        let kernel = self.kernel.pages.iter().filter_map(page);
        let [earliest, latest] = [&self.clock.begin, &self.end].map(|sample| self.clock.ticks(sample));
        user.chain(kernel).min().unwrap_or(latest).max(earliest).min(latest)
    }
}

/// Writes the copied packets of a ring that are not older than `since`.
fn write_stream(trace: &ProgramTrace, stream: &StreamCopy, since: Ticks) -> Option<StreamEnd> {
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
