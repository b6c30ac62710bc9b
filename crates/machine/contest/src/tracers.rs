//! npt's loop, measured under one tracer after another.

use crate::Error;
use rustix::process::geteuid;
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
pub enum ComparedTracer {
    /// No tracer records the tracepoint.
    Untraced,
    /// sordino, whose recorder empties its rings by this polling.
    Sordino(CollectorPolling),
    /// LTTng, whose consumer empties its buffers by this polling.
    Lttng(CollectorPolling),
    /// bpftrace, at a user statically-defined tracepoint (USDT).
    Usdt,
}

/// All tracers, by their names.
pub(crate) const TRACERS: [(&str, ComparedTracer); 7] = [
    ("untraced", ComparedTracer::Untraced),
    ("sordino-timer", ComparedTracer::Sordino(CollectorPolling::Timer)),
    ("sordino-wakeup", ComparedTracer::Sordino(CollectorPolling::Wakeup)),
    ("sordino-busy", ComparedTracer::Sordino(CollectorPolling::Busy)),
    ("lttng-timer", ComparedTracer::Lttng(CollectorPolling::Timer)),
    ("lttng-wakeup", ComparedTracer::Lttng(CollectorPolling::Wakeup)),
    ("usdt", ComparedTracer::Usdt),
];

impl fmt::Display for ComparedTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = TRACERS.iter().find(|(_, tracer)| tracer == self);
        f.pad(name.map_or("another tracer", |(name, _)| name))
    }
}

/// Parses the name of a tracer.
///
/// # Errors
/// The list of the names.
pub fn tracer(text: &str) -> Result<ComparedTracer, String> {
    let known = TRACERS.iter().find(|(name, _)| *name == text);
    known.map(|(_, tracer)| *tracer).ok_or_else(|| {
        let names: Vec<&str> = TRACERS.iter().map(|(name, _)| *name).collect();
        format!("there are {}", names.join(", "))
    })
}

/// The result of a traced loop.
pub(crate) struct LoopResult {
    /// The statistics of the gaps between two loops.
    pub(crate) statistics: GapStatistics,
    /// Number of hits of the tracepoint.
    pub(crate) hits: u64,
    /// Duration of the loop, in seconds.
    pub(crate) seconds: f64,
    /// Number of events that the tracer reports as lost, the kernel's included.
    pub(crate) lost: u64,
    /// Number of the loop's events in the trace; `None` if no tracer ran.
    pub(crate) read: Option<u64>,
}

/// Counts the events of npt's loop in a recording of sordino; fails with the reason.
pub type CountEvents = fn(&Path) -> Result<u64, String>;

/// The CPUs, programs and directories for measuring a loop on one CPU with its tracer on another.
pub struct LoopStage {
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
    count: CountEvents,
}

impl LoopStage {
    /// Prepares for loops on one CPU with this priority. Traces and programs get these directories, which have to
    /// outlive the stage.
    ///
    /// # Errors
    /// An error if there is more than one CPU in `cpus`, or none is left for the tracer.
    pub fn new(
        cpus: &CpuList,
        priority: u8,
        traces: PathBuf,
        builds: PathBuf,
        count: CountEvents,
    ) -> Result<Self, Error> {
        let &[cpu] = cpus.as_slice() else {
            return Err(Error::new("tracers are compared on one CPU: name one with -a"));
        };
        let others = CpuList::online()?.without(cpus);
        let tracers_cpu = others.as_slice().first().copied();
        let tracers_cpu = tracers_cpu
            .ok_or_else(|| Error::new("there is one CPU only: a tracer needs another one than the loop"))?;
        let words = ["npt", "--bound", "--json", "-a", &cpu.to_string(), "-p", &priority.to_string()];
        let words = words.map(str::to_owned).to_vec();
        let (lttng, usdt) = (None, None);
        let sordino = std::env::current_exe()?;
        Ok(Self { sordino, cpu, tracers_cpu, words, lttng, usdt, traces, builds, count })
    }

