//! A recording, from its first second to its last.

mod collector;
mod programs;

use crate::Error;
use crate::clock::TraceClock;
use crate::command;
use crate::convert::{KernelTrace, raw_bytes};
use crate::count::count_events;
use crate::directory::Directory;
use crate::kernel::Kernel;
use crate::listen::Listener;
use crate::options::{Options, Programs};
use crate::place::Place;
use crate::program::{ProgramTrace, Traced};
use crate::steal::Steal;
use crate::summary::{State, Summary};
use collector::Collector;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};
use sordino_clock::Sample;
use sordino_tracefs::Drained;
use sordino_undo::Guardian;
use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// How often the recorder looks for what nobody tells it of.
const TICK: Duration = Duration::from_millis(100);

/// Who wants to know how far a recording is.
pub trait Watch {
    /// It is recording: for so long, and with so many programs.
    fn recording(&mut self, since: Duration, programs: usize);
    /// It is doing `what` with what was recorded: so many bytes of so many are done.
    fn working(&mut self, what: &'static str, done: u64, total: u64);
}

/// What became of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub directory: Directory,
    /// What it holds.
    pub summary: Summary,
    /// How the command ended; `None` if there was none, or it is still running.
    pub status: Option<ExitStatus>,
    /// The command, if it is still running.
    pub running: Option<u32>,
}

/// Records as `options` say, until the command ends, the time is over, or `stop` becomes readable.
///
/// # Errors
/// Why nothing is recorded, or why what was recorded could not be finished. Nothing is changed on the machine then.
pub fn record(
    options: &Options,
    guardian: Option<&mut Guardian>,
    stop: BorrowedFd<'_>,
    watch: &mut dyn Watch,
) -> Result<Recorded, Error> {
    let was_there = options.output.exists();
    let mut session = Session::prepare(options, guardian)?;
    let directory = session.directory.clone();
    let began = session.begin();
    let has_begun = began.is_ok();
    let result = began.and_then(|()| session.run(stop, watch));
    // Also after an error: what is in the rings belongs to the trace, and programs must be let go.
    let finished = session.finish(watch);
    if !has_begun {
        directory.remove(was_there);
    }
    result.and(finished)
}

struct Session<'a> {
    options: &'a Options,
    guardian: Option<&'a mut Guardian>,
    directory: Directory,
    clock: TraceClock,
    listener: Listener,
    kernel: Option<Kernel>,
    kernel_trace: KernelTrace,
    collector: Collector,
    programs: Vec<Traced>,
    /// The traces of programs that ended.
    traces: Vec<ProgramTrace>,
    /// How many programs there were.
    numbered: usize,
    /// How often programs were looked at: see [`incarnation`](crate::discover::incarnation).
    seen: HashMap<(i32, u64, u64), u8>,
    /// Programs that are not recorded: their areas' inode numbers, and why.
    skipped: Vec<(u64, String)>,
    child: Option<Child>,
    status: Option<ExitStatus>,
    summary: Summary,
    steal: Steal,
    /// When that was looked at.
    looked: Instant,
    began: Instant,
    failed: bool,
}

impl<'a> Session<'a> {
    fn prepare(options: &'a Options, guardian: Option<&'a mut Guardian>) -> Result<Self, Error> {
        let was_there = options.output.exists();
        let directory = Directory::create(&options.output)?;
        let session = Self::prepare_in(options, guardian, directory.clone());
        if session.is_err() {
            directory.remove(was_there);
        }
        session
    }

