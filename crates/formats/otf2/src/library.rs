//! The functions of OTF2's library, version 3, found at run time.

use libc::{RTLD_LOCAL, RTLD_NOW, c_char, c_int, c_void, dlopen, dlsym};
use std::ffi::CStr;

/// The library's names: Debian's, and its own.
const NAMES: [&CStr; 2] = [c"libopen-trace-format2.so.10", c"libotf2.so.10"];

/// The reasons why an archive can't be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// None of the library's names could be loaded.
    #[error("OTF2 needs its library, version 3: install libopen-trace-format2-10 (Debian), or {} from otf2.org", NAMES[1].to_string_lossy())]
    Missing,
    /// The library lacks a function.
    #[error("OTF2's library has no function {name}: install version 3")]
    Function {
        /// The name of the function.
        name: &'static str,
    },
    /// A call of the library failed.
    #[error("OTF2's library: {function}: {reason}")]
    Call {
        /// The name of the function.
        function: &'static str,
        /// The reason that the library has.
        reason: String,
    },
    /// The library could not use its files.
    #[error("OTF2's library: {0}")]
    System(std::io::Error),
    /// The path of the archive has a zero byte.
    #[error("a path with a zero byte")]
    Path,
}

macro_rules! library {
    ($($(#[$doc:meta])* $name:ident: $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The loaded library's functions. It is never unloaded.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Library {
            $($(#[$doc])* pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Library {
            /// Loads the library and finds its functions.
            pub(crate) fn load() -> Result<Self, Error> {
                let handle = open().ok_or(Error::Missing)?;
                Ok(Self { $($name: {
                    const NAME: &CStr = $symbol;
                    // SAFETY: `handle` is that of a loaded library, and the name ends with a zero byte.
                    let found = unsafe { dlsym(handle, NAME.as_ptr()) };
                    if found.is_null() {
                        return Err(Error::Function { name: NAME.to_str().unwrap_or_default() });
                    }
                    type Function = unsafe extern "C" fn($($argument),*) -> $result;
                    // SAFETY: the symbol is the function of this name, whose type version 3 of the library declares so:
                    // its soname has the version of the interface.
                    unsafe { std::mem::transmute::<*mut c_void, Function>(found) }
                },)* })
            }
        }
    };
}

/// Result of a call: 0 is success.
pub(crate) type ErrorCode = c_int;
/// A pointer that only the library reads.
pub(crate) type Handle = *mut c_void;
/// The type of the library's error handlers. The last argument is a `va_list`, which is a pointer in calls.
pub(crate) type OnError =
    extern "C" fn(Handle, *const c_char, u64, *const c_char, ErrorCode, *const c_char, Handle) -> ErrorCode;

/// The functions that the library calls when a buffer is full.
#[repr(C)]
pub(crate) struct FlushCallbacks {
    pub(crate) before: extern "C" fn(Handle, u8, u64, Handle, bool) -> u8,
    pub(crate) after: Option<extern "C" fn(Handle, u8, u64) -> u64>,
}

library! {
    on_error: c"OTF2_Error_RegisterCallback" (OnError, Handle) -> Handle;
    describe: c"OTF2_Error_GetDescription" (ErrorCode) -> *const c_char;
    open: c"OTF2_Archive_Open" (*const c_char, *const c_char, u8, u64, u64, u8, u8) -> Handle;
    close: c"OTF2_Archive_Close" (Handle) -> ErrorCode;
    set_flush: c"OTF2_Archive_SetFlushCallbacks" (Handle, *const FlushCallbacks, Handle) -> ErrorCode;
    set_serial: c"OTF2_Archive_SetSerialCollectiveCallbacks" (Handle) -> ErrorCode;
    open_events: c"OTF2_Archive_OpenEvtFiles" (Handle) -> ErrorCode;
    close_events: c"OTF2_Archive_CloseEvtFiles" (Handle) -> ErrorCode;
    open_definitions: c"OTF2_Archive_OpenDefFiles" (Handle) -> ErrorCode;
    close_definitions: c"OTF2_Archive_CloseDefFiles" (Handle) -> ErrorCode;
    event_writer: c"OTF2_Archive_GetEvtWriter" (Handle, u64) -> Handle;
    close_event_writer: c"OTF2_Archive_CloseEvtWriter" (Handle, Handle) -> ErrorCode;
    definition_writer: c"OTF2_Archive_GetDefWriter" (Handle, u64) -> Handle;
    close_definition_writer: c"OTF2_Archive_CloseDefWriter" (Handle, Handle) -> ErrorCode;
    global_writer: c"OTF2_Archive_GetGlobalDefWriter" (Handle) -> Handle;
    clock: c"OTF2_GlobalDefWriter_WriteClockProperties" (Handle, u64, u64, u64, u64) -> ErrorCode;
    string: c"OTF2_GlobalDefWriter_WriteString" (Handle, u32, *const c_char) -> ErrorCode;
    attribute: c"OTF2_GlobalDefWriter_WriteAttribute" (Handle, u32, u32, u32, u8) -> ErrorCode;
    node: c"OTF2_GlobalDefWriter_WriteSystemTreeNode" (Handle, u32, u32, u32, u32) -> ErrorCode;
    group: c"OTF2_GlobalDefWriter_WriteLocationGroup" (Handle, u32, u32, u8, u32, u32) -> ErrorCode;
    location: c"OTF2_GlobalDefWriter_WriteLocation" (Handle, u64, u32, u8, u64, u32) -> ErrorCode;
    region: c"OTF2_GlobalDefWriter_WriteRegion" (Handle, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> ErrorCode;
    enter: c"OTF2_EvtWriter_Enter" (Handle, Handle, u64, u32) -> ErrorCode;
    leave: c"OTF2_EvtWriter_Leave" (Handle, Handle, u64, u32) -> ErrorCode;
    count: c"OTF2_EvtWriter_GetNumberOfEvents" (Handle, *mut u64) -> ErrorCode;
    new_attributes: c"OTF2_AttributeList_New" () -> Handle;
    clear_attributes: c"OTF2_AttributeList_RemoveAllAttributes" (Handle) -> ErrorCode;
    add_signed: c"OTF2_AttributeList_AddInt64" (Handle, u32, i64) -> ErrorCode;
    add_unsigned: c"OTF2_AttributeList_AddUint64" (Handle, u32, u64) -> ErrorCode;
    add_float: c"OTF2_AttributeList_AddDouble" (Handle, u32, f64) -> ErrorCode;
    add_text: c"OTF2_AttributeList_AddStringRef" (Handle, u32, u32) -> ErrorCode;
}

fn open() -> Option<Handle> {
    NAMES.iter().find_map(|name| {
        // SAFETY: the name ends with a zero byte. The library's initializers are those of a plain C library.
        let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW | RTLD_LOCAL) };
        (!handle.is_null()).then_some(handle)
    })
}
