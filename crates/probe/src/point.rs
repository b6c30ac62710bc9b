//! Tracepoints: what a program declares, and how it becomes known.
//!
//! The types here are also those of the C interface (`crates/probe-c/include/sordino/tracepoint.h`).

use crate::program;
use crate::text::Text;
use sordino_event::Level;
use sordino_event::catalogue::{Unregistered, Writer};
use sordino_percpu::primitive::{Acquire, AtomicPtr, AtomicU64, Relaxed};
use sordino_ring::layout::EnableWord;
use std::ffi::{CStr, c_char};
use std::fmt;

/// One tracepoint of a program: whether anybody wants its events, and what they are.
#[derive(Debug)]
#[repr(C)]
pub struct Tracepoint {
    /// The word that says which sessions want its events; until it is registered, one that says none.
    wanted: AtomicPtr<EnableWord>,
    /// Its number in the program, in bits 16 to 31, as records carry it.
    id: AtomicU64,
    description: *const Description,
}

// SAFETY: the words are atomic, the description is constant.
unsafe impl Sync for Tracepoint {}

/// What a tracepoint is.
#[derive(Debug)]
#[repr(C)]
pub struct Description {
    /// A C identifier, as the next.
    pub provider: *const c_char,
    /// Unique within the provider, unless it is the same tracepoint, with the same fields.
    pub name: *const c_char,
    /// The source file.
    pub file: *const c_char,
    /// The line in it.
    pub line: u32,
    /// The number of a [`Level`].
    pub level: u32,
    /// Its fields.
    pub fields: *const Field,
    /// How many.
    pub field_count: usize,
}

// SAFETY: points to constants.
unsafe impl Sync for Description {}

/// One field.
#[derive(Debug)]
#[repr(C)]
pub struct Field {
    /// A C identifier.
    pub name: *const c_char,
    /// The scalar's type, as [`sordino_event::Scalar`] prints it; unused for strings.
    pub scalar: *const c_char,
    /// How many scalars.
    pub shape: Shape,
    /// The length of an array.
    pub length: u32,
    /// The labels of an enumeration; null otherwise.
    pub labels: *const Label,
    /// How many.
    pub label_count: usize,
}

// SAFETY: points to constants.
unsafe impl Sync for Field {}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Shape {
    /// One.
    One = 0,
    /// Always the same number.
    Array = 1,
    /// A number that the record says.
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
    /// The greatest.
    pub high: i64,
    /// Its text.
    pub text: *const c_char,
}

// SAFETY: points to a constant.
unsafe impl Sync for Label {}

/// What a tracepoint looks at before it is registered.
static NOBODY: EnableWord = EnableWord::new(0);

impl Tracepoint {
    /// A tracepoint that is not registered yet.
    pub const fn new(description: &'static Description) -> Self {
        let nobody: *const EnableWord = &NOBODY;
        Self { wanted: AtomicPtr::new(nobody.cast_mut()), id: AtomicU64::new(0), description }
    }

    /// The sessions that want its events, as [`Wants`](sordino_ring::want::Wants) says them in one word; 0 when nobody does.
    ///
    /// Real-time: two loads.
    #[inline(always)]
    pub fn wanted(&self) -> u64 {
        self.look().1
    }

    /// Where that word is, and what it says.
    #[doc(hidden)]
    #[inline(always)]
    pub fn look(&self) -> (&'static EnableWord, u64) {
        let word = self.word();
        // ORDER(point:A) pairs with control:A: who sees that a session wants the event sees its rings, and its gate. And with pending:A.
        (word, word.load(Acquire))
    }

    /// Returns the tracepoint's enable word.
    #[doc(hidden)]
    #[inline(always)]
    pub fn word(&self) -> &'static EnableWord {
        let word = self.wanted.load(Relaxed);
        // SAFETY: `NOBODY`, or a word of the program's area, which is never unmapped.
        unsafe { &*word }
    }

    /// The tracepoint's number in its program; 0 until it is registered.
    pub(crate) fn id(&self) -> u16 {
        (self.tag() >> 16) as u16
    }

    /// Its number, in the place where records carry it.
    #[inline(always)]
    pub(crate) fn tag(&self) -> u64 {
        self.id.load(Relaxed)
    }
}

