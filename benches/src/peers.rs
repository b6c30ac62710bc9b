//! Tracers, started alike: 32 sub-buffers of 1 MiB, a collector on its own CPU, and the tracepoint `bench:two`.

pub(crate) use sordino_peers::CollectorPolling;
pub(crate) use sordino_peers::lttng::Lttng;

use sordino_peers::lttng::Session;
use sordino_peers::sordino::{Recorder, RecordingResult};
use sordino_peers::{Error, KernelEvents};
use std::path::Path;

/// CPU of collectors; measuring programs run on the other one.
pub(crate) const COLLECTOR_CPU: u32 = 0;
/// CPU of measuring programs.
pub(crate) const PROGRAM_CPU: u32 = 1;

const EVENT: &str = "bench:two";

/// Runs a program under `sordino record`, which writes to `directory`.
pub(crate) fn sordino(
    sordino: &Path,
    polling: CollectorPolling,
    directory: &Path,
    command: &[&str],
) -> Result<RecordingResult, Error> {
    record(sordino, EVENT, polling, directory, command)
}

/// Runs a program under `sordino record`, which writes the events that the rule selects to `directory`.
pub(crate) fn record(
    sordino: &Path,
    rule: &str,
    polling: CollectorPolling,
    directory: &Path,
    command: &[&str],
) -> Result<RecordingResult, Error> {
    let (cpu, kernel) = (COLLECTOR_CPU, KernelEvents::Nothing);
    Recorder { sordino, rule, polling, cpu, kernel, as_root: false }.record(directory, command)
}

/// Starts LTTng's daemons on the collectors' CPU.
pub(crate) fn lttng() -> Result<Lttng, Error> {
    Lttng::start(COLLECTOR_CPU, false, &std::env::temp_dir())
}

/// Starts a session of LTTng that writes to `directory`.
pub(crate) fn session<'a>(
    lttng: &'a mut Lttng,
    polling: CollectorPolling,
    directory: &Path,
) -> Result<Session<'a>, Error> {
    lttng.session(EVENT, polling, KernelEvents::Nothing, directory)
}
