//! The files that processes have mapped, as the state dump lists them.

use foldhash::HashMap;
use sordino_event::{ClassId, Classes, Pid, View};
use sordino_timeline::{Kernel, Moment};
use std::collections::BTreeMap;
use std::ops::Range;

/// The event of the state dump for a mapping, and its fields.
const EVENT: &str = "sordino_statedump_mapping";
const FIELDS: [&str; 6] = ["pid", "start", "end", "offset", "path", "build_id"];

/// The maximum number of mappings that are kept.
const MAPPINGS_MAX: usize = 1 << 18;

/// An executable part of a file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMapping {
    /// The addresses of the part in the process.
    pub addresses: Range<u64>,
    /// The offset of the part in the file, in bytes.
    pub offset: u64,
    /// The file's path, as the process saw it.
    pub path: Box<[u8]>,
    /// The file's build id in hexadecimal; empty if it has none or is not known.
    pub build_id: Box<str>,
}

/// The mappings of all processes so far.
#[derive(Debug)]
pub struct Mappings {
    /// The indexes of the fields; indexed by class.
    fields: Vec<Option<[usize; 6]>>,
    /// Each process's mappings by their first addresses.
    processes: HashMap<Pid, BTreeMap<u64, FileMapping>>,
    count: usize,
}

impl Mappings {
    /// Creates the empty set for a trace with these classes.
    pub fn new(classes: &Classes) -> Self {
        let fields = classes.iter().map(|(_, class)| {
            let indexes: Option<Vec<usize>> = FIELDS.iter().map(|name| class.field(name)).collect();
            indexes.filter(|_| class.name == EVENT)?.try_into().ok()
        });
        Self { fields: fields.collect(), processes: HashMap::default(), count: 0 }
    }

    /// Returns true if this class's events describe mappings.
    pub fn reads(&self, class: ClassId) -> bool {
        self.fields.get(class.index()).is_some_and(Option::is_some)
    }

    /// Processes the next event of the trace.
    pub fn take(&mut self, moment: &Moment<'_>) {
        match moment.kernel {
            Some(Kernel::Gone { tid } | Kernel::Exec { tid, .. }) => {
                let gone = self.processes.remove(&Pid(tid.0));
                self.count -= gone.map_or(0, |mappings| mappings.len());
            }
            _ => self.add(moment),
        }
    }

    fn add(&mut self, moment: &Moment<'_>) {
        let Some((pid, mapping)) = self.mapping(moment.event.class, moment) else { return };
        if self.count < MAPPINGS_MAX {
            let start = mapping.addresses.start;
            let before = self.processes.entry(pid).or_default().insert(start, mapping);
            self.count += usize::from(before.is_none());
        }
    }

    fn mapping(&self, class: ClassId, moment: &Moment<'_>) -> Option<(Pid, FileMapping)> {
        let fields = (*self.fields.get(class.index())?)?;
        let number = |field: usize| match moment.event.value(fields[field])? {
            View::Unsigned(value, _) => Some(value),
            View::Signed(value, _) => u64::try_from(value).ok(),
            _ => None,
        };
        let text = |field: usize| match moment.event.value(fields[field])? {
            View::Text(text) => Some(text),
            _ => None,
        };
        let pid = Pid(i32::try_from(number(0)?).ok()?);
        let build_id = String::from_utf8_lossy(text(5)?).into();
        let addresses = number(1)?..number(2)?;
        Some((pid, FileMapping { addresses, offset: number(3)?, path: text(4)?.into(), build_id }))
    }

    /// Returns the last mapping of a process that begins before an address: a file's variables lie behind its code,
    /// which is the mapped part.
    pub fn before(&self, pid: Pid, address: u64) -> Option<&FileMapping> {
        self.processes.get(&pid)?.range(..=address).next_back().map(|(_, mapping)| mapping)
    }
}
