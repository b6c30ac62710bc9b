//! The receiving end of a stream.

use crate::{ANNOUNCED, LAST};
use sordino_collect::{Kind, expect_recording};
use sordino_dirfd::{Dir, remedy};
use sordino_event::text::printable;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use tar::{Archive, Entry, EntryType};

/// Largest summary that is received, in bytes; real ones are smaller.
const MOST_SUMMARY: u64 = 64 << 20;

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
        sordino_collect::Error::Output(output) => io::Error::new(output.source.kind(), output.to_string()),
        _ => io::Error::other(error),
    }
}

/// The receiving end of a stream.
pub struct StreamReceiver {
    output: Arc<Dir>,
    complete: u32,
    /// The chunk that is being received.
    open: Option<PathBuf>,
}

impl StreamReceiver {
    /// Makes the directory for the chunks; an existing one must be empty and belong to this user alone.
    ///
    /// # Errors
    /// The directory can't be used; the text has its path and the remedy.
    pub fn new(output: &Path) -> io::Result<Self> {
        let bad = |what: String| io::Error::other(format!("{}: {what}", output.display()));
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
        Ok(Self { output: made.dir, complete: 0, open: None })
    }

    /// Returns the directory of the chunks.
    pub fn output(&self) -> &Dir {
        &self.output
    }

    /// Returns the number of chunks that have arrived whole.
    pub fn complete(&self) -> u32 {
        self.complete
    }

    /// Returns the reason why not all has arrived, and the remedy; `None` if all has. `result` is that of
    /// [`receive`](Self::receive).
    pub fn problem(self, result: io::Result<()>) -> Option<String> {
        if result.is_ok() && self.open.is_none() {
            return None;
        }
        let mut text = result.map_or_else(|error| unreceived(&error), |()| CUT.to_owned());
        if let Some(open) = self.open {
            let open = open.to_string_lossy();
            let open = printable(&open);
            text +=
                &format!("; {open} is not complete: finish the received part with: sordino recover {open}");
        }
        Some(text)
    }

    /// Stores chunks until the stream ends.
    ///
    /// # Errors
    /// The stream is cut, is no recording, or can't be stored.
    pub fn receive(&mut self, source: impl Read) -> io::Result<()> {
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
    use crate::StreamSender;
    use sordino_collect::recordings;
    use std::fs;
    use std::sync::atomic::AtomicBool;
    use tar::Builder;

    #[test]
    fn entries_lie_in_chunks() {
        assert_eq!(chunk_of(Path::new("chunk-0001/user/x/cpu0")), Some(OsStr::new("chunk-0001")));
        for bad in ["/etc/passwd", "../chunk-0001/x", "chunk-0001/../../x", "other/x", ""] {
            assert_eq!(chunk_of(Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn data_that_is_sent_arrives_and_a_cut_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let chunks = place.path().join("chunks");
        for name in ["chunk-0001", "chunk-0002"] {
            let path = chunks.join(name);
            fs::create_dir_all(path.join("user/0001-x-1")).unwrap();
            fs::create_dir(path.join("kernel")).unwrap();
            fs::write(path.join("user/0001-x-1/cpu0"), vec![7; 5000]).unwrap();
            fs::write(path.join(LAST), "{}").unwrap();
        }
        let mut sender = StreamSender::new(Vec::new());
        sender.send_until(&chunks, &AtomicBool::new(true)).unwrap();
        assert_eq!((sender.chunks, recordings(&chunks, Kind::Chunk).len()), (2, 0));
        let stream = sender.archive.into_inner().unwrap();

        let receiver = |name: &str| {
            let output = Dir::make(&place.path().join(name)).unwrap().dir;
            StreamReceiver { output, complete: 0, open: None }
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
