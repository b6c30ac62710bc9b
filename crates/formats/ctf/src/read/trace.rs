//! A trace and its streams, without their events.

use super::compile::compile;
use super::events::Events;
use super::find::stream_files;
use super::index::{IndexedPacket, packets};
use super::lex::position;
use super::metadata::Metadata;
use super::program::TraceProgram;
use super::regular;
use super::source::ByteSource;
use super::types::Endianness;
use super::unpack;
use crate::{ClockDescription, Environment, Error, Uuid};
use sordino_event::{Classes, Event, Pid, Step, Time};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The most bytes of metadata that are read: about 50,000 events.
const METADATA_MAX: u64 = 1 << 25;

/// A CTF trace: its metadata and the index of its packets. Events are read by [`Stream::events`].
#[derive(Debug)]
pub struct Trace {
    path: PathBuf,
    uuid: Option<Uuid>,
    order: Endianness,
    environment: Environment,
    clocks: Vec<ClockDescription>,
    streams: Vec<Stream>,
}

/// A stream of a trace: packets in order of time, from one or more files.
///
/// Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Stream(pub(super) Arc<StreamContent>);

#[derive(Debug)]
pub(super) struct StreamContent {
    pub(super) program: Arc<TraceProgram>,
    pub(super) sources: Vec<ByteSource>,
    pub(super) packets: Vec<IndexedPacket>,
    pub(super) pid: Option<Pid>,
    pub(super) uuid: Option<Uuid>,
    /// The stream in words, by the numbers in its packets' headers.
    name: String,
    /// The time of the last event, if the last packet was never ended.
    unended: OnceLock<Option<Time>>,
}

impl StreamContent {
    /// Returns the begin of the packet at `index`, if there is one with a valid header.
    pub(super) fn begin_of(&self, index: usize) -> Option<Time> {
        self.packets.get(index).filter(|packet| packet.content_bits > 0)?.begin
    }

    /// Returns the place of an offset in the packet at `index` in words: the file, the stream, the number of the packet
    /// in the file, counted from 0, and the offset in the file.
    pub(super) fn place(&self, index: usize, offset: u64) -> String {
        let packet = &self.packets[index];
        let number = index - self.packets.partition_point(|other| other.file < packet.file);
        let file = self.sources[packet.file].path().to_string_lossy();
        format!("{file}, {}, packet {number}, byte {}", self.name, packet.offset + offset)
    }

    /// Returns true if the packet at `index` has the whole clock in a valid header.
    pub(super) fn has_whole_clock(&self, index: usize) -> bool {
        let class = self.packets.get(index).map(|packet| packet.class);
        self.begin_of(index).is_some()
            && class.is_some_and(|class| self.program.streams[class].has_whole_clock)
    }
}

impl Trace {
    /// Reads the metadata of the trace in `dir` and the headers of its packets; adds a class to `classes` for each of
    /// its event classes.
    ///
    /// # Errors
    /// If a file can't be read, or if the metadata is invalid. Corrupt packets are no error; their streams report them.
    pub fn open(dir: impl AsRef<Path>, classes: &mut Classes) -> Result<Self, Error> {
        Self::open_with(dir, classes, |_, _| {})
    }

    /// Opens the trace as [`open`](Self::open) does. `adjust` gets the trace's environment and relates its clocks to
    /// those of other traces. All times of the trace are by the adjusted clocks.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_with(
        dir: impl AsRef<Path>,
        classes: &mut Classes,
        adjust: impl FnMut(&Environment, &mut ClockDescription),
    ) -> Result<Self, Error> {
        let dir = dir.as_ref();
        let path = dir.join("metadata");
        let metadata = read_metadata(&path)?;
        let sources = stream_files(dir)?.into_iter().map(ByteSource::File).collect();
        Self::assemble(dir.to_owned(), (&path, &metadata), sources, classes, adjust)
    }

    /// Opens a trace in memory: `files` are the stream files with their names.
    ///
    /// # Errors
    /// If the metadata is invalid.
    pub fn from_memory(
        metadata: &[u8],
        files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>,
        classes: &mut Classes,
    ) -> Result<Self, Error> {
        let sources = files.into_iter().map(|(name, bytes)| ByteSource::Memory(name, bytes)).collect();
        Self::assemble(PathBuf::new(), (Path::new("metadata"), metadata), sources, classes, |_, _| {})
    }

    fn assemble(
        path: PathBuf,
        (metadata_path, metadata): (&Path, &[u8]),
        sources: Vec<ByteSource>,
        classes: &mut Classes,
        mut adjust: impl FnMut(&Environment, &mut ClockDescription),
    ) -> Result<Self, Error> {
        let text = unpack::text(metadata).map_err(|(offset, problem)| Error::MetadataPacket {
            path: metadata_path.to_owned(),
            offset,
            problem,
        })?;
        let parsed = Metadata::parse(&text).and_then(|mut metadata| {
            metadata.clocks.values_mut().for_each(|clock| adjust(&metadata.environment, clock));
            Ok((compile(&metadata, classes)?, metadata))
        });
        let (program, metadata) = parsed.map_err(|at| {
            let (line, column) = position(&text, at.offset);
            Error::Metadata { path: metadata_path.to_owned(), line, column, problem: at.problem }
        })?;
        let vpid = metadata.environment.integer("vpid").and_then(|pid| i32::try_from(pid).ok());
        let streams = group(sources, Arc::new(program), vpid.map(Pid), metadata.uuid)?;
        let clocks = metadata.clocks.into_values().collect();
        let order = metadata.order;
        Ok(Self { path, uuid: metadata.uuid, order, environment: metadata.environment, clocks, streams })
    }

    /// Returns the directory from which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the trace's UUID, if it has one.
    pub fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// Returns true if it was written in this machine's byte order. It is read either way.
    pub fn is_native(&self) -> bool {
        match self.order {
            Endianness::Little => cfg!(target_endian = "little"),
            Endianness::Big => cfg!(target_endian = "big"),
        }
    }

    /// Returns the environment in which it was recorded.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Returns the trace's clocks; nearly always one.
    pub fn clocks(&self) -> &[ClockDescription] {
        &self.clocks
    }

    /// Returns the trace's streams. Files without a packet have none.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }
}

