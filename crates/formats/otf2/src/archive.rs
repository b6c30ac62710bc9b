//! An archive that is being written.

use crate::definitions::{AttributeValue, Definitions};
use crate::library::{Error, ErrorCode, FlushCallbacks, Handle, Library};
use libc::c_char;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering};

/// The name of the archive's files.
const NAME: &CStr = c"traces";
/// Bytes of the library's buffers for events of a location, and for definitions.
const EVENTS: u64 = 1 << 20;
const DEFINITIONS: u64 = 1 << 22;
/// Values of the library's enumerations.
const WRITE: u8 = 0;
const POSIX: u8 = 1;
const NO_COMPRESSION: u8 = 1;
const PROCESS: u8 = 1;
const CPU_THREAD: u8 = 1;
const FUNCTION: u8 = 1;
const USER: u8 = 1;
const FLUSH: u8 = 1;
/// The library's codes that stand for a value of `errno`: `OTF2_ERROR_E2BIG` to `OTF2_ERROR_EXDEV`.
const SYSTEM_ERRORS: RangeInclusive<ErrorCode> = 2..=75;
/// The library's number for an undefined reference.
const NONE: u32 = u32::MAX;
const NANOS: u64 = 1_000_000_000;

/// An archive whose event files are open.
#[derive(Debug)]
pub(crate) struct Archive {
    library: Library,
    /// The archive and its list of attributes. The library frees them with the process if writing fails.
    handle: Handle,
    attributes: Handle,
    /// The writers of the locations.
    writers: BTreeMap<u64, Handle>,
}

extern "C" fn flush(_: Handle, _: u8, _: u64, _: Handle, _: bool) -> u8 {
    FLUSH
}

/// The first error that the library reported, with the system's error. The results of calls do not include all errors.
static ERROR: AtomicI32 = AtomicI32::new(0);
static SYSTEM_ERROR: AtomicI32 = AtomicI32::new(0);

/// Keeps the error. Without this handler, the library would print it.
extern "C" fn keep_error(
    _: Handle,
    _: *const c_char,
    _: u64,
    _: *const c_char,
    code: ErrorCode,
    _: *const c_char,
    _: Handle,
) -> ErrorCode {
    // ORDER: one thread writes an archive and reads these.
    if ERROR.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        SYSTEM_ERROR.store(system_error(code, &io::Error::last_os_error()), Ordering::Relaxed);
    }
    code
}

/// Returns the number of the system's error, or 0 if the library's code stands for none: `errno` then is an older one.
fn system_error(code: ErrorCode, last: &io::Error) -> i32 {
    last.raw_os_error().filter(|_| SYSTEM_ERRORS.contains(&code)).unwrap_or(0)
}

static CALLBACKS: FlushCallbacks = FlushCallbacks { before: flush, after: None };

