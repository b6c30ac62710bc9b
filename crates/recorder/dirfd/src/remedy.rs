//! Remedies for failed writes, for the user.

use rustix::io::Errno;
use std::io;

/// Returns true if the error is that this process, or the machine, had no descriptor left: it passes when others are
/// closed.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    let codes = [Errno::MFILE, Errno::NFILE].map(|code| Some(code.raw_os_error()));
    codes.contains(&error.raw_os_error())
}

/// Returns advice to append to the error of a failed write; empty if there is none.
pub fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room there, or name another place with -o"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => ": name another place with -o",
        io::ErrorKind::FileTooLarge => ": raise the limit of a file's size (ulimit -f)",
        _ if lacks_descriptors(error) => ": raise the limit of descriptors (ulimit -n)",
        _ => "",
    }
}
