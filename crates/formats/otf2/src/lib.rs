//! The Open Trace Format 2, for VAMPIR and otf2-print: an archive of files that the format's own library writes.
//!
//! The library is loaded when an archive is made, so that nothing else needs it. Each CPU is a location. The run of a
//! thread is a region, and an interrupt is a region within it. Each record is a region without a length, with its
//! fields as attributes.
//!
//! | module | content |
//! |---|---|
//! | `archive` | an archive that is being written: calls of the library without pointers |
//! | `library` | the library's functions, found at run time |
//! | `definitions` | the strings, regions and attributes that records refer to by number |

mod archive;
mod definitions;
mod library;

pub use library::Error;

use archive::Archive;
use definitions::{AttributeValue, Definitions};
use sordino_event::{Classes, Cpu, Domain, Loss, Tid, Time, View};
use sordino_report::json_value;
use sordino_timeline::{Item, Kernel, Moment, System};
use std::collections::BTreeMap;
use std::path::Path;

/// The location of records without a CPU.
const NO_CPU: u64 = 1 << 32;
/// Most interrupts of a CPU that are handled within each other.
const DEPTH_MAX: usize = 16;

/// A writer of an archive.
#[derive(Debug)]
pub struct Otf2 {
    archive: Archive,
    definitions: Definitions,
    classes: Classes,
    begin: Time,
    /// The time of the last record.
    now: u64,
    /// The regions of each CPU that have not ended, the innermost last; the first is the thread's.
    open: BTreeMap<u64, OpenRegions>,
    text: Vec<u8>,
}

/// The regions of a CPU that have not ended.
#[derive(Debug, Default)]
struct OpenRegions {
    run: Option<u32>,
    interrupts: Vec<(String, u32)>,
}

impl Otf2 {
    /// Creates an archive in the directory at `path`, for events of `classes` from `begin` on.
    ///
    /// # Errors
    /// The format's library is not installed, or it can't create the archive.
    pub fn create(path: &Path, classes: &Classes, begin: Time) -> Result<Self, Error> {
        let archive = Archive::create(path)?;
        let (definitions, open, text) = (Definitions::default(), BTreeMap::new(), Vec::new());
        Ok(Self { archive, definitions, classes: classes.clone(), begin, now: 0, open, text })
    }

    /// Writes an item.
    ///
    /// # Errors
    /// The library can't write.
    pub fn take(&mut self, item: &Item<'_>) -> Result<(), Error> {
        let time = match item {
            Item::Event(moment) => moment.event.time,
            Item::Loss(loss, _) => loss.from,
            Item::Disorder(disorder) => disorder.at,
        };
        self.now = self.now.max(u64::try_from(time.0).unwrap_or(0));
        match item {
            Item::Event(moment) => {
                self.event(moment)?;
                match (&moment.kernel, moment.cpu) {
                    (Some(kernel), Some(cpu)) => self.kernel(kernel, location(Some(cpu)), moment.system),
                    _ => Ok(()),
                }
            }
            Item::Loss(loss, _) => self.lose(loss),
            Item::Disorder(disorder) => {
                let back = [("back_ns", AttributeValue::Signed(disorder.back.0))];
                self.record(NO_CPU, "time went back", &back)
            }
        }
    }

    /// Ends all regions, and completes the archive. Returns the number of texts that were too many, and are `...`.
    ///
    /// # Errors
    /// The library can't write.
    pub fn end(mut self) -> Result<u64, Error> {
        for location in self.open.keys().copied().collect::<Vec<_>>() {
            self.end_regions(location)?;
        }
        let length = self.now.saturating_sub(u64::try_from(self.begin.0).unwrap_or(0));
        let begin = self.now - length.min(self.now);
        self.archive.close((begin, length), &mut self.definitions, |location| match location {
            NO_CPU => "no CPU".to_owned(),
            cpu => format!("cpu{cpu}"),
        })?;
        Ok(self.definitions.left_out())
    }

    /// Writes a record as a region without a length.
    fn record(
        &mut self,
        location: u64,
        name: &str,
        attributes: &[(&str, AttributeValue)],
    ) -> Result<(), Error> {
        let region = self.definitions.region(name);
        let attributes =
            attributes.iter().map(|(name, value)| (self.definitions.attribute(name, *value), *value));
        let attributes: Vec<_> = attributes.collect();
        self.archive.enter(location, self.now, region, &attributes)?;
        self.archive.leave(location, self.now, region)
    }

