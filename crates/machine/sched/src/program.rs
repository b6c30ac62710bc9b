//! Programs, found as a shell finds them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Finds a command as a shell does: by path if it contains a slash, otherwise in `PATH`.
///
/// # Errors
/// If the command is not found or not executable.
pub fn find_program(program: &Path) -> io::Result<PathBuf> {
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
    let here = Path::new(".").join(program);
    let hint =
        if runnable(&here).is_ok() { format!("; did you mean {}?", here.display()) } else { String::new() };
    let not_found = || io::Error::new(io::ErrorKind::NotFound, format!("command not found{hint}"));
    Err(denied.unwrap_or_else(not_found))
}

fn runnable(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let reason = match metadata.permissions().mode() & 0o111 {
        _ if metadata.is_dir() => "it is a directory",
        0 => "it is not executable (chmod +x)",
        _ if metadata.is_file() => return Ok(()),
        _ => "it is no regular file",
    };
    let text = format!("permission denied: {} can't be run: {reason}", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_a_shell_finds_them() {
        assert!(find_program(Path::new("sh")).unwrap().ends_with("sh"));
        assert_eq!(find_program(Path::new("/bin/sh")).unwrap(), Path::new("/bin/sh"));
        assert_eq!(find_program(Path::new("no-such-command")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            find_program(Path::new("/etc/passwd")).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        let error = find_program(Path::new("/tmp")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().ends_with("it is a directory"), "{error}");
    }
}
