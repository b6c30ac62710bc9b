//! The options that choose the events to record and how to record them, shared by `sordino record` and `sordino start`.

use crate::Failure;
use crate::commands::shield;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::privilege::{Target, target};
use crate::words::pid;
use clap::Args;
use sordino_collect::options::geometry;
use sordino_collect::{Polling, RecordingOptions, UserEvents};
use sordino_inspect::context::Contexts;
use sordino_quantity::{duration, size, typed};
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_sched::is_root;
use sordino_session::{CommandLine, Programs, SessionOptions};
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The options of a recording, also of a session's.
#[derive(Args, Debug)]
pub(crate) struct RecordOptions {
    /// Record these kernel events, separated by commas: 'rt' (all that 'sordino explain' uses for a real-time thread),
    /// groups such as sched, names or globs such as 'sched_*'. Needs root, or 'sordino grant' [default: none]
    ///
    /// 'sudo sordino list' lists the groups, with -v the events. An event may have a filter in the kernel's syntax:
    /// 'sched_switch if prev_prio < 100' (below 100 are real-time threads). sched_switch also records task_rename, so
    /// that renamed threads keep their names.
    #[arg(short, long, value_name = "EVENTS")]
    kernel: Vec<String>,
    /// Size of the kernel's trace buffer for each CPU, 64K to 4G
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size, requires = "kernel")]
    kernel_buffer: u64,
    /// Record kernel events only of these threads, such as 4711,4712, and of the threads and processes that they create
    /// [default: of all threads]
    #[arg(long, value_name = "TID", value_delimiter = ',', requires = "kernel")]
    kernel_tid: Vec<i32>,
    /// Record the programs' tracepoints that match these rules, separated by commas: globs of PROVIDER:NAME; '!'
    /// excludes; 'if' adds a condition on the fields: 'motor:*, !motor:noise*, net:tx if len > 1500'
    ///
    /// Rules apply in order: one with '!' removes what those before it added. A provider alone, such as motor, stands
    /// for all of its tracepoints. 'sordino list' lists the tracepoints of running programs.
    #[arg(short, long, value_name = "RULES", default_value = "*")]
    user: Vec<String>,
    /// Record kernel events only, no tracepoint of any program. COMMAND is started all the same, and recording ends
    /// with it
    #[arg(long, requires = "kernel", conflicts_with_all = ["user", "pid", "context"])]
    no_user: bool,
    /// Record data about the programs' threads beside their events, such as comm,priority; one or more of comm (name),
    /// ids, priority (policy, priority, nice value), cgroup, annotations, counters, or all [default: none]
    ///
    /// The first four are sampled ten times a second. The others are exact for each event: annotations are those that a
    /// thread sets by sordino_context(), counters the performance counters that it opens by sordino_counters().
    #[arg(long, value_name = "CONTEXT,...")]
    context: Option<Contexts>,
    /// Interval at which the recorder writes full sub-buffers (see --subbuf-size) to disk, 1us to 20ms [default: 2ms
    /// for rings of the default size, 200us to 10ms for others, so that no program can fill a ring in between]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["wakeup", "busy"])]
    read_timer: Option<Duration>,
    /// Have programs wake the recorder when a sub-buffer (see --subbuf-size) is full, by one system call each time,
    /// instead of --read-timer
    #[arg(long, conflicts_with = "busy")]
    wakeup: bool,
    /// Have the recorder check for full sub-buffers (see --subbuf-size) without a pause, instead of by --read-timer;
    /// keeps one CPU busy
    #[arg(long)]
    busy: bool,
    /// Keep only the newest events, in memory, as a flight recorder: full buffers overwrite their oldest events, and
    /// nothing is written to disk until recording ends (Ctrl-C) or, in a session, until a snapshot is taken
    #[arg(long, conflicts_with_all = ["read_timer", "wakeup", "busy"])]
    pub(crate) overwrite: bool,
    /// Action of a program that finds no room for an event: 'discard' loses the event and counts it; 'block' waits
    /// until there is room; 'block=10ms' waits at most that long, then discards
    ///
    /// Only programs that were started with the environment variable SORDINO_ALLOW_BLOCKING=1 wait.
    #[arg(long, value_name = "WHAT", value_parser = on_full, default_value = "discard", conflicts_with = "overwrite")]
    on_full: OnFull,
    /// Size of a sub-buffer, the part of a ring (see --num-subbuf) that is written to disk at a time; a power of two
    /// from 16K to 256M [default: 128K; 1M if --num-subbuf is given]
    ///
    /// If this or --num-subbuf is given, each ring has all of its memory from the start; otherwise it gets memory as it
    /// fills.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    subbuf_size: Option<u64>,
    /// Number of sub-buffers in a ring, the memory of one program for its events on one CPU; a power of two from 2 to
    /// 4096 [default: 256; 32 if --subbuf-size is given]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u64>,
    /// Maximum memory for the rings of all programs together, at least 1M; a program that gets no more of it loses
    /// events, and counts them [default: a quarter of the machine's memory, or of the control group's limit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_memory: Option<u64>,
    /// Record on these CPUs only, such as 1-3,5 [default: all CPUs that are online]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Stop recording after this time, such as 10s or 2min [default: no limit]
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Run the thread that writes the programs' events to disk (the collector) on this CPU [default: on CPUs where no
    /// recorded program runs, if there are any]
    #[arg(long, value_name = "CPU")]
    pub(crate) collector_cpu: Option<u32>,
    /// Run the thread of --collector-cpu with SCHED_FIFO at this priority, 1 to 99 [default: as an ordinary thread]
    #[arg(long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    collector_prio: Option<u8>,
    /// Run COMMAND as this user, by name or id [default: the user who called sudo, or the current one]
    #[arg(long = "as", value_name = "USER", requires = "command")]
    pub(crate) as_user: Option<String>,
    /// Record these running processes, such as 4711,4712, instead of all programs
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = pid, conflicts_with = "command")]
    pid: Vec<i32>,
    /// Command to start and to record, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The action of a program if its ring is full.
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
    /// Returns the options for a recording into `output`, of a session called `name`; the command runs as `owner`.
    pub(crate) fn options(
        &self,
        output: PathBuf,
        name: &str,
        owner: Option<&Target>,
    ) -> Result<SessionOptions, Failure> {
        let bad = |text: String| Failure::new(UNUSABLE, text);
        let kernel = selections(&self.kernel)?;
        let geometry = geometry(self.subbuf_size, self.num_subbuf, self.overwrite).map_err(bad)?;
        if !kernel.is_empty() && !is_root() {
            message!("sordino: not root: kernel events may be refused");
        }
        let contexts = self.context.unwrap_or_default();
        // Annotations and counters are recorded as events.
        let own = [(contexts.annotations, "sordino:context"), (contexts.counters, "sordino:counters")];
        let own = own.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name.to_owned());
        // The recording is given to the user who called sudo, whichever user the command runs as.
        let reader = target(None)?.or_else(|| owner.cloned());
        let recording = RecordingOptions {
            name: name.to_owned(),
            command: command_line(std::env::args_os()),
            kernel,
            kernel_buffer_kib: kernel_buffer(self.kernel_buffer).map_err(bad)?,
            kernel_threads: threads(&self.kernel_tid).map_err(bad)?,
            user: UserEvents::new(self.user.iter().cloned().chain(own))
                .map_err(|error| bad(format!("--user {error}")))?,
            contexts,
            geometry,
            polling: polling(self, geometry).map_err(bad)?,
            cpus: cpus(self.cpus.as_ref())?,
            collector_cpu: self.collector_cpu,
            collector_priority: self.collector_prio,
            is_persistent: false,
        };
        Ok(SessionOptions {
            recording,
            output,
            programs: programs(self, owner)?,
            kernel_only: self.no_user,
            whole_rings: self.subbuf_size.is_some() || self.num_subbuf.is_some(),
            max_memory: max_memory(self.max_memory).map_err(bad)?,
            block: match self.on_full {
                OnFull::Discard => None,
                OnFull::Block(time) => Some(time),
            },
            cpus_only: self.cpus.is_some(),
            duration: self.duration,
            confine: true,
            reader: reader.map(|reader| reader.ids()),
            shielded: shield::shielded,
            series: None,
        })
    }
}

