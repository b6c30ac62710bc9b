//! npt's loop, measured under one tracer after another.

use super::Options;
use super::scratch::Scratch;
use crate::Failure;
use crate::failure::UNUSABLE;
use crate::privilege::is_root;
use serde_json::Value;
use sordino_dirfd::Dir;
use sordino_npt::GapStatistics;
use sordino_peers::bpftrace::Counter;
use sordino_peers::lttng::{self, Lttng};
use sordino_peers::provider::{Built, ProviderKind};
use sordino_peers::sordino::Recorder;
use sordino_peers::{CollectorPolling, KernelEvents, output_of};
use sordino_sched::CpuList;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tracer that records the loop's tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracer {
    /// No tracer records the tracepoint.
    Untraced,
    Sordino(CollectorPolling),
    Lttng(CollectorPolling),
    /// bpftrace, at a user statically-defined tracepoint (USDT).
    Usdt,
}

/// All tracers, by their names.
pub(super) const TRACERS: [(&str, Tracer); 7] = [
    ("untraced", Tracer::Untraced),
    ("sordino-timer", Tracer::Sordino(CollectorPolling::Timer)),
    ("sordino-wakeup", Tracer::Sordino(CollectorPolling::Wakeup)),
    ("sordino-busy", Tracer::Sordino(CollectorPolling::Busy)),
    ("lttng-timer", Tracer::Lttng(CollectorPolling::Timer)),
    ("lttng-wakeup", Tracer::Lttng(CollectorPolling::Wakeup)),
    ("usdt", Tracer::Usdt),
];

impl fmt::Display for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TRACERS.iter().find(|(_, tracer)| tracer == self);
        f.pad(name.map_or("another tracer", |(name, _)| name))
    }
}

