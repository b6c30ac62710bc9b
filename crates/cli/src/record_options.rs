//! The options that choose the events to record and how to record them, shared by `sordino record` and `sordino start`.

use crate::Failure;
use crate::commands::shield;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::privilege::{Target, target};
use crate::words::pid;
use clap::Args;
use sordino_collect::options::geometry;
use sordino_collect::{CommandLine, Contexts, Options, Polling, Programs, UserEvents};
use sordino_quantity::{duration, size};
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_sched::is_root;
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a recording, which a session has too.
#[derive(Args, Debug)]
pub(crate) struct RecordOptions {
    /// Record these kernel events: 'rt' (all that 'sordino explain' uses for a real-time thread), groups such as sched,
    /// names or globs such as sched_switch, separated by commas, each with a filter of the kernel's if need be:
    /// 'sched_switch if prev_prio < 100'. sched_switch also records task_rename, so that renamed threads keep their
    /// names. 'sudo sordino list -v' lists all kernel events. Needs root, or 'sordino grant' [default: none]
    #[arg(short, long, value_name = "EVENTS")]
    kernel: Vec<String>,
    /// Size of the kernel's trace buffer for each CPU, 64K to 4G
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size, requires = "kernel")]
    kernel_buffer: u64,
    /// Record kernel events only of these threads (comma-separated ids), and of the threads and processes that they
    /// create [default: of all threads]
    #[arg(long, value_name = "TID", value_delimiter = ',', requires = "kernel")]
    kernel_tid: Vec<i32>,
    /// Record the programs' tracepoints that match these rules, such as 'motor:*, !motor:noise*, net:tx if len > 1500':
    /// names or globs; '!' excludes; 'if' adds a condition on the fields
    #[arg(short, long, value_name = "RULES", default_value = "*")]
    user: Vec<String>,
    /// Record kernel events only, no tracepoint of any program. COMMAND is started all the same, and recording ends
    /// with it
    #[arg(long, requires = "kernel", conflicts_with_all = ["user", "pid", "context"])]
    no_user: bool,
    /// Record more about the programs' threads: comm (the name), ids, priority, cgroup, each sampled ten times a
    /// second; values (annotations that a thread makes itself) and counters (performance counters that a thread has
    /// opened), exact for each event; or all [default: none]
    #[arg(long, value_name = "CONTEXT,...")]
    context: Option<Contexts>,
    /// Interval at which the collector looks for full sub-buffers, 1us to 20ms [default: so short that no program can
    /// fill its ring in between; 2ms for the default sizes]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["wakeup", "busy"])]
    read_timer: Option<Duration>,
    /// Have programs wake the collector, by one system call for each full sub-buffer, instead of a timer
    #[arg(long, conflicts_with = "busy")]
    wakeup: bool,
    /// Have the collector look for full sub-buffers without a pause, instead of by a timer: keeps one CPU busy
    #[arg(long)]
    busy: bool,
    /// Keep the newest events in memory, as a flight recorder: full buffers overwrite their oldest events, and nothing
    /// is written to disk until recording ends (Ctrl-C) or, in a session, until a snapshot is taken
    #[arg(long, conflicts_with_all = ["read_timer", "wakeup", "busy"])]
    pub(crate) overwrite: bool,
    /// Action of a program whose ring is full: 'discard' drops the event and counts it as lost; 'block' waits until
    /// there is room; 'block=10ms' waits at most that long, then discards. Only programs that were started with
    /// SORDINO_ALLOW_BLOCKING=1 wait
    #[arg(long, value_name = "WHAT", value_parser = on_full, default_value = "discard", conflicts_with = "overwrite")]
    on_full: OnFull,
    /// Size of a sub-buffer, a power of two from 16K to 256M [default: 128K; 1M if --num-subbuf is given]. If this or
    /// --num-subbuf is given, each ring has all of its memory from the start; otherwise it gets memory as it fills
    #[arg(long, value_name = "SIZE", value_parser = size)]
    subbuf_size: Option<u64>,
    /// Number of sub-buffers in a ring, a power of two from 2 to 4096; a program has one ring for each CPU [default:
    /// 256; 32 if --subbuf-size is given]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u64>,
    /// Most memory that all programs' rings may use together, at least 1M [default: a quarter of the machine's memory,
    /// or of the control group's limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_memory: Option<u64>,
    /// Record on these CPUs only, such as 1-3,5 [default: all CPUs that are online]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Stop recording after this time, such as 10s or 2min [default: no limit]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Run the collector on this CPU [default: on CPUs where no recorded program runs, if there are any]
    #[arg(long, value_name = "CPU")]
    pub(crate) collector_cpu: Option<u32>,
    /// Run the collector with SCHED_FIFO at this priority, 1 to 99 [default: as an ordinary thread]
    #[arg(long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    collector_prio: Option<u8>,
    /// Run COMMAND as this user, by name or id [default: the user who called sudo, or the current one]
    #[arg(long = "as", value_name = "USER", requires = "command")]
    pub(crate) as_user: Option<String>,
    /// Record these running processes (comma-separated ids) instead of all programs
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = pid, conflicts_with = "command")]
    pid: Vec<i32>,
    /// Command to start and to record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The action of a program whose ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnFull {
    Discard,
    /// Wait for room, at most this long; without a limit if it is `Duration::MAX`.
    Block(Duration),
}

