//! The names of addresses in processes, by the state dump and the files that are still there.

use sordino_event::{Classes, Pid};
use sordino_query::{Mappings, ProcessMapping};
use sordino_symbols::{MappedFile, SymbolFiles};
use sordino_timeline::Item;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// The mappings of processes so far, and the files that were read.
#[derive(Debug)]
pub(crate) struct AddressNames {
    mappings: Mappings,
    files: SymbolFiles,
}

impl AddressNames {
    pub(crate) fn new(classes: &Classes) -> Self {
        Self { mappings: Mappings::new(classes), files: SymbolFiles::default() }
    }

    /// Processes the next item of the trace.
    pub(crate) fn take(&mut self, item: &Item<'_>) {
        if let Item::Event(moment) = item {
            self.mappings.take(moment);
        }
    }

    /// Returns the name of the symbol at an address of a process.
    pub(crate) fn name(&mut self, pid: Pid, address: u64) -> Option<Arc<str>> {
        let ProcessMapping { addresses, offset, path, build_id } =
            self.mappings.before(pid, address)?.clone();
        let (path, build_id) = (OsStr::from_bytes(&path).into(), build_id.into());
        let mapped = MappedFile { addresses, offset, path, build_id };
        self.files.name(&mapped, address).map(Arc::from)
    }
}
