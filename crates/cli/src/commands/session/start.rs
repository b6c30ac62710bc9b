//! The command `sordino start`.

use crate::Failure;
use crate::failure::UNUSABLE;
use crate::record_options::RecordOptions;
use crate::terminal::show;
use crate::words::without_color;
use clap::Args;
use sordino_collect::{Keep, UserEvents};
use sordino_manager::{Definition, SessionPlace, become_recorder, begin};
use sordino_quantity::{duration, size};
use sordino_session::{
    ProgramEnd, Programs, Reply, Request, Rotation, SeriesOptions, SessionOptions, Snapshots, Worst,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Start a session: a recording that outlives this shell
///
/// A recorder in the background records programs that run already and, from their first event on, programs that start
/// later, with the options of 'sordino record', until 'sordino stop NAME' or until COMMAND ends. Several sessions may
/// record the same programs, each with its own events.
///
/// With --overwrite, a session is a flight recorder: it keeps the newest events in memory and writes them to disk as a
/// snapshot when 'sordino snapshot NAME', a program (sordino_snapshot()), or SIGUSR1 or SIGUSR2 to the recorder
/// requests one, when an event meets a condition (--trigger), or when a program ends (--on-exit). Otherwise it writes
/// to disk continuously, in chunks that are complete recordings; SIGUSR1 and SIGUSR2 then begin the next chunk.
///
/// A program writes its events to rings in memory, one for each CPU. A ring consists of sub-buffers; the recorder
/// writes each one to disk when it is full.
///
/// Without any option, a session that was stopped, or whose recorder was killed, is started again with its previous
/// options.
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
    /// Name of the session: letters, digits, '.', '_' and '-'
    pub(super) name: String,
    /// Directory for the session's recordings: new, empty, or that of an earlier start of this session [default:
    /// sordino-NAME in the current directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) what: RecordOptions,
    /// Record in the foreground, until SIGTERM or 'sordino stop NAME', as a service: notifies the service manager
    /// (sd_notify) when recording begins, and logs to standard error
    #[arg(long)]
    pub(super) foreground: bool,
    /// Begin a new chunk, a recording of its own, when the current one has this size, such as 1G [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "overwrite")]
    rotate_size: Option<u64>,
    /// Begin a new chunk, a complete recording of its own, at this interval, such as 1h [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "overwrite")]
    rotate_every: Option<Duration>,
    /// Number of chunks or snapshots to keep; older ones are removed [default: keep all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Total size of the chunks or snapshots to keep, such as 10G; older ones are removed, but never the newest
    /// [default: keep all]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Limit each snapshot to the events of this time before it, such as 1s; sub-buffers (see --subbuf-size) are copied
    /// as a whole, so it may have older events, too [default: all events in memory]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "overwrite")]
    last: Option<Duration>,
    /// Take a snapshot when an event matches these rules, such as 'motor:period if late > 50us', written as for --user
    #[arg(long, value_name = "RULES", requires = "overwrite")]
    trigger: Vec<String>,
    /// Take a snapshot when a recorded program ends in this way; may be repeated
    #[arg(long, value_name = "HOW", requires = "overwrite")]
    on_exit: Vec<OnExit>,
    /// Minimum time between two snapshots requested by programs: by --trigger, --on-exit or sordino_snapshot()
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", requires = "overwrite")]
    hold_off: Duration,
    /// Maximum number of snapshots requested by programs, by --trigger, --on-exit or sordino_snapshot(); further
    /// requests are ignored [default: no limit]
    #[arg(long, value_name = "N", requires = "overwrite")]
    max_snapshots: Option<u64>,
    /// Keep only the N worst snapshots that --trigger requested: those with the greatest value of the field of --by, or
    /// with the smallest if the trigger compares by '<'. Other snapshots are kept
    #[arg(long, value_name = "N", requires = "trigger", conflicts_with_all = ["keep", "max_size"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    worst: Option<u64>,
    /// Field of the triggering event by which --worst ranks snapshots, such as late [default: the field that the
    /// triggers compare]
    #[arg(long, value_name = "FIELD", requires = "worst")]
    by: Option<String>,
}

/// A way in which a program can end.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnExit {
    /// Ended by a signal that dumps core
    Crash,
    /// Ended with a status other than 0, or by a signal
    Failure,
    /// Ended in any way
    Any,
}

impl From<OnExit> for ProgramEnd {
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

