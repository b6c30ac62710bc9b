//! The command `sordino sql`, and exports to Parquet: a separate program does both.

use crate::Failure;
use crate::failure::UNUSABLE;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program. It is built separately, as it takes longer to build than everything else.
const PROGRAM: &str = "sordino-sql";

/// Starts the program with the words of the command line from `sql` on.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    Err(become_program(words_from("sql").skip(1)))
}

/// Exports to Parquet: passes the words of the command line from `export` on to the program.
pub(crate) fn export() -> Failure {
    become_program(words_from("export"))
}

/// Returns the words of the command line from a command on. The only option in front of it is --color.
fn words_from(command: &str) -> impl Iterator<Item = OsString> {
    std::env::args_os().skip_while(move |word| word != command)
}

/// Replaces this process by the program. Returns only if that fails.
fn become_program(arguments: impl Iterator<Item = OsString>) -> Failure {
    let error = Command::new(place()).args(arguments).exec();
    match error.kind() {
        ErrorKind::NotFound => Failure::new(
            UNUSABLE,
            format!(
                "{PROGRAM} is neither beside sordino nor in PATH; \
                 in sordino's sources, build it with 'make build-tables', and install it with 'sudo make install'"
            ),
        ),
        _ => Failure::new(UNUSABLE, format!("{PROGRAM}: {error}")),
    }
}

/// Returns the program beside sordino's own, or else its name, which is looked up in `PATH`.
fn place() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    beside.unwrap_or_else(|| PROGRAM.into())
}
