//! The kernel's part of a recording: an instance of its tracer, emptied into files.

use crate::Error;
use crate::clock::TraceClock;
use crate::directory::Directory;
use crate::options::Options;
use crate::place::Place;
use sordino_event::{Cpu, Tid};
use sordino_tracefs::{self as tracefs, Drain, Drained, EventName, Instance, Tracefs};
use sordino_undo::{Change, Guardian, Step};
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often full pages are moved. A buffer of some megabytes takes much longer to fill.
const PERIOD: Duration = Duration::from_millis(5);

/// A kernel that is being recorded.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Not yet recording.
    prepared: Option<Drain>,
    thread: Option<JoinHandle<Result<Vec<Drained>, tracefs::Error>>>,
    stop: Arc<AtomicBool>,
    change: Change,
    /// Whether nothing is moved before the end.
    overwrite: bool,
    /// The events that are recorded.
    pub(crate) events: Vec<EventName>,
    /// KiB of buffer that each CPU really has.
    pub(crate) buffer_kib: u64,
}

impl Kernel {
    /// Makes the instance and chooses its events. Whatever happens to this process, the guardian removes it.
    pub(crate) fn prepare(
        options: &Options,
        directory: &Directory,
        clock: &TraceClock,
        guardian: &mut Guardian,
    ) -> Result<Self, Error> {
        let tracefs = Tracefs::open()?;
        Instance::sweep(&tracefs)?;
        let name = format!("sordino-{}", std::process::id());
        let change = guardian.add(Step::RemoveInstance { name: name.clone() })?;
        let mut instance = Instance::create(&tracefs, &name)?;
        instance.set_tracing(false)?;
        instance.set_clock(clock.kernel_name())?;
        instance.set_overwrite(true)?;
        let buffer_kib = instance.set_buffer_kib(options.kernel_buffer_kib)?;
        let cpus: Vec<Cpu> = options.cpus.as_slice().iter().copied().map(Cpu).collect();
        instance.set_cpus(&cpus)?;
        if !options.kernel_threads.is_empty() {
            let threads: Vec<Tid> = options.kernel_threads.iter().copied().map(Tid).collect();
            instance.set_threads(&threads, true)?;
        }
        let events = instance.select(&options.kernel)?;
        save_formats(&tracefs, &events, directory)?;
        let raw = directory.raw();
        let drain = Drain::new(instance, |cpu| Ok(File::create(raw.join(format!("cpu{cpu}")))?.into()))?;
        let page_size = drain.page_layout().page_size().to_string();
        let path = raw.join("page_size");
        fs::write(&path, page_size).map_err(Error::output(&path))?;
        let stop = Arc::new(AtomicBool::new(false));
        let overwrite = options.geometry.overwrite;
        Ok(Self { prepared: Some(drain), thread: None, stop, change, overwrite, events, buffer_kib })
    }

    /// Begins to record.
    pub(crate) fn start(&mut self, place: Place) -> Result<(), Error> {
        let Some(mut drain) = self.prepared.take() else { return Ok(()) };
        drain.instance().set_tracing(true)?;
        let (stop, overwrite) = (Arc::clone(&self.stop), self.overwrite);
        let thread = std::thread::Builder::new().name("sordino-kernel".to_owned());
        let spawned = thread.spawn(move || {
            // The first thread of this place has already said what is wrong with it.
            let _ = place.take();
            empty(drain, &stop, overwrite)
        });
        self.thread =
            Some(spawned.map_err(Error::system("can't start the thread that empties kernel buffers"))?);
        Ok(())
    }

    /// Whether recording has ended by itself: its files can't be written to.
    pub(crate) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Ends recording and takes what is left; the instance is gone then.
    pub(crate) fn finish(mut self, guardian: &mut Guardian) -> Result<Vec<Drained>, Error> {
        self.stop.store(true, Relaxed);
        let drained = match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(Vec::new()),
        };
        drop(self.prepared);
        guardian.forget(self.change)?;
        Ok(drained?)
    }
}

fn empty(mut drain: Drain, stop: &AtomicBool, overwrite: bool) -> Result<Vec<Drained>, tracefs::Error> {
    while !stop.load(Relaxed) {
        std::thread::sleep(PERIOD);
        if !overwrite {
            drain.drain()?;
        }
    }
    drain.finish()
}

/// Keeps the events' formats beside their pages, so that the recording can be finished without this kernel.
fn save_formats(tracefs: &Tracefs, events: &[EventName], directory: &Directory) -> Result<(), Error> {
    let formats = directory.raw().join("formats");
    for event in events {
        let system = formats.join(&event.system);
        fs::create_dir_all(&system).map_err(Error::output(&system))?;
        let path = system.join(&event.name);
        fs::write(&path, tracefs.format_text(event)?).map_err(Error::output(&path))?;
    }
    Ok(())
}
