//! Tests with the kernel's own tracer. They need root; without it, each test prints that it did not run.
//!
//! The ignored tests are roles in which the other tests start this program.

mod formats;
mod instances;
mod lttng_names;
mod recording;
mod settings;
mod tracers;

use rustix::thread::CpuSet;
use sordino_event::{Cpu, Ticks, Tid};
use sordino_tracefs::{
    Converter, Drain, Drained, Error, EventConversion, EventName, Format, Instance, Missed, PREFIX, Page,
    RecordHeader, Tracefs,
};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant as Moment};

/// Timeout of a test; reached only if something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
#[cfg(target_arch = "x86_64")]
const GETPID: i64 = 39;
#[cfg(target_arch = "aarch64")]
const GETPID: i64 = 172;

/// Reports a test that cannot run here, to standard error itself, because the test harness swallows the output of tests
/// that pass.
fn not_measured(why: &str) {
    let _ = writeln!(std::io::stderr(), "not measured here: {why}");
}

/// Returns the tracer, or reports why nothing can be tested with it here.
fn tracefs() -> Option<Tracefs> {
    match Tracefs::open() {
        Ok(tracefs) => Some(tracefs),
        Err(error @ (Error::NotPermitted { .. } | Error::NoTracefs | Error::Lockdown)) => {
            not_measured(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns a name that no other instance has.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn instance(tracefs: &Tracefs) -> Instance {
    Instance::create(tracefs, &unique()).unwrap()
}

fn event(system: &str, name: &str) -> EventName {
    EventName { system: system.to_owned(), name: name.to_owned() }
}

/// Command that runs this program in another role, with its `directory` in the environment.
fn role(name: &str, directory: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", name, "--ignored"]).env("TRACEFS_TEST", directory);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Directory of a role, from the environment.
fn directory() -> PathBuf {
    std::env::var_os("TRACEFS_TEST").expect("started by another test").into()
}

/// Waits for the file `name` of a role, and returns its content.
fn reported(directory: &Path, name: &str) -> String {
    let since = Moment::now();
    loop {
        match fs::read_to_string(directory.join(name)) {
            Ok(text) => return text,
            Err(_) => assert!(since.elapsed() < PATIENCE, "{name} never came"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn tell(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join("new"), text).unwrap();
    fs::rename(directory.join("new"), directory.join(name)).unwrap();
}

/// A process that calls getpid() a number of times on CPU 0, once it is released.
struct Caller {
    process: Child,
    tid: Tid,
}

impl Caller {
    fn start(calls: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = role("as_caller", directory.path());
        let process = command.env("CALLS", calls.to_string()).spawn().unwrap();
        let tid = Tid(reported(directory.path(), "tid").parse().unwrap());
        Self { process, tid }
    }

    /// Releases the process, and repeats `meanwhile` until it has exited.
    fn run(mut self, mut meanwhile: impl FnMut()) {
        drop(self.process.stdin.take());
        while self.process.try_wait().unwrap().is_none() {
            meanwhile();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_caller() {
    let mut cpus = CpuSet::new();
    cpus.set(0);
    rustix::thread::sched_setaffinity(None, &cpus).unwrap();
    tell(&directory(), "tid", &rustix::thread::gettid().as_raw_nonzero().to_string());
    let calls: u32 = std::env::var("CALLS").unwrap().parse().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for _ in 0..calls {
        std::hint::black_box(rustix::process::getpid());
    }
}

/// Causes a thread switch on each CPU that this process may use, so that an idle CPU has events, too.
fn switch_on_each_cpu() {
    let all = rustix::thread::sched_getaffinity(None).unwrap();
    let threads = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).map(|cpu| {
        std::thread::spawn(move || {
            let mut one = CpuSet::new();
            one.set(cpu);
            rustix::thread::sched_setaffinity(None, &one).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

/// A recording into files that have no name.
struct UnnamedFiles {
    drain: Drain,
    files: Vec<File>,
}

/// Recorded pages of one CPU.
struct RecordedPages {
    drained: Drained,
    pages: Vec<u8>,
}

impl UnnamedFiles {
    fn start(instance: Instance) -> Self {
        let mut files = Vec::new();
        let drain = Drain::new(instance, |_: Cpu| {
            let file = tempfile::tempfile()?;
            files.push(file.try_clone()?);
            Ok(file.into())
        });
        Self { drain: drain.unwrap(), files }
    }

    fn finish(self) -> Vec<RecordedPages> {
        let (drained, mut files) = (self.drain.finish().unwrap(), self.files);
        assert_eq!(drained.len(), files.len());
        let read = |(drained, file): (Drained, &mut File)| {
            let mut pages = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut pages).unwrap();
            assert_eq!(pages.len() as u64, drained.bytes);
            RecordedPages { drained, pages }
        };
        drained.into_iter().zip(&mut files).map(read).collect()
    }
}

/// Content of a recording, all CPUs together.
#[derive(Debug, Default)]
struct RecordedContent {
    /// Time, header and payload of each record.
    records: Vec<(u64, RecordHeader, Vec<u8>)>,
    /// Number of records that are missing according to the pages; `None` if a page does not contain the number.
    missed: Option<u64>,
}

/// Converts recorded pages of these events to the kernel's own payloads.
fn content(recorded: &[RecordedPages], formats: &[Format], page_size: usize) -> RecordedContent {
    let mappings: Vec<EventConversion> =
        formats.iter().map(|format| EventConversion::unchanged(&format.schema())).collect();
    let converter = Converter::new(formats.iter().zip(&mappings)).unwrap();
    let layout = sordino_tracefs::PageLayout::of_size(page_size as u32).unwrap();
    let mut content = RecordedContent { missed: Some(0), ..RecordedContent::default() };
    for cpu in recorded {
        let mut last = Ticks(0);
        for bytes in cpu.pages.chunks(page_size) {
            let page = Page::parse(bytes, &layout).unwrap();
            content.missed = match page.missed {
                Missed::None => content.missed,
                Missed::Count(count) => content.missed.map(|missed| missed + count),
                Missed::Unknown => None,
            };
            for record in page.records() {
                let record = record.unwrap();
                assert!(record.ticks >= last, "time goes back from {last:?} to {:?}", record.ticks);
                last = record.ticks;
                let mut payload = Vec::new();
                let header = converter.convert(record.bytes, &mut payload);
                let header = header.unwrap_or_else(|damage| panic!("{damage}: {:x?}", record.bytes));
                content.records.push((record.ticks.0, header, payload));
            }
        }
    }
    content
}
