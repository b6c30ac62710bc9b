//! Completes a recording whose recorder was killed.

use crate::convert::{End, KernelTrace, raw_bytes, unconverted};
use crate::count::{count_events, whole_events_of};
use crate::cut::{Cut, cut, cut_trace};
use crate::directory::page_name;
use crate::directory::{Directory, KERNEL, RAW, USER, names};
use crate::error::Error;
use crate::program::UNANSWERED;
use crate::received;
use crate::summary::{KernelStream, ProgramSummary, State, StreamSummary, Summary};
use crate::unanswered::Unanswered;
use crate::watch::Watch;
use sordino_ctf::read::{Trace, find};
use sordino_event::{Classes, Cpu, Ticks};
use sordino_inspect::clock::TraceClock;
use sordino_inspect::discover;
use std::path::Path;

/// Completes a recording that a killed recorder left: cuts off incomplete packets, converts the kernel's pages, and
/// writes the summary. For an [incomplete](State::Incomplete) recording, only the kernel's pages are converted.
///
/// Records that were still in the programs' rings are lost with the programs, or belong to the next recorder.
///
/// # Errors
/// [`Error::StillRecording`] if the recorder is alive, [`Error::OtherOrder`], [`Error::NoRecording`], or an output
/// error.
pub fn recover(directory: &Directory, watch: &mut dyn Watch) -> Result<Summary, Error> {
    let mut summary = Summary::read(directory)?;
    let was_killed = summary.state == State::Recording;
    if !was_killed && summary.state != State::Incomplete {
        return Ok(summary);
    }
    // A recording planted by another user would be completed with our rights: only our own are.
    directory.vet()?;
    let recorder = summary.recorder;
    // In a container, each recorder may have had the same process id.
    if was_killed && recorder != std::process::id() && is_recorder(recorder as i32) {
        return Err(Error::StillRecording { path: directory.path().to_owned(), pid: recorder });
    }
    refuse_other_order(directory)?;
    directory.use_room();
    let mut announced = Vec::new();
    if was_killed {
        let programs = programs(directory)?;
        announced = std::mem::replace(&mut summary.programs, programs);
        if summary.received {
            received::recover_kernel(directory, &mut summary.kernel)?;
        }
    }
    summary.cut_off |= was_killed;
    let converted = recover_kernel(directory, &mut summary, watch);
    count_events(directory, &mut summary, watch);
    if was_killed && summary.received {
        received::account(&mut summary.programs, announced);
        summary.notes.push("its stream ended before all of it had arrived".to_owned());
    } else if was_killed {
        let note = "its recorder was killed: what was in the rings then is not in the trace";
        summary.notes.push(note.to_owned());
    }
    match &converted {
        Ok(()) => summary.state = State::Recovered,
        Err(error) => {
            // Pages that were converted are removed already.
            summary.state = State::Incomplete;
            summary.kernel.extend(unconverted(directory));
            summary.kernel_problem.get_or_insert(error.to_string());
        }
    }
    summary.kernel.sort_by_key(|stream| stream.cpu);
    directory.use_last_room();
    let written = summary.write(directory);
    converted.and(written)?;
    Ok(summary)
}

/// Returns true if a process is a command of ours, not another one that got the id of an earlier one.
fn is_recorder(pid: i32) -> bool {
    let executable = discover::identity(pid).executable;
    Path::new(&executable).file_name().is_some_and(|name| name.to_string_lossy().starts_with("sordino"))
}

/// Rejects traces in another byte order: packets and pages are processed in native order, and none would appear
/// complete.
fn refuse_other_order(directory: &Directory) -> Result<(), Error> {
    let all = directory.trace_path("");
    for path in find(&all).map_err(|error| unreadable(directory, &error))? {
        let is_native = Trace::open(&path, &mut Classes::default()).map_or(true, |trace| trace.is_native());
        if !is_native {
            let path = path.strip_prefix(&all).map_or(path.clone(), |below| directory.path().join(below));
            return Err(Error::OtherOrder { path });
        }
    }
    Ok(())
}

/// Converts the remaining pages, and adds streams that are in no summary.
fn recover_kernel(directory: &Directory, summary: &mut Summary, watch: &mut dyn Watch) -> Result<(), Error> {
    let short = received::short_pages(directory, summary);
    // Streams of CPUs that were converted earlier are kept.
    summary.kernel.retain(|stream| stream.unconverted == 0);
    let converted = if directory.dir().has(RAW) { convert(directory, summary, watch) } else { Ok(()) };
    if directory.dir().has(KERNEL) {
        add_converted(directory, &mut summary.kernel)?;
    }
    for cpu in short {
        let place = summary.kernel.iter().position(|stream| stream.cpu == cpu);
        let place = place.unwrap_or_else(|| {
            summary.kernel.push(KernelStream::of(cpu));
            summary.kernel.len() - 1
        });
        summary.kernel[place].uncounted = true;
    }
    converted?;
    summary.pending = None;
    if summary.kernel.iter().all(|stream| stream.unwritten == 0) {
        summary.kernel_problem = None;
    }
    Ok(())
}

