//! Files that a recording's summary lists and its directory lacks.

use sordino_collect::Summary;
use sordino_event::text::{count, printable};
use std::fs;
use std::path::Path;

/// Maximum number of files that the text of a problem lists.
const MOST_NAMED: usize = 3;

/// Returns a problem if files of the recording are absent, or shorter than the recorder wrote them.
pub(crate) fn absent_files(recording: &Path, summary: &Summary) -> Option<String> {
    let length = |file: &str| fs::metadata(recording.join(file)).map_or(0, |file| file.len());
    let mut absent = summary.files().filter_map(|(file, bytes)| match length(&file) {
        0 => Some(format!("{} is missing", printable(&file))),
        length if length < bytes => Some(format!("{} has {length} of {bytes} bytes", printable(&file))),
        _ => None,
    });
    let mut named: Vec<String> = absent.by_ref().take(MOST_NAMED).collect();
    if named.is_empty() {
        return None;
    }
    let more = absent.count();
    named.extend((more > 0).then(|| format!("and {} more", count(more, "file"))));
    let text = named.join(", ");
    Some(format!("{} lacks what its recorder wrote: {text}", recording.display()))
}
