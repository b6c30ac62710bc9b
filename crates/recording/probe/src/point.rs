//! Tracepoints: their declaration by a program, and their registration.
//!
//! The types here are also those of the C interface (`crates/recording/probe-c/include/sordino/tracepoint.h`).

use crate::program;
use crate::text::TracepointText;
use sordino_event::Level;
use sordino_event::catalogue::{Unregistered, Writer};
use sordino_percpu::primitive::{Acquire, AtomicPtr, AtomicU64, Relaxed};
use sordino_ring::area::enable::EnableMask;
use sordino_ring::layout::EnableWord;
use sordino_ring::number::{PointId, Tag};
use std::ffi::{CStr, c_char};
use std::fmt;

/// One tracepoint of a program: its enable word, its number and its description.
#[derive(Debug)]
#[repr(C)]
pub struct Tracepoint {
    /// The address of the enable word; until the tracepoint is registered, of one that enables nothing.
    enabled: AtomicPtr<EnableWord>,
    /// The tracepoint's number in the program, in bits 16 to 31, as records carry it.
    id: AtomicU64,
    description: *const Description,
}

// SAFETY: the words are atomic, the description is constant.
unsafe impl Sync for Tracepoint {}

/// The constant description of a tracepoint.
#[derive(Debug)]
#[repr(C)]
pub struct Description {
    /// The provider's name, a C identifier.
    pub provider: *const c_char,
    /// The name, a C identifier. Unique within the provider, unless it is the same tracepoint, with the same fields.
    pub name: *const c_char,
    /// The source file's name.
    pub file: *const c_char,
    /// The line in the source file.
    pub line: u32,
    /// The number of a [`Level`].
    pub level: u32,
    /// The first of the fields.
    pub fields: *const FieldDescription,
    /// The number of fields.
    pub field_count: usize,
}

// SAFETY: points to constants, which any thread may read.
unsafe impl Sync for Description {}

/// One field of a tracepoint.
#[derive(Debug)]
#[repr(C)]
pub struct FieldDescription {
    /// The name, a C identifier.
    pub name: *const c_char,
    /// The scalar's type, as [`sordino_event::Scalar`] prints it; unused for strings.
    pub scalar: *const c_char,
    /// The number of scalars, and its encoding.
    pub container: Container,
    /// The length of an array.
    pub length: u32,
    /// The labels of an enumeration; null otherwise.
    pub labels: *const Label,
    /// The number of labels.
    pub label_count: usize,
}

// SAFETY: points to constants, which any thread may read.
unsafe impl Sync for FieldDescription {}

/// The number of values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Container {
    /// The field is exactly one value.
    One = 0,
    /// Always the same number of values.
    Array = 1,
    /// A number of values that each record gives.
    Sequence = 2,
    /// Text, up to a zero byte.
    String = 3,
}

/// One label of an enumeration.
#[derive(Debug)]
#[repr(C)]
pub struct Label {
    /// The least value that it names.
    pub low: i64,
    /// The greatest value that it names.
    pub high: i64,
    /// The label's text, which ends with a zero byte.
    pub text: *const c_char,
}

// SAFETY: points to a constant, which any thread may read.
unsafe impl Sync for Label {}

/// The enable word of tracepoints that are not registered yet.
static NOBODY: EnableWord = EnableWord::new(0);

impl Tracepoint {
    /// A tracepoint that is not registered yet.
    pub const fn new(description: &'static Description) -> Self {
        let nobody: *const EnableWord = &NOBODY;
        Self { enabled: AtomicPtr::new(nobody.cast_mut()), id: AtomicU64::new(0), description }
    }

    /// The sessions that enabled its events.
    ///
    /// Real-time: two loads.
    #[inline(always)]
    pub fn enabled(&self) -> EnableMask {
        self.load().1
    }

    /// Loads the enable word, and returns it with its value.
    #[doc(hidden)]
    #[inline(always)]
    pub fn load(&self) -> (&'static EnableWord, EnableMask) {
        let word = self.word();
        // ORDER(point:A) pairs with control:A: if the load sees that a session enabled the event, then it sees the
        // session's rings, and its inline filter. And with pending:A: if it sees the event pending, then it sees until
        // when.
        (word, EnableMask(word.load(Acquire)))
    }

    /// Returns the tracepoint's enable word.
    #[doc(hidden)]
    #[inline(always)]
    pub fn word(&self) -> &'static EnableWord {
        let word = self.enabled.load(Relaxed);
        // SAFETY: `NOBODY`, or a word of the program's area, which is never unmapped.
        unsafe { &*word }
    }

    /// The tracepoint's number in its program; 0 until it is registered.
    pub(crate) fn id(&self) -> PointId {
        self.tag().point()
    }

    /// The part of its records' tags that names the tracepoint.
    #[inline(always)]
    pub(crate) fn tag(&self) -> Tag {
        Tag(self.id.load(Relaxed))
    }
}

