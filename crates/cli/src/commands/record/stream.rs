//! A recording as a stream: a tar archive of chunks, each with its summary last.

use super::Options;
use crate::failure::{NO, UNUSABLE};
use crate::privilege::target;
use crate::terminal::{remark, show_as_message};
use crate::{Failure, signals};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdout, stderr, stdout};
use sordino_collect::text::missing;
use sordino_collect::{
    Directory, Keep, Kind, Options as Recording, Programs, Rotation, SessionOptions, Snapshots, State,
    Summary, expect_recording, recordings,
};
use sordino_dirfd::{Dir, remedy};
use sordino_event::text::{count, printable};
use sordino_session::keep_session;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tar::{Archive, Builder, Entry, EntryType, Header};

/// Duration of a chunk, by which the stream lags behind.
const EACH: Duration = Duration::from_secs(1);
/// Interval at which finished chunks are searched for.
const LOOK: Duration = Duration::from_millis(100);
/// The file that completes a chunk.
const LAST: &str = "recording.json";
/// A copy of the summary that is sent ahead of the chunk.
const ANNOUNCED: &str = "announced.json";
/// Largest summary that is received, in bytes; real ones are smaller.
const MOST_SUMMARY: u64 = 64 << 20;

/// Records to standard output. The command's own output goes to standard error instead.
pub(super) fn send(options: &Options) -> Result<ExitCode, Failure> {
    let stream = File::from(fcntl_dupfd_cloexec(stdout(), 3)?);
    if rustix::termios::isatty(&stream) {
        let text = "standard output is a terminal: redirect the stream, as in 'sordino record -o - -- COMMAND | ssh HOST \
                    sordino record --from - -o DIR'";
        return Err(Failure::new(UNUSABLE, text));
    }
    dup2_stdout(stderr())?;
    let place = tempfile::Builder::new()
        .prefix("sordino-stream-")
        .tempdir_in(sordino_guard::temporary::directory()?)?;
    let recording = recording(options, place.path())?;
    let mut guardian = if recording.kernel.is_empty() { None } else { Some(sordino_guard::start()?) };
    let stop = Stop::new()?;
    let mut sender = Sender::new(stream);
    let ended = AtomicBool::new(false);
    let kept = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sent = sender.send_until(&recording.output, &ended);
            // Nobody receives the stream any more.
            sent.inspect_err(|_| stop.now())
        });
        let kept = keep_session(&recording, guardian.as_mut(), stop.readable.as_fd(), None, || {});
        ended.store(true, Relaxed);
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let unsent = |error| Failure::new(UNUSABLE, format!("the stream can't be written to: {error}"));
        kept.map_err(Failure::from).and_then(|kept| sent.map_err(unsent).map(|()| kept))
    })?;
    kept.problems.iter().for_each(|problem| message!("sordino: {problem}"));
    kept.shortfall.lines().iter().for_each(|line| message!("  {line}"));
    sender.archive.finish()?;
    message!("sent {}", count(sender.chunks, "chunk"));
    show_as_message(&missing(&kept.missing));
    Ok(if kept.missing.is_any() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Returns the options of a private session in a temporary directory.
fn recording(options: &Options, place: &Path) -> Result<Recording, Failure> {
    let what = &options.what;
    if what.overwrite {
        return Err(Failure::new(
            UNUSABLE,
            "--overwrite can't be used with -o -: it writes nothing before the end, so there is nothing to stream",
        ));
    }
    let owner = target(what.as_user.as_deref())?;
    let mut recording = what.options(place.join("chunks"), &options.name, owner.as_ref())?;
    let back = sordino_shield::keep_off(what.collector_cpu, &remark)?;
    if let Programs::Command(command) = &mut recording.programs {
        command.prefix.splice(0..0, back);
    }
    let runtime = place.join("session");
    Dir::open_own(place)?.make_new("session")?;
    let snapshots =
        Snapshots { last: None, hold_off: Duration::ZERO, most: None, ends: Vec::new(), worst: None };
    let rotation = Rotation { size: None, every: Some(EACH) };
    recording.session = Some(SessionOptions { runtime, rotation, snapshots, keep: Keep::default() });
    Ok(recording)
}

/// A descriptor that becomes readable when a signal or this process requests the end.
struct Stop {
    readable: OwnedFd,
    ours: OwnedFd,
}

impl Stop {
    fn new() -> Result<Self, Failure> {
        let (signals, ours) = (signals::stop()?, eventfd(0, EventfdFlags::CLOEXEC)?);
        let readable = ours.try_clone()?;
        let bell = ours.try_clone()?;
        std::thread::Builder::new().name("sordino-stop".to_owned()).spawn(move || {
            let mut waiting = [PollFd::new(&signals, PollFlags::IN)];
            while poll(&mut waiting, None).is_err() {}
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        })?;
        Ok(Self { readable, ours })
    }

    fn now(&self) {
        let _ = rustix::io::write(&self.ours, &1u64.to_ne_bytes());
    }
}

/// The sending end of a stream.
struct Sender<W: Write> {
    archive: Builder<W>,
    chunks: u32,
}

impl<W: Write> Sender<W> {
    fn new(stream: W) -> Self {
        let mut archive = Builder::new(stream);
        // A recording has no symbolic links.
        archive.follow_symlinks(false);
        Self { archive, chunks: 0 }
    }

    /// Sends chunks as they are finished, and the remaining ones when recording has `ended`.
    fn send_until(&mut self, output: &Path, ended: &AtomicBool) -> io::Result<()> {
        loop {
            let is_last = ended.load(Relaxed);
            for chunk in recordings(output, Kind::Chunk) {
                let is_complete =
                    Summary::read(&chunk).is_ok_and(|summary| summary.state != State::Recording);
                if is_complete || is_last {
                    self.send(&chunk)?;
                }
            }
            if is_last {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends a chunk, then removes it.
    fn send(&mut self, chunk: &Directory) -> io::Result<()> {
        let path = chunk.path();
        let name = Path::new(path.file_name().unwrap_or(OsStr::new("chunk")));
        self.announce(&name.join(ANNOUNCED), chunk)?;
        // `.raw` holds pages of the kernel that this disk had no room to convert: the receiver's may have it.
        for part in ["kernel", "user", ".raw"].into_iter().filter(|part| chunk.dir().has(part)) {
            self.send_directory(&name.join(part), &chunk.dir().dir(part)?)?;
        }
        self.archive.append_file(name.join(LAST), &mut chunk.dir().read(LAST)?)?;
        self.archive.get_mut().flush()?;
        self.chunks += 1;
        chunk.remove_whole()
    }

    /// Sends the summary ahead: if the rest does not arrive, it shows what is missing.
    fn announce(&mut self, name: &Path, chunk: &Directory) -> io::Result<()> {
        let summary = chunk.dir().read(LAST)?;
        let mut header = Header::new_gnu();
        header.set_metadata(&summary.metadata()?);
        self.archive.append_data(&mut header, name, summary)
    }

    /// Sends a directory with its files, the metadata first: without it, nothing else of a trace can be read.
    fn send_directory(&mut self, name: &Path, dir: &Dir) -> io::Result<()> {
        self.archive.append_dir(name, dir.proc_path())?;
        let mut entries = dir.names()?;
        entries.sort_by_key(|entry| (entry != "metadata", entry.clone()));
        for entry in entries {
            let name = name.join(&entry);
            match dir.dir(&entry) {
                Ok(below) => self.send_directory(&name, &below)?,
                Err(_) => self.archive.append_file(&name, &mut dir.read(&entry)?)?,
            }
        }
        Ok(())
    }
}

/// Stores a stream in a directory, where each of its chunks is a recording.
pub(super) fn receive(from: &Path, output: &Path) -> Result<ExitCode, Failure> {
    let source: Box<dyn Read> =
        if from == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(from)?) };
    let bad = |what: String| Failure::new(UNUSABLE, format!("{}: {what}", output.display()));
    let made = Dir::make(output).map_err(|error| bad(format!("{error}{}", remedy(&error))))?;
    if !made.is_new && made.dir.is_empty()? {
        made.dir.close_to_group()?;
    }
    made.dir.close_to_group()?;
    if let Some(reason) = made.dir.distrust()? {
        return Err(bad(format!("is not ours alone ({reason}): name another one with -o")));
    }
    if !made.dir.is_empty()? {
        return Err(bad("is not empty: name another one with -o".to_owned()));
    }
    let mut receiver = Receiver { output: made.dir, complete: 0, open: None };
    let result = receiver.receive(source);
    if let Some(reader) = target(None)? {
        receiver.output.give(reader.uid.as_raw(), reader.gid.as_raw());
    }
    let path = receiver.output.path().display();
    message!("received {} into {path}", count(receiver.complete, "chunk"));
    match (result, receiver.open) {
        (Ok(()), None) => Ok(ExitCode::SUCCESS),
        (result, open) => {
            let mut text = result.map_or_else(|error| unreceived(&error), |()| CUT.to_owned());
            if let Some(open) = open {
                let open = open.to_string_lossy();
                let open = printable(&open);
                text += &format!(
                    "; {open} is not complete: finish the received part with: sordino recover {open}"
                );
            }
            Err(Failure::new(NO, text))
        }
    }
}

const CUT: &str = "the stream ends in the middle";

/// Returns the error that a stream was not received completely: it was cut, or it could not be stored.
fn unreceived(error: &io::Error) -> String {
    use io::ErrorKind::{FileTooLarge, InvalidData, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match error.kind() {
        InvalidData | FileTooLarge | QuotaExceeded | ReadOnlyFilesystem | StorageFull => {
            // Errors that are not the kernel's name the remedy themselves.
            let remedy = error.raw_os_error().map_or("", |_| remedy(error));
            format!("the stream is not received to its end: {error}{remedy}")
        }
        _ => format!("{CUT} ({error})"),
    }
}

/// Converts the error of writing a summary, keeping the kernel's kind of error.
fn unwritten(error: sordino_collect::Error) -> io::Error {
    match &error {
        sordino_collect::Error::Output { source, .. } => io::Error::new(source.kind(), error.to_string()),
        _ => io::Error::other(error),
    }
}

/// The receiving end of a stream.
struct Receiver {
    output: Arc<Dir>,
    complete: u32,
    /// The chunk that is being received.
    open: Option<PathBuf>,
}

impl Receiver {
    fn receive(&mut self, source: impl Read) -> io::Result<()> {
        let mut archive = Archive::new(Ending { source, zeros: 0 });
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let kind = entry.header().entry_type();
            let chunk = chunk_of(&path).filter(|_| matches!(kind, EntryType::Regular | EntryType::Directory));
            let Some(chunk) = chunk else {
                return Err(invalid(format!("'{}' is no part of a recording", path.display())));
            };
            self.go_on_in(chunk)?;
            if kind == EntryType::Directory {
                self.directory(&path)?;
                continue;
            }
            let parent = self.directory(path.parent().unwrap_or(Path::new("")))?;
            let name = path.file_name().unwrap_or(OsStr::new(""));
            if path == Path::new(chunk).join(ANNOUNCED) {
                expect_recording(&parent, Some(&summary(entry)?)).map_err(unwritten)?;
            } else if path == Path::new(chunk).join(LAST) {
                parent.replace(LAST, &summary(entry)?)?;
                (self.open, self.complete) = (None, self.complete + 1);
            } else {
                io::copy(&mut entry, &mut parent.create(name)?)?;
            }
        }
        if archive.into_inner().is_whole() {
            return Ok(());
        }
        let text = "its end is missing: the received chunks are complete, but more may have been sent";
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, text))
    }

    /// Begins a chunk, or continues the current one. Chunks are not interleaved, and each is sent once.
    fn go_on_in(&mut self, chunk: &OsStr) -> io::Result<()> {
        let path = self.output.path().join(chunk);
        match &self.open {
            Some(open) if *open == path => return Ok(()),
            Some(_) => return Err(invalid(format!("'{}' begins too early", chunk.display()))),
            None => {}
        }
        let dir = self.output.make_new(chunk).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => invalid(format!("'{}' comes twice", chunk.display())),
            _ => error,
        })?;
        self.open = Some(path);
        expect_recording(&dir, None).map_err(unwritten)
    }

    /// Opens the directory of a path, and makes missing ones. The sender chose the names.
    fn directory(&self, path: &Path) -> io::Result<Arc<Dir>> {
        let mut dir = Arc::clone(&self.output);
        for name in path.components() {
            dir = Arc::new(match dir.make_new(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => dir.dir(name)?,
                made => made?,
            });
        }
        Ok(dir)
    }
}