    /// Returns the recorder's options for this session.
    pub(super) fn session(
        &self,
        place: &SessionPlace,
        owner: Option<&crate::privilege::Target>,
    ) -> Result<SessionOptions, Failure> {
        let output = self.output.clone().unwrap_or_else(|| format!("sordino-{}", self.name).into());
        let series = SeriesOptions {
            runtime: place.path().to_owned(),
            rotation: Rotation { size: self.rotate_size, every: self.rotate_every },
            snapshots: Snapshots {
                last: self.last,
                hold_off: self.hold_off,
                most: self.max_snapshots,
                ends: self.on_exit.iter().copied().map(ProgramEnd::from).collect(),
                worst: self.worst()?,
            },
            keep: Keep { count: self.keep.map(|keep| keep as usize), bytes: self.max_size },
        };
        let mut session = self.what.options(output, &self.name, owner)?;
        if self.what.overwrite {
            // A program requests a snapshot by hitting this tracepoint.
            let triggers = self.trigger.iter().cloned().chain(["sordino:snapshot".to_owned()]);
            let user = session.recording.user.with_triggers(triggers);
            session.recording.user =
                user.map_err(|error| Failure::new(UNUSABLE, format!("--trigger {error}")))?;
        }
        Ok(session.with_series(series))
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    sordino_guard::expect_own_program()?;
    let place = SessionPlace::make(&options.name)?;
    let name = &place.name;
    let Some(lock) = place.lock()? else {
        let known = format!(
            "session '{name}' is recording: see 'sordino status {name}', end it with 'sordino stop {name}'"
        );
        return Err(Failure::new(UNUSABLE, known));
    };
    let (is_new, before) = (place.is_new()?, place.definition().ok());
    let started = define(options, &place).and_then(|definition| match options.foreground {
        true => become_recorder(&place, &definition, lock).map_err(Failure::from),
        false => begin(&place, &definition, &lock).map_err(Failure::from),
    });
    if started.is_err() {
        // If starting fails, a new session is removed and an existing one is restored. A session whose definition is
        // unreadable is left alone.
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

/// Returns the message that the session is recording.
pub(super) fn recording(options: &Options) -> String {
    let name = &options.name;
    let verb = if options.what.overwrite { "records in memory" } else { "records" };
    format!("session '{name}' {verb}; see 'sordino status {name}', end it with 'sordino stop {name}'")
}

/// Prints the running programs that could not be recorded, and the rules that match none of their tracepoints. The
/// session continues if its recorder does not reply.
fn tell_of_programs(place: &SessionPlace) {
    let Ok(Reply::Status(status)) = place.request(&Request::Status) else { return };
    status.notes.iter().for_each(|note| message!("  {note}"));
    let rules = &status.shortfall.rules;
    rules.iter().for_each(|problem| message!("  so far, {problem}"));
    if !rules.is_empty() {
        message!("  programs that start later may have the missing tracepoints or fields");
    }
}

/// Returns the session's definition: from the typed options or, if there are none, the previous one.
fn define(options: &Options, place: &SessionPlace) -> Result<Definition, Failure> {
    let typed = std::env::args_os().skip_while(|argument| argument != "start").skip(1);
    let arguments = without_foreground(without_color(typed));
    let only_name = arguments.len() == 1;
    if only_name && let Ok(definition) = place.definition() {
        return Ok(definition);
    }
    // Errors in the options are reported here, instead of in the recorder's log.
    let owner = crate::privilege::target(options.what.as_user.as_deref())?;
    let session = options.session(place, owner.as_ref())?;
    if matches!(session.programs, Programs::Pids(ref pids) if pids.is_empty()) {
        return Err(Failure::new(UNUSABLE, "--pid: expected the id of a process"));
    }
    let text = |argument: OsString| {
        argument
            .into_string()
            .map_err(|bad| Failure::new(UNUSABLE, format!("{} is not UTF-8", bad.display())))
    };
    let arguments = arguments.into_iter().map(text).collect::<Result<_, _>>()?;
    let gone = |error| Failure::new(UNUSABLE, format!("the directory that this is called in: {error}"));
    let directory = std::env::current_dir().map_err(gone)?;
    let definition = Definition { schema: 1, arguments, output: directory.join(session.output), directory };
    place.define(&definition)?;
    Ok(definition)
}

/// Returns the arguments without `--foreground`, which does not belong to the session's definition.
fn without_foreground(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_command = false;
    typed
        .filter(|argument| {
            is_command |= argument == "--";
            is_command || argument != "--foreground"
        })
        .collect()
}
