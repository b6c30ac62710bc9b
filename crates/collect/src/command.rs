//! The command whose program is recorded.

use crate::options::CommandLine;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The variable that tells a program of the recorder; `sordino` reads it before `main`.
pub const SESSION: &str = "SORDINO_SESSION";
/// The same for a command that is started by a [prefix](CommandLine::prefix): whoever executes the command in the end
/// gives this variable's value to [`SESSION`], so that what comes before is not recorded.
pub const SESSION_OF_COMMAND: &str = "SORDINO_SESSION_OF_COMMAND";

/// Finds a command as a shell does: a path if there is a slash in it, else in `PATH`.
///
/// # Errors
/// That it is not there, or no program.
pub fn find(program: &Path) -> io::Result<PathBuf> {
    if program.as_os_str().as_bytes().contains(&b'/') {
        return runnable(program).map(|()| program.to_owned());
    }
    let path =
        std::env::var_os("PATH").unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin").to_owned());
    let mut denied = None;
    for directory in std::env::split_paths(&path) {
        let candidate = directory.join(program);
        match runnable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(error),
            Err(_) => {}
        }
    }
    Err(denied.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "command not found")))
}

fn runnable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let executable = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    if executable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Starts it, with what tells its programs of the recorder.
pub(crate) fn start(line: &CommandLine, session: &OsStr, reserve: u64) -> io::Result<Child> {
    let program = find(&line.program)?;
    let mut words = line.prefix.iter().map(|word| word.as_os_str()).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).args(&line.arguments);
    let variable = if line.prefix.is_empty() { SESSION } else { SESSION_OF_COMMAND };
    command.env(variable, session).env("SORDINO_RESERVE", reserve.to_string());
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        assert!(find(Path::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(find(Path::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find(Path::new("no-such-command")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(find(Path::new("/etc/passwd")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(find(Path::new("/tmp")).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
