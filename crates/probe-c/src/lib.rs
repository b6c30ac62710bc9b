//! The C interface of `sordino`: what `include/sordino/tracepoint.h` declares.
//!
//! C and C++ programs declare tracepoints with that header's macros and link `libsordino`. The header passes short
//! payloads in registers and stages others in the caller; everything else is the same code as for Rust programs.
//!
//! The header also compiles parts of the shared memory's layout into programs, so each name that the library exports ends
//! with the layout's version.

use sordino::internal::{self, Staged, Words};
use sordino::{Description, Field, Level, Shape, Tracepoint};
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
    "SORDINO_LAYOUT_VERSION in tracepoint.h is not the version in crates/ring/src/layout.rs"
);

/// Makes a tracepoint known; called by a constructor of the header.
///
/// # Safety
/// `point` was made by the header's macros.
#[unsafe(export_name = of_layout!("sordino_register"))]
pub unsafe extern "C" fn sordino_register(point: &'static Tracepoint) {
    // SAFETY: the caller's obligation is the same.
    unsafe { internal::register(point) }
}

/// Called when all tracepoints of a module are registered.
#[unsafe(export_name = of_layout!("sordino_ready"))]
pub extern "C" fn sordino_ready() {
    internal::ready();
}

/// Writes the record of a tracepoint that somebody wants.
///
/// Real-time: as in the documentation of the crate `sordino`.
///
/// # Safety
/// `payload` is laid out as the tracepoint's fields say and readable for as many bytes as `shape`, which the header's
/// `SORDINO_SHAPE` made, says are copied. `wanted` is what the tracepoint's word said.
#[unsafe(export_name = of_layout!("sordino_emit"))]
pub unsafe extern "C-unwind" fn sordino_emit(
    point: &Tracepoint,
    wanted: u64,
    payload: *const u8,
    shape: u64,
) {
    // SAFETY: the caller's obligations are the same.
    unsafe { internal::emit(point, wanted, Staged { from: payload, shape: internal::Shape(shape) }) }
}

/// Writes the record of a payload of 16 bytes, if no gate rejects it.
///
/// # Safety
/// The tracepoint's payload has that length, and `wanted` is what its word said. Where there is a gate, these are its two fields.
#[unsafe(export_name = of_layout!("sordino_emit_pair"))]
pub unsafe extern "C-unwind" fn sordino_emit_pair(point: &Tracepoint, wanted: u64, first: u64, second: u64) {
    // SAFETY: the caller's obligations are the same.
    if unsafe { is_rejected(point, wanted, [first, second]) } {
        return;
    }
    // SAFETY: likewise.
    unsafe { internal::emit(point, wanted, Words(first, second)) }
}

/// Writes the record of up to three scalars, if no gate rejects it. The others are 0, and lie behind the payload.
///
/// # Safety
/// The tracepoint's fields are that many scalars, in the machine's byte order, which lie where `layout`, the header's
/// `SORDINO_LAYOUT`, says. `wanted` is what its word said.
#[unsafe(export_name = of_layout!("sordino_emit_scalars"))]
pub unsafe extern "C-unwind" fn sordino_emit_scalars(
    point: &Tracepoint,
    wanted: u64,
    layout: u64,
    first: u64,
    second: u64,
    third: u64,
) {
    // SAFETY: the caller's obligations are the same.
    if unsafe { is_rejected(point, wanted, [first, second, third]) } {
        return;
    }
    let mut stage = MaybeUninit::<[u64; 4]>::uninit();
    let to = stage.as_mut_ptr().cast::<u8>();
    // What is too much of a value is overwritten by the next, and what is copied beyond the last one is 0.
    for (begin, value) in [(0, first), (layout >> 8, second), (layout >> 16, third), (layout >> 24, 0)] {
        // SAFETY: three values of 8 bytes at most lie before a fourth.
        unsafe { to.wrapping_add(usize::from(begin as u8)).cast::<u64>().write_unaligned(value) };
    }
    let shape = internal::Shape(layout & SHAPE_OF_SCALARS);
    // SAFETY: the caller's obligations are the same; what is copied has just been written.
    unsafe { internal::emit(point, wanted, Staged { from: to, shape }) }
}

/// The bits of a layout that are the shape: both lengths of a short record fit into a byte.
const SHAPE_OF_SCALARS: u64 = 0xff_0000_00ff;

/// Returns true if the one session that wants the event has a gate, and that rejects these values of the fields.
///
/// # Safety
/// `wanted` is what the tracepoint's word said.
#[inline(always)]
unsafe fn is_rejected<const N: usize>(point: &Tracepoint, wanted: u64, values: [u64; N]) -> bool {
    // The test with which emit begins comes first, so that it is the fast path's only one.
    // SAFETY: the caller's obligation is the same.
    !internal::is_one(wanted) && unsafe { internal::is_rejected(point.word(), wanted, values) }
}

