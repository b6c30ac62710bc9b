//! A walk through a page: its files are written, then its commands run one after the other.

use super::output::{excerpt, mismatch};
use super::page::{BlockRole, BlockSettings, CodeBlock, DocumentPage};
use crate::install::{installed, root};
use crate::running::{EndedProcess, RunningProcess};
use crate::scene::Scene;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Result of walking a page.
#[derive(Debug, Default)]
pub struct PageOutcome {
    /// Number of blocks that were run.
    pub ran: usize,
    /// Blocks that were not run, each with its location and the reason.
    pub left: Vec<String>,
    /// Failures, each with its location and the cause.
    pub failures: Vec<String>,
}

/// Runs the blocks of a page in a directory of their own, with the installed sordino first in `PATH`. The directory has
/// a link `sordino` to the sources.
pub fn walk(scene: &Scene, page: &DocumentPage) -> PageOutcome {
    let mut walk = PageWalk::new(scene, page);
    for block in &page.blocks {
        walk.step(block);
    }
    walk.clean_up();
    std::mem::take(&mut walk.outcome)
}

struct PageWalk<'a> {
    scene: &'a Scene,
    directory: PathBuf,
    /// Locations and commands to run at the end of the page, in reverse order.
    finally: Vec<(String, String)>,
    /// Process groups that commands may have left running.
    groups: Vec<i32>,
    /// Recordings that lay in the sources before the walk.
    recordings: BTreeSet<PathBuf>,
    outcome: PageOutcome,
}

impl<'a> PageWalk<'a> {
    fn new(scene: &'a Scene, page: &DocumentPage) -> Self {
        let directory = scene.path(&page.name.replace('/', "-"));
        let walk = Self {
            scene,
            directory,
            finally: Vec::new(),
            groups: Vec::new(),
            recordings: recordings(),
            outcome: PageOutcome::default(),
        };
        // A page that needs sudo is walked as root; this `sudo` keeps the environment.
        walk.write("bin/sudo", "#!/bin/sh\nexec \"$@\"\n", false);
        let executable = Permissions::from_mode(0o755);
        fs::set_permissions(walk.directory.join("bin/sudo"), executable).expect("permissions");
        symlink(root(), walk.directory.join("sordino")).expect("a link to the sources");
        for block in &page.blocks {
            if let BlockRole::File { name, text, append } = &block.role {
                walk.write(name, text, *append);
            }
        }
        walk
    }

