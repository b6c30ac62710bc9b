//! The threads that took a CPU from a loop, from the kernel's tracer: one event for each switch, and none on a CPU
//! where nothing else runs.

use crate::{Interrupter, Measured};
use rustix::fs::{MemfdFlags, memfd_create};
use sordino_event::Cpu;
use sordino_event::text::with_causes;
use sordino_sched::CpuList;
use sordino_tracefs::{CLOCK_TSC, Damage, Drain, EventName, Format, Instance, Page, PageLayout, Tracefs};
use sordino_undo::{Guardian, UndoStep};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Size of the kernel's buffer for each CPU in KiB, enough for some 10,000 switches.
const BUFFER: u64 = 1024;

/// A recording of switches between threads.
pub struct Switches {
    drain: Drain,
    format: Format,
    files: Vec<(Cpu, File)>,
}

impl Switches {
    /// Begins to record the switches on these CPUs.
    ///
    /// # Errors
    /// The reason why they can't be recorded.
    pub fn watch(cpus: &CpuList, guardian: &mut Guardian) -> Result<Self, String> {
        Self::prepare(cpus, guardian).map_err(|error| with_causes(&*error))
    }

    fn prepare(cpus: &CpuList, guardian: &mut Guardian) -> Result<Self, Box<dyn Error>> {
        let tracefs = Tracefs::open()?;
        let name = format!("sordino-{}", std::process::id());
        guardian.add(UndoStep::RemoveInstance { name: name.clone() })?;
        let mut instance = Instance::create(&tracefs, &name)?;
        instance.set_tracing(false)?;
        instance.set_clock(CLOCK_TSC)?;
        instance.set_buffer_kib(BUFFER)?;
        let traced: Vec<Cpu> = cpus.as_slice().iter().copied().map(Cpu).collect();
        instance.set_cpus(&traced)?;
        let events = instance.select(&["sched_switch".parse()?])?;
        let event: &EventName = events.first().ok_or("no event sched_switch")?;
        let format = tracefs.format(event)?;
        let mut files = Vec::new();
        let mut drain = Drain::new(instance, |cpu| {
            let file = File::from(memfd_create("switches", MemfdFlags::CLOEXEC)?);
            files.push((cpu, file.try_clone()?));
            Ok(file.into())
        })?;
        drain.instance().set_tracing(true)?;
        Ok(Self { drain, format, files })
    }

    /// Returns the threads that were switched to while each CPU's loop ran, with their counts.
    ///
    /// # Errors
    /// The reason why they are not known: some found no room, or can't be read.
    pub fn between(self, measured: &[(u32, Measured)]) -> Result<BTreeMap<u32, Vec<Interrupter>>, String> {
        let layout = self.drain.page_layout();
        let drained = self.drain.finish().map_err(|error| error.to_string())?;
        if let Some(lossy) = drained.iter().find(|drained| drained.statistics.lost() > 0) {
            return Err(format!(
                "{} switches on CPU {} found no room in the buffer",
                lossy.statistics.lost(),
                lossy.cpu
            ));
        }
        let mut counts = BTreeMap::new();
        for (cpu, mut file) in self.files {
            let Some((_, measured)) = measured.iter().find(|(of, _)| *of == cpu.0) else { continue };
            let mut bytes = Vec::new();
            let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
            read.map_err(|error| error.to_string())?;
            let names =
                names(&bytes, &layout, &self.format, measured.span).map_err(|damage| damage.to_string())?;
            let thread = |(name, count)| Interrupter { name: format!("thread {name}"), count };
            counts.insert(cpu.0, names.into_iter().map(thread).collect());
        }
        Ok(counts)
    }
}

/// Counts the switches to each thread except the loop's within `span`.
fn names(
    bytes: &[u8],
    layout: &PageLayout,
    format: &Format,
    span: (u64, u64),
) -> Result<BTreeMap<String, u64>, Damage> {
    let mut names = BTreeMap::new();
    for page in bytes.chunks_exact(layout.page_size()) {
        for record in Page::parse(page, layout)?.records() {
            let record = record?;
            let name = next_name(format, record.bytes);
            if (span.0..span.1).contains(&record.ticks.0) && name != LOOP {
                *names.entry(name).or_default() += 1;
            }
        }
    }
    Ok(names)
}

/// The name of the loop's thread.
const LOOP: &str = "npt";

/// Returns the name of the thread that is switched to.
fn next_name(format: &Format, record: &[u8]) -> String {
    let field = format.fields.iter().find(|field| field.name == "next_comm");
    let bytes = field.and_then(|field| record.get(field.offset as usize..)?.get(..field.size as usize));
    let text = bytes.unwrap_or_default().split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
