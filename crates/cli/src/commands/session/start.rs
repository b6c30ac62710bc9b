//! `sordino start`

use super::place::{Definition, Place};
use crate::Failure;
use crate::arguments::{duration, size, without_color};
use crate::commands::guard;
use crate::failure::UNUSABLE;
use crate::terminal::show;
use crate::what::What;
use clap::Args;
use sordino_collect::{
    End, Keep, Options as Recording, Programs, Reply, Request, Rotation, SessionOptions, Snapshots,
    UserEvents, Worst,
};
use sordino_dirfd::Dir;
use sordino_registration::environment::{RESERVE, SESSION, UNRECORDED};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Start a session: a recording that outlives this shell
///
/// A recorder of its own goes on in the background, until 'sordino stop NAME' or until COMMAND ends. It records programs that run,
/// those that start later from their first event on, and what is asked for with the options of 'sordino record'. Several sessions may
/// record the same programs, each with its own events.
///
/// With --overwrite it is a flight recorder: it keeps what is newest in memory, and writes snapshots of that: when 'sordino snapshot
/// NAME', SIGUSR1 or SIGUSR2 to its recorder, or a program (sordino_snapshot) asks for one, when an event meets a condition (--trigger), when a program ends (--on-exit).
/// Without, it writes to disk all the time, into chunks that are complete recordings; there these signals begin the next chunk.
///
/// Without any option, a session that was stopped, or whose recorder was killed, goes on as it was started.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino start motor --user 'motor:*' --rotate-every 1h --keep 24
  sudo sordino start box --overwrite --kernel sched,irq --last 1s \\
      --trigger 'motor:period if late > 50us'
  sordino start box --overwrite --on-exit crash -- ./motor
  sordino start worst --overwrite --worst 10 --hold-off 100ms \\
      --trigger 'motor:period if late > 50us'
  sordino status box
  sordino snapshot box")]
pub(crate) struct Options {
    /// What it is called: letters, digits, '.', '_' and '-'
    pub(super) name: String,
    /// Where its recordings go: a new or empty directory, or one of its own [default: sordino- and NAME, here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) what: What,
    /// Record in this process, until SIGTERM or 'sordino stop NAME': for service managers, which are told when it records (sd_notify).
    /// What the recorder has to say goes to standard error
    #[arg(long)]
    pub(super) foreground: bool,
    /// Begin another chunk when this one has so many bytes
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "overwrite")]
    rotate_size: Option<u64>,
    /// Begin another chunk each time so much time has passed
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "overwrite")]
    rotate_every: Option<Duration>,
    /// Keep so many chunks or snapshots: the oldest are removed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Keep so many bytes of chunks or snapshots: the oldest are removed, the newest always stays
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Write so much of the time before into a snapshot, in whole sub-buffers [default: all that is there]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "overwrite")]
    last: Option<Duration>,
    /// Take a snapshot when such an event happens: rules like those of --user
    #[arg(long, value_name = "RULES", requires = "overwrite")]
    trigger: Vec<String>,
    /// Take a snapshot when a program ends: by a crash, by a failure (or crash), or any way
    #[arg(long, value_name = "HOW", requires = "overwrite")]
    on_exit: Vec<OnExit>,
    /// For so long after a snapshot that a program was the reason for, take no other
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", requires = "overwrite")]
    hold_off: Duration,
    /// Take so many snapshots for which programs are the reason, then no more
    #[arg(long, value_name = "N", requires = "overwrite")]
    max_snapshots: Option<u64>,
    /// Of the snapshots that triggers asked for, keep the N worst: those whose events have the greatest value of a field, or the least
    /// where the trigger asks for less. Others stay
    #[arg(long, value_name = "N", requires = "trigger", conflicts_with_all = ["keep", "max_size"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    worst: Option<u64>,
    /// The field by which they are ranked [default: the one that the triggers compare]
    #[arg(long, value_name = "FIELD", requires = "worst")]
    by: Option<String>,
}

