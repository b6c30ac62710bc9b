//! The names of addresses in processes, from the mappings in the state dump or in the processes' traces, and from the
//! mapped files that still exist.

use crate::OpenRecording;
use sordino_ctf::Environment;
use sordino_event::{ClassId, Classes, Pid};
use sordino_filter::condition::FunctionNames;
use sordino_query::{FileMapping, Mappings, NameAddress};
use sordino_symbols::{MappedFile, SymbolFiles, demangled, named_function};
use sordino_timeline::Item;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of names that are kept.
const NAMES_MAX: usize = 1 << 16;

/// The symbols of files, read once for the recordings that share them.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    files: Arc<Mutex<SymbolFiles>>,
    /// The functions without a name that conditions were applied to.
    unnamed: Arc<Mutex<HashSet<(Pid, u64)>>>,
}

/// Locks the mutex, also after a panic of another thread: each change of the symbols is complete.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Symbols {
    /// Returns the name of the symbol at an address of a process with this mapping, as its source has it.
    fn name(&self, mapping: &FileMapping, address: u64) -> Option<Arc<str>> {
        let FileMapping { addresses, offset, path, build_id } = mapping.clone();
        let (path, build_id) = (OsStr::from_bytes(&path).into(), build_id.into());
        let mapped = MappedFile { addresses, offset, path, build_id };
        let mut files = locked(&self.files);
        let name = demangled(files.name(&mapped, address)?);
        Some(named_function(&name).unwrap_or(&name).into())
    }
}

/// The names of addresses that were looked up; `None` for those without one.
type NamesByAddress = HashMap<(Pid, u64), Option<Arc<str>>>;

/// The names of addresses in the programs that recorded functions, by the files that their traces list.
#[derive(Debug, Default)]
pub(crate) struct TraceNames {
    /// The files that programs had mapped, of each trace.
    traces: HashMap<Pid, Vec<Vec<FileMapping>>>,
    symbols: Symbols,
    names: Mutex<NamesByAddress>,
}

impl TraceNames {
    pub(crate) fn new(traces: HashMap<Pid, Vec<Vec<FileMapping>>>, symbols: Symbols) -> Self {
        Self { traces, symbols, names: Mutex::default() }
    }

    /// Returns true if a trace lists the files of the process.
    fn have(&self, pid: Pid) -> bool {
        self.traces.contains_key(&pid)
    }

    /// Returns the name from the trace of the process. Several processes may have had the number, and a process may
    /// have executed several programs or loaded libraries one after the other. Nothing shows which of them an address
    /// belongs to, so there is a name only if all give the same.
    fn find(&self, pid: Pid, address: u64) -> Option<Arc<str>> {
        let mut found: Option<Option<Arc<str>>> = None;
        for files in self.traces.get(&pid)? {
            for mapping in mappings_of(files, address) {
                let name = self.symbols.name(mapping, address);
                if found.as_ref().is_some_and(|found| *found != name) {
                    return None;
                }
                found = Some(name);
            }
        }
        found.flatten()
    }

    /// Returns the name of the symbol at an address of a process.
    fn symbol(&self, pid: Pid, address: u64) -> Option<Arc<str>> {
        let mut names = locked(&self.names);
        if let Some(name) = names.get(&(pid, address)) {
            return name.clone();
        }
        let name = self.find(pid, address);
        if names.len() < NAMES_MAX {
            names.insert((pid, address), name.clone());
        }
        name
    }
}

/// Returns the mapped parts of files to which an address may belong: those that contain it, or else the last one
/// before. Of the parts of a file, variables lie behind the code.
fn mappings_of(files: &[FileMapping], address: u64) -> Vec<&FileMapping> {
    let containing: Vec<_> = files.iter().filter(|file| file.addresses.contains(&address)).collect();
    if !containing.is_empty() {
        return containing;
    }
    let before = files.iter().filter(|file| file.addresses.start <= address);
    before.max_by_key(|file| file.addresses.start).into_iter().collect()
}

impl FunctionNames for TraceNames {
    fn name(&self, pid: Pid, address: u64) -> Option<Arc<str>> {
        let name = self.symbol(pid, address);
        let mut unnamed = locked(&self.symbols.unnamed);
        if name.is_none() && unnamed.len() < NAMES_MAX {
            unnamed.insert((pid, address));
        }
        name
    }

    fn unnamed(&self) -> usize {
        locked(&self.symbols.unnamed).len()
    }
}

/// The mappings of processes at a moment of a pass, and the files that were read.
#[derive(Debug)]
pub struct AddressNames {
    of_traces: Arc<TraceNames>,
    mappings: Rc<RefCell<Mappings>>,
}

