//! The commands `sordino record -o -` and `sordino record --from`: a recording as a stream.

use super::options::Options;
use crate::failure::{NO, UNUSABLE};
use crate::privilege::target;
use crate::terminal::{remark, show_as_message};
use crate::{Failure, signals};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdout, stderr, stdout};
use sordino_collect::Keep;
use sordino_collect::text::missing;
use sordino_dirfd::Dir;
use sordino_event::text::count;
use sordino_session::{Programs, Rotation, SeriesOptions, SessionOptions, Snapshots, keep_session};
use sordino_stream::{StreamReceiver, StreamSender};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Duration of a chunk, by which the stream lags behind.
const EACH: Duration = Duration::from_secs(1);

/// Records to standard output. The command's own output goes to standard error instead.
pub(super) fn send(options: &Options) -> Result<ExitCode, Failure> {
    let stream = File::from(fcntl_dupfd_cloexec(stdout(), 3)?);
    if rustix::termios::isatty(&stream) {
        let text = "standard output is a terminal: redirect the stream, as in 'sordino record -o - -- COMMAND | ssh HOST \
                    sordino record --from - -o DIR'";
        return Err(Failure::new(UNUSABLE, text));
    }
    dup2_stdout(stderr())?;
    let place = tempfile::Builder::new()
        .prefix("sordino-stream-")
        .tempdir_in(sordino_guard::temporary::directory()?)?;
    let session = session(options, place.path())?;
    let mut guardian = if session.recording.kernel.is_empty() { None } else { Some(sordino_guard::start()?) };
    let stop = StreamStop::new()?;
    let mut sender = StreamSender::new(stream);
    let ended = AtomicBool::new(false);
    let kept = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let sent = sender.send_until(&session.output, &ended);
            // Nobody receives the stream any more.
            sent.inspect_err(|_| stop.now())
        });
        let kept = keep_session(&session, guardian.as_mut(), stop.readable.as_fd(), None, || {});
        ended.store(true, Relaxed);
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let unsent = |error| Failure::new(UNUSABLE, format!("the stream can't be written to: {error}"));
        kept.map_err(Failure::from).and_then(|kept| sent.map_err(unsent).map(|()| kept))
    })?;
    kept.problems.iter().for_each(|problem| message!("sordino: {problem}"));
    kept.shortfall.lines().iter().for_each(|line| message!("  {line}"));
    let chunks = sender.finish()?;
    message!("sent {}", count(chunks, "chunk"));
    show_as_message(&missing(&kept.missing));
    Ok(if kept.missing.is_any() { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

/// Returns the options of a private session in a temporary directory.
fn session(options: &Options, place: &Path) -> Result<SessionOptions, Failure> {
    let what = &options.what;
    if what.overwrite {
        return Err(Failure::new(
            UNUSABLE,
            "--overwrite can't be used with -o -: it writes nothing before the end, so there is nothing to stream",
        ));
    }
    let owner = target(what.as_user.as_deref())?;
    let mut session = what.options(place.join("chunks"), &options.name, owner.as_ref())?;
    let back = sordino_shield::keep_off(what.collector_cpu, &remark)?;
    if let Programs::Command(command) = &mut session.programs {
        command.prefix.splice(0..0, back);
    }
    let runtime = place.join("session");
    Dir::open_own(place)?.make_new("session")?;
    let snapshots =
        Snapshots { last: None, hold_off: Duration::ZERO, most: None, ends: Vec::new(), worst: None };
    let rotation = Rotation { size: None, every: Some(EACH) };
    Ok(session.with_series(SeriesOptions { runtime, rotation, snapshots, keep: Keep::default() }))
}

/// A descriptor that becomes readable when a signal or this process requests the end.
struct StreamStop {
    readable: OwnedFd,
    ours: OwnedFd,
}

impl StreamStop {
    fn new() -> Result<Self, Failure> {
        let (signals, ours) = (signals::stop()?, eventfd(0, EventfdFlags::CLOEXEC)?);
        let readable = ours.try_clone()?;
        let bell = ours.try_clone()?;
        std::thread::Builder::new().name("sordino-stop".to_owned()).spawn(move || {
            let mut waiting = [PollFd::new(&signals, PollFlags::IN)];
            while poll(&mut waiting, None).is_err() {}
            let _ = rustix::io::write(&bell, &1u64.to_ne_bytes());
        })?;
        Ok(Self { readable, ours })
    }

    fn now(&self) {
        let _ = rustix::io::write(&self.ours, &1u64.to_ne_bytes());
    }
}

/// Stores a stream in a directory, where each of its chunks is a recording.
pub(super) fn receive(from: &Path, output: &Path) -> Result<ExitCode, Failure> {
    let source: Box<dyn Read> =
        if from == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(from)?) };
    let mut receiver =
        StreamReceiver::new(output).map_err(|error| Failure::new(UNUSABLE, error.to_string()))?;
    let result = receiver.receive(source);
    if let Some(reader) = target(None)? {
        receiver.output().give(reader.uid, reader.gid);
    }
    message!("received {} into {}", count(receiver.complete(), "chunk"), receiver.output().path().display());
    match receiver.problem(result) {
        None => Ok(ExitCode::SUCCESS),
        Some(text) => Err(Failure::new(NO, text)),
    }
}