/// Registers a tracepoint, so that it can be recorded. Called once for each, when its module is loaded; tracepoints
/// with identical declarations are one.
///
/// A tracepoint that finds no room, or whose names or types are not text, is never recorded; the area counts it, and
/// the catalogue names it. Recorders refuse those whose names or types are invalid.
///
/// # Safety
/// `point` and all that its description leads to are constants of a loaded module, made as the macros make them.
pub unsafe extern "C" fn register(point: &'static Tracepoint) {
    program::with_area(|program| {
        // SAFETY: the caller guarantees constants as the macros make them (this function's # Safety).
        let id = match program.find_or_add(|id, text| unsafe { describe(point, id, text) }) {
            Ok(id) => id,
            Err(reason) => {
                // SAFETY: the caller guarantees that the description is a constant of a loaded module.
                let Description { provider, name, .. } = unsafe { &*point.description };
                // SAFETY: the caller guarantees that both texts are constants that end with a zero byte.
                let [provider, name] = [*provider, *name].map(|text| unsafe { bytes_of(text) });
                return program.refuse(reason, provider, name);
            }
        };
        point.id.store(Tag::of_point(id).0, Relaxed);
        let word: *const EnableWord = program.area.point(id);
        point.enabled.store(word.cast_mut(), Relaxed);
    });
}

/// Writes the catalogue's text of a tracepoint.
///
/// # Safety
/// The caller guarantees what [`register`] requires.
unsafe fn describe(point: &Tracepoint, id: PointId, text: &mut TracepointText) -> Result<(), Unregistered> {
    // SAFETY: the caller guarantees that the description is a constant of a loaded module.
    let description = unsafe { &*point.description };
    let level = u8::try_from(description.level).ok().and_then(Level::from_number);
    let level = level.ok_or(Unregistered::Level)?;
    // SAFETY: the caller guarantees that all that the description leads to are constants.
    let written = unsafe { write(description, id, level, &mut *text) };
    // If the text has no problem, a name or a type is not text.
    written.map_err(|fmt::Error| text.problem().unwrap_or(Unregistered::NotText))
}

/// # Safety
/// The caller guarantees what [`register`] requires.
unsafe fn write(
    description: &Description,
    id: PointId,
    level: Level,
    text: &mut TracepointText,
) -> fmt::Result {
    // SAFETY: the caller guarantees that the texts are constants that end with a zero byte.
    let [provider, name, file] =
        [description.provider, description.name, description.file].map(|text| unsafe { str_of(text) });
    let mut writer = Writer::new(text);
    writer.event(id.0, level, provider?, name?, file?, description.line)?;
    // SAFETY: the caller guarantees `field_count` constant fields.
    for field in unsafe { slice_of(description.fields, description.field_count) } {
        // SAFETY: the caller guarantees that the texts are constants that end with a zero byte.
        let [name, scalar] = [field.name, field.scalar].map(|text| unsafe { str_of(text) });
        writer
            .field(&TypeText { scalar: scalar?, container: field.container, length: field.length }, name?)?;
        // SAFETY: the caller guarantees `label_count` constant labels.
        for label in unsafe { slice_of(field.labels, field.label_count) } {
            // SAFETY: the caller guarantees that the text is a constant that ends with a zero byte.
            writer.label(label.low, label.high, unsafe { str_of(label.text) }?)?;
        }
    }
    writer.end()
}

/// A field's type as the catalogue writes it.
struct TypeText<'a> {
    scalar: &'a str,
    container: Container,
    length: u32,
}

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.container {
            Container::One => f.write_str(self.scalar),
            Container::Array => write!(f, "[{};{}]", self.scalar, self.length),
            Container::Sequence => write!(f, "[{}]", self.scalar),
            Container::String => f.write_str("string"),
        }
    }
}

/// # Safety
/// `text` is null or ends with a zero byte, and never changes.
unsafe fn str_of(text: *const c_char) -> Result<&'static str, fmt::Error> {
    // SAFETY: the caller guarantees a null pointer, or constant text that ends with a zero byte.
    std::str::from_utf8(unsafe { bytes_of(text) }).or(Err(fmt::Error))
}

/// # Safety
/// The caller guarantees what [`str_of`] requires.
unsafe fn bytes_of(text: *const c_char) -> &'static [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: not null, so the caller guarantees constant text that ends with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// # Safety
/// `first` is null or points to `count` values that never change.
unsafe fn slice_of<T>(first: *const T, count: usize) -> &'static [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: not null, so the caller guarantees `count` values that never change.
    unsafe { std::slice::from_raw_parts(first, count) }
}