    fn write(&self, name: &str, text: &str, append: bool) {
        let path = self.directory.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        let mut options = File::options();
        options.create(true).write(true).append(append).truncate(!append);
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    fn step(&mut self, block: &CodeBlock) {
        match &block.role {
            BlockRole::Left(reason) => self.outcome.left.push(format!("{}: {reason}", block.place)),
            BlockRole::Text => {}
            BlockRole::File { .. } => self.run_unless_missing(block, &[]),
            BlockRole::Commands(commands) => self.run_unless_missing(block, commands),
        }
    }

    fn run_unless_missing(&mut self, block: &CodeBlock, commands: &[String]) {
        match missing(&block.settings, commands) {
            Some(missing) => self.outcome.left.push(format!("{}: it needs {missing}", block.place)),
            None => self.run(block, commands),
        }
    }

    fn run(&mut self, block: &CodeBlock, commands: &[String]) {
        let settings = &block.settings;
        self.outcome.ran += 1;
        self.finally.extend(settings.finally.iter().map(|commands| (block.place.clone(), commands.clone())));
        let failed =
            |result: Result<(), String>| result.err().map(|error| format!("{}: {error}", block.place));
        for commands in &settings.before {
            let result = self.hidden(settings, commands);
            self.outcome.failures.extend(failed(result));
        }
        let mut printed = String::new();
        for command in commands {
            let result = self.command(settings, command).and_then(|ended| {
                printed.extend([ended.output.as_str(), &ended.errors]);
                judge(settings, command, &ended)
            });
            self.outcome.failures.extend(failed(result));
        }
        let mismatch = mismatch(&settings.output, &printed);
        self.outcome.failures.extend(failed(mismatch.map_or(Ok(()), Err)));
        for commands in &settings.after {
            let result = self.hidden(settings, commands);
            self.outcome.failures.extend(failed(result));
        }
    }

    /// Runs a command of a block to its end, or until its setting interrupts it.
    fn command(&mut self, settings: &BlockSettings, command: &str) -> Result<EndedProcess, String> {
        let running = self.start(settings, command);
        let of_command = |(part, _): &&(String, String)| command.contains(part.as_str());
        if let Some((_, until)) = settings.interrupt.iter().find(of_command) {
            let mut until = self.bash(settings, until);
            let until = self.scene.start(until.env("OUTPUT", running.output_file())).within(settings.limit);
            let begun = until.end_or_hang();
            running.signal_group(Signal::INT);
            let printed = || format!("{}{}", running.output(), running.errors());
            begun.map_err(|hang| format!("{command}: it does not begin: {hang}\n{}", printed()))?;
        }
        running.end_or_hang()
    }

    /// Runs commands of a setting, which readers do not see and which have to succeed.
    fn hidden(&mut self, settings: &BlockSettings, commands: &str) -> Result<(), String> {
        let ended = self.start(settings, &format!("set -e\n{commands}")).end_or_hang()?;
        match ended.status {
            0 => Ok(()),
            status => Err(format!("{commands}: status {status}\n{}{}", ended.output, ended.errors)),
        }
    }

    fn start(&mut self, settings: &BlockSettings, command: &str) -> RunningProcess {
        let running = self.scene.start(&mut self.bash(settings, command)).within(settings.limit);
        self.groups.push(running.pid());
        running
    }

    /// Returns a shell that will run `commands` as the leader of a process group.
    fn bash(&self, settings: &BlockSettings, commands: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let before = [self.directory.join("bin"), installed().join("bin")];
        let path = std::env::join_paths(before.into_iter().chain(std::env::split_paths(&path)));
        // A shell ignores SIGINT for its background jobs, and the tests' children would inherit that.
        let mut bash = Command::new("env");
        bash.args(["--default-signal=INT", "bash", "-c", commands])
            .current_dir(self.directory.join(&settings.directory))
            .process_group(0);
        bash.env("PATH", path.expect("a path without a colon"));
        bash.env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"));
        bash.env("LD_LIBRARY_PATH", installed().join("lib"));
        bash.env("SORDINO_RUNTIME_DIR", self.directory.join(".sessions"));
        bash.env("BUILT", installed().with_file_name("documents"));
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            bash.env_remove(name);
        }
        bash
    }

    /// Ends the page: stops all that it started.
    fn clean_up(&mut self) {
        while let Some((place, commands)) = self.finally.pop() {
            let result = self.hidden(&BlockSettings::default(), &commands);
            self.outcome.failures.extend(result.err().map(|error| format!("{place}: {error}")));
        }
        for group in self.groups.drain(..).filter_map(Pid::from_raw) {
            // Most of the groups have ended by now.
            let _ = kill_process_group(group, Signal::KILL);
        }
        for recording in recordings().difference(&self.recordings) {
            fs::remove_dir_all(recording).expect("a recording that can be removed");
        }
    }
}

impl Drop for PageWalk<'_> {
    fn drop(&mut self) {
        self.clean_up();
    }
}

/// Returns the requirement of a block that the machine lacks, if any.
fn missing(settings: &BlockSettings, commands: &[String]) -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    let uses_sudo = commands.iter().any(|command| command.split_whitespace().any(|word| word == "sudo"));
    if uses_sudo && !is_root {
        return Some("root".to_owned());
    }
    let cpus = sordino_sched::affinity().map_or(1, |cpus| cpus.as_slice().len());
    let has_program = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
    };
    let is_there = |need: &&String| match need.split_once(' ') {
        Some((count, "CPUs")) => count.parse().is_ok_and(|count: usize| cpus >= count),
        None if need.as_str() == "root" => is_root,
        _ => has_program(need),
    };
    settings.needs.iter().find(|need| !is_there(need)).cloned()
}

/// Checks that a command ended with a status that its block allows.
fn judge(settings: &BlockSettings, command: &str, ended: &EndedProcess) -> Result<(), String> {
    let statuses = settings.status.iter().find(|(part, _)| command.contains(part.as_str()));
    let expected = statuses.map_or(&[0][..], |(_, statuses)| statuses);
    if expected.contains(&ended.status) {
        return Ok(());
    }
    let printed = excerpt(&format!("{}{}", ended.output, ended.errors));
    Err(format!("{command}: status {}, not {expected:?}\n{printed}", ended.status))
}

/// Returns the recordings in the sources' own directory.
fn recordings() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(root()).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_recording = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("sordino-") && path.join("recording.json").is_file()
    };
    entries.filter(|path| is_recording(path)).collect()
}
