//! The C interface of `sordino`: the functions and data that `include/sordino/tracepoint.h` declares.
//!
//! C and C++ programs declare tracepoints with that header's macros and link `libsordino`. The header passes short
//! payloads in registers and stages others in the caller; everything else is the same code as for Rust programs.
//!
//! The header also compiles parts of the shared memory's layout into programs, so each name that the library exports
//! ends with the layout's version.

use sordino::internal::{self, EnableMask, Staged, Words};
use sordino::{Container, Description, FieldDescription, Level, Tracepoint};
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// The name that the header's `SORDINO_NAMED` gives a symbol.
macro_rules! of_layout {
    ($name:literal) => {
        concat!($name, "_layout_", env!("SORDINO_LAYOUT_VERSION"))
    };
}

const _: () = assert!(
    matches!(u32::from_str_radix(env!("SORDINO_LAYOUT_VERSION"), 10), Ok(internal::LAYOUT_VERSION)),
    "SORDINO_LAYOUT_VERSION in tracepoint.h is not the version in crates/recording/ring/src/layout.rs"
);

/// Registers a tracepoint; called by a constructor of the header.
///
/// # Safety
/// `point` was made by the header's macros.
#[unsafe(export_name = of_layout!("sordino_register"))]
pub unsafe extern "C" fn sordino_register(point: &'static Tracepoint) {
    // SAFETY: the caller guarantees that `point` was made by the header's macros, so its description is complete.
    unsafe { internal::register(point) }
}

/// Registers the program with recorders, when all tracepoints of a module are registered.
#[unsafe(export_name = of_layout!("sordino_ready"))]
pub extern "C" fn sordino_ready() {
    internal::ready();
}

/// Writes the record of a tracepoint that a session enabled.
///
/// Real-time: see the documentation of the crate `sordino`.
///
/// # Safety
/// `payload` is laid out as the tracepoint's fields are declared, and readable for the number of copied bytes in
/// `encoded_length`, which the header's `SORDINO_ENCODED_LENGTH` made. `enabled` is the value of the tracepoint's
/// enable word.
#[unsafe(export_name = of_layout!("sordino_emit"))]
pub unsafe extern "C-unwind" fn sordino_emit(
    point: &Tracepoint,
    enabled: u64,
    payload: *const u8,
    encoded_length: u64,
) {
    // SAFETY: the caller guarantees a payload laid out as the fields, readable for as many bytes as `encoded_length`
    // copies, and the enable word's value.
    unsafe {
        internal::emit(
            point,
            EnableMask(enabled),
            Staged { from: payload, encoded_length: internal::EncodedLength(encoded_length) },
        )
    }
}

/// Writes the record of a payload of 16 bytes, if no inline filter rejects it.
///
/// # Safety
/// The tracepoint's payload has that length, and `enabled` is the value of its enable word. If that has an inline
/// filter, `first` and `second` are the values of the tracepoint's two fields.
#[unsafe(export_name = of_layout!("sordino_emit_pair"))]
pub unsafe extern "C-unwind" fn sordino_emit_pair(point: &Tracepoint, enabled: u64, first: u64, second: u64) {
    // SAFETY: the caller guarantees that `enabled` is the value of the enable word.
    if unsafe { is_rejected(point, EnableMask(enabled), [first, second]) } {
        return;
    }
    // SAFETY: the caller guarantees a payload of 16 bytes, which two words are, and the enable word's value.
    unsafe { internal::emit(point, EnableMask(enabled), Words(first, second)) }
}