    /// Returns the CPUs of the loop and the tracers as text.
    pub fn describe(&self) -> String {
        format!("loops on CPU {}, tracers on CPU {}", self.cpu, self.tracers_cpu)
    }

    /// Builds the programs and starts the daemons of a tracer.
    ///
    /// # Errors
    /// The reason why the tracer can't be used, with the package that is not installed.
    pub(crate) fn prepare(&mut self, tracer: ComparedTracer, kernel: KernelEvents) -> Result<(), String> {
        let needs_root = matches!(tracer, ComparedTracer::Usdt) || kernel != KernelEvents::Nothing;
        if needs_root && !is_root() {
            return Err("only root may".to_owned());
        }
        match tracer {
            ComparedTracer::Lttng(_) => {
                if kernel != KernelEvents::Nothing {
                    lttng::has_modules()?;
                }
                if self.lttng.is_none() {
                    let built = Built::new(ProviderKind::Lttng, &self.builds)?;
                    let modules = is_root() && lttng::has_modules().is_ok();
                    self.lttng = Some((Lttng::start(self.tracers_cpu, modules, &self.builds)?, built));
                }
            }
            ComparedTracer::Usdt if self.usdt.is_none() => {
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
    ///
    /// # Errors
    /// The loop or the tracer failed, or the trace can't be read.
    pub(crate) fn run(
        &mut self,
        tracer: ComparedTracer,
        kernel: KernelEvents,
        more: &[String],
    ) -> Result<LoopResult, Error> {
        let directory = self.traces.join("trace");
        let _ = Dir::remove(&directory);
        let (output, lost, read) = match tracer {
            ComparedTracer::Untraced => (self.untraced(more, None)?, 0, None),
            ComparedTracer::Sordino(polling) => {
                let (output, lost) = self.with_sordino(polling, kernel, more, &directory)?;
                (output, lost, Some((self.count)(&directory).map_err(Error::new)?))
            }
            ComparedTracer::Lttng(polling) => {
                let (output, lost) = self.with_lttng(polling, kernel, more, &directory)?;
                (output, lost, Some(lttng::count(&directory.join("ust"))?))
            }
            ComparedTracer::Usdt => {
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

    fn untraced(&self, more: &[String], usdt: Option<&Path>) -> Result<String, Error> {
        let words = self.loop_words(more, usdt.map(|file| ("usdt", file)));
        Ok(output_of(Command::new(&words[0]).args(&words[1..]))?)
    }

    fn with_sordino(
        &self,
        polling: CollectorPolling,
        kernel: KernelEvents,
        more: &[String],
        directory: &Path,
    ) -> Result<(String, u64), Error> {
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
    ) -> Result<(String, u64), Error> {
        let file = self.lttng.as_ref().map(|(_, built)| built.file().to_owned()).unwrap_or_default();
        let words = self.loop_words(more, Some(("lttng", &file)));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (lttng, _) = self.lttng.as_mut().ok_or_else(|| Error::new("LTTng is not started"))?;
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

fn is_root() -> bool {
    geteuid().is_root()
}

/// Parses the output of `npt --json`.
fn traced(output: &str, lost: u64, read: Option<u64>) -> Result<LoopResult, Error> {
    let malformed = || Error::new(format!("npt printed no measurement: {output}"));
    let line = output.lines().last().ok_or_else(malformed)?;
    let value: Value = serde_json::from_str(line).map_err(|_| malformed())?;
    let cpu = &value["cpus"][0];
    Ok(LoopResult {
        statistics: serde_json::from_value(cpu["statistics"].clone())?,
        hits: cpu["tracepoint_hits"].as_u64().ok_or_else(malformed)?,
        seconds: cpu["seconds"].as_f64().ok_or_else(malformed)?,
        lost,
        read,
    })
}