/// A stream that detects a missing end: if it is cut between two entries, it looks complete otherwise.
struct Ending<R> {
    source: R,
    /// Number of zero bytes at the end so far.
    zeros: usize,
}

impl<R> Ending<R> {
    /// Returns true if the archive is complete. Its last blocks of 512 bytes are 0; the summary before them is text.
    const fn is_whole(&self) -> bool {
        self.zeros >= 512
    }
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(bytes)?;
        let zeros = bytes[..length].iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == length { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(length)
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads the bytes of a summary.
fn summary(entry: Entry<'_, impl Read>) -> io::Result<Vec<u8>> {
    let (mut bytes, size) = (Vec::new(), entry.size());
    if size > MOST_SUMMARY {
        return Err(invalid(format!("its summary is longer than {MOST_SUMMARY} bytes")));
    }
    entry.take(size).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Returns the name of the chunk that an entry belongs to; `None` unless the path has plain names only, the first of
/// them a chunk's.
fn chunk_of(path: &Path) -> Option<&OsStr> {
    let mut names = path.components().map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let chunk = names.next()??;
    let is_chunk = chunk.to_str().is_some_and(|name| name.starts_with(Kind::Chunk.prefix()));
    (is_chunk && names.all(|name| name.is_some())).then_some(chunk)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn entries_lie_in_chunks() {
        assert_eq!(chunk_of(Path::new("chunk-0001/user/x/cpu0")), Some(OsStr::new("chunk-0001")));
        for bad in ["/etc/passwd", "../chunk-0001/x", "chunk-0001/../../x", "other/x", ""] {
            assert_eq!(chunk_of(Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn what_is_sent_arrives_and_a_cut_is_told() {
        let place = tempfile::tempdir().unwrap();
        let chunks = place.path().join("chunks");
        for name in ["chunk-0001", "chunk-0002"] {
            let path = chunks.join(name);
            fs::create_dir_all(path.join("user/0001-x-1")).unwrap();
            fs::create_dir(path.join("kernel")).unwrap();
            fs::write(path.join("user/0001-x-1/cpu0"), vec![7; 5000]).unwrap();
            fs::write(path.join(LAST), "{}").unwrap();
        }
        let mut sender = Sender::new(Vec::new());
        sender.send_until(&chunks, &AtomicBool::new(true)).unwrap();
        assert_eq!((sender.chunks, recordings(&chunks, Kind::Chunk).len()), (2, 0));
        let stream = sender.archive.into_inner().unwrap();

        let receiver = |name: &str| {
            let output = Dir::make(&place.path().join(name)).unwrap().dir;
            Receiver { output, complete: 0, open: None }
        };
        let mut whole = receiver("whole");
        whole.receive(&stream[..]).unwrap();
        assert_eq!((whole.complete, &whole.open), (2, &None));
        assert_eq!(
            fs::read(whole.output.path().join("chunk-0002/user/0001-x-1/cpu0")).unwrap(),
            vec![7; 5000]
        );

        // A stream that is cut between two chunks, or after the last one, has no end.
        let end = stream.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let mut ending = receiver("ending");
        let missing = ending.receive(&stream[..end.next_multiple_of(512)]).unwrap_err();
        assert_eq!((missing.kind(), ending.complete, ending.open), (io::ErrorKind::UnexpectedEof, 2, None));

        // A repeated chunk would replace one that is complete.
        let twice = [&stream[..end.next_multiple_of(512)], &stream].concat();
        let error = receiver("twice").receive(&twice[..]).unwrap_err();
        assert!(error.to_string().contains("comes twice"), "{error}");
        let mut builder = Builder::new(Vec::new());
        for name in ["chunk-0001/user", "chunk-0002/user", "chunk-0001/kernel"] {
            builder.append_dir(name, place.path()).unwrap();
        }
        let mut early = receiver("early");
        let error = early.receive(&builder.into_inner().unwrap()[..]).unwrap_err();
        assert!(error.to_string().contains("'chunk-0002' begins too early"), "{error}");
        assert_eq!((early.complete, early.open), (0, Some(place.path().join("early/chunk-0001"))));

        let mut cut = receiver("cut");
        let _ = cut.receive(&stream[..stream.len() / 2 + 3000]);
        assert_eq!((cut.complete, cut.open), (1, Some(place.path().join("cut/chunk-0002"))));
    }
}
