//! The load around a measurement.

use super::progress::MeasurementProgress;
use super::tool::{self, signal_end};
use crate::Command;
use crate::Error;
use crate::keep;
use crate::loads::{Load, places};
use sordino_proc::SystemFiles;
use sordino_sched::CpuList;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Most time for unpacking the kernel's sources.
const UNPACKING: Duration = Duration::from_secs(600);

/// The loads that can run on this machine, and the reasons why others can't.
pub(crate) struct Loads {
    loads: Vec<Load>,
    /// The archive or directory with the kernel's sources.
    source: PathBuf,
    unpacked: Option<TempDir>,
    pub(crate) missing: Vec<(String, Option<String>)>,
    /// The commands that were started, each once.
    pub(crate) commands: Vec<Command>,
    pub(crate) notes: Vec<String>,
}

impl Loads {
    /// Finds the programs of each load. The kernel's sources come from `named`, or from Debian's package
    /// `linux-source`.
    pub(crate) fn find(requested: &[Load], named: Option<&Path>) -> Self {
        let mut loads = Self {
            loads: Vec::new(),
            source: PathBuf::new(),
            unpacked: None,
            missing: Vec::new(),
            commands: Vec::new(),
            notes: Vec::new(),
        };
        for &load in requested {
            let (programs, package) = load.needs();
            if let Some((reason, next)) = programs.iter().find_map(|program| tool::missing(program, package))
            {
                loads.missing.push((format!("{}: {reason}", load.name()), next));
            } else if load == Load::Compile {
                match sources(named) {
                    Some(source) => {
                        loads.source = source;
                        loads.loads.push(load);
                    }
                    None => {
                        let why =
                            "compile: no sources of the kernel in /usr/src, and none named with --source";
                        let why = why.to_owned();
                        loads.missing.push((why, Some(format!("apt-get install {package}"))));
                    }
                }
            } else {
                loads.loads.push(load);
            }
        }
        loads
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.loads.iter().map(|load| load.name()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Runs the loads on all CPUs except the measured ones, until the result is dropped.
    pub(crate) fn start(
        &mut self,
        measured: &CpuList,
        progress: &mut MeasurementProgress<'_>,
    ) -> Result<Running, Error> {
        let mut running = Running { keepers: Vec::new(), scratch: Vec::new() };
        if self.loads.is_empty() {
            return Ok(running);
        }
        let (places, notes) = places(&SystemFiles::new("/"), &CpuList::online()?, measured);
        for note in notes {
            self.note(note);
        }
        if places.is_empty() {
            self.note(format!("no load while CPU {measured} is measured: no other CPU is left"));
        }
        self.unpack(progress)?;
        for place in &places {
            for &load in &self.loads {
                let build = tool::scratch()?;
                let words = load.command(place.cpus.as_slice().len(), &self.source, build.path());
                let scratch = [&build].into_iter().chain(&self.unpacked).map(tool::keeps);
                let options = ["--repeat".to_owned(), format!("--cpus={}", place.cpus)];
                let options: Vec<String> = options.into_iter().chain(scratch).collect();
                running.scratch.push(build);
                let child = keep::command(&options, &words)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()?;
                let line = format!("taskset -c {} {}", place.cpus, tool::line(&words));
                running.keepers.push((load, child));
                if !self.commands.iter().any(|command| command.line == line) {
                    self.commands.push(Command { line, failed: None });
                }
            }
        }
        Ok(running)
    }

    /// Ends the loads, and notes those that had ended before.
    pub(crate) fn stop(&mut self, mut running: Running) {
        for (load, keeper) in &mut running.keepers {
            if let Ok(Some(status)) = keeper.try_wait() {
                self.note(format!("the load {} ended early: {status}", load.name()));
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Unpacks the kernel's sources, once, if they are an archive.
    fn unpack(&mut self, progress: &mut MeasurementProgress<'_>) -> Result<(), Error> {
        if !self.loads.contains(&Load::Compile) || self.source.is_dir() {
            return Ok(());
        }
        let directory = tool::scratch()?;
        let words = ["tar", "-x", "--strip-components=1", "-C"].map(str::to_owned);
        let paths = [directory.path(), Path::new("-f"), &self.source].map(|path| path.display().to_string());
        let words = [&words[..], &paths].concat();
        let ended = tool::run(&words, Some(&directory), UNPACKING, progress, |_, _| {})?;
        self.commands.push(ended.command);
        if ended.status.success() && !progress.is_interrupted() {
            self.source = directory.path().to_owned();
            self.unpacked = Some(directory);
        } else {
            self.note(format!("compile: {} can't be unpacked: {}", self.source.display(), ended.last_words));
            self.loads.retain(|load| *load != Load::Compile);
        }
        Ok(())
    }
}

/// Returns true for a directory with a Kbuild, or a file, which is taken for an archive.
pub fn is_source(path: &Path) -> bool {
    path.join("Kbuild").exists() || path.is_file()
}

/// Returns the kernel's sources: the named ones, or the newest below /usr/src.
fn sources(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(named) = named {
        return is_source(named).then(|| named.to_owned());
    }
    let entries = fs::read_dir("/usr/src").into_iter().flatten().flatten().map(|entry| entry.path());
    let is_source = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("linux-source-") && (path.join("Kbuild").exists() || name.contains(".tar"))
    };
    entries.filter(is_source).max()
}

/// Running loads; dropping it ends them.
pub(crate) struct Running {
    keepers: Vec<(Load, Child)>,
    /// Removed when no load writes to it any more.
    scratch: Vec<TempDir>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.keepers.iter().for_each(|(_, keeper)| signal_end(keeper));
        for (_, keeper) in &mut self.keepers {
            let _ = keeper.wait();
        }
        self.scratch.clear();
    }
}
