//! `sordino record`

use crate::Failure;
use crate::arguments::{duration, size};
use crate::commands::{guard, shield};
use crate::failure::{NO, NOT_FOUND, UNUSABLE};
use crate::privilege::{Target, is_root, target};
use crate::progress::Progress;
use crate::signals;
use clap::Args;
use sordino_collect::{
    CommandLine, Directory, Options as Recording, PREFIX, Polling, Programs, Recorded, Summary, UserEvents,
    record,
};
use sordino_ring::layout::Geometry;
use sordino_sched::CpuList;
use sordino_tracefs::Selection;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

/// Record what programs and the kernel do
///
/// Starts COMMAND, or attaches to running programs (--pid; all that can be recorded if neither is given), and records until
/// it ends, the duration is over, or Ctrl-C. COMMAND's children and whatever it executes are recorded too. The kernel's
/// events need root; COMMAND then runs as the user who called sudo, unless --as says otherwise.
///
/// The recording is a directory of CTF traces: babeltrace2 and Trace Compass read it, and 'sordino events' and
/// 'sordino explain'.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sordino record -- ./my-program --its-option
  sudo sordino record --kernel sched,irq,irq_vectors -- ./my-program
  sudo sordino record --kernel 'sched_switch if prev_prio < 100' --cpus 1 --duration 10s
  sordino record --pid 4711 --user 'motor:*' -o trace
  sudo sordino record --overwrite --kernel sched,irq -- ./runs-for-days")]
pub(crate) struct Options {
    /// Where to record to: a new or empty directory [default: sordino- and the time, here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The kernel's events: groups, names or globs, each with a filter of the kernel's if you like
    #[arg(short, long, value_name = "EVENTS")]
    kernel: Vec<String>,
    /// Kernel buffer for each CPU
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = size)]
    kernel_buffer: u64,
    /// The kernel's events of these threads and what they fork, not of all
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    kernel_tid: Vec<i32>,
    /// The programs' tracepoints: providers, names or globs, such as 'motor:*'
    #[arg(short, long, value_name = "GLOBS", value_delimiter = ',', default_value = "*")]
    user: Vec<String>,
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
    overwrite: bool,
    /// Size of a sub-buffer, a power of two
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size)]
    subbuf_size: u64,
    /// Sub-buffers for each CPU of each program, a power of two
    #[arg(long, value_name = "N", default_value_t = 32)]
    num_subbuf: u64,
    /// Record these CPUs only, such as 1-3,5 [default: all]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// End after this time
    #[arg(short, long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Keep the collector on this CPU
    #[arg(long, value_name = "CPU")]
    collector_cpu: Option<u32>,
    /// Give the collector SCHED_FIFO with this priority
    #[arg(long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    collector_prio: Option<u8>,
    /// Run COMMAND as this user
    #[arg(long = "as", value_name = "USER", requires = "command")]
    as_user: Option<String>,
    /// Exit with 1 if anything was lost
    #[arg(long)]
    fail_on_loss: bool,
    /// Attach to these processes
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "command")]
    pid: Vec<i32>,
    /// What other recorders are told that this session is called
    #[arg(long, value_name = "NAME", default_value = "record")]
    name: String,
    /// The summary as JSON on standard output
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let owner = target(options.as_user.as_deref())?;
    let mut recording = recording(options, owner.as_ref())?;
    let back = shield::keep_off(options.collector_cpu)?;
    if let Programs::Command(command) = &mut recording.programs {
        command.prefix.splice(0..0, back);
    }
    let stop = signals::stop()?;
    let mut guardian = if recording.kernel.is_empty() { None } else { Some(guard::start()?) };
    let shares_terminal = !options.command.is_empty() && io::stdout().is_terminal();
    let result = {
        let mut progress = Progress::new(shares_terminal);
        record(&recording, guardian.as_mut(), stop.as_fd(), &mut progress)
    };
    let recorded = result?;
    // Whoever called sudo reads the recording, whatever the command runs as.
    if let Some(reader) = target(None)?.or(owner) {
        reader.give(recorded.directory.path());
    }
    if options.json {
        crate::commands::print(&summary_json(&recorded.directory, &recorded.summary)?)?;
    } else {
        eprint!("{}", report(&recorded.directory, &recorded.summary));
    }
    if let Some(pid) = recorded.running {
        eprintln!("the command (process {pid}) is still running; it is no longer recorded");
    }
    Ok(exit_code(options, &recorded))
}

fn exit_code(options: &Options, recorded: &Recorded) -> ExitCode {
    let summary = &recorded.summary;
    if options.fail_on_loss && (summary.lost() > 0 || summary.has_uncounted_loss()) {
        return ExitCode::from(NO);
    }
    recorded.status.map_or(ExitCode::SUCCESS, |status| ExitCode::from(status_of(status)))
}

/// As shells say it: the status, or 128 and the signal.
fn status_of(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => UNUSABLE,
    }
}