impl Archive {
    /// Creates an archive in the directory at `path`, and opens its event files.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let library = Library::load()?;
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::Path)?;
        // SAFETY: the handler has the type that the library expects, and lives as long as the process.
        unsafe { (library.on_error)(keep_error, null_mut()) };
        let (name, path) = (NAME.as_ptr(), path.as_ptr());
        // SAFETY: both texts end with a zero byte, and live until the call returns.
        let handle = unsafe { (library.open)(path, name, WRITE, EVENTS, DEFINITIONS, POSIX, NO_COMPRESSION) };
        if handle.is_null() {
            return Err(failed("OTF2_Archive_Open", "it can't create the archive"));
        }
        // SAFETY: the function has no arguments.
        let attributes = unsafe { (library.new_attributes)() };
        let archive = Self { library, handle, attributes, writers: BTreeMap::new() };
        // SAFETY: the archive is open, and the table is static.
        let code = unsafe { (library.set_flush)(handle, &raw const CALLBACKS, null_mut()) };
        archive.check("OTF2_Archive_SetFlushCallbacks", code)?;
        // SAFETY: the archive is open.
        let code = unsafe { (library.set_serial)(handle) };
        archive.check("OTF2_Archive_SetSerialCollectiveCallbacks", code)?;
        // SAFETY: the archive is open.
        archive.check("OTF2_Archive_OpenEvtFiles", unsafe { (library.open_events)(handle) })?;
        Ok(archive)
    }

    fn check(&self, function: &'static str, code: ErrorCode) -> Result<(), Error> {
        let (first, system) = (ERROR.load(Ordering::Relaxed), SYSTEM_ERROR.load(Ordering::Relaxed));
        let code = if first == 0 { code } else { first };
        if code == 0 {
            return Ok(());
        }
        if system != 0 {
            return Err(Error::System(io::Error::from_raw_os_error(system)));
        }
        // SAFETY: the library has a static text for each code, and one for others.
        let text = unsafe { (self.library.describe)(code) };
        if text.is_null() {
            return Err(failed(function, "it failed"));
        }
        // SAFETY: the text is not null (checked above), and ends with a zero byte.
        Err(failed(function, &unsafe { CStr::from_ptr(text) }.to_string_lossy()))
    }

    fn writer(&mut self, location: u64) -> Result<Handle, Error> {
        if let Some(writer) = self.writers.get(&location) {
            return Ok(*writer);
        }
        // SAFETY: the archive is open, and so are its event files.
        let writer = unsafe { (self.library.event_writer)(self.handle, location) };
        if writer.is_null() {
            return Err(failed("OTF2_Archive_GetEvtWriter", "it can't create the location's file"));
        }
        self.writers.insert(location, writer);
        Ok(writer)
    }

    /// Writes the begin of a region. If several attributes have the same number, the first one counts: the library
    /// rejects duplicates.
    pub(crate) fn enter(
        &mut self,
        location: u64,
        time: u64,
        region: u32,
        attributes: &[(u32, AttributeValue)],
    ) -> Result<(), Error> {
        let (writer, library, list) = (self.writer(location)?, self.library, self.attributes);
        for (number, value) in distinct(attributes) {
            let code = match *value {
                // SAFETY: the list is one of this library, and lives as long as the process.
                AttributeValue::Signed(value) => unsafe { (library.add_signed)(list, *number, value) },
                // SAFETY: the list is one of this library, and lives as long as the process.
                AttributeValue::Unsigned(value) => unsafe { (library.add_unsigned)(list, *number, value) },
                // SAFETY: the list is one of this library, and lives as long as the process.
                AttributeValue::Float(value) => unsafe { (library.add_float)(list, *number, value) },
                // SAFETY: the list is one of this library, and lives as long as the process.
                AttributeValue::Text(value) => unsafe { (library.add_text)(list, *number, value) },
            };
            self.check("OTF2_AttributeList_Add", code)?;
        }
        // SAFETY: the writer belongs to the open archive, and the list to this library.
        let code = unsafe { (library.enter)(writer, list, time, region) };
        // SAFETY: the list is one of this library.
        let cleared = unsafe { (library.clear_attributes)(list) };
        self.check("OTF2_EvtWriter_Enter", code)?;
        self.check("OTF2_AttributeList_RemoveAllAttributes", cleared)
    }

    /// Writes the end of a region.
    pub(crate) fn leave(&mut self, location: u64, time: u64, region: u32) -> Result<(), Error> {
        let writer = self.writer(location)?;
        // SAFETY: the writer belongs to the open archive; a list of attributes may be missing.
        let code = unsafe { (self.library.leave)(writer, null_mut(), time, region) };
        self.check("OTF2_EvtWriter_Leave", code)
    }

    /// Writes the definitions and closes the archive. `span` is its begin and its length; `name` returns that of a
    /// location.
    pub(crate) fn close(
        &mut self,
        (begin, length): (u64, u64),
        definitions: &mut Definitions,
        name: impl Fn(u64) -> String,
    ) -> Result<(), Error> {
        let (library, archive) = (self.library, self.handle);
        let mut locations = Vec::new();
        for (location, writer) in std::mem::take(&mut self.writers) {
            let mut count = 0;
            // SAFETY: the writer belongs to the open archive, and the number's place is this function's own.
            let counted = unsafe { (library.count)(writer, &raw mut count) };
            self.check("OTF2_EvtWriter_GetNumberOfEvents", counted)?;
            // SAFETY: the writer belongs to the open archive, and nothing uses it afterwards.
            let closed = unsafe { (library.close_event_writer)(archive, writer) };
            self.check("OTF2_Archive_CloseEvtWriter", closed)?;
            locations.push((location, definitions.string(&name(location)), count));
        }
        let [machine, node, cpus, nothing] =
            ["machine", "node", "CPUs", ""].map(|text| definitions.string(text));
        // SAFETY: the archive is open, and its event writers are closed.
        self.check("OTF2_Archive_CloseEvtFiles", unsafe { (library.close_events)(archive) })?;
        self.close_locations(&locations)?;
        // SAFETY: the archive is open.
        let writer = unsafe { (library.global_writer)(archive) };
        if writer.is_null() {
            return Err(failed("OTF2_Archive_GetGlobalDefWriter", "it can't create the definitions"));
        }
        // SAFETY: the writer belongs to the open archive.
        self.check("clock", unsafe { (library.clock)(writer, NANOS, begin, length, begin) })?;
        for (number, text) in definitions.strings() {
            let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
            // SAFETY: the writer belongs to the open archive; the text ends with a zero byte and is copied.
            self.check("string", unsafe { (library.string)(writer, number, text.as_ptr()) })?;
        }
        for (number, name, kind) in definitions.attributes() {
            // SAFETY: the writer belongs to the open archive.
            self.check("attribute", unsafe { (library.attribute)(writer, number, name, nothing, kind) })?;
        }
        for (number, name) in definitions.regions() {
            // SAFETY: the writer belongs to the open archive.
            let code = unsafe {
                (library.region)(writer, number, name, name, nothing, FUNCTION, USER, 0, nothing, 0, 0)
            };
            self.check("region", code)?;
        }
        // SAFETY: the writer belongs to the open archive.
        self.check("node", unsafe { (library.node)(writer, 0, machine, node, NONE) })?;
        // SAFETY: the writer belongs to the open archive.
        self.check("group", unsafe { (library.group)(writer, 0, cpus, PROCESS, 0, NONE) })?;
        for (location, name, count) in locations {
            // SAFETY: the writer belongs to the open archive.
            let code = unsafe { (library.location)(writer, location, name, CPU_THREAD, count, 0) };
            self.check("location", code)?;
        }
        // SAFETY: the archive is open, and nothing uses it afterwards.
        self.check("OTF2_Archive_Close", unsafe { (library.close)(archive) })
    }

    /// Writes the locations' own definitions, of which there are none.
    fn close_locations(&self, locations: &[(u64, u32, u64)]) -> Result<(), Error> {
        let (library, archive) = (self.library, self.handle);
        // SAFETY: the archive is open.
        self.check("OTF2_Archive_OpenDefFiles", unsafe { (library.open_definitions)(archive) })?;
        for (location, ..) in locations {
            // SAFETY: the archive is open, and so are its definition files.
            let writer = unsafe { (library.definition_writer)(archive, *location) };
            if writer.is_null() {
                return Err(failed("OTF2_Archive_GetDefWriter", "it can't create the location's file"));
            }
            // SAFETY: the writer belongs to the open archive, and nothing uses it afterwards.
            let closed = unsafe { (library.close_definition_writer)(archive, writer) };
            self.check("OTF2_Archive_CloseDefWriter", closed)?;
        }
        // SAFETY: the archive is open.
        self.check("OTF2_Archive_CloseDefFiles", unsafe { (library.close_definitions)(archive) })
    }
}