    fn prepare_in(
        options: &'a Options,
        mut guardian: Option<&'a mut Guardian>,
        directory: Directory,
    ) -> Result<Self, Error> {
        let clock = TraceClock::choose();
        let mut summary = Summary::new();
        summary.name.clone_from(&options.name);
        summary.host = clock.hostname().to_owned();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        summary.kernel_release = release.trim().to_owned();
        summary.user_patterns = options.user.patterns().to_vec();
        summary.overwrite = options.geometry.overwrite;
        let kernel = match guardian.as_deref_mut() {
            Some(guardian) if !options.kernel.is_empty() => {
                Some(Kernel::prepare(options, &directory, &clock, guardian)?)
            }
            _ => None,
        };
        if let Some(kernel) = &kernel {
            summary.kernel_buffer_kib = kernel.buffer_kib;
            summary.kernel_events = kernel.events.iter().map(ToString::to_string).collect();
        }
        if let Some(reason) = &clock.not_cycles {
            summary
                .notes
                .push(format!("stamped with CLOCK_MONOTONIC: the cycle counter is no clock here ({reason})"));
        }
        let kernel_trace = KernelTrace::begin(&directory, &clock, options.geometry.overwrite)?;
        let listener = options.session_dir.as_deref().map_or_else(Listener::new, Listener::at)?;
        let collector = Collector::start(options, &clock)?;
        Ok(Self {
            options,
            guardian,
            directory,
            clock,
            listener,
            kernel,
            kernel_trace,
            collector,
            programs: Vec::new(),
            traces: Vec::new(),
            numbered: 0,
            seen: HashMap::new(),
            skipped: Vec::new(),
            child: None,
            status: None,
            summary,
            steal: Steal::default(),
            looked: Instant::now(),
            began: Instant::now(),
            failed: false,
        })
    }

    /// Takes hold of what runs already, and starts the command.
    fn begin(&mut self) -> Result<(), Error> {
        self.began = Instant::now();
        self.look_at_steal();
        self.summary.begin_ns = self.clock.begin.realtime;
        self.summary.clock = self.clock_summary();
        self.summary.write(&self.directory)?;
        if let Programs::Pids(pids) = &self.options.programs {
            for &pid in pids {
                self.attach_named(pid)?;
            }
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.start(Place::of(self.options))?;
        }
        match &self.options.programs {
            Programs::Command(line) => {
                let reserve = self.reserve();
                let child = command::start(line, self.listener.environment(), reserve);
                let failed = |source| Error::Command { command: line.program.clone(), source };
                self.child = Some(child.map_err(failed)?);
            }
            Programs::Pids(_) => {}
            Programs::All => self.scan(),
        }
        Ok(())
    }

    /// Address space that a program should reserve for this session and a few others.
    fn reserve(&self) -> u64 {
        let geometry = self.options.geometry;
        let ring = geometry.data_size() + geometry.table_size();
        let rings = self.options.cpus.as_slice().len() + 1;
        (2 * (rings * ring + geometry.commits_size()) + (64 << 20)).max(1 << 30) as u64
    }