/// Writes the record of up to three scalars, if no inline filter rejects it. Words without a scalar are 0, and lie
/// behind the payload.
///
/// # Safety
/// The tracepoint's fields are that many scalars, in the machine's byte order, at the offsets in `layout`, which the
/// header's `SORDINO_LAYOUT` made. `enabled` is the value of its enable word.
#[unsafe(export_name = of_layout!("sordino_emit_scalars"))]
pub unsafe extern "C-unwind" fn sordino_emit_scalars(
    point: &Tracepoint,
    enabled: u64,
    layout: u64,
    first: u64,
    second: u64,
    third: u64,
) {
    // SAFETY: the caller guarantees that `enabled` is the value of the enable word.
    if unsafe { is_rejected(point, EnableMask(enabled), [first, second, third]) } {
        return;
    }
    let mut stage = MaybeUninit::<[u64; 4]>::uninit();
    let to = stage.as_mut_ptr().cast::<u8>();
    // Each value overwrites the surplus bytes of the one before; the bytes that are copied beyond the last one are 0.
    for (begin, value) in [(0, first), (layout >> 8, second), (layout >> 16, third), (layout >> 24, 0)] {
        // SAFETY: three scalars of at most 8 bytes lie before it, so `begin` is at most 24, and the stage has 32 bytes.
        unsafe { to.wrapping_add(usize::from(begin as u8)).cast::<u64>().write_unaligned(value) };
    }
    let encoded_length = internal::EncodedLength(layout & LENGTH_OF_SCALARS);
    // SAFETY: the stage holds the scalars at their offsets and 8 zero bytes behind them, so the bytes that
    // `encoded_length` copies are initialised; the caller guarantees the enable word's value.
    unsafe { internal::emit(point, EnableMask(enabled), Staged { from: to, encoded_length }) }
}

/// The bits of a layout that are the encoded length, of which both parts fit into a byte for a short record.
const LENGTH_OF_SCALARS: u64 = 0xff_0000_00ff;

/// Returns true if the one session that enabled the event has an inline filter, which rejects these values of the
/// fields.
///
/// # Safety
/// `enabled` is the value of the tracepoint's enable word.
#[inline(always)]
unsafe fn is_rejected<const N: usize>(point: &Tracepoint, enabled: EnableMask, values: [u64; N]) -> bool {
    // The test with which emit begins comes first, so that it is the fast path's only one.
    // SAFETY: the caller guarantees that `enabled` is the value of the enable word.
    !enabled.is_one() && unsafe { internal::is_rejected(point.word(), enabled, values) }
}

/// The enable word of tracepoints that are not registered: no session enabled them.
#[unsafe(export_name = of_layout!("sordino_nobody"))]
pub static NOBODY: u64 = 0;

/// The tracepoint `sordino:mark`, for `sordino_mark` in the header.
#[unsafe(export_name = of_layout!("sordino_mark_point"))]
pub static MARK_POINT: Tracepoint = Tracepoint::new(&MARK);
static MARK: Description = line(c"mark", &TEXT);
static TEXT: FieldDescription = text(c"text");

/// The tracepoint `sordino:snapshot`, for `sordino_snapshot` in the header.
#[unsafe(export_name = of_layout!("sordino_snapshot_point"))]
pub static SNAPSHOT_POINT: Tracepoint = Tracepoint::new(&SNAPSHOT);
static SNAPSHOT: Description = line(c"snapshot", &WHY);
static WHY: FieldDescription = text(c"why");

/// Sets an annotation of the calling thread, for `sordino_context` in the header. Leaves `errno` as it was.
///
/// Real-time: see [`sordino::context!`].
///
/// # Safety
/// `name` and `text` are strings that end with a zero byte.
#[unsafe(export_name = of_layout!("sordino_say"))]
pub unsafe extern "C-unwind" fn sordino_say(name: *const c_char, text: *const c_char) {
    // SAFETY: the caller guarantees strings that end with a zero byte.
    let [name, text] = [name, text].map(|text| unsafe { CStr::from_ptr(text) }.to_bytes());
    // Bytes that are not UTF-8 end the text.
    let [name, text] = [name, text].map(|bytes| bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()));
    let (name, text) = internal::annotate(name, text);
    let enabled = CONTEXT_POINT.enabled();
    if !enabled.is_empty() {
        let mut payload = AnnotationBuffer([0; _]);
        payload.0[..name.len()].copy_from_slice(name.as_bytes());
        payload.0[name.len() + 1..][..text.len()].copy_from_slice(text.as_bytes());
        let encoded_length = internal::EncodedLength::of(name.len() + text.len() + 2);
        // Calls the function that all events of C programs use: each inlined copy would be one more restartable
        // section.
        // SAFETY: the payload is the two strings of the fields, each with a zero byte behind it. Its room is a multiple
        // of 16 bytes, so the bytes that are copied beyond the strings are readable.
        unsafe { sordino_emit(&CONTEXT_POINT, enabled.0, payload.0.as_ptr(), encoded_length.0) };
    }
}

