//! ftrace's `trace_marker`, used instead of the tracepoint.

use crate::Error;
use sordino_sched::as_root;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The file's paths where tracefs is mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker"];

/// The open `trace_marker` file.
#[derive(Debug)]
pub(crate) struct Marker {
    file: File,
    path: PathBuf,
    /// Hits that the kernel refused.
    failed: AtomicU64,
}

impl Marker {
    /// Opens the file and writes to it once, so that an error is found before the measurement.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let known = || PLACES.iter().map(PathBuf::from).find(|path| path.exists());
        let path = path.map(Path::to_owned).or_else(known).ok_or_else(|| {
            let text =
                format!("there is no trace_marker: {}mount -t tracefs nodev /sys/kernel/tracing", as_root());
            Error::Unusable(text)
        })?;
        let refused = |error: std::io::Error| {
            let remedy = match error.raw_os_error() {
                // EBADF: the kernel's answer while tracing_on is 0.
                Some(9) => "; tracing is off there: write 1 to tracing_on beside it",
                _ => "",
            };
            Error::Unusable(format!("can't write to {}: {error}{remedy}", path.display()))
        };
        let mut file = OpenOptions::new().write(true).open(&path).map_err(refused)?;
        file.write_all(b"npt:start").map_err(refused)?;
        Ok(Self { file, path, failed: AtomicU64::new(0) })
    }

    /// Writes one hit to the file, by one system call.
    pub(crate) fn hit(&self, number: u64, duration: u64) {
        let mut text = [0; 80];
        let mut rest = &mut text[..];
        let _ = write!(rest, "npt:loop number={number} duration={duration}");
        let left = rest.len();
        if (&self.file).write(&text[..text.len() - left]).is_err() {
            self.failed.fetch_add(1, Relaxed);
        }
    }

    /// Reports the number of hits that the kernel refused.
    pub(crate) fn tell_failures(&self, remark: &dyn Fn(&str)) {
        let failed = self.failed.load(Relaxed);
        if failed > 0 {
            let path = self.path.display();
            remark(&format!("{path}: the kernel refused {failed} of the hits; was tracing switched off?"));
        }
    }
}