    fn run(&mut self, stop: BorrowedFd<'_>, watch: &mut dyn Watch) -> Result<(), Error> {
        let end = self.options.duration.map(|duration| self.began + duration);
        let mut ticked = Instant::now();
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) || self.failed {
                return Ok(());
            }
            let wait = end.map_or(TICK, |end| TICK.min(end - now));
            if self.wait(stop, wait)? || self.has_ended()? {
                return Ok(());
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                self.tick()?;
                watch.recording(self.began.elapsed(), self.programs.len());
            }
        }
    }

    /// Waits until something happens, and lets go of programs that ended; whether to stop.
    fn wait(&mut self, stop: BorrowedFd<'_>, time: Duration) -> Result<bool, Error> {
        let pidfds = self.programs.iter().map(|program| program.pidfd.as_fd());
        let all = pidfds.chain([stop]).chain(self.listener.fds());
        let mut waiting: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut waiting, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::system("can't wait for programs")(error)),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let stopped = ready(&waiting[self.programs.len()]);
        let ended = waiting.iter().zip(&self.programs).filter(|(fd, _)| ready(fd));
        let ended: Vec<usize> = ended.map(|(_, program)| program.number).collect();
        // First: a program that announced itself and ended at once is still taken up.
        self.take_announced();
        for number in ended {
            self.let_go(number);
        }
        Ok(stopped)
    }

    /// Whether the command, or every process that was named, has ended.
    fn has_ended(&mut self) -> Result<bool, Error> {
        let ended = self.child.as_mut().map(Child::try_wait).transpose();
        if let Some(status) = ended.map_err(Error::system("can't wait for the command"))?.flatten() {
            (self.status, self.child) = (Some(status), None);
            return Ok(true);
        }
        Ok(
            matches!(&self.options.programs, Programs::Pids(pids) if !pids.is_empty() && self.programs.is_empty()),
        )
    }

    fn tick(&mut self) -> Result<(), Error> {
        self.look_at_steal();
        self.failed |= self.collector.has_failed();
        self.failed |= self.kernel.as_ref().is_some_and(Kernel::has_failed);
        for index in 0..self.programs.len() {
            let refreshed = self.programs[index].refresh(&self.options.user);
            self.note(refreshed);
        }
        self.scan();
        Ok(())
    }

    fn look_at_steal(&mut self) {
        let window = self.looked.elapsed().as_nanos() as u64;
        self.looked = Instant::now();
        self.steal.look(self.clock.now()(), window);
    }

    /// Takes what is left everywhere and makes the directory what it is at rest.
    fn finish(mut self, watch: &mut dyn Watch) -> Result<Recorded, Error> {
        self.take_announced();
        self.programs.iter().for_each(Traced::disable);
        self.look_at_steal();
        let drained = match (self.kernel.take(), self.guardian.take()) {
            (Some(kernel), Some(guardian)) => kernel.finish(guardian),
            _ => Ok(Vec::new()),
        };
        while let Some(program) = self.programs.first() {
            let number = program.number;
            self.let_go(number);
        }
        self.summary.collector_cpu_seconds = self.collector.stop();
        let end = Sample::take();
        self.clock.refine(&end);
        self.summary.duration_ns = end.monotonic - self.clock.begin.monotonic;
        self.summary.clock = self.clock_summary();
        self.summary.notes.extend(self.skipped.drain(..).map(|(_, note)| note));
        self.summary.programs.sort_by_key(|program| program.trace.clone());
        self.directory.use_room();
        for trace in &self.traces {
            // What stays is the metadata of before, with a clock that is known less well.
            self.summary.notes.extend(trace.write_metadata(&self.clock).err().map(|error| error.to_string()));
        }
        match self.finish_kernel(drained, watch) {
            Ok(()) => self.summary.state = State::Finished,
            Err(error) => self.summary.notes.push(format!(
                "the kernel's events are not converted ({error}): when there is room, run: sordino recover {}",
                self.directory.path().display()
            )),
        }
        count_events(&self.directory, &mut self.summary, watch);
        self.summary.recorder_cpu_seconds = cpu_seconds(ClockId::ProcessCPUTime);
        self.summary.write(&self.directory)?;
        let running = self.child.as_ref().map(Child::id);
        Ok(Recorded { directory: self.directory, summary: self.summary, status: self.status, running })
    }

    /// Turns what the kernel recorded into its trace.
    fn finish_kernel(
        &mut self,
        drained: Result<Vec<Drained>, Error>,
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        let drained = match drained {
            Ok(drained) => drained,
            Err(error) => {
                self.summary.notes.push(format!("the kernel's events are incomplete: {error}"));
                Vec::new()
            }
        };
        self.kernel_trace.write_stolen(&self.directory, self.steal.stolen())?;
        if self.summary.kernel_events.is_empty() {
            return self.kernel_trace.finish_without_events(&self.directory, &self.clock);
        }
        let (total, mut done) = (raw_bytes(&self.directory), 0);
        let mut advance = |bytes| {
            done += bytes;
            watch.working("converting the kernel's events", done, total);
        };
        let overwrite = self.summary.overwrite;
        let mut streams = self.kernel_trace.convert(&self.directory, &self.clock, &mut advance)?;
        for stream in &mut streams {
            let counted = drained.iter().find(|drained| drained.cpu.0 == stream.cpu);
            // What the kernel overwrote behind the last page that was read is in no page.
            let known = stream.lost + stream.overwritten;
            let more = counted.map_or(0, |counted| counted.statistics.lost().saturating_sub(known));
            if overwrite {
                stream.overwritten += more;
                stream.uncounted &= more == 0;
                continue;
            }
            if more > 0 {
                stream.lost += more;
                stream.uncounted = false;
                self.summary
                    .notes
                    .push(format!("cpu{}: {more} kernel events were lost at the end", stream.cpu));
            }
        }
        self.summary.kernel = streams;
        Ok(())
    }

    fn clock_summary(&self) -> crate::summary::ClockSummary {
        let clock = self.clock.ctf();
        crate::summary::ClockSummary {
            name: clock.name,
            reason: self.clock.not_cycles.as_ref().map(ToString::to_string),
            hertz: clock.frequency as f64,
            uncertainty: self.clock.rate.uncertainty,
        }
    }
}

fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