/// Returns the attributes without those whose number an earlier one has.
fn distinct(attributes: &[(u32, AttributeValue)]) -> impl Iterator<Item = &(u32, AttributeValue)> {
    let is_first = |(index, (number, _)): &(usize, &(u32, AttributeValue))| {
        attributes[..*index].iter().all(|(earlier, _)| earlier != number)
    };
    attributes.iter().enumerate().filter(is_first).map(|(_, attribute)| attribute)
}

fn failed(function: &'static str, reason: &str) -> Error {
    Error::Call { function, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_error_of_the_system_is_not_that_of_the_library() {
        let last = io::Error::from_raw_os_error(libc::ENOSPC);
        // OTF2_ERROR_E2BIG, OTF2_ERROR_ENOSPC, OTF2_ERROR_EXDEV
        for code in [2, 48, 75] {
            assert_eq!(system_error(code, &last), libc::ENOSPC);
        }
        // OTF2_WARNING, OTF2_ERROR_INVALID, OTF2_ERROR_END_OF_FUNCTION, OTF2_ERROR_INVALID_ARGUMENT
        for code in [-1, 1, 76, 78] {
            assert_eq!(system_error(code, &last), 0);
        }
    }

    #[test]
    fn an_event_has_each_attribute_once() {
        let attributes = [(3, 1), (4, 2), (3, 3), (4, 4), (5, 5)];
        let attributes = attributes.map(|(number, value)| (number, AttributeValue::Unsigned(value)));
        let kept: Vec<_> = distinct(&attributes)
            .map(|(number, value)| (*number, matches!(value, AttributeValue::Unsigned(1 | 2 | 5))))
            .collect();
        assert_eq!(kept, [(3, true), (4, true), (5, true)]);
    }
}
