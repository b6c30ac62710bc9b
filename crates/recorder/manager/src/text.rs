//! Text reports on sessions.

use crate::known::KnownSession;
use crate::place::Life;
use sordino_collect::text::{lost as lost_text, missing, unwritten};
use sordino_collect::{RecorderCpus, Shortfall, unanswered_lines};
use sordino_event::Nanos;
use sordino_event::text::{count, printable};
use sordino_quantity::{bytes, typed};
use sordino_session::{ProgramStatus, RecordingStatus, RingStatus, Status};
use std::path::Path;
use std::time::Duration;

/// Returns a line about a session.
pub fn line(known: &KnownSession) -> String {
    let name = printable(&known.place.name);
    match (&known.status, known.life) {
        (Some(status), _) => format!(
            "{name:<16} records{} for {}, {}, {}, lost {}\n",
            if status.overwrite { " in memory" } else { "" },
            time(status.duration_ns),
            count(status.programs.len(), "program"),
            count(status.recordings.len(), "recording"),
            lost_text(lost(status), has_uncounted_loss(status)),
        ),
        (None, Life::Running) => {
            let why = printable(known.silent.as_deref().unwrap_or_default());
            format!("{name:<16} is about to end, or does not answer: {why}\n")
        }
        (None, Life::Stopped) => format!("{name:<16} is stopped: 'sordino start {name}' starts it again\n"),
        (None, Life::Died) => {
            format!("{name:<16} has ended, its recorder was killed: 'sordino start {name}' starts it again\n")
        }
    }
}

/// Returns all details of a session.
pub fn whole(known: &KnownSession) -> String {
    let Some(status) = &known.status else { return line(known) };
    let mut text = missing(&status.missing) + &line(known);
    let cpu_time = Nanos::from_seconds(status.recorder_cpu_seconds);
    text += &format!("  recorder {}, {cpu_time} of CPU time\n", status.recorder);
    text += &cpus(&status.recorder_cpus);
    text += &format!("  events: {}\n", printable(&status.user.join(", ")));
    if !status.kernel.is_empty() {
        text += &format!("  kernel: {}\n", printable(&status.kernel.join(", ")));
    }
    let memory = status.memory;
    text += &format!("  memory of rings: {} of {} at most\n", bytes(memory.used), bytes(memory.budget));
    text += &status.programs.iter().map(program).collect::<String>();
    let unanswered = status.programs.iter().map(|program| (program.name.as_str(), program.unanswered));
    let early = unanswered_lines(unanswered).into_iter().chain(status.unrecorded.lines());
    text += &early.map(|line| format!("  {}\n", printable(&line))).collect::<String>();
    if status.ended + status.forgotten as usize > 0 {
        let (ended, forgotten) = (count(status.ended, "ended program"), status.forgotten);
        text += &format!("  {ended} kept for snapshots, {forgotten} no longer\n");
    }
    if status.triggers > 0 {
        let reasons = count(status.triggers, "reason");
        text += &format!("  {reasons} for a snapshot so far: events, or ends of programs\n");
    }
    text += &format!("  {}\n", shown(&status.output));
    text += &status.recordings.iter().map(recording).collect::<String>();
    if status.open > 0 {
        text += &format!("    {} being completed\n", status.open);
    }
    text += &status.notes.iter().map(|note| format!("  {}\n", printable(note))).collect::<String>();
    text + &lines(&status.shortfall)
}

/// Returns a line with the CPUs of the recorder's threads, or nothing if no programs record anywhere.
fn cpus(cpus: &RecorderCpus) -> String {
    let beside = || match cpus.programs.is_empty() {
        true => String::new(),
        false => format!("recorder on CPU {}, where programs run, too", cpus.cpus),
    };
    let line = cpus.line().unwrap_or_else(beside);
    if line.is_empty() { line } else { format!("  {}\n", printable(&line)) }
}

/// Returns a line for each shortfall of a session, such as a rule without a match.
pub fn lines(shortfall: &Shortfall) -> String {
    shortfall.lines().iter().map(|line| format!("  {}\n", printable(line))).collect()
}

fn program(program: &ProgramStatus) -> String {
    let own =
        if program.own_pid == program.pid { String::new() } else { format!(", {} inside", program.own_pid) };
    let mut text = format!("  {} ({}{own})\n", printable(&program.name), program.pid);
    text += &program
        .rings
        .iter()
        .filter(|ring| ring.filled + ring.bytes + ring.ring_full + ring.unwritten > 0)
        .map(ring)
        .collect::<String>();
    text + &program.notes.iter().map(|note| format!("    {}\n", printable(note))).collect::<String>()
}

fn ring(ring: &RingStatus) -> String {
    let place = ring.cpu.map_or("shared".to_owned(), |cpu| format!("cpu{cpu}"));
    let percent = 100 * ring.filled / ring.size.max(1);
    let mut text = format!("    {place}: {percent} % full, {} on disk", bytes(ring.bytes));
    let losses = [("ring full", ring.ring_full), ("too large", ring.too_large)];
    for (cause, count) in losses.iter().filter(|(_, count)| *count > 0) {
        text += &format!(", {count} {cause}");
    }
    if let Some(problem) = &ring.problem {
        text += &format!(": {}", printable(problem));
    }
    if ring.unwritten > 0 {
        text += &unwritten(ring.unwritten, ring.unwritten_bytes);
    }
    text + "\n"
}

fn recording(recording: &RecordingStatus) -> String {
    let mut text = format!("    {}", shown(Path::new(recording.directory.file_name().unwrap_or_default())));
    if !recording.finished {
        let events = recording.user_events_so_far;
        let so_far = |events| format!(", {} of programs so far", count(events, "event"));
        let events = events.map_or(String::new(), so_far);
        return text + ": being written" + &events + "\n";
    }
    let events = recording.events.map_or("? events".to_owned(), |events| count(events, "event"));
    text += &format!(": {events}, {}", bytes(recording.bytes));
    if recording.lost > 0 {
        text += &format!(", lost {}", recording.lost);
    }
    if let Some(rank) = &recording.rank {
        let value = rank.value.as_ref().map_or("unknown".to_owned(), ToString::to_string);
        text += &format!(", {} {}", printable(&rank.field), printable(&value));
    }
    if let Some(reason) = &recording.reason {
        text += &format!(" ({})", printable(reason));
    }
    text + "\n"
}

/// Returns a path as it can be printed.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn lost(status: &Status) -> u64 {
    let rings = status.programs.iter().flat_map(|program| &program.rings);
    let now = rings.map(|ring| ring.ring_full.saturating_add(ring.too_large));
    let early = [status.unanswered.hits, status.unrecorded.hits];
    now.chain(status.recordings.iter().map(|recording| recording.lost))
        .chain(early)
        .fold(0, u64::saturating_add)
}

/// Returns true if more events are missing than were counted.
fn has_uncounted_loss(status: &Status) -> bool {
    status.missing.is_any() || status.unanswered.uncounted || status.unrecorded.is_uncounted()
}

fn time(nanoseconds: u64) -> String {
    typed(Duration::from_secs(nanoseconds / 1_000_000_000))
}