/// Maximum number of bytes of a command line that a recording keeps.
const LONGEST_COMMAND: usize = 8192;

/// Returns the command line that the user typed. A long one is cut and ends with "...".
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

/// Rejects ids of threads that do not exist: the kernel accepts them, and nothing would be recorded.
fn threads(tids: &[i32]) -> Result<Vec<i32>, String> {
    match tids.iter().find(|tid| !PathBuf::from(format!("/proc/{tid}/comm")).exists()) {
        Some(tid) => Err(format!("--kernel-tid {tid}: there is no such thread")),
        None => Ok(tids.to_vec()),
    }
}

fn kernel_buffer(bytes: u64) -> Result<u64, String> {
    let kib = bytes >> 10;
    if (64..=4 << 20).contains(&kib) {
        return Ok(kib);
    }
    Err(format!("--kernel-buffer is {bytes} bytes: must be 64K to 4G"))
}

/// Rejects less than 1 MiB, which is too little for one program's rings.
fn max_memory(bytes: Option<u64>) -> Result<Option<u64>, String> {
    match bytes {
        Some(bytes) if bytes < 1 << 20 => Err(format!("--max-memory is {bytes} bytes: must be at least 1M")),
        bytes => Ok(bytes),
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
                return Err(format!("--read-timer is {}: must be 1us to 20ms", typed(*timer)));
            }
            Polling::Timer(*timer)
        }
    })
}

fn cpus(cpus: Option<&CpuList>) -> Result<CpuList, Failure> {
    let online = CpuList::online()?;
    let Some(cpus) = cpus else { return Ok(online) };
    let missing = cpus.without(&online);
    if missing.is_empty() {
        return Ok(cpus.clone());
    }
    Err(Failure::new(UNUSABLE, format!("--cpus {cpus}: CPU {missing} is not online; online are {online}")))
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