    fn event(&mut self, moment: &Moment<'_>) -> Result<(), Error> {
        let class = &self.classes[moment.event.class];
        let mut attributes = Vec::new();
        let own = [("$pid", moment.pid().map(|pid| pid.0)), ("$tid", moment.tid.map(|tid| tid.0))];
        for (name, id) in own {
            attributes.extend(id.map(|id| (name, AttributeValue::Signed(id.into()))));
        }
        attributes
            .extend(moment.comm().map(|comm| ("$comm", AttributeValue::Text(self.definitions.value(comm)))));
        if moment.domain == Domain::Kernel {
            attributes.push(("$domain", AttributeValue::Text(self.definitions.value("kernel"))));
        }
        for (name, value) in moment.event.fields(class) {
            let value = match value {
                View::Signed(value, _) | View::Label(value, None) => AttributeValue::Signed(value),
                View::Unsigned(value, _) => AttributeValue::Unsigned(value),
                View::Float(value) => AttributeValue::Float(value),
                View::Text(text) | View::Label(_, Some(text)) => {
                    AttributeValue::Text(self.definitions.value(&String::from_utf8_lossy(text)))
                }
                other => {
                    self.text.clear();
                    json_value(other, &mut self.text);
                    AttributeValue::Text(self.definitions.value(&String::from_utf8_lossy(&self.text)))
                }
            };
            attributes.push((name, value));
        }
        let region = self.definitions.region(&class.name);
        let attributes: Vec<_> = attributes
            .into_iter()
            .map(|(name, value)| (self.definitions.attribute(name, value), value))
            .collect();
        let location = location(moment.cpu);
        self.archive.enter(location, self.now, region, &attributes)?;
        self.archive.leave(location, self.now, region)
    }

    /// Ends and begins the regions of threads and interrupts.
    fn kernel(&mut self, kernel: &Kernel<'_>, location: u64, system: &System) -> Result<(), Error> {
        match kernel {
            Kernel::Switch { next, .. } => {
                self.end_regions(location)?;
                if next.tid != Tid(0) {
                    let name = system.comm(next.tid).map_or("?", |name| name);
                    let region = self.definitions.region(&format!("{name}/{}", next.tid.0));
                    self.archive.enter(location, self.now, region, &[])?;
                    self.open.entry(location).or_default().run = Some(region);
                }
            }
            Kernel::Enter(interrupt) => {
                let open = self.open.entry(location).or_default();
                if open.interrupts.len() < DEPTH_MAX {
                    let name = interrupt.label();
                    let region = self.definitions.region(&name);
                    open.interrupts.push((name, region));
                    self.archive.enter(location, self.now, region, &[])?;
                }
            }
            Kernel::Exit(interrupt) => {
                let ended = interrupt.label();
                let open = self.open.entry(location).or_default();
                if let Some(index) = open.interrupts.iter().rposition(|(name, _)| name.starts_with(&ended)) {
                    for (_, region) in open.interrupts.drain(index..).rev() {
                        self.archive.leave(location, self.now, region)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_regions(&mut self, location: u64) -> Result<(), Error> {
        let open = self.open.remove(&location).unwrap_or_default();
        for (_, region) in open.interrupts.into_iter().rev() {
            self.archive.leave(location, self.now, region)?;
        }
        open.run.map_or(Ok(()), |region| self.archive.leave(location, self.now, region))
    }

    /// Writes a loss, and ends the regions in which records are missing.
    fn lose(&mut self, loss: &Loss) -> Result<(), Error> {
        let cause = self.definitions.value(&loss.cause.to_string());
        let mut attributes =
            vec![("cause", AttributeValue::Text(cause)), ("to_ns", AttributeValue::Signed(loss.to.0))];
        attributes.extend(loss.count.map(|count| ("count", AttributeValue::Unsigned(count))));
        attributes.extend(loss.pid.map(|pid| ("$pid", AttributeValue::Signed(pid.0.into()))));
        let place = loss.place.as_deref().map(|place| self.definitions.value(place));
        attributes.extend(place.map(|place| ("place", AttributeValue::Text(place))));
        self.record(location(loss.cpu), "lost records", &attributes)?;
        if loss.pid.is_some() {
            return Ok(());
        }
        let open = self.open.keys().copied();
        let open: Vec<_> = open.filter(|open| loss.cpu.is_none() || *open == location(loss.cpu)).collect();
        open.into_iter().try_for_each(|location| self.end_regions(location))
    }
}

fn location(cpu: Option<Cpu>) -> u64 {
    cpu.map_or(NO_CPU, |cpu| cpu.0.into())
}