fn on_full(text: &str) -> Result<OnFull, String> {
    match text.split_once('=') {
        None if text == "discard" => Ok(OnFull::Discard),
        None if text == "block" => Ok(OnFull::Block(Duration::MAX)),
        Some(("block", time)) => duration(time).map(OnFull::Block),
        _ => Err("expected 'discard', 'block' or 'block=TIME'".to_owned()),
    }
}

impl RecordOptions {
    /// Returns the collector's options for a recording into `output`, of a session called `name`; the command runs as
    /// `owner`.
    pub(crate) fn options(
        &self,
        output: PathBuf,
        name: &str,
        owner: Option<&Target>,
    ) -> Result<Options, Failure> {
        let bad = |text: String| Failure::new(UNUSABLE, text);
        let kernel = selections(&self.kernel)?;
        let geometry = geometry(self.subbuf_size, self.num_subbuf, self.overwrite).map_err(bad)?;
        if !kernel.is_empty() && !is_root() {
            message!("sordino: not root: kernel events may be refused");
        }
        let contexts = self.context.unwrap_or_default();
        // Annotations and counters are recorded as events.
        let own = [(contexts.values, "sordino:context"), (contexts.counters, "sordino:counters")];
        let own = own.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned());
        // The recording is given to the user who called sudo, whichever user the command runs as.
        let reader = target(None)?.or_else(|| owner.cloned());
        Ok(Options {
            output,
            confine: true,
            reader: reader.map(|reader| reader.ids()),
            name: name.to_owned(),
            command: command_line(std::env::args_os()),
            kernel,
            kernel_buffer_kib: kernel_buffer(self.kernel_buffer).map_err(bad)?,
            kernel_threads: threads(&self.kernel_tid).map_err(bad)?,
            user: UserEvents::new(self.user.iter().cloned().chain(own))
                .map_err(|error| bad(format!("--user {error}")))?,
            contexts,
            geometry,
            whole_rings: self.subbuf_size.is_some() || self.num_subbuf.is_some(),
            max_memory: max_memory(self.max_memory).map_err(bad)?,
            block: match self.on_full {
                OnFull::Discard => None,
                OnFull::Block(time) => Some(time),
            },
            polling: polling(self, geometry).map_err(bad)?,
            cpus: cpus(self.cpus.as_ref())?,
            cpus_only: self.cpus.is_some(),
            duration: self.duration,
            collector_cpu: self.collector_cpu,
            collector_priority: self.collector_prio,
            shielded: shield::shielded,
            programs: programs(self, owner)?,
            kernel_only: self.no_user,
            session: None,
        })
    }
}

