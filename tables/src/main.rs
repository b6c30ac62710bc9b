//! `sordino-sql`: the program of the library of that name.

use std::process::ExitCode;

fn main() -> ExitCode {
    sordino_sql::main()
}
