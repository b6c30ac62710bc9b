//! Measuring programs, built for each tracer.

pub(crate) use sordino_peers::output_of;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tracer for which a measuring program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetTracer {
    None,
    Sordino,
    Lttng,
}

/// Directory of the measuring programs.
#[derive(Debug)]
pub(crate) struct MeasuringPrograms {
    directory: tempfile::TempDir,
    /// Path of the program `sordino`.
    pub(crate) sordino: PathBuf,
}

impl MeasuringPrograms {
    pub(crate) fn build() -> Result<Self, String> {
        let root = root();
        let release = std::env::current_exe().map_err(|error| error.to_string())?;
        let release = release.parent().unwrap_or(root).to_owned();
        let sordino = release.join("sordino");
        if !sordino.exists() {
            return Err(format!("{} is missing: make build", sordino.display()));
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let library = directory.path().join(library());
        std::fs::copy(release.join("libsordino_c.so"), &library).map_err(|error| error.to_string())?;
        let programs = Self { directory, sordino };
        for name in ["cost", "gaps", "scaling", "rate", "start", "nonstop", "ordinary"] {
            for tracer in [TargetTracer::None, TargetTracer::Sordino, TargetTracer::Lttng] {
                programs.compile(root, name, tracer)?;
            }
        }
        Ok(programs)
    }

    fn compile(&self, root: &Path, name: &str, tracer: TargetTracer) -> Result<(), String> {
        let sources = root.join("benches/programs");
        let mut command = Command::new("gcc");
        command.args(["-O2", "-std=gnu11", "-pthread", "-o"]).arg(self.path(name, tracer));
        command.arg("-I").arg(&sources).arg(sources.join(format!("{name}.c")));
        let directory = self.directory.path().display().to_string();
        match tracer {
            TargetTracer::None => {}
            TargetTracer::Sordino => {
                command.arg("-DTRACER_SORDINO").arg("-I").arg(root.join("crates/recording/probe-c/include"));
                command.arg(format!("{directory}/{}", library())).arg(format!("-Wl,-rpath,{directory}"));
            }
            TargetTracer::Lttng => {
                command.args(["-DTRACER_LTTNG", "-llttng-ust", "-ldl"]);
            }
        }
        Ok(output_of(&mut command).map(drop)?)
    }

    /// Returns words of a compiler's command that link a program with libsordino-functions and libsordino, statically:
    /// calls of functions in the same file cost least.
    ///
    /// # Errors
    /// Returns an error if libsordino-functions cannot be built.
    pub(crate) fn functions(&self) -> Result<[OsString; 3], String> {
        let functions = self.directory.path().join("functions.o");
        if !functions.exists() {
            let probe = root().join("crates/recording/probe-c");
            let mut command = Command::new("gcc");
            command.args(["-O2", "-std=gnu11", "-c"]).arg(probe.join("src/functions.c"));
            output_of(command.arg("-I").arg(probe.join("include")).arg("-o").arg(&functions))?;
        }
        Ok([functions.into(), self.sordino.with_file_name("libsordino_c.a").into(), "-ldl".into()])
    }

    /// Returns the path of a program that a measurement compiles itself.
    pub(crate) fn other(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the path of a measuring program.
    pub(crate) fn path(&self, name: &str, tracer: TargetTracer) -> PathBuf {
        self.directory.path().join(format!("{name}-{tracer:?}"))
    }
}

/// Directory of the sources.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// File name of the shared library.
fn library() -> String {
    format!("libsordino.so.{}", sordino_ring::layout::VERSION)
}

/// Returns the numbers in a line.
pub(crate) fn numbers(text: &str) -> Result<Vec<f64>, String> {
    let line = text.lines().last().unwrap_or_default();
    let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
    numbers.map_err(|error| format!("'{line}': {error}"))
}