pub(super) fn tracer(text: &str) -> Result<Tracer, String> {
    let known = TRACERS.iter().find(|(name, _)| *name == text);
    known.map(|(_, tracer)| *tracer).ok_or_else(|| {
        let names: Vec<&str> = TRACERS.iter().map(|(name, _)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The result of a traced loop.
pub(super) struct Traced {
    pub(super) statistics: GapStatistics,
    /// Number of hits of the tracepoint.
    pub(super) hits: u64,
    /// Duration of the loop, in seconds.
    pub(super) seconds: f64,
    /// Number of events that the tracer reports as lost, the kernel's included.
    pub(super) lost: u64,
    /// Number of the loop's events in the trace; `None` if no tracer ran.
    pub(super) read: Option<u64>,
}

/// The CPUs, programs and directories for measuring a loop on one CPU with its tracer on another.
pub(super) struct Stage {
    sordino: PathBuf,
    cpu: u32,
    tracers_cpu: u32,
    /// The loop's command line, the same for each tracer.
    words: Vec<String>,
    lttng: Option<(Lttng, Built)>,
    usdt: Option<Built>,
    /// The directory for traces, in memory: the speed of a disk must not decide.
    traces: PathBuf,
    /// The directory for programs that are built: one in memory may be mounted noexec.
    builds: PathBuf,
    /// Dropped after the tracers, which write to the directories.
    _scratch: Scratch,
}

impl Stage {
    /// Prepares for loops with these options on one CPU.
    pub(super) fn new(options: &Options, cpus: &CpuList) -> Result<Self, Failure> {
        let bad = |text: &str| Failure::new(UNUSABLE, text);
        let &[cpu] = cpus.as_slice() else {
            return Err(bad("tracers are compared on one CPU: name one with -a"));
        };
        let others = CpuList::online()?.without(cpus);
        let tracers_cpu = others.as_slice().first().copied();
        let tracers_cpu = tracers_cpu
            .ok_or_else(|| bad("there is one CPU only: a tracer needs another one than the loop"))?;
        let mut scratch = Scratch::new()?;
        let words = ["npt", "--bound", "--json", "-a", &cpu.to_string(), "-p", &options.prio.to_string()];
        let words = words.map(str::to_owned).to_vec();
        Ok(Self {
            sordino: std::env::current_exe()?,
            cpu,
            tracers_cpu,
            words,
            lttng: None,
            usdt: None,
            traces: scratch.directory("/dev/shm".as_ref())?,
            builds: scratch.directory(&std::env::temp_dir())?,
            _scratch: scratch,
        })
    }

    /// Returns the CPUs of the loop and the tracers as text.
    pub(super) fn describe(&self) -> String {
        format!("loops on CPU {}, tracers on CPU {}", self.cpu, self.tracers_cpu)
    }

    /// Builds the programs and starts the daemons of a tracer.
    ///
    /// # Errors
    /// The reason why the tracer can't be used, with the package that is not installed.
    pub(super) fn prepare(&mut self, tracer: Tracer, kernel: KernelEvents) -> Result<(), String> {
        let needs_root = matches!(tracer, Tracer::Usdt) || kernel != KernelEvents::Nothing;
        if needs_root && !is_root() {
            return Err("only root may".to_owned());
        }
        match tracer {
            Tracer::Lttng(_) => {
                if kernel != KernelEvents::Nothing {
                    lttng::has_modules()?;
                }
                if self.lttng.is_none() {
                    let built = Built::new(ProviderKind::Lttng, &self.builds)?;
                    let modules = is_root() && lttng::has_modules().is_ok();
                    self.lttng = Some((Lttng::start(self.tracers_cpu, modules, &self.builds)?, built));
                }
            }
            Tracer::Usdt if self.usdt.is_none() => {
                let built = Built::new(ProviderKind::Usdt, &self.builds)?;
                // Attaching is tried now, before other tracers are measured.
                Counter::attach(built.file())?.stop().map(drop).or_else(no_hits)?;
                self.usdt = Some(built);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs the loop once with `more` options, under a tracer that is prepared.
    pub(super) fn run(
        &mut self,
        tracer: Tracer,
        kernel: KernelEvents,
        more: &[String],
    ) -> Result<Traced, Failure> {
        let directory = self.traces.join("trace");
        let _ = Dir::remove(&directory);
        let (output, lost, read) = match tracer {
            Tracer::Untraced => (self.untraced(more, None)?, 0, None),
            Tracer::Sordino(polling) => {
                let (output, lost) = self.with_sordino(polling, kernel, more, &directory)?;
                (output, lost, Some(count_ours(&directory)?))
            }
            Tracer::Lttng(polling) => {
                let (output, lost) = self.with_lttng(polling, kernel, more, &directory)?;
                (output, lost, Some(lttng::count(&directory.join("ust"))?))
            }
            Tracer::Usdt => {
                let file = self.usdt.as_ref().map(|built| built.file().to_owned()).unwrap_or_default();
                let counter = Counter::attach(&file)?;
                let output = self.untraced(more, Some(&file))?;
                let read = counter.stop()?;
                (output, 0, Some(read))
            }
        };
        let _ = Dir::remove(&directory);
        traced(&output, lost, read)
    }

    fn loop_words(&self, more: &[String], sink: Option<(&str, &Path)>) -> Vec<String> {
        let mut words = vec![self.sordino.to_string_lossy().into_owned()];
        words.extend(self.words.iter().chain(more).cloned());
        words.extend(sink.map(|(name, file)| format!("--sink={name}={}", file.display())));
        words
    }

    fn untraced(&self, more: &[String], usdt: Option<&Path>) -> Result<String, Failure> {
        let words = self.loop_words(more, usdt.map(|file| ("usdt", file)));
        Ok(output_of(Command::new(&words[0]).args(&words[1..]))?)
    }

    fn with_sordino(
        &self,
        polling: CollectorPolling,
        kernel: KernelEvents,
        more: &[String],
        directory: &Path,
    ) -> Result<(String, u64), Failure> {
        let (sordino, cpu, as_root) = (self.sordino.as_path(), self.tracers_cpu, is_root());
        let words = self.loop_words(more, None);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let recorder = Recorder { sordino, rule: "npt:loop", polling, cpu, kernel, as_root };
        let recorded = recorder.record(directory, &words)?;
        Ok((recorded.output, recorded.lost))
    }

    fn with_lttng(
        &mut self,
        polling: CollectorPolling,
        kernel: KernelEvents,
        more: &[String],
        directory: &Path,
    ) -> Result<(String, u64), Failure> {
        let file = self.lttng.as_ref().map(|(_, built)| built.file().to_owned()).unwrap_or_default();
        let words = self.loop_words(more, Some(("lttng", &file)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (lttng, _) = self.lttng.as_mut().ok_or_else(|| Failure::new(UNUSABLE, "LTTng is not started"))?;
        let session = lttng.session("npt:loop", polling, kernel, directory)?;
        let output = session.run(&words);
        let lost = session.stop()?;
        Ok((output?, lost))
    }
}

/// Ignores the error that no hits were counted, which is expected of a trial.
fn no_hits(error: sordino_peers::Error) -> Result<(), String> {
    let text = error.to_string();
    if text.contains("no count of hits") || text.contains("@hits") { Ok(()) } else { Err(text) }
}

/// Counts the loop's events in a recording; the recorder counts those that were lost.
fn count_ours(directory: &Path) -> Result<u64, Failure> {
    use sordino_timeline::Item;
    let mut recording = crate::trace::Recording::open(Some(directory))?;
    let loops = recording.classes.iter().filter(|(_, class)| class.name == "npt:loop");
    let wanted: Vec<_> = loops.map(|(id, _)| id).collect();
    let mut count = 0;
    recording.pass(None, |item| {
        if let Item::Event(moment) = item {
            count += u64::from(wanted.contains(&moment.event.class));
        }
        Ok(true)
    })?;
    recording.close()?;
    Ok(count)
}

/// Parses the output of `npt --json`.
fn traced(output: &str, lost: u64, read: Option<u64>) -> Result<Traced, Failure> {
    let malformed = || Failure::new(UNUSABLE, format!("npt printed no measurement: {output}"));
    let line = output.lines().last().ok_or_else(malformed)?;
    let value: Value = serde_json::from_str(line).map_err(|_| malformed())?;
    let cpu = &value["cpus"][0];
    Ok(Traced {
        statistics: serde_json::from_value(cpu["statistics"].clone())?,
        hits: cpu["tracepoint_hits"].as_u64().ok_or_else(malformed)?,
        seconds: cpu["seconds"].as_f64().ok_or_else(malformed)?,
        lost,
        read,
    })
}
