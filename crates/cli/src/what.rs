//! What to record, and how, as it is typed.

use crate::Failure;
use crate::arguments::{duration, pid, size};
use crate::commands::shield;
use crate::failure::{NOT_FOUND, UNUSABLE};
use crate::privilege::{Target, is_root, target};
use clap::Args;
use sordino_collect::{CommandLine, Contexts, Options, Polling, Programs, UserEvents};
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record, and how; for a session, too.
#[derive(Args, Debug)]
pub(crate) struct What {
    /// The kernel's events: rt (all that explain wants to know of a real-time thread), groups, names or globs, each with a filter of
    /// the kernel's if you like; with sched_switch come the names that threads give themselves (task_rename)
    #[arg(short, long, value_name = "EVENTS")]
    kernel: Vec<String>,
    /// Kernel buffer for each CPU
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size, requires = "kernel")]
    kernel_buffer: u64,
    /// The kernel's events of these threads and what they fork, not of all
    #[arg(long, value_name = "TID", value_delimiter = ',', requires = "kernel")]
    kernel_tid: Vec<i32>,
    /// The programs' tracepoints: rules such as 'motor:*, !motor:noise*, net:tx if len > 1500'
    #[arg(short, long, value_name = "RULES", default_value = "*")]
    user: Vec<String>,
    /// The kernel alone: no program is recorded, COMMAND is only started and waited for
    #[arg(long, requires = "kernel", conflicts_with_all = ["user", "pid", "context"])]
    no_user: bool,
    /// What to tell of the programs' threads besides their events: comm, ids, priority, cgroup, looked at ten times a second; values
    /// (what they say of themselves), counters (those they opened, with each event); all
    #[arg(long, value_name = "CONTEXT,...")]
    context: Option<Contexts>,
    /// Look for full sub-buffers this often [default: often enough that no program can fill its ring meanwhile; 2ms for
    /// the default sizes]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["wakeup", "busy"])]
    read_timer: Option<Duration>,
    /// Have writers wake the collector instead: a system call in the program for each full sub-buffer
    #[arg(long, conflicts_with = "busy")]
    wakeup: bool,
    /// Look for full sub-buffers all the time: takes a CPU
    #[arg(long)]
    busy: bool,
    /// Keep what is newest: full buffers overwrite what is oldest, and nothing is written to disk before the end or Ctrl-C
    #[arg(long, conflicts_with_all = ["read_timer", "wakeup", "busy"])]
    pub(crate) overwrite: bool,
    /// What a program does whose ring is full: 'discard' counts and loses the event; 'block' waits, 'block=10ms' so long at most.
    /// Only programs wait that were started with SORDINO_ALLOW_BLOCKING=1
    #[arg(long, value_name = "WHAT", value_parser = on_full, default_value = "discard", conflicts_with = "overwrite")]
    on_full: OnFull,
    /// Size of a sub-buffer, a power of two [default: 128K; 1M with --num-subbuf]. Rings whose size is
    /// given have all of their memory from the start
    #[arg(long, value_name = "SIZE", value_parser = size)]
    subbuf_size: Option<u64>,
    /// Sub-buffers for each CPU of each program, a power of two [default: 256; 32 with --subbuf-size]
    #[arg(long, value_name = "N")]
    num_subbuf: Option<u64>,
    /// Memory that the programs' rings may use together [default: a quarter of the machine's, or of the control group's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_memory: Option<u64>,
    /// Record these CPUs only, such as 1-3,5 [default: all]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// End after this time
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Keep the collector on this CPU [default: off the programs' CPUs, where there is another]
    #[arg(long, value_name = "CPU")]
    pub(crate) collector_cpu: Option<u32>,
    /// Give the collector SCHED_FIFO with this priority
    #[arg(long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    collector_prio: Option<u8>,
    /// Run COMMAND as this user
    #[arg(long = "as", value_name = "USER", requires = "command")]
    pub(crate) as_user: Option<String>,
    /// Attach to these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = pid, conflicts_with = "command")]
    pid: Vec<i32>,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What a program does whose ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnFull {
    Discard,
    /// Wait so long at most.
    Block(Duration),
}

fn on_full(text: &str) -> Result<OnFull, String> {
    match text.split_once('=') {
        None if text == "discard" => Ok(OnFull::Discard),
        None if text == "block" => Ok(OnFull::Block(Duration::MAX)),
        Some(("block", time)) => duration(time).map(OnFull::Block),
        _ => Err("it is 'discard', 'block' or 'block=TIME'".to_owned()),
    }
}

impl What {
    /// As the recorder takes it: into `output`, for a session called `name`. The command runs as `owner`.
    pub(crate) fn options(
        &self,
        output: PathBuf,
        name: &str,
        owner: Option<&Target>,
    ) -> Result<Options, Failure> {
        let bad = |text: String| Failure::new(UNUSABLE, text);
        let kernel = selections(&self.kernel)?;
        let geometry = geometry(self).map_err(bad)?;
        if !kernel.is_empty() && !is_root() {
            message!("sordino: not root: kernel events may be refused");
        }
        let contexts = self.context.unwrap_or_default();
        // What they say from now on is an event, and so is what they count.
        let own = [(contexts.values, "sordino:context"), (contexts.counters, "sordino:counters")];
        let own = own.into_iter().filter(|(wanted, _)| *wanted).map(|(_, name)| name.to_owned());
        // Whoever called sudo reads the recording, whatever the command runs as.
        let reader = target(None)?.or_else(|| owner.cloned());
        Ok(Options {
            output,
            confine: true,
            reader: reader.map(|reader| (reader.uid.as_raw(), reader.gid.as_raw())),
            name: name.to_owned(),
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

fn selections(texts: &[String]) -> Result<Vec<Selection>, Failure> {
    let lists = texts.iter().map(|text| Selection::list(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(lists.concat())
}

/// The kernel would take the number of a thread that is not there, and record nothing.
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
    Err(format!("--kernel-buffer is {bytes} bytes: it has to be 64K to 4G"))
}

/// Less is not enough for one program.
fn max_memory(wanted: Option<u64>) -> Result<Option<u64>, String> {
    match wanted {
        Some(bytes) if bytes < 1 << 20 => {
            Err(format!("--max-memory is {bytes} bytes: it has to be 1M at least"))
        }
        wanted => Ok(wanted),
    }
}

fn geometry(what: &What) -> Result<Geometry, String> {
    const SIZE: u64 = 128 << 10;
    const RING: u64 = 32 << 20;
    let size = what.subbuf_size.unwrap_or(if what.num_subbuf.is_some() { 1 << 20 } else { SIZE });
    let count = what.num_subbuf.unwrap_or(if what.subbuf_size.is_some() { 32 } else { RING / SIZE });
    let geometry = Geometry::new(size, count);
    let geometry = if what.overwrite { geometry.map(Geometry::overwriting) } else { geometry };
    geometry.ok_or_else(|| {
        format!(
            "--subbuf-size {size} with --num-subbuf {count}: both have to be powers of two, a sub-buffer {} to {} bytes, \
             {} to {} of them, {} MiB together at most",
            Geometry::MIN_SIZE,
            Geometry::MAX_SIZE,
            Geometry::MIN_COUNT,
            Geometry::MAX_COUNT,
            Geometry::MAX_RING >> 20,
        )
    })
}

fn polling(what: &What, geometry: Geometry) -> Result<Polling, String> {
    Ok(match what {
        What { wakeup: true, .. } => Polling::Wakeup,
        What { busy: true, .. } => Polling::Busy,
        What { read_timer: None, .. } => Polling::safe_timer(geometry),
        What { read_timer: Some(timer), .. } => {
            let range = Duration::from_micros(1)..=Duration::from_millis(20);
            if !range.contains(timer) {
                return Err(format!("--read-timer is {timer:?}: it has to be 1us to 20ms"));
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

fn programs(what: &What, owner: Option<&Target>) -> Result<Programs, Failure> {
    let Some((program, arguments)) = what.command.split_first() else {
        return Ok(if what.pid.is_empty() { Programs::All } else { Programs::Pids(what.pid.clone()) });
    };
    let program = PathBuf::from(program);
    if let Err(error) = sordino_collect::command::find(&program) {
        return Err(Failure::new(NOT_FOUND, format!("{}: {error}", program.display())));
    }
    let prefix = owner.map(Target::prefix).unwrap_or_default();
    Ok(Programs::Command(CommandLine { program, arguments: arguments.to_vec(), prefix }))
}