impl AddressNames {
    /// Creates the names for a pass over a recording. Addresses have no names if it has several hosts: processes of two
    /// hosts may have one id.
    pub fn new(recording: &OpenRecording) -> Self {
        let of_traces = Arc::clone(recording.function_names());
        let none = Classes::default();
        let is_one_host = recording.host_count() == 1;
        let mappings = Mappings::new(if is_one_host { &recording.classes } else { &none });
        Self { of_traces, mappings: Rc::new(RefCell::new(mappings)) }
    }

    /// Returns true if names depend on the fields of this class's events.
    pub fn reads(&self, class: ClassId) -> bool {
        self.mappings.borrow().reads(class)
    }

    /// Processes the next item of the pass.
    pub fn take(&self, item: &Item<'_>) {
        if let Item::Event(moment) = item {
            self.mappings.borrow_mut().take(moment);
        }
    }

    /// Returns a function that returns the name of the symbol at an address, by the items so far.
    pub fn namer(&self) -> NameAddress {
        let (of_traces, mappings) = (Arc::clone(&self.of_traces), Rc::clone(&self.mappings));
        Box::new(move |pid, address| match of_traces.have(pid) {
            true => of_traces.symbol(pid, address),
            false => of_traces.symbols.name(mappings.borrow().before(pid, address)?, address),
        })
    }
}

/// Returns the mapped files in the environment of a program's trace, as far as the entries are valid.
pub(crate) fn mapped_files(environment: &Environment) -> Vec<FileMapping> {
    let entry = |number| environment.text(&format!("mapped_file_{number}"));
    (0..).map_while(entry).filter_map(mapped_file).collect()
}

/// Parses `55e4a000-55e4b000 1000 1f2e3d /usr/bin/motor`, with `-` for no build id.
fn mapped_file(text: &str) -> Option<FileMapping> {
    let mut words = text.splitn(4, ' ');
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = words.next()?.split_once('-')?;
    let addresses = hexadecimal(start)?..hexadecimal(end)?;
    let offset = hexadecimal(words.next()?)?;
    let build_id = words.next()?.trim_start_matches('-').into();
    Some(FileMapping { addresses, offset, path: words.next()?.as_bytes().into(), build_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn entries_that_make_no_sense_are_left_out() {
        let mut environment = Environment::default();
        environment
            .set("mapped_file_0", "1000-2000 30 ab12 /a path")
            .set("mapped_file_1", "1000 30 ab12 /a")
            .set("mapped_file_2", "x-2000 30 ab12 /a")
            .set("mapped_file_3", "5000-6000 0 - /b")
            .set("mapped_file_5", "7000-8000 0 - /c");
        let files = mapped_files(&environment);
        let texts = |file: &FileMapping| {
            (
                file.addresses.clone(),
                file.offset,
                String::from_utf8_lossy(&file.path).into_owned(),
                file.build_id.to_string(),
            )
        };
        let expected = [
            (0x1000..0x2000, 0x30, "/a path".to_owned(), "ab12".to_owned()),
            (0x5000..0x6000, 0, "/b".to_owned(), String::new()),
        ];
        assert_eq!(files.iter().map(texts).collect::<Vec<_>>(), expected);
    }

    /// Returns the mapping of this program's code.
    fn own_code() -> FileMapping {
        let path = std::env::current_exe().unwrap();
        let notes = Command::new("readelf").arg("-n").arg(&path).output().unwrap();
        let notes = String::from_utf8(notes.stdout).unwrap();
        let build_id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = path.to_str().unwrap();
        let line = maps.lines().find(|line| line.contains(" r-xp ") && line.ends_with(path)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        mapped_file(&format!("{} {} {build_id} {path}", words[0], words[2])).unwrap()
    }

    /// A process may have executed several programs, or another one had its number.
    #[test]
    fn an_address_has_a_name_only_if_all_traces_of_the_process_agree() {
        let here = an_address_has_a_name_only_if_all_traces_of_the_process_agree as fn() as usize as u64;
        let own = vec![own_code()];
        let other = FileMapping {
            addresses: 0..u64::MAX,
            offset: 0,
            path: b"/none"[..].into(),
            build_id: "ab".into(),
        };
        let name = |traces: Vec<Vec<FileMapping>>| {
            TraceNames::new(HashMap::from([(Pid(7), traces)]), Symbols::default()).name(Pid(7), here)
        };
        let found = name(vec![own.clone(), own.clone()]).unwrap();
        assert!(found.ends_with("an_address_has_a_name_only_if_all_traces_of_the_process_agree"), "{found}");
        let other = vec![other];
        assert_eq!(name(vec![own.clone(), other.clone()]), None);
        // Two libraries that were at the same addresses, one after the other.
        assert_eq!(name(vec![[own.clone(), other.clone()].concat()]), None);
        assert_eq!(name(vec![other, own]), None);
    }
}
