//! trace-cmd's format `trace.dat`, version 7: the kernel's events, for `trace-cmd report` and KernelShark.
//!
//! The file has a head and, page by page as the kernel's own buffers, the events of each CPU. The head has the offsets
//! of the CPUs' pages, so it is written last; the parts are written to separate files and joined in the order of their
//! names.
//!
//! Events have the kernel's names and, as far as these differ from LTTng's, the kernel's names of fields and its
//! numbering of priorities. Their formats are derived from the recorded values.
//!
//! | module | content |
//! |---|---|
//! | `head` | the sections in front of the events |
//! | `formats` | formats of events, and their encoding |
//! | `page` | pages of the ring buffer |

mod formats;
mod head;
mod page;

use crate::{DirectoryExporter, Files, Origin};
use formats::EventFormats;
use page::CpuPages;
use sordino_event::{Classes, Cpu, Domain, Tid};
use sordino_timeline::Item;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum number of threads with kept names.
const NAMES_MAX: usize = 1 << 16;
/// Maximum number of CPUs that the kernel supports.
const CPUS_MAX: u32 = 8192;

/// A writer of `trace.dat`.
#[derive(Debug)]
pub struct TraceDat {
    formats: EventFormats,
    cpus: BTreeMap<u32, CpuPages>,
    names: HashMap<Tid, Arc<str>>,
    record: Vec<u8>,
}

impl TraceDat {
    /// Creates a writer of events of `classes`.
    pub fn new(classes: &Classes, origin: &Origin) -> Self {
        let formats = EventFormats::new(classes, origin.priorities);
        Self { formats, cpus: BTreeMap::new(), names: HashMap::new(), record: Vec::new() }
    }

    fn pages(&mut self, cpu: Option<Cpu>) -> Option<(u32, &mut CpuPages)> {
        let cpu = cpu.map_or(0, |cpu| cpu.0);
        (cpu < CPUS_MAX).then(|| (cpu, self.cpus.entry(cpu).or_default()))
    }
}

/// Returns the name of the part with the pages of a CPU; it sorts after the head's name.
fn part(cpu: u32) -> String {
    format!("cpu{cpu:05}")
}

impl DirectoryExporter for TraceDat {
    fn can_take(&self, item: &Item<'_>) -> bool {
        match item {
            Item::Event(moment) => {
                moment.domain == Domain::Kernel
                    && moment.cpu.is_none_or(|cpu| cpu.0 < CPUS_MAX)
                    && self.formats.has_room(moment.event)
            }
            Item::Loss(loss, _) => loss.pid.is_none(),
            Item::Disorder(_) => true,
        }
    }

    fn take(&mut self, item: &Item<'_>, out: &mut Files) {
        match item {
            Item::Event(moment) => {
                let tid = moment.tid.unwrap_or(Tid(0));
                if let Some(name) = moment.comm()
                    && (self.names.len() < NAMES_MAX || self.names.contains_key(&tid))
                {
                    self.names.insert(tid, Arc::clone(name));
                }
                let mut record = std::mem::take(&mut self.record);
                self.formats.encode(moment, tid, &mut record);
                if let Some((cpu, pages)) = self.pages(moment.cpu)
                    && let Some(page) = pages.append(moment.event.time, &record)
                {
                    out.append(&part(cpu), &page);
                }
                self.record = record;
            }
            Item::Loss(loss, _) if loss.pid.is_none() => match loss.cpu {
                Some(_) => {
                    if let Some((cpu, pages)) = self.pages(loss.cpu)
                        && let Some(page) = pages.lose(loss.count)
                    {
                        out.append(&part(cpu), &page);
                    }
                }
                None => {
                    for (cpu, pages) in &mut self.cpus {
                        pages.lose(None).into_iter().for_each(|page| out.append(&part(*cpu), &page));
                    }
                }
            },
            Item::Loss(..) | Item::Disorder(_) => {}
        }
    }

    fn end(&mut self, out: &mut Files) {
        for (cpu, pages) in &mut self.cpus {
            pages.close().into_iter().for_each(|page| out.append(&part(*cpu), &page));
        }
        let sizes = self.cpus.iter().map(|(cpu, pages)| (*cpu, pages.bytes())).collect::<Vec<_>>();
        out.append("00head", &head::head(&self.formats, &self.names, &sizes));
    }
}