/// Room for the two strings of `sordino:context`.
#[repr(align(16))]
struct AnnotationBuffer([u8; (internal::ANNOTATION_SIZE + 2usize).next_multiple_of(16)]);

/// The tracepoint `sordino:context`, for [`sordino_say`].
static CONTEXT_POINT: Tracepoint = Tracepoint::new(&CONTEXT);
static CONTEXT: Description = Description { field_count: 2, ..line(c"context", &ANNOTATION_FIELDS[0]) };
static ANNOTATION_FIELDS: [FieldDescription; 2] = [text(c"name"), text(c"value")];

/// Opens performance counters for the calling thread, for `sordino_counters` in the header. Returns 0, or a negative
/// error number; the reason is then a text of at most `size` bytes at `why`.
///
/// # Safety
/// `names` is null or a string that ends with a zero byte; `why` is null or has room for `size` bytes.
#[unsafe(export_name = of_layout!("sordino_counters"))]
pub unsafe extern "C" fn sordino_counters(names: *const c_char, why: *mut c_char, size: usize) -> c_int {
    let names = if names.is_null() {
        c""
    } else {
        // SAFETY: the caller guarantees a string that ends with a zero byte, if `names` is not null (checked above).
        unsafe { CStr::from_ptr(names) }
    };
    let result = sordino::counters(&names.to_string_lossy());
    let text = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !why.is_null() && size > 0 {
        let text = &text.as_bytes()[..text.floor_char_boundary(size - 1)];
        // SAFETY: the caller guarantees `size` bytes at `why`, and the text has at most `size - 1`.
        unsafe { why.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: the text has at most `size - 1` bytes, so the byte behind it is one of the caller's `size`.
        unsafe { why.wrapping_add(text.len()).write(0) };
    }
    result.err().map_or(0, |no| -no.errno())
}

/// Returns the description of an event of sordino's own with one field.
const fn line(name: &'static CStr, field: &'static FieldDescription) -> Description {
    Description {
        provider: c"sordino".as_ptr(),
        name: name.as_ptr(),
        file: c"".as_ptr(),
        line: 0,
        level: Level::Info as u32,
        fields: &raw const *field,
        field_count: 1,
    }
}

const fn text(name: &'static CStr) -> FieldDescription {
    FieldDescription {
        name: name.as_ptr(),
        scalar: c"".as_ptr(),
        container: Container::String,
        length: 0,
        labels: std::ptr::null(),
        label_count: 0,
    }
}

extern "C" fn register_lines() {
    for point in [&MARK_POINT, &SNAPSHOT_POINT, &CONTEXT_POINT] {
        // SAFETY: the points are constants of this module, whose descriptions are complete.
        unsafe { internal::register(point) };
    }
}

#[used]
#[unsafe(link_section = ".init_array.00101")]
static REGISTER_LINES: extern "C" fn() = register_lines;

/// Registers with recorders in a program that has marks and no tracepoint of its own.
#[used]
#[unsafe(link_section = ".init_array.00102")]
static READY: extern "C" fn() = sordino_ready;

// The layout that the header declares, checked on this side; the header checks the other.
const _: () = assert!(size_of::<Tracepoint>() == 24 && size_of::<Description>() == 48);
const _: () = assert!(size_of::<FieldDescription>() == 40 && size_of::<sordino::Label>() == 24);

/// Keeps the program's `vfork` linked, which replaces the C library's: see `sordino_percpu`.
#[used]
static VFORK: unsafe extern "C" fn() -> c_int = internal::vfork;
