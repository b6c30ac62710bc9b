//! sordino as a user has it: installed by `make install`, found by `pkg-config`.

use crate::running::RunningProcess;
use sordino_ring::layout::VERSION;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A C or C++ compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeCompiler {
    /// gcc with `-std=c11`, for C.
    Gcc,
    /// clang with `-std=c11`, for C.
    Clang,
    /// g++ with `-std=c++17`, for C++.
    Gxx,
    /// clang++ with `-std=c++17`, for C++.
    Clangxx,
}

/// Compilers that the tests use.
pub const COMPILERS: [NativeCompiler; 4] =
    [NativeCompiler::Gcc, NativeCompiler::Clang, NativeCompiler::Gxx, NativeCompiler::Clangxx];

impl NativeCompiler {
    /// Returns the compiler's path. If the bare name is not installed, its name has a version.
    fn program(self) -> PathBuf {
        let name = match self {
            Self::Gcc => "gcc",
            Self::Clang => "clang",
            Self::Gxx => "g++",
            Self::Clangxx => "clang++",
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let candidates = std::iter::once(name.to_owned()).chain((14..30).map(|v| format!("{name}-{v}")));
        let files = candidates.flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(&name)));
        files.into_iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{name} is not installed"))
    }

    fn standard(self) -> &'static [&'static str] {
        match self {
            Self::Gcc | Self::Clang => &["-std=gnu11"],
            Self::Gxx | Self::Clangxx => &["-x", "c++", "-std=c++17"],
        }
    }
}

/// Returns the workspace's root directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root")
}

/// Returns Cargo's target directory, two levels above this program's own directory.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("a path of this program");
    program.ancestors().nth(3).expect("a directory two levels up").to_owned()
}

/// Runs one of the project's scripts, or Cargo, with this program's target directory. Returns its output.
fn build(program: &str, arguments: &[&str]) -> String {
    let mut build = Command::new(program);
    build.args(arguments).current_dir(root());
    build.env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", target());
    // It may take minutes, as nothing that is tested does.
    let output = build.output().unwrap_or_else(|error| panic!("{build:?}: {error}"));
    assert!(output.status.success(), "{build:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the directory where sordino is installed: `SORDINO_INSTALLED` if `scripts/test` has set it for all test
/// programs; otherwise each test program builds and installs sordino once.
pub fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| match std::env::var_os("SORDINO_INSTALLED") {
        Some(prefix) => prefix.into(),
        None => build("scripts/lib/install-for-tests", &[]).trim_end().into(),
    })
}

/// Returns sordino's debug build, which panics on arithmetic overflow and on failed debug assertions. Each test program
/// builds it once.
pub fn checked_sordino() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // With a test among what it builds, Cargo chooses the features of `cargo test --workspace`, and finds all but
        // this program built.
        build(env!("CARGO"), &["build", "--quiet", "--workspace", "--bin", "sordino", "--test", "golden"]);
        target().join("debug/sordino")
    })
}

/// Builds one of this package's programs in the release profile, and returns its path.
pub fn release_program(name: &str) -> PathBuf {
    build("scripts/lib/release", &["--bin", name]);
    target().join("release").join(name)
}

/// Builds the example of that name of an adapter, and returns its path. `flags` are compiler flags that it needs; with
/// some, it is built in a directory of its own.
pub fn example(name: &str, flags: &str) -> PathBuf {
    if flags.is_empty() {
        // The features are those of `cargo test --workspace`, as for `checked_sordino`.
        build(env!("CARGO"), &["build", "--quiet", "--workspace", "--example", name, "--test", "golden"]);
        return target().join("debug/examples").join(name);
    }
    let own = target().join("flags");
    let directory = own.to_string_lossy().into_owned();
    let rustflags = format!("build.rustflags=\"{flags}\"");
    let arguments = ["build", "--quiet", "--target-dir", &directory, "--config", &rustflags];
    build(env!("CARGO"), &[&arguments[..], &["--workspace", "--example", name]].concat());
    own.join("debug/examples").join(name)
}

/// Builds the program of that name of an adapter, and returns its path.
pub fn adapter(name: &str) -> PathBuf {
    // The features are those of `cargo test --workspace`, as for `checked_sordino`.
    build(env!("CARGO"), &["build", "--quiet", "--workspace", "--bin", name, "--test", "golden"]);
    target().join("debug").join(name)
}

/// Returns the compilers' names with the parts of their versions that change the generated code: `gcc 12.2` and
/// `rustc 1.95`.
pub fn compilers() -> [String; 2] {
    let gcc = succeed(Command::new("gcc").arg("-dumpfullversion"));
    let rustc = succeed(Command::new("rustc").arg("--version").current_dir(root()));
    [("gcc", gcc), ("rustc", rustc)].map(|(name, text)| {
        let number = |word: &str| word.split('.').take(2).all(|part| part.parse::<u32>().is_ok());
        let version = text.split_whitespace().find(|word| number(word));
        let version = version.unwrap_or_else(|| panic!("no version of {name} in '{text}'"));
        format!("{name} {}", version.split('.').take(2).collect::<Vec<_>>().join("."))
    })
}

/// Returns the path of the installed shared library.
pub fn library() -> PathBuf {
    installed().join("lib").join(format!("libsordino.so.{VERSION}"))
}

/// Returns the path of the installed program `sordino`.
pub fn sordino() -> PathBuf {
    installed().join("bin/sordino")
}

/// Returns the words that pkg-config prints for sordino.
pub fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("sordino").env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
    succeed(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Returns the directory of the package's C and C++ programs.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Compiles `source` to `output` as [`compiling`] describes, without a warning.
pub fn compile(compiler: NativeCompiler, source: &str, output: &Path, flags: &[&str]) {
    succeed(&mut compiling(compiler, source, output, flags));
}

/// Returns the command that compiles `source` (below the package's `programs/`, or an absolute path) to `output`, with
/// warnings as errors. A program finds the library beside itself, too, for users without access to the directory where
/// sordino is installed.
pub fn compiling(compiler: NativeCompiler, source: &str, output: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(compiler.program());
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread"]);
    command.args(pkg_config(&["--cflags"])).arg("-o").arg(output).args(compiler.standard());
    command.arg(programs().join(source));
    command.args(["-x", "none"]).args(flags);
    if flags.contains(&"-static") || flags.contains(&"-static-pie") || flags.contains(&"-Wl,-Bstatic") {
        command.arg(installed().join("lib/libsordino.a"));
    } else {
        command.args(pkg_config(&["--libs"]));
        command.arg(format!("-Wl,-rpath,{}:$ORIGIN", installed().join("lib").display()));
    }
    command.args(["-ldl", "-lm"]);
    command
}

/// Compiles a program that is linked with LTTng instead.
pub fn compile_for_lttng(source: &str, output: &Path) {
    let mut command = Command::new(NativeCompiler::Gcc.program());
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror"]).args(NativeCompiler::Gcc.standard());
    command.arg("-I").arg(programs()).arg("-o").arg(output).arg(programs().join(source));
    succeed(command.args(["-llttng-ust", "-llttng-ust-common", "-ldl"]));
}

/// Runs a command that has to succeed, and returns its standard output.
pub fn succeed(command: &mut Command) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let ended = RunningProcess::start(command, &directory.path().join("tool")).end();
    assert_eq!(ended.status, 0, "{command:?}: {}\n{}", ended.output, ended.errors);
    ended.output
}