fn recording(options: &Options, owner: Option<&Target>) -> Result<Recording, Failure> {
    let bad = |text: String| Failure::new(UNUSABLE, text);
    let kernel = selections(&options.kernel)?;
    let geometry = geometry(options).map_err(bad)?;
    if !kernel.is_empty() && !is_root() {
        eprintln!("sordino: not root: kernel events may be refused");
    }
    Ok(Recording {
        output: options.output.clone().unwrap_or_else(default_output),
        name: options.name.clone(),
        kernel,
        kernel_buffer_kib: kernel_buffer(options.kernel_buffer).map_err(bad)?,
        kernel_threads: threads(&options.kernel_tid).map_err(bad)?,
        user: UserEvents::new(options.user.iter().cloned())
            .map_err(|error| bad(format!("--user {error}")))?,
        geometry,
        polling: polling(options, geometry).map_err(bad)?,
        cpus: cpus(options.cpus.as_ref())?,
        cpus_only: options.cpus.is_some(),
        duration: options.duration,
        collector_cpu: options.collector_cpu,
        collector_priority: options.collector_prio,
        programs: programs(options, owner)?,
        session_dir: None,
    })
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

fn geometry(options: &Options) -> Result<Geometry, String> {
    let (size, count) = (options.subbuf_size, options.num_subbuf);
    let geometry = Geometry::new(size, count);
    let geometry = if options.overwrite { geometry.map(Geometry::overwriting) } else { geometry };
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

fn polling(options: &Options, geometry: Geometry) -> Result<Polling, String> {
    Ok(match options {
        Options { wakeup: true, .. } => Polling::Wakeup,
        Options { busy: true, .. } => Polling::Busy,
        Options { read_timer: None, .. } => Polling::safe_timer(geometry),
        Options { read_timer: Some(timer), .. } => {
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

fn programs(options: &Options, owner: Option<&Target>) -> Result<Programs, Failure> {
    let Some((program, arguments)) = options.command.split_first() else {
        return Ok(if options.pid.is_empty() { Programs::All } else { Programs::Pids(options.pid.clone()) });
    };
    let program = PathBuf::from(program);
    if let Err(error) = sordino_collect::command::find(&program) {
        return Err(Failure::new(NOT_FOUND, format!("{}: {error}", program.display())));
    }
    let prefix = owner.map(Target::prefix).unwrap_or_default();
    Ok(Programs::Command(CommandLine { program, arguments: arguments.to_vec(), prefix }))
}

/// `sordino-` and the local time; with a number behind it if two begin in the same second.
pub(crate) fn default_output() -> PathBuf {
    let name = PathBuf::from(format!("{PREFIX}{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")));
    let others = (2..).map(|number| PathBuf::from(format!("{}-{number}", name.display())));
    let free = std::iter::once(name.clone()).chain(others).find(|path| !path.exists());
    free.unwrap_or(name)
}

/// The summary as JSON, with where it lies.
pub(crate) fn summary_json(directory: &Directory, summary: &Summary) -> Result<String, Failure> {
    let mut value = serde_json::to_value(summary)?;
    value["directory"] = directory.path().to_string_lossy().into();
    value["lost"] = summary.lost().into();
    Ok(value.to_string() + "\n")
}

/// The summary for a person.
pub(crate) fn report(directory: &Directory, summary: &Summary) -> String {
    let mut text = String::new();
    for program in &summary.programs {
        for stream in &program.streams {
            let place = stream.cpu.map_or("shared".to_owned(), |cpu| format!("cpu{cpu}"));
            let events = stream.events.map_or("? events".to_owned(), |events| format!("{events} events"));
            text +=
                &format!("  {} ({}) {place}: {events}, {}", program.name, program.pid, bytes(stream.bytes));
            text += &loss(
                stream.lost(),
                &[
                    ("ring full", stream.ring_full),
                    ("too large", stream.too_large),
                    ("unfinished", stream.unfinished),
                ],
            );
            if stream.overwritten > 0 {
                text += &format!(", before that {} sub-buffers overwritten", stream.overwritten);
            }
            if let Some(problem) = &stream.problem {
                text += &format!("\n    {problem}");
            }
            if stream.unwritten > 0 {
                text += &format!("\n    {} sub-buffers could not be written", stream.unwritten);
            }
            text.push('\n');
        }
        for note in &program.notes {
            text += &format!("  {} ({}): {note}\n", program.name, program.pid);
        }
    }
    for stream in &summary.kernel {
        text += &format!("  kernel cpu{}: {} events, {}", stream.cpu, stream.events, bytes(stream.bytes));
        text += &loss(stream.lost, &[("kernel buffer overrun", stream.lost)]);
        if stream.overwritten > 0 {
            text += &format!(", before that {} events overwritten", stream.overwritten);
        }
        if stream.uncounted {
            text += " and more that nobody counted";
        }
        if let Some(damage) = &stream.damage {
            text += &format!("\n    {damage}");
        }
        text.push('\n');
    }
    for note in &summary.notes {
        text += &format!("  {note}\n");
    }
    let user = summary.user_events().map_or("?".to_owned(), |events| events.to_string());
    text += &format!(
        "recorded {user} user + {} kernel events in {:.1} s, lost {}{}\n",
        summary.kernel_events(),
        summary.duration_ns as f64 / 1e9,
        summary.lost(),
        if summary.has_uncounted_loss() { " and more" } else { "" },
    );
    let path = directory.path().display();
    text + &format!("{path}: {}; read it with: babeltrace2 {path}\n", bytes(summary.bytes()))
}

fn loss(total: u64, causes: &[(&str, u64)]) -> String {
    if total == 0 {
        return String::new();
    }
    let causes: Vec<String> = causes
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(cause, count)| format!("{count} {cause}"))
        .collect();
    format!(", lost {total} ({})", causes.join(", "))
}

/// Bytes with the unit that fits.
fn bytes(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