/// Makes a tracepoint known, so that it can be recorded. Once for each, when its module is loaded; a tracepoint that is
/// declared twice, alike, is one.
///
/// A tracepoint that finds no room, or whose names or types are not text, stays silent for ever; the area counts it, and the catalogue
/// names it. Recorders refuse those whose names or types make no sense.
///
/// # Safety
/// `point` and all that its description leads to are constants of a loaded module, made as the macros make them.
pub unsafe extern "C" fn register(point: &'static Tracepoint) {
    program::with_area(|program| {
        // SAFETY: the caller's obligation.
        let id = match program.find_or_add(|id, text| unsafe { describe(point, id, text) }) {
            Ok(id) => id,
            Err(reason) => {
                // SAFETY: the caller's obligation.
                let Description { provider, name, .. } = unsafe { &*point.description };
                // SAFETY: likewise.
                let [provider, name] = [*provider, *name].map(|text| unsafe { bytes_of(text) });
                return program.refuse(reason, provider, name);
            }
        };
        point.id.store(u64::from(id) << 16, Relaxed);
        let word: *const EnableWord = program.area.point(id);
        point.wanted.store(word.cast_mut(), Relaxed);
    });
}

/// Writes the catalogue's text of a tracepoint.
///
/// # Safety
/// The caller guarantees what [`register`] requires.
unsafe fn describe(point: &Tracepoint, id: u16, text: &mut Text) -> Result<(), Unregistered> {
    // SAFETY: the caller's obligation.
    let description = unsafe { &*point.description };
    let level = u8::try_from(description.level).ok().and_then(Level::from_number);
    let level = level.ok_or(Unregistered::Level)?;
    // SAFETY: the caller's obligation.
    let written = unsafe { write(description, id, level, &mut *text) };
    // What is not the text's problem is that something is no text.
    written.map_err(|fmt::Error| text.problem().unwrap_or(Unregistered::NotText))
}

/// # Safety
/// The caller guarantees what [`register`] requires.
unsafe fn write(description: &Description, id: u16, level: Level, text: &mut Text) -> fmt::Result {
    // SAFETY: the caller's obligation.
    let [provider, name, file] =
        [description.provider, description.name, description.file].map(|text| unsafe { str_of(text) });
    let mut writer = Writer::new(text);
    writer.event(id, level, provider?, name?, file?, description.line)?;
    // SAFETY: the caller's obligation.
    for field in unsafe { slice_of(description.fields, description.field_count) } {
        // SAFETY: the caller's obligation.
        let [name, scalar] = [field.name, field.scalar].map(|text| unsafe { str_of(text) });
        writer.field(&TypeText { scalar: scalar?, shape: field.shape, length: field.length }, name?)?;
        // SAFETY: the caller's obligation.
        for label in unsafe { slice_of(field.labels, field.label_count) } {
            // SAFETY: the caller's obligation.
            writer.label(label.low, label.high, unsafe { str_of(label.text) }?)?;
        }
    }
    writer.end()
}

/// A field's type as the catalogue writes it.
struct TypeText<'a> {
    scalar: &'a str,
    shape: Shape,
    length: u32,
}

impl fmt::Display for TypeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::One => f.write_str(self.scalar),
            Shape::Array => write!(f, "[{};{}]", self.scalar, self.length),
            Shape::Sequence => write!(f, "[{}]", self.scalar),
            Shape::String => f.write_str("string"),
        }
    }
}

/// # Safety
/// `text` is null or ends with a zero byte, and never changes.
unsafe fn str_of(text: *const c_char) -> Result<&'static str, fmt::Error> {
    // SAFETY: the caller's obligation.
    std::str::from_utf8(unsafe { bytes_of(text) }).or(Err(fmt::Error))
}

/// # Safety
/// The caller guarantees what [`str_of`] requires.
unsafe fn bytes_of(text: *const c_char) -> &'static [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: the caller's obligation.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// # Safety
/// `first` is null or points to `count` values that never change.
unsafe fn slice_of<T>(first: *const T, count: usize) -> &'static [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the caller's obligation.
    unsafe { std::slice::from_raw_parts(first, count) }
}
