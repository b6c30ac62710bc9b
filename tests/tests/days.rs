//! A session of days in a short time: chunks come and go, and fifty programs start and end each second. `DAYS_SECONDS`
//! sets the length (12; `scripts/test-long`: an hour).

use serde_json::Value;
use sordino_tests::Scene;
use sordino_tests::recording::events_of;
use sordino_tests::session::{ScopedSession, summary};
use sordino_tests::storm::number;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Pause between the starts of two programs.
const EACH: Duration = Duration::from_millis(20);
/// Number of chunks that begin, and number of completed ones that are retained.
const CHUNKS: u32 = 6;
const KEPT: u64 = 3;

/// Resources that a recorder holds.
#[derive(Clone, Copy, Debug)]
struct HeldResources {
    memory_kib: u64,
    descriptors: usize,
    /// Number of entries in its directory of sessions.
    sessions: usize,
    cpu_seconds: f64,
}

impl HeldResources {
    fn by(session: &ScopedSession<'_>, runtime: &Path) -> Self {
        let status = &session.status()["status"];
        let pid = &status["recorder"];
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let memory = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        Self {
            memory_kib: memory.trim().trim_end_matches(" kB").parse().unwrap(),
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            sessions: fs::read_dir(runtime).unwrap().count(),
            cpu_seconds: status["recorder_cpu_seconds"].as_f64().unwrap(),
        }
    }
}

/// Adds up chunks as they are completed, before they are removed.
#[derive(Debug, Default)]
struct ChunkSums {
    chunks: u32,
    events: u64,
    notes: Vec<Value>,
}

impl ChunkSums {
    fn add_completed(&mut self, output: &Path) {
        loop {
            let chunk = output.join(format!("chunk-{:04}", self.chunks + 1));
            if !chunk.join("recording.json").exists() || summary(&chunk)["state"] != "finished" {
                return;
            }
            let summary = summary(&chunk);
            self.chunks += 1;
            self.events += summary["programs"].as_array().unwrap().iter().map(events_of).sum::<u64>();
            self.notes.extend(summary["notes"].as_array().unwrap().iter().cloned());
        }
    }
}

/// Returns the cost of the programs' data as a share of a CPU: directories and files are made, filled and removed at
/// the recorder's rate and in as many steps (metadata is written at the start, its clock at the end), and nothing else.
fn files_cost(recorded: &Path, place: &Path, time: Duration, rotate: Duration) -> f64 {
    let chunks = fs::read_dir(recorded).unwrap().map(|chunk| chunk.unwrap().path().join("user"));
    let traces: Vec<Vec<_>> = chunks
        .filter(|user| user.exists())
        .flat_map(|user| fs::read_dir(user).unwrap().map(|trace| trace.unwrap().path()))
        .map(|trace| fs::read_dir(trace).unwrap().map(|file| file.unwrap().path()).collect())
        .map(|files: Vec<_>| files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect())
        .collect();
    fs::create_dir(place).unwrap();
    let (begin, before) = (Instant::now(), thread_seconds());
    for (number, files) in (0u32..).zip(traces.iter().cycle()).take_while(|_| begin.elapsed() < time) {
        let chunk = (EACH * number).as_secs() / rotate.as_secs();
        let trace = place.join(chunk.to_string()).join(number.to_string());
        fs::create_dir_all(&trace).unwrap();
        files.iter().for_each(|(file, bytes)| write(&trace.join(file.file_name().unwrap()), bytes));
        if let Some(old) = chunk.checked_sub(KEPT) {
            let _ = fs::remove_dir_all(place.join(old.to_string()));
        }
        std::thread::sleep((begin + EACH * (number + 1)).saturating_duration_since(Instant::now()));
    }
    let share = (thread_seconds() - before) / begin.elapsed().as_secs_f64();
    fs::remove_dir_all(place).unwrap();
    share
}

fn write(file: &Path, bytes: &[u8]) {
    if !file.ends_with("metadata") {
        return fs::write(file, bytes).unwrap();
    }
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, file).unwrap();
    OpenOptions::new().write(true).open(file).unwrap().write_all_at(&bytes[..32], 0).unwrap();
}

fn thread_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[test]
#[allow(clippy::print_stderr, reason = "the figures are what the hour is for")]
fn nothing_grows_and_every_program_s_events_are_there() {
    let scene = Scene::new();
    let program = scene.program("ends.c");
    let (variable, runtime) = ScopedSession::environment(&scene);
    let time = Duration::from_secs(number("DAYS_SECONDS").unwrap_or(12));
    let rotate = time / CHUNKS;
    let chunks = ["--rotate-every", &format!("{rotate:?}"), "--keep", &KEPT.to_string()];
    let options = [&["--user", "ends", "--context", "comm"], &chunks[..]].concat();
    let session = ScopedSession::start(&scene, "days", &options);
    let (begin, mut sums) = (Instant::now(), ChunkSums::default());
    let (mut programs, mut started): (Vec<Child>, u32) = (Vec::new(), 0);
    let hold = || (Instant::now(), HeldResources::by(&session, &runtime.join("days")));
    // The measurement lies within a chunk: the recorder's state of a program ends with the chunk.
    let mut moments = [(time / CHUNKS * 3 / 2, None), (time / CHUNKS * (CHUNKS * 2 - 1) / 2, None)];
    while begin.elapsed() < time {
        let mut command = Command::new(&program);
        command.args(["exit", "0"]).env(variable, &runtime).stdout(Stdio::null());
        programs.push(command.spawn().unwrap());
        started += 1;
        programs.retain_mut(|program| program.try_wait().unwrap().is_none());
        sums.add_completed(&session.output);
        for (at, held) in &mut moments {
            if held.is_none() && begin.elapsed() > *at {
                *held = Some(hold());
            }
        }
        std::thread::sleep((begin + EACH * started).saturating_duration_since(Instant::now()));
    }
    programs.iter_mut().for_each(|program| assert!(program.wait().unwrap().success()));
    let [(from, early), (to, late)] = moments.map(|(_, held)| held.unwrap());
    let share = (late.cpu_seconds - early.cpu_seconds) / (to - from).as_secs_f64();
    session.stop();
    sums.add_completed(&session.output);
    let files =
        files_cost(&session.output, &scene.path("files"), (time / 4).min(Duration::from_secs(30)), rotate);
    eprintln!(
        "{started} programs in {:.0} s, {} chunks, {:.1} % of a CPU, {:.1} % for their files alone; {early:?}, {late:?}",
        begin.elapsed().as_secs_f64(),
        sums.chunks,
        100.0 * share,
        100.0 * files
    );
    assert_eq!(sums.events, u64::from(started), "{:?}", sums.notes);
    // Other programs of the machine are recorded, too, and may have notes.
    assert!(!sums.notes.iter().any(|note| note.to_string().contains("ends")), "{:?}", sums.notes);
    assert!(sums.chunks >= 4 && fs::read_dir(&session.output).unwrap().count() as u64 <= KEPT + 1);
    // Programs that exist at one of the two moments alone have some of each.
    assert!(late.descriptors <= early.descriptors + 100, "{early:?} {late:?}");
    assert!(late.memory_kib <= early.memory_kib * 5 / 4 + 4096, "{early:?} {late:?}");
    assert_eq!(late.sessions, early.sessions);
    session.destroy();
}