/// What a tracepoint that is not registered looks at: nobody wants it.
#[unsafe(export_name = of_layout!("sordino_nobody"))]
pub static NOBODY: u64 = 0;

/// `sordino:mark`, for `sordino_mark` in the header.
#[unsafe(export_name = of_layout!("sordino_mark_point"))]
pub static MARK_POINT: Tracepoint = Tracepoint::new(&MARK);
static MARK: Description = line(c"mark", &TEXT);
static TEXT: Field = text(c"text");

/// `sordino:snapshot`, for `sordino_snapshot` in the header.
#[unsafe(export_name = of_layout!("sordino_snapshot_point"))]
pub static SNAPSHOT_POINT: Tracepoint = Tracepoint::new(&SNAPSHOT);
static SNAPSHOT: Description = line(c"snapshot", &WHY);
static WHY: Field = text(c"why");

/// Says what the thread is doing, for `sordino_context` in the header. Leaves `errno` as it was.
///
/// Real-time: as [`sordino::context!`].
///
/// # Safety
/// Both are strings that end with a zero byte.
#[unsafe(export_name = of_layout!("sordino_say"))]
pub unsafe extern "C-unwind" fn sordino_say(name: *const c_char, text: *const c_char) {
    // SAFETY: the caller's obligation.
    let [name, text] = [name, text].map(|text| unsafe { CStr::from_ptr(text) }.to_bytes());
    // What is no text is shown up to there.
    let [name, text] = [name, text].map(|bytes| bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid()));
    let (name, text) = internal::say(name, text);
    let wanted = CONTEXT_POINT.wanted();
    if wanted != 0 {
        let mut payload = Said([0; _]);
        payload.0[..name.len()].copy_from_slice(name.as_bytes());
        payload.0[name.len() + 1..][..text.len()].copy_from_slice(text.as_bytes());
        let shape = internal::Shape::of(name.len() + text.len() + 2);
        // By the function that all events of C programs take: each copy is a restartable section more.
        // SAFETY: two strings, each with the zero byte behind it, as the fields say; there is room for what is copied beyond.
        unsafe { sordino_emit(&CONTEXT_POINT, wanted, payload.0.as_ptr(), shape.0) };
    }
}

/// Room for the two strings of `sordino:context`.
#[repr(align(16))]
struct Said([u8; (internal::SAID + 2usize).next_multiple_of(16)]);

/// `sordino:context`, for [`sordino_say`].
static CONTEXT_POINT: Tracepoint = Tracepoint::new(&CONTEXT);
static CONTEXT: Description = Description { field_count: 2, ..line(c"context", &SAID[0]) };
static SAID: [Field; 2] = [text(c"name"), text(c"value")];

/// Has the calling thread count, for `sordino_counters` in the header: 0, or a negative error number, and why in so many bytes at `why`.
///
/// # Safety
/// `names` is null or a string that ends with a zero byte; there is room for `size` bytes at `why`.
#[unsafe(export_name = of_layout!("sordino_counters"))]
pub unsafe extern "C" fn sordino_counters(names: *const c_char, why: *mut c_char, size: usize) -> c_int {
    let names = if names.is_null() {
        c""
    } else {
        // SAFETY: the caller's obligation.
        unsafe { CStr::from_ptr(names) }
    };
    let result = sordino::counters(&names.to_string_lossy());
    let text = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
    if !why.is_null() && size > 0 {
        let text = &text.as_bytes()[..text.floor_char_boundary(size - 1)];
        // SAFETY: the caller says that there is room for so much, and the zero byte.
        unsafe { why.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: likewise.
        unsafe { why.wrapping_add(text.len()).write(0) };
    }
    result.err().map_or(0, |no| -no.errno())
}

/// An event of sordino's own with one field.
const fn line(name: &'static CStr, field: &'static Field) -> Description {
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

const fn text(name: &'static CStr) -> Field {
    Field {
        name: name.as_ptr(),
        scalar: c"".as_ptr(),
        shape: Shape::String,
        length: 0,
        labels: std::ptr::null(),
        label_count: 0,
    }
}

extern "C" fn register_lines() {
    for point in [&MARK_POINT, &SNAPSHOT_POINT, &CONTEXT_POINT] {
        // SAFETY: constants of this module.
        unsafe { internal::register(point) };
    }
}

#[used]
#[unsafe(link_section = ".init_array.00101")]
static REGISTER_LINES: extern "C" fn() = register_lines;

/// A program may have marks and no tracepoint of its own.
#[used]
#[unsafe(link_section = ".init_array.00102")]
static READY: extern "C" fn() = sordino_ready;

// The layout that the header declares, checked on this side; the header checks the other.
const _: () = assert!(size_of::<Tracepoint>() == 24 && size_of::<Description>() == 48);
const _: () = assert!(size_of::<Field>() == 40 && size_of::<sordino::Label>() == 24);

/// Keeps the program's `vfork` linked, which replaces the C library's: see `sordino_percpu`.
#[used]
static VFORK: unsafe extern "C" fn() -> c_int = internal::vfork;
