//! Remedies for failed writes, for the user.

use rustix::io::Errno;
use std::io;

/// Returns advice to append to the error of a failed write; empty if there is none.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room there, or name another place with -o"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ": name another place with -o",
        io::ErrorKind::FileTooLarge => ": raise the limit of a file's size (ulimit -f)",
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            ": raise the limit of descriptors (ulimit -n)"
        }
        _ => "",
    }
}
