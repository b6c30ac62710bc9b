//! Running one of the kernel's tracers, and restoring its settings.

use super::Run;
use crate::CheckStep;
use crate::Error;
use crate::tracers::{Reading, Tracer};
use sordino_event::Cpu;
use sordino_event::text::with_causes;
use sordino_sched::CpuList;
use sordino_tracefs::{Instance, Lines, Tracefs, mount_point};
use sordino_undo::{Guardian, UndoStep as Undo};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the lines are read: the buffers have room for many seconds.
const LOOK: Duration = Duration::from_millis(200);

/// A file of tracefs that all instances share, and the value for a tracer. A value that must stay below another one is
/// set to a small value before and after that one: knobs are restored in reverse order.
pub(crate) type TracefsSetting = (&'static str, String);

/// One of the kernel's tracers that can be used.
pub(crate) struct Tracing {
    tracer: Tracer,
    tracefs: Tracefs,
    /// The mount point that every process finds, the guardian that restores the files among them.
    root: &'static Path,
}

impl Tracing {
    /// Finds a tracer of the kernel.
    ///
    /// # Errors
    /// The reason why it can't be used, and the remedy.
    pub(crate) fn find(tracer: Tracer) -> Result<Self, (String, Option<String>)> {
        let reason = |error| (with_causes(&error), None);
        let tracefs = Tracefs::open().map_err(reason)?;
        let name = tracer.name();
        if !tracefs.tracers().map_err(reason)?.iter().any(|other| other == name) {
            let option = format!("CONFIG_{}_TRACER", name.to_uppercase());
            return Err((
                format!("this kernel is built without the {name} tracer"),
                Some(format!("boot a kernel with {option} (Debian's have it)")),
            ));
        }
        if let Some(other) = tracefs.running().map_err(reason)?.first() {
            return Err((
                format!("the kernel's tracer {other} runs already: the two would disturb each other"),
                Some("end it: current_tracer in tracefs and in its instances is to be nop".to_owned()),
            ));
        }
        let root = mount_point().ok_or_else(|| {
            let next = "mount -t tracefs nodev /sys/kernel/tracing";
            ("tracefs is not mounted at /sys/kernel/tracing".to_owned(), Some(next.to_owned()))
        })?;
        Ok(Self { tracer, tracefs, root })
    }

    /// Runs the tracer on these CPUs for the check's duration or until Ctrl-C. Its results go to the step; lines that
    /// the kernel had no room for are returned. If this process ends early, the guardian removes the instance and
    /// restores the knobs.
    pub(crate) fn measure(
        &self,
        run: &mut Run<'_>,
        cpus: &CpuList,
        knobs: &[TracefsSetting],
        step: &mut CheckStep,
    ) -> Result<Option<String>, Error> {
        run.progress
            .begin(format!("{}: the kernel's {}, CPU {cpus}", step.name, self.tracer.name()), run.duration);
        let mut guardian = sordino_guard::start()?;
        for (file, value) in knobs {
            set(&mut guardian, &self.root.join(file), value)?;
        }
        let name = format!("sordino-{}", std::process::id());
        guardian.add(Undo::RemoveInstance { name: name.clone() })?;
        let instance = Instance::create(&self.tracefs, &name)?;
        instance.set_cpus(&cpus.as_slice().iter().copied().map(Cpu).collect::<Vec<_>>())?;
        instance.set_tracer(self.tracer.name())?;
        let reading = self.read(run, &instance)?;
        instance.set_tracer("nop")?;
        instance.remove()?;
        step.measurements.extend(reading.measurements());
        step.notes.extend(reading.notes());
        step.notes.extend(guardian.undo()?.iter().map(|failure| format!("not given back: {failure}")));
        Ok(reading.loss())
    }

    /// Reads the tracer's lines until the time is over. The tracer can't be changed before this returns.
    fn read(&self, run: &mut Run<'_>, instance: &Instance) -> Result<Reading, Error> {
        let (mut lines, mut reading) = (instance.lines()?, Reading::new(self.tracer));
        let begin = Instant::now();
        loop {
            let rest = run.duration.saturating_sub(begin.elapsed());
            if rest.is_zero() || run.progress.is_interrupted() {
                break;
            }
            let (longest, has_more) = take(&mut lines, &mut reading)?;
            match longest {
                Some(ns) => run.progress.longest(ns as f64),
                None => run.progress.tick(),
            }
            if !has_more {
                thread::sleep(rest.min(LOOK));
            }
        }
        // Stops new lines, so that the remaining ones have an end.
        instance.set_tracing(false)?;
        while take(&mut lines, &mut reading)?.1 {}
        Ok(reading)
    }
}

/// Reads some lines. Returns the longest time in them, and whether there may be more.
fn take(lines: &mut Lines, reading: &mut Reading) -> Result<(Option<u64>, bool), Error> {
    let mut longest = None;
    let has_more = lines.read(|line| longest = longest.max(reading.take(line)))?;
    Ok((longest, has_more))
}

/// Writes a value, and has the guardian restore the previous one.
fn set(guardian: &mut Guardian, file: &Path, value: &str) -> Result<(), Error> {
    let bad = |error| Error::Unusable(format!("{}: {error}", file.display()));
    guardian.add(Undo::restore(file).map_err(bad)?)?;
    Undo::write(file, value.as_bytes()).map_err(bad)
}
