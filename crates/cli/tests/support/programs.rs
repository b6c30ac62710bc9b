//! Programs to be traced, compiled against the library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The library, built once for each test program.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // This program lies in TARGET/PROFILE/deps.
        let program = std::env::current_exe().unwrap();
        let target = program.ancestors().nth(3).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "sordino-c", "--manifest-path"]);
        build.arg(manifest().join("../../Cargo.toml")).arg("--target-dir").arg(target);
        succeed(&mut build);
        target.join("debug/libsordino_c.a")
    })
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The compiler, that is to make `output` of `programs/NAME.c`, warnings being errors.
fn compiler(name: &str, output: &Path) -> Command {
    let programs = manifest().join("tests/programs");
    let mut command = Command::new("cc");
    command.args(["-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    command.arg("-I").arg(&programs).arg("-I").arg(manifest().join("../probe-c/include"));
    command.arg("-o").arg(output).arg(programs.join(format!("{name}.c")));
    command
}

/// Compiles a program that is linked with sordino.
pub(crate) fn compile(name: &str, output: &Path) {
    succeed(compiler(name, output).arg(library()).args(["-ldl", "-lm"]));
}

/// Compiles a program that is linked with LTTng.
pub(crate) fn compile_for_lttng(name: &str, output: &Path) {
    succeed(compiler(name, output).args(["-llttng-ust", "-llttng-ust-common", "-ldl"]));
}