impl Stream {
    /// Returns a reader of its events, from the first.
    pub fn events(&self) -> Events {
        Events::new(Arc::clone(&self.0))
    }

    /// Returns the stream's packets, in the order in which they are read.
    pub fn packets(&self) -> &[IndexedPacket] {
        &self.0.packets
    }

    /// Returns the stream's files, in the order in which they are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.sources.iter().map(ByteSource::path)
    }

    /// Returns the earliest and the latest time in its packets' headers, or the time of its last event if the last
    /// packet was never ended, which is read for that.
    pub fn span(&self) -> Option<(Time, Time)> {
        let sound = || self.0.packets.iter().filter(|packet| packet.content_bits > 0);
        let begin = sound().filter_map(|packet| packet.begin).min()?;
        let end = sound().filter_map(|packet| packet.end.or(packet.begin)).max()?;
        let unended = *self.0.unended.get_or_init(|| self.last_unended());
        Some((begin, unended.map_or(end, |last| last.max(end))))
    }

    /// Returns the time of the last event if the last packet was never ended.
    fn last_unended(&self) -> Option<Time> {
        let last = self.0.packets.iter().rfind(|packet| packet.content_bits > 0)?;
        let begin = last.begin.filter(|_| last.end.is_none())?;
        let (mut events, mut event) = (self.events(), Event::default());
        events.skip_to(begin);
        // A pass reports the error of a file that can't be read.
        while events.next(&mut event).is_ok_and(|step| step != Step::End) {}
        events.last()
    }
}

fn read_metadata(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |action| move |source| Error::Io { action, path: path.to_owned(), source };
    let file = regular::open(path).map_err(failed("open"))?;
    let mut bytes = Vec::new();
    file.take(METADATA_MAX + 1).read_to_end(&mut bytes).map_err(failed("read"))?;
    if bytes.len() as u64 > METADATA_MAX {
        return Err(Error::MetadataSize { path: path.to_owned(), limit: METADATA_MAX });
    }
    Ok(bytes)
}

/// Groups the files that contain parts of one stream: LTTng can cut a stream into several files, and names the stream
/// in every packet.
fn group(
    sources: Vec<ByteSource>,
    program: Arc<TraceProgram>,
    pid: Option<Pid>,
    uuid: Option<Uuid>,
) -> Result<Vec<Stream>, Error> {
    let mut groups: Vec<Vec<(ByteSource, Vec<IndexedPacket>)>> = Vec::new();
    let mut known = HashMap::new();
    for source in sources {
        let packets = packets(source.open()?.reader(&source), &program, uuid)?;
        let Some(first) = packets.iter().find(|packet| packet.content_bits > 0).or(packets.first()) else {
            continue;
        };
        let place = match first.instance {
            Some(instance) => *known.entry((first.class, instance)).or_insert(groups.len()),
            None => groups.len(),
        };
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push((source, packets));
    }
    let stream = |mut parts: Vec<(ByteSource, Vec<IndexedPacket>)>| {
        let mut sound =
            parts.iter().flat_map(|(_, packets)| packets).filter(|packet| packet.content_bits > 0);
        let name = sound.next().map_or_else(|| "no stream".to_owned(), |packet| name(packet, &program));
        parts.sort_by_key(|(_, packets)| packets.iter().find_map(|packet| packet.begin));
        let (mut sources, mut packets) = (Vec::new(), Vec::new());
        for (file, (source, part)) in parts.into_iter().enumerate() {
            sources.push(source);
            packets.extend(part.into_iter().map(|packet| IndexedPacket { file, ..packet }));
        }
        let unended = OnceLock::new();
        Stream(Arc::new(StreamContent {
            program: Arc::clone(&program),
            sources,
            packets,
            pid,
            uuid,
            name,
            unended,
        }))
    };
    Ok(groups.into_iter().map(stream).collect())
}

/// Returns the stream of a packet in words, by the numbers in the packet's header.
fn name(packet: &IndexedPacket, program: &TraceProgram) -> String {
    let id = program.streams.get(packet.class).map_or(0, |class| class.id);
    match packet.instance {
        Some(instance) => format!("stream {id}, instance {instance}"),
        None => format!("stream {id}"),
    }
}