/// A way for a program to end.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnExit {
    /// By a signal that dumps core
    Crash,
    /// With another status than 0, or by a signal
    Failure,
    /// Any
    Any,
}

impl From<OnExit> for End {
    fn from(how: OnExit) -> Self {
        match how {
            OnExit::Crash => Self::Crash,
            OnExit::Failure => Self::Failure,
            OnExit::Any => Self::Any,
        }
    }
}

impl Options {
    fn worst(&self) -> Result<Option<Worst>, Failure> {
        let Some(count) = self.worst else { return Ok(None) };
        let unusable = |error: String| Failure::new(UNUSABLE, error);
        let triggers = UserEvents::default().with_triggers(self.trigger.iter().cloned());
        let triggers = triggers.map_err(|error| unusable(format!("--trigger {error}")))?;
        let ranking = triggers.ranking(self.by.as_deref());
        let ranking = ranking.map_err(|error| unusable(format!("--worst needs --by FIELD: {error}")))?;
        let ranking =
            ranking.ok_or_else(|| unusable("--worst: no --trigger includes anything".to_owned()))?;
        Ok(Some(Worst { count: count as usize, ranking }))
    }

    /// As the recorder takes it.
    pub(super) fn recording(
        &self,
        place: &Place,
        owner: Option<&crate::privilege::Target>,
    ) -> Result<Recording, Failure> {
        let output = self.output.clone().unwrap_or_else(|| format!("sordino-{}", self.name).into());
        let session = SessionOptions {
            runtime: place.path().to_owned(),
            rotation: Rotation { size: self.rotate_size, every: self.rotate_every },
            snapshots: Snapshots {
                last: self.last,
                hold_off: self.hold_off,
                most: self.max_snapshots,
                ends: self.on_exit.iter().copied().map(End::from).collect(),
                worst: self.worst()?,
            },
            keep: Keep { count: self.keep.map(|keep| keep as usize), bytes: self.max_size },
        };
        let mut recording = self.what.options(output, &self.name, owner)?;
        if self.what.overwrite {
            // A program that asks for a snapshot hits a tracepoint for it.
            let triggers = self.trigger.iter().cloned().chain(["sordino:snapshot".to_owned()]);
            let user = recording.user.with_triggers(triggers);
            recording.user = user.map_err(|error| Failure::new(UNUSABLE, format!("--trigger {error}")))?;
        }
        Ok(Recording { session: Some(session), ..recording })
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    guard::expect_own_program()?;
    let place = Place::make(&options.name)?;
    let name = &place.name;
    let Some(lock) = place.lock()? else {
        let known = format!(
            "session '{name}' is recording: see 'sordino status {name}', end it with 'sordino stop {name}'"
        );
        return Err(Failure::new(UNUSABLE, known));
    };
    let (is_new, before) = (place.is_new()?, place.definition().ok());
    let started = define(options, &place).and_then(|definition| match options.foreground {
        true => become_recorder(&place, &definition, lock),
        false => begin(&place, &definition, &lock),
    });
    if started.is_err() {
        // A new session is removed, an existing one restored. One whose description is not to be read stays for whoever looks at it.
        let _ = match before {
            Some(before) => place.define(&before),
            None if is_new => place.remove(),
            None => Ok(()),
        };
    }
    started?;
    show(&(recording(options) + "\n"))?;
    tell_of_programs(&place);
    Ok(ExitCode::SUCCESS)
}

/// What a person is told when the session records.
pub(super) fn recording(options: &Options) -> String {
    let name = &options.name;
    let verb = if options.what.overwrite { "records in memory" } else { "records" };
    format!("session '{name}' {verb}; see 'sordino status {name}', end it with 'sordino stop {name}'")
}

/// Prints what the programs that run already show: which could not be recorded, and rules that choose none of their tracepoints.
/// The session goes on whatever its answer is.
fn tell_of_programs(place: &Place) {
    let Ok(Reply::Status(status)) = place.ask(&Request::Status) else { return };
    status.notes.iter().for_each(|note| message!("  {note}"));
    let rules = &status.shortfall.rules;
    rules.iter().for_each(|problem| message!("  so far, {problem}"));
    if !rules.is_empty() {
        message!("  programs that start later may have what is missing");
    }
}

/// How the session is to be recorded: as is typed or, if nothing is, as before.
fn define(options: &Options, place: &Place) -> Result<Definition, Failure> {
    let typed = std::env::args_os().skip_while(|argument| argument != "start").skip(1);
    let arguments = without_foreground(without_color(typed));
    let only_name = arguments.len() == 1;
    if only_name && let Ok(definition) = place.definition() {
        return Ok(definition);
    }
    // What is wrong is said here, not in a log.
    let owner = crate::privilege::target(options.what.as_user.as_deref())?;
    let recording = options.recording(place, owner.as_ref())?;
    if matches!(recording.programs, Programs::Pids(ref pids) if pids.is_empty()) {
        return Err(Failure::new(UNUSABLE, "--pid names no process"));
    }
    let text = |argument: OsString| {
        argument
            .into_string()
            .map_err(|bad| Failure::new(UNUSABLE, format!("{} is not UTF-8", bad.display())))
    };
    let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>()?;
    let gone = |error| Failure::new(UNUSABLE, format!("the directory that this is called in: {error}"));
    let directory = std::env::current_dir().map_err(gone)?;
    let definition = Definition { schema: 1, arguments, output: directory.join(recording.output), directory };
    place.define(&definition)?;
    Ok(definition)
}

/// How it is started says nothing of what is recorded.
fn without_foreground(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_command = false;
    typed
        .filter(|argument| {
            is_command |= argument == "--";
            is_command || argument != "--foreground"
        })
        .collect()
}

/// Becomes the recorder, and returns only if it can't.
fn become_recorder(place: &Place, definition: &Definition, lock: File) -> Result<(), Failure> {
    let directory = working_directory(place, definition)?;
    Err(recorder(definition, &directory, &["--foreground"]).stdin(lock).exec().into())
}

/// Starts the recorder, which has the lock from its first instruction on, and waits until it records.
fn begin(place: &Place, definition: &Definition, lock: &File) -> Result<(), Failure> {
    let directory = working_directory(place, definition)?;
    let mut command = recorder(definition, &directory, &[]);
    let mut child = command.stdin(lock.try_clone()?).stdout(Stdio::piped()).stderr(place.log()?).spawn()?;
    let Some(stdout) = child.stdout.take() else { return Ok(()) };
    let mut answer = BufReader::new(stdout);
    let mut line = String::new();
    answer.read_line(&mut line)?;
    if line == READY {
        return Ok(());
    }
    answer.read_to_string(&mut line)?;
    child.wait()?;
    let line = line.trim_end();
    let reason = match line {
        "" => format!("its recorder ended: {}", place.log_end().unwrap_or_default()),
        reason => reason.to_owned(),
    };
    Err(Failure::new(UNUSABLE, reason))
}

/// The recorder's command line, without its standard files; it starts in the directory.
fn recorder(definition: &Definition, directory: &Dir, mode: &[&str]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("sordino").arg("session-recorder").args(mode).args(&definition.arguments);
    command.current_dir(directory.proc_path()).env_remove(SESSION).env(RESERVE, UNRECORDED);
    command
}

/// The directory in which the session was started. Its path had no links: one that has is another directory, whoever put it there.
fn working_directory(place: &Place, definition: &Definition) -> Result<Dir, Failure> {
    let path = &definition.directory;
    let directory = Dir::open(path).ok();
    let is_same =
        |directory: &Dir| std::fs::read_link(directory.proc_path()).is_ok_and(|found| found == *path);
    directory.filter(is_same).ok_or_else(|| {
        let (name, path) = (&place.name, path.display());
        let text =
            format!("session '{name}' was started in {path}, which is gone: start it with its options again");
        Failure::new(UNUSABLE, text)
    })
}

/// What the recorder says when it records.
pub(super) const READY: &str = "ready\n";