fn convert(directory: &Directory, summary: &mut Summary, watch: &mut dyn Watch) -> Result<(), Error> {
    let metadata = Trace::open(directory.trace_path(KERNEL), &mut Classes::default());
    let metadata = metadata.map_err(|error| unreadable(directory, &error))?;
    let (Some(uuid), Some(clock)) = (metadata.uuid(), metadata.clocks().first()) else {
        let (path, reason) = (directory.path().join(KERNEL), "its metadata names no clock".to_owned());
        return Err(Error::NoRecording { path, reason });
    };
    let clock = TraceClock::known(clock, metadata.environment());
    let pending = summary.pending.clone().unwrap_or_default();
    let mut trace = KernelTrace::resume(uuid, summary.overwrite, Ticks(pending.begin));
    if summary.kernel_events.is_empty() {
        return trace.finish_without_events(directory, &clock);
    }
    let (total, mut done) = (raw_bytes(directory), 0);
    let mut advance = |bytes| {
        done += bytes;
        watch.working("converting the kernel's events", done, total);
    };
    let end = End { ticks: Ticks(pending.end), kernel: &pending.kernel };
    let note = trace.convert(directory, &clock, &end, &mut summary.kernel, &mut advance)?;
    summary.notes.extend(note);
    Ok(())
}

/// Returns the programs' traces, each file cut to its last complete packet.
fn programs(directory: &Directory) -> Result<Vec<ProgramSummary>, Error> {
    let mut programs = Vec::new();
    if !directory.dir().has(USER) {
        // The stream ended before this directory.
        return Ok(programs);
    }
    for name in names(&directory.part(USER)?)? {
        let name = format!("{USER}/{name}");
        let dir = directory.part(&name)?;
        let cut = cut_trace(&dir)?;
        let path = directory.trace_path(&name);
        let Ok(trace) = Trace::open(&path, &mut Classes::default()) else { continue };
        let environment = trace.environment();
        let text = |name: &str| environment.text(name).unwrap_or_default().to_owned();
        programs.push(ProgramSummary {
            pid: environment.integer("vpid").unwrap_or(0) as i32,
            name: text("procname"),
            executable: text("executable"),
            trace: name.clone(),
            streams: cut.iter().filter(|file| file.name != UNANSWERED).map(stream).collect(),
            unanswered: cut.iter().find(|file| file.name == UNANSWERED).map(unanswered).unwrap_or_default(),
            ..ProgramSummary::default()
        });
    }
    Ok(programs)
}

fn stream(file: &Cut) -> StreamSummary {
    let (discarded, too_large) =
        file.last.as_ref().map_or((0, 0), |last| (last.discarded, u64::from(last.too_large)));
    StreamSummary {
        cpu: file.name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()),
        bytes: file.bytes,
        ring_full: discarded - too_large.min(discarded),
        too_large,
        unwritten: file.skipped,
        problem: (file.skipped > 0).then(|| "some of it could not be written".to_owned()),
        ..StreamSummary::default()
    }
}

fn unanswered(file: &Cut) -> Unanswered {
    let hits = file.last.as_ref().map_or(0, |last| last.discarded);
    Unanswered { hits, uncounted: file.skipped > 0 }
}

/// Adds the streams of CPUs whose pages were converted by a recorder that was killed before it could write them into a
/// summary.
fn add_converted(directory: &Directory, streams: &mut Vec<KernelStream>) -> Result<(), Error> {
    let kernel = directory.part(KERNEL)?;
    let waiting = unconverted(directory);
    let is_known = |cpu: Cpu| streams.iter().chain(&waiting).any(|stream| stream.cpu == cpu);
    let cpus = names(&kernel)?.into_iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
    let cpus: Vec<Cpu> = cpus.map(Cpu).filter(|&cpu| !is_known(cpu)).collect();
    if cpus.is_empty() {
        return Ok(());
    }
    let trace = Trace::open(directory.trace_path(KERNEL), &mut Classes::default()).ok();
    for cpu in cpus {
        let name = page_name(cpu);
        let failed = Error::output(kernel.path().join(&name));
        let Cut { name, bytes, last, .. } = cut(&kernel, name).map_err(failed)?;
        let events = trace.as_ref().map_or(0, |trace| whole_events_of(trace, &name));
        let lost = last.map_or(0, |last| last.discarded);
        streams.push(KernelStream { bytes, events, lost, ..KernelStream::of(cpu) });
    }
    Ok(())
}

/// Returns the error for a required part that can't be read.
fn unreadable(directory: &Directory, error: &sordino_ctf::Error) -> Error {
    Error::NoRecording { path: directory.path().to_owned(), reason: directory.reader_error(error) }
}
