//! Atomics with the layout of std's and the behaviour of loom's.

use super::known;
use core::any::Any;
use core::cell::UnsafeCell;
use core::fmt;
use core::sync::atomic::Ordering;
/// An atomic of the model itself, which lies in no shared memory.
pub(super) use loom::sync::atomic::AtomicU64 as Own;
pub use loom::sync::atomic::fence;

/// Loom's state of an atomic.
struct AtomicState<A> {
    atomic: A,
    /// Written with every load. Loom 0.7 tries another order only where a step conflicts with the last step of the same
    /// object, and two loads do not conflict: so a load hides another thread's load before it from that thread's own
    /// later store.
    looked_at: loom::sync::atomic::AtomicU8,
}

macro_rules! atomics {
    ($($name:ident($value:ty)),*) => {
        $(
            #[doc = concat!("As std's; loom's [`", stringify!($name), "`](loom::sync::atomic::", stringify!($name), ") does the work.")]
            #[repr(transparent)]
            pub struct $name(UnsafeCell<$value>);

            // SAFETY: the cell's value is never accessed; loom's atomic holds the value.
            unsafe impl Sync for $name {}

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.debug_struct(stringify!($name)).finish_non_exhaustive()
                }
            }

            #[allow(missing_docs, reason = "as std's")]
            impl $name {
                fn known(&self) -> std::rc::Rc<AtomicState<loom::sync::atomic::$name>> {
                    known(self.as_ptr() as usize, || AtomicState {
                        atomic: loom::sync::atomic::$name::new(0),
                        looked_at: loom::sync::atomic::AtomicU8::new(0),
                    })
                }

                /// An atomic whose value is that of loom's atomic for the address: 0 until something is stored.
                pub const fn new(_zero: $value) -> Self {
                    Self(UnsafeCell::new(0))
                }

                pub const fn as_ptr(&self) -> *mut $value {
                    self.0.get()
                }

                pub fn load(&self, order: Ordering) -> $value {
                    let known = self.known();
                    known.looked_at.store(0, Ordering::Relaxed);
                    known.atomic.load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    self.known().atomic.store(value, order);
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.known().atomic.swap(value, order)
                }

                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.known().atomic.fetch_add(value, order)
                }

                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.known().atomic.fetch_sub(value, order)
                }

                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.known().atomic.fetch_and(value, order)
                }

                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.known().atomic.fetch_or(value, order)
                }

                /// Stores `new` if the value is `current`, as std's does.
                ///
                /// # Errors
                /// The value, if it differs from `current`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.known().atomic.compare_exchange(current, new, success, failure)
                }
            }
        )*

        /// Stores zero, if `known` is the state of an atomic.
        pub(super) fn clear(known: &dyn Any) {
            $(
                if let Some(word) = known.downcast_ref::<AtomicState<loom::sync::atomic::$name>>() {
                    word.atomic.store(0, Ordering::Relaxed);
                }
            )*
        }
    };
}

atomics!(AtomicU8(u8), AtomicU32(u32), AtomicU64(u64));
