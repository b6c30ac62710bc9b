//! The names of addresses in processes, by the state dump and the files that are still there.

use sordino_event::{Classes, Pid};
use sordino_query::{FileMapping, Mappings, NameAddress};
use sordino_symbols::{MappedFile, SymbolFiles};
use sordino_timeline::Item;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::Arc;

/// The mappings of processes so far in a pass, and the files that were read.
#[derive(Debug)]
pub struct AddressNames(Rc<RefCell<Known>>);

#[derive(Debug)]
struct Known {
    mappings: Mappings,
    files: SymbolFiles,
}

impl AddressNames {
    /// Creates the names for a recording with these classes.
    pub fn new(classes: &Classes) -> Self {
        let known = Known { mappings: Mappings::new(classes), files: SymbolFiles::default() };
        Self(Rc::new(RefCell::new(known)))
    }

    /// Processes the next item of the pass.
    pub fn take(&self, item: &Item<'_>) {
        if let Item::Event(moment) = item {
            self.0.borrow_mut().mappings.take(moment);
        }
    }

    /// Returns a function that returns the name of the symbol at an address, by the items so far.
    pub fn namer(&self) -> NameAddress {
        let known = Rc::clone(&self.0);
        Box::new(move |pid, address| known.borrow_mut().name(pid, address))
    }
}

impl Known {
    fn name(&mut self, pid: Pid, address: u64) -> Option<Arc<str>> {
        let FileMapping { addresses, offset, path, build_id } = self.mappings.before(pid, address)?.clone();
        let (path, build_id) = (OsStr::from_bytes(&path).into(), build_id.into());
        let mapped = MappedFile { addresses, offset, path, build_id };
        self.files.name(&mapped, address).map(Arc::from)
    }
}
