//! The macros that declare and hit tracepoints.

/// Declares a tracepoint and hits it.
///
/// `tracepoint!([level: LEVEL,] PROVIDER:NAME, FIELD: TYPE = VALUE,
/// ...)`. Types are those that implement [`Recordable`](crate::Recordable); the [`Level`](crate::Level) is `Info` by default. The values are evaluated only
/// if a session has enabled the event. The same tracepoint may stand in several places, with the same fields.
///
/// ```
/// use sordino::{Blob, Hex, Net, tracepoint};
/// let (name, data) = ("eth0", [1u8, 2, 3]);
/// tracepoint!(
///     level: Warning,
///     net:odd_packet,
///     device: &str = name,
///     port: Net<u16> = Net(443),
///     flags: Hex<u32> = Hex(0x18),
///     times: [f32; 2] = [0.5, 1.5],
///     bytes: Blob = Blob(&data),
/// );
/// ```
///
/// Real-time: see [the crate](crate#real-time).
#[macro_export]
macro_rules! tracepoint {
    (level: $level:ident, $provider:ident : $name:ident $(, $field:ident : $ty:ty = $value:expr)* $(,)?) => {{
        $crate::__declare!(POINT, $level, $provider:$name $(, $field: $ty)*);
        let (word, enabled) = POINT.load();
        if !enabled.is_empty() {
            $crate::__hit!(POINT, word, enabled $(, $field: $ty = $value)*);
        }
    }};
    ($provider:ident : $name:ident $($fields:tt)*) => {
        $crate::tracepoint!(level: Info, $provider:$name $($fields)*)
    };
}

/// Declares a tracepoint as a static called `$point`, and registers it.
#[doc(hidden)]
#[macro_export]
macro_rules! __declare {
    ($point:ident, $level:ident, $provider:ident : $name:ident $(, $field:ident : $ty:ty)*) => {
        static $point: $crate::Tracepoint = {
            static FIELDS: &[$crate::FieldDescription] =
                &[$($crate::FieldDescription::of::<$ty>(::core::concat!(::core::stringify!($field), "\0"))),*];
            static DESCRIPTION: $crate::Description = $crate::Description {
                provider: ::core::concat!(::core::stringify!($provider), "\0").as_ptr().cast(),
                name: ::core::concat!(::core::stringify!($name), "\0").as_ptr().cast(),
                file: ::core::concat!(::core::file!(), "\0").as_ptr().cast(),
                line: ::core::line!(),
                level: $crate::Level::$level as u32,
                fields: FIELDS.as_ptr(),
                field_count: FIELDS.len(),
            };
            $crate::Tracepoint::new(&DESCRIPTION)
        };
        $crate::__at_load!($point);
    };
}

/// Writes the record of an enabled tracepoint.
#[doc(hidden)]
#[macro_export]
macro_rules! __hit {
    ($point:ident, $word:ident, $enabled:ident $(, $field:ident : $ty:ty = $value:expr)*) => {{
        $(let $field: $ty = $value;)*
        // SAFETY: `load` returned `word` with the value `enabled`.
        if !unsafe { $crate::internal::is_filtered_out($word, $enabled, [$($crate::Recordable::as_integer(&$field)),*]) } {
            const FIXED: ::core::option::Option<usize> =
                $crate::internal::fixed_length(&[$(<$ty as $crate::Recordable>::FIXED),*]);
            let length = match FIXED {
                ::core::option::Option::Some(length) => length,
                ::core::option::Option::None => $crate::internal::encoded_length([$($crate::Recordable::encoded_length(&$field)),*]),
            };
            #[allow(unused_mut, unused_variables, unused_assignments)]
            let fill = |mut to: *mut u8| {
                // SAFETY: `record` makes room for `length` bytes: the sum of all encoded lengths, which do not change
                // between calls.
                $(to = unsafe { $crate::Recordable::put(&$field, to) };)*
            };
            // SAFETY: `fill` writes `length` bytes, laid out as the fields that were declared with the same types.
            unsafe { $crate::internal::record(&$point, $enabled, length, fill) };
        }
    }};
}

/// Registers a tracepoint before `main`, or when its library is loaded.
#[doc(hidden)]
#[macro_export]
macro_rules! __at_load {
    ($point:ident) => {
        const _: () = {
            extern "C" fn register() {
                // SAFETY: `__declare` made the tracepoint and all that it leads to of constants.
                unsafe { $crate::internal::register(&$point) };
            }
            // Constructors with these priorities run before those without; the second runs when all of the first have
            // run.
            #[used]
            #[unsafe(link_section = ".init_array.00101")]
            static REGISTER: extern "C" fn() = register;
            #[used]
            #[unsafe(link_section = ".init_array.00102")]
            static READY: extern "C" fn() = $crate::internal::ready;
        };
    };
}