/// Maximum number of bytes of a command line that a recording keeps.
const LONGEST_COMMAND: usize = 8192;

/// Returns the command line that the user typed; of a long one the begin, and "...".
fn command_line(arguments: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut room = LONGEST_COMMAND;
    let words = arguments.skip(1).map(|word| word.to_string_lossy().into_owned());
    // The session's recorder gets the arguments of `sordino start`.
    let words = words.enumerate().map(|(place, word)| match (place, &*word) {
        (0, "session-recorder") => "start".to_owned(),
        _ => word,
    });
    let mut command = vec!["sordino".to_owned()];
    for word in words {
        let Some(left) = room.checked_sub(word.len()) else {
            command.push("...".to_owned());
            break;
        };
        room = left;
        command.push(word);
    }
    command
}

fn selections(texts: &[String]) -> Result<Vec<Selection>, Failure> {
    let lists = texts.iter().map(|text| Selection::list(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(lists.concat())
}

/// Refuses ids of threads that do not exist: the kernel accepts them, and nothing would be recorded.
fn threads(wanted: &[i32]) -> Result<Vec<i32>, String> {
    match wanted.iter().find(|tid| !PathBuf::from(format!("/proc/{tid}/comm")).exists()) {
        Some(tid) => Err(format!("--kernel-tid {tid}: there is no such thread")),
        None => Ok(wanted.to_vec()),
    }
}

fn kernel_buffer(bytes: u64) -> Result<u64, String> {
    let kib = bytes >> 10;
    if (64..=4 << 20).contains(&kib) {
        return Ok(kib);
    }
    Err(format!("--kernel-buffer is {bytes} bytes: must be 64K to 4G"))
}

/// Refuses less than 1 MiB, which is too little for one program's rings.
fn max_memory(wanted: Option<u64>) -> Result<Option<u64>, String> {
    match wanted {
        Some(bytes) if bytes < 1 << 20 => Err(format!("--max-memory is {bytes} bytes: must be at least 1M")),
        wanted => Ok(wanted),
    }
}

fn polling(what: &RecordOptions, geometry: Geometry) -> Result<Polling, String> {
    Ok(match what {
        RecordOptions { wakeup: true, .. } => Polling::Wakeup,
        RecordOptions { busy: true, .. } => Polling::Busy,
        RecordOptions { read_timer: None, .. } => Polling::safe_timer(geometry),
        RecordOptions { read_timer: Some(timer), .. } => {
            let range = Duration::from_micros(1)..=Duration::from_millis(20);
            if !range.contains(timer) {
                return Err(format!("--read-timer is {timer:?}: must be 1us to 20ms"));
            }
            Polling::Timer(*timer)
        }
    })
}

fn cpus(wanted: Option<&CpuList>) -> Result<CpuList, Failure> {
    let online = CpuList::online()?;
    let Some(wanted) = wanted else { return Ok(online) };
    let missing = wanted.without(&online);
    if missing.is_empty() {
        return Ok(wanted.clone());
    }
    Err(Failure::new(UNUSABLE, format!("--cpus {wanted}: CPU {missing} is not online; online are {online}")))
}

fn programs(what: &RecordOptions, owner: Option<&Target>) -> Result<Programs, Failure> {
    let Some((program, arguments)) = what.command.split_first() else {
        return Ok(if what.pid.is_empty() { Programs::All } else { Programs::Pids(what.pid.clone()) });
    };
    let program = PathBuf::from(program);
    if let Err(error) = sordino_sched::find_program(&program) {
        return Err(Failure::new(NOT_FOUND, format!("{}: {error}", program.display())));
    }
    let prefix = owner.map(Target::prefix).unwrap_or_default();
    Ok(Programs::Command(CommandLine { program, arguments: arguments.to_vec(), prefix }))
}
