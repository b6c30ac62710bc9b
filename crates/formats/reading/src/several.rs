//! The traces that belong to one recording.
//!
//! A named directory may hold traces of several recordings, as `/tmp` does. They are read together only if they belong
//! to one:
//!
//! - the kernel's trace and the programs' of a [recording](Directory) by sordino,
//! - the chunks of a session, which follow each other; its snapshots may have events in common, and are read one by
//!   one,
//! - the traces of an LTTng session: `kernel`, `ust/uid/UID/64-bit`, `ust/pid/PROGRAM`, in `archives/CHUNK` if it was
//!   rotated.
//!
//! Any other trace is a recording by itself.

use crate::Error;
use sordino_collect::{Directory, Kind};
use sordino_event::text::{count, printable};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of recordings that the message lists.
const MOST_NAMED: usize = 10;

/// Refuses traces of several recordings, and lists the recordings.
pub(crate) fn refuse_several(named: &Path, traces: &[PathBuf]) -> Result<(), Error> {
    // The named directory may be a part of a recording, or `.`.
    let named_whole = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let is_recording = |path: &Path| Directory::open(path).is_ok();
    let traces = traces.iter().map(|trace| fs::canonicalize(trace).unwrap_or_else(|_| trace.to_owned()));
    let recordings = recordings(&traces.collect::<Vec<_>>(), &named_whole, is_recording);
    if recordings.len() < 2 {
        return Ok(());
    }
    let shown = |path: &Path| printable(&path.to_string_lossy()).into_owned();
    let mut text = format!("{} holds {}: name one", shown(named), count(recordings.len(), "recording"));
    for recording in recordings.iter().take(MOST_NAMED) {
        text += &format!("\n{}", shown(recording));
    }
    if let Some(more) = recordings.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        text += &format!("\nand {more} more");
    }
    Err(Error::Unusable(text))
}

/// Returns the directories that may have a summary: the named one, and those of the chunks of a session.
pub(crate) fn parts(named: &Path, traces: &[PathBuf]) -> BTreeSet<PathBuf> {
    let is_recording = |path: &Path| Directory::open(path).is_ok();
    let of_traces = traces.iter().map(|trace| recording(trace, is_recording));
    of_traces.chain([named]).map(Path::to_owned).collect()
}

/// Refuses recordings that are named twice, or of which one lies inside another.
pub(crate) fn refuse_overlaps(named: &[PathBuf]) -> Result<(), Error> {
    let whole = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let whole: Vec<PathBuf> = named.iter().map(whole).collect();
    let shown = |path: &PathBuf| printable(&path.to_string_lossy()).into_owned();
    for (second, path) in whole.iter().enumerate() {
        for (first, other) in whole[..second].iter().enumerate() {
            let names = [&named[first], &named[second]].map(shown);
            let text = match (path.starts_with(other), other.starts_with(path)) {
                (true, true) => format!("{} and {} are one directory: name it once", names[0], names[1]),
                (true, false) => format!("{} lies inside {}: name one of them", names[1], names[0]),
                (false, true) => format!("{} lies inside {}: name one of them", names[0], names[1]),
                (false, false) => continue,
            };
            return Err(Error::Unusable(text));
        }
    }
    Ok(())
}

/// Returns the recordings that traces belong to; `is_recording` returns true for a directory of sordino's. For the
/// directory of a session that has more than chunks, it returns each chunk and snapshot.
fn recordings(traces: &[PathBuf], named: &Path, is_recording: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let distinct = |paths: Vec<&Path>| -> Vec<PathBuf> {
        paths.into_iter().collect::<BTreeSet<_>>().into_iter().map(Path::to_owned).collect()
    };
    let chunks: Vec<&Path> = traces.iter().map(|trace| recording(trace, &is_recording)).collect();
    let sessions = distinct(chunks.iter().map(|chunk| session(chunk, &is_recording)).collect());
    if sessions.len() > 1 && sessions.iter().any(|session| session == named) {
        return distinct(chunks);
    }
    sessions
}

/// Returns the directory of the recording that a trace belongs to, or of the chunk if it is one, from the directories'
/// names.
fn recording(trace: &Path, is_recording: impl Fn(&Path) -> bool) -> &Path {
    // The trace and the directories above it, from the end.
    let above: Vec<&Path> = trace.ancestors().take(5).collect();
    let name =
        |level: usize| above.get(level).and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    let at = |level: usize| above.get(level).copied().unwrap_or(trace);
    match (name(0), name(1), name(2), name(3)) {
        (_, "user", ..) if is_recording(at(2)) => at(2),
        ("kernel", ..) => at(1),
        ("64-bit" | "32-bit", _, "uid", "ust") => at(4),
        (_, "pid", "ust", _) => at(3),
        _ => trace,
    }
}

/// Returns the session's directory if the recording is a chunk, or else the recording.
fn session(recording: &Path, is_recording: impl Fn(&Path) -> bool) -> &Path {
    let (Some(parent), Some(name)) =
        (recording.parent(), recording.file_name().and_then(|name| name.to_str()))
    else {
        return recording;
    };
    let number = name.strip_prefix(Kind::Chunk.prefix());
    let is_chunk = number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    match parent.file_name() {
        _ if is_chunk && is_recording(recording) => parent,
        Some(archives) if archives == "archives" => parent.parent().unwrap_or(parent),
        _ => recording,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_one_recording_have_one_base() {
        let of_sordino = ["/t/rec", "/t/motor/chunk-0001", "/t/motor/chunk-0002", "/t/box/snapshot-0001"];
        let is_recording = |path: &Path| of_sordino.iter().any(|known| path == Path::new(known));
        for (trace, expected) in [
            ("/t/rec/kernel", "/t/rec"),
            ("/t/rec/user/0001-motor-4711", "/t/rec"),
            ("/t/motor/chunk-0001/user/0001-motor-4711", "/t/motor"),
            ("/t/motor/chunk-0002/kernel", "/t/motor"),
            ("/t/box/snapshot-0001/kernel", "/t/box/snapshot-0001"),
            ("/t/box/chunk-0001/kernel", "/t/box/chunk-0001"),
            ("/home/user/a", "/home/user/a"),
            ("/t/auto-1/kernel", "/t/auto-1"),
            ("/t/auto-1/ust/uid/1000/64-bit", "/t/auto-1"),
            ("/t/auto-1/ust/pid/motor-4711-20260131", "/t/auto-1"),
            ("/t/auto-1/archives/20260131-1/kernel", "/t/auto-1"),
            ("/t/auto-1/archives/20260131-2/ust/uid/0/64-bit", "/t/auto-1"),
            ("/t/other", "/t/other"),
            ("/", "/"),
        ] {
            let found = recordings(&[trace.into()], Path::new("/"), is_recording);
            assert_eq!(found, [Path::new(expected)], "{trace}");
        }
    }

    #[test]
    fn a_session_that_was_named_is_not_named_back() {
        let names = ["chunk-0001", "chunk-0002", "snapshot-0003"];
        let of_session = |traces: &[&str], named: &str| {
            let traces = traces.iter().map(|name| format!("/t/motor/{name}/kernel").into());
            recordings(&traces.collect::<Vec<_>>(), Path::new(named), |path| path.starts_with("/t/motor"))
        };
        assert_eq!(of_session(&names[..2], "/t/motor"), [Path::new("/t/motor")]);
        let of_all = |named| of_session(&names, named);
        assert_eq!(of_all("/t"), ["/t/motor", "/t/motor/snapshot-0003"].map(PathBuf::from));
        assert_eq!(of_all("/t/motor"), names.map(|name| Path::new("/t/motor").join(name)));
    }
}