/// Records a line of text: the event `sordino:mark`.
///
/// Takes the arguments of `format!`. Formatted only if a session has enabled the event, on the stack; cut after 1,024
/// bytes.
///
/// ```
/// let step = 3;
/// sordino::mark!("calibration step {step} done");
/// ```
#[macro_export]
macro_rules! mark {
    ($($arguments:tt)+) => { $crate::__line!(mark, text, $($arguments)+) };
}

/// Requests a snapshot from every session that records this program, and records the reason: the event
/// `sordino:snapshot`.
///
/// Takes the arguments of `format!`, and costs as much as a [`mark!`](crate::mark!). Never waits: the snapshot is
/// written while the program goes on. A session that makes no snapshots only gets the event.
///
/// ```
/// let late = 120;
/// sordino::snapshot!("{late} us late");
/// ```
#[macro_export]
macro_rules! snapshot {
    ($($arguments:tt)+) => { $crate::__line!(snapshot, why, $($arguments)+) };
}

/// Annotates this thread's later events: with a value under a name, such as the request that it serves.
///
/// Takes the name, then the arguments of `format!`; an empty text removes the annotation. It belongs to the thread, and
/// stays until the next one under that name. A name has 24 bytes at most, a text 80; longer ones are cut.
/// `sordino events` shows the annotations with each event of the thread, also in sessions that began later, and in
/// snapshots. A program has room for 512 annotations of living threads.
///
/// ```
/// let id = 4711;
/// sordino::context!("request", "{id}");
/// // ... every event of this thread belongs to the request ...
/// sordino::context!("request", "");
/// ```
///
/// Real-time: formats the text and copies it, whether or not a session records; then costs as much as a
/// [`mark!`](crate::mark!), the event `sordino:context`. Never waits. Makes no system call unless all 512 cells are
/// taken: then one for each, to find a thread that has ended. The table's 16 pages fault when they are first touched,
/// unless the program has locked its memory (`mlockall`). Later events cost no more than without annotations.
#[macro_export]
macro_rules! context {
    ($name:expr, $($arguments:tt)+) => {{
        $crate::__declare!(POINT, Info, sordino:context, name: &str, value: &str);
        $crate::mark_text(::core::format_args!($($arguments)+), |text| {
            let (name, text) = $crate::internal::annotate($name, text);
            let (word, enabled) = POINT.load();
            if !enabled.is_empty() {
                $crate::__hit!(POINT, word, enabled, name: &str = name, value: &str = text);
            }
        });
    }};
}

/// Hits the event `sordino:$name`, whose one field is a formatted text.
#[doc(hidden)]
#[macro_export]
macro_rules! __line {
    ($name:ident, $field:ident, $($arguments:tt)+) => {{
        $crate::__declare!(POINT, Info, sordino:$name, $field: &str);
        let (word, enabled) = POINT.load();
        if !enabled.is_empty() {
            $crate::mark_text(::core::format_args!($($arguments)+), |line| {
                $crate::__hit!(POINT, word, enabled, $field: &str = line);
            });
        }
    }};
}

/// Declares an `enum` that can be a field: recorded as an integer, shown with its labels.
///
/// ```
/// sordino::enumeration! {
///     /// What the motor does.
///     pub enum State: u8 {
///         Idle = 0,
///         Running = 1,
///         Faulty = 200,
///     }
/// }
/// sordino::tracepoint!(motor:state, state: State = State::Running);
/// ```
#[macro_export]
macro_rules! enumeration {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident : $integer:ident {
        $($(#[$label_meta:meta])* $label:ident = $value:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($integer)]
        $visibility enum $name { $($(#[$label_meta])* $label = $value),+ }

        impl $crate::Enumerated for $name {
            type Integer = $integer;
            const NAME: &'static ::core::ffi::CStr =
                match ::core::ffi::CStr::from_bytes_with_nul(
                    ::core::concat!("enum:", ::core::stringify!($integer), "\0").as_bytes(),
                ) {
                    ::core::result::Result::Ok(name) => name,
                    ::core::result::Result::Err(_) => ::core::unreachable!(),
                };
            const LABELS: &'static [$crate::Label] = &[$($crate::Label {
                low: $name::$label as $integer as i64,
                high: $name::$label as $integer as i64,
                text: ::core::concat!(::core::stringify!($label), "\0").as_ptr().cast(),
            }),+];
            #[inline(always)]
            fn integer(self) -> $integer {
                self as $integer
            }
        }
    };
}
