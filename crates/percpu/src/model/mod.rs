//! What the recording crates stand on under `--cfg loom`: memory of which the checker loom sees every access, and CPUs that
//! are threads.
//!
//! Shared memory leads to more shared memory by offsets, so its words are reached by casts, and loom's atomics, which
//! hold a key instead of a value, can't lie there. Here an [atomic](primitive) has std's size, and nothing in it: loom's
//! own is found by its address, as is what loom knows of a [plain](plain) word. So layout, casts and every function that
//! uses them are the same in the model and outside.

pub mod futex;
pub mod plain;
pub mod primitive;

use core::any::{Any, TypeId};
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of the one piece of memory that every mapping is a part of.
const SIZE: usize = 64 << 10;

/// A page, as mappings are aligned.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

struct Memory {
    bytes: Box<[Page]>,
    /// What loom knows of an address: an atomic, the accesses to a plain word, who sleeps there.
    known: BTreeMap<(usize, TypeId), Rc<dyn Any>>,
}

impl Memory {
    fn new() -> Self {
        Self { bytes: vec![Page([0; 4096]); SIZE / 4096].into(), known: BTreeMap::new() }
    }
}

// Loom runs all threads of a model on one of the system's.
thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::new(Memory::new());
    /// How many of them are in a section.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
}

loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(crate::NO_CPU);
}

/// Begins one execution of a model: memory is zero, and what loom knew of it belonged to the one before.
pub fn begin() {
    MEMORY.set(Memory::new());
    SECTIONS.set(0);
    plain::begin();
}

/// The memory that a mapping of these bytes of the model's one file leads to.
///
/// # Panics
/// If the model needs more than there is.
pub fn memory(offset: usize, length: usize) -> NonNull<u8> {
    assert!(offset + length <= SIZE, "the model's memory ends at {SIZE}, not {}", offset + length);
    let first = MEMORY.with_borrow_mut(|memory| NonNull::from(&mut memory.bytes[..]).cast::<u8>());
    first.map_addr(|start| start.saturating_add(offset))
}

/// Makes the atomics in these bytes of the file zero, as the kernel does when it gives memory back: ordered with nothing. The
/// other bytes stay, for nobody may rely on any.
pub fn clear(offset: usize, length: usize) {
    let start = memory(offset, length).as_ptr() as usize;
    let all: Vec<_> = MEMORY.with_borrow(|memory| {
        let within = |&(&(address, _), _): &(&(usize, TypeId), _)| (start..start + length).contains(&address);
        memory.known.iter().filter(within).map(|(_, known)| Rc::clone(known)).collect()
    });
    all.iter().for_each(|known| primitive::clear(&**known));
}

/// Writes to these bytes of the file as the kernel does while others may use them: to each word that is in use.
pub fn overwrite(offset: usize, length: usize) {
    let start = memory(offset, length).as_ptr() as usize;
    plain::written_where_known(start, length);
}

/// What loom knows of `address` as a `T`; made by `new` when nobody asked before. Loom wants a thread that starts all
/// others to be the first to ask for an atomic.
fn known<T: 'static>(address: usize, new: impl FnOnce() -> T) -> Rc<T> {
    let key = (address, TypeId::of::<T>());
    let known = MEMORY.with_borrow(|memory| memory.known.get(&key).cloned());
    known.and_then(|known| known.downcast().ok()).unwrap_or_else(|| {
        let new = Rc::new(new());
        MEMORY.with_borrow_mut(|memory| memory.known.insert(key, Rc::clone(&new) as Rc<dyn Any>));
        new
    })
}

/// Returns true if anybody has asked for `address` as a `T`.
fn is_known<T: 'static>(address: usize) -> bool {
    MEMORY.with_borrow(|memory| memory.known.contains_key(&(address, TypeId::of::<T>())))
}

/// Forgets what loom knows of a value's bytes: atomics that lay at its address before, and are gone. Outside of the file an address
/// is another one in each execution, and what loom knew of it would be, too.
pub fn forget<T>(value: &T) {
    let start = core::ptr::from_ref(value) as usize;
    MEMORY.with_borrow_mut(|memory| {
        memory.known.retain(|&(address, _), _| !(start..start + size_of::<T>()).contains(&address));
    });
}

/// From now on this thread is the one that runs on `cpu`: another must not be, because nothing here restarts.
pub fn run_on(cpu: u32) {
    CPU.with(|of_this_thread| of_this_thread.set(cpu));
}

/// Does what a section does.
pub(crate) fn section<R>(steps: impl FnOnce() -> R) -> R {
    SECTIONS.set(SECTIONS.get() + 1);
    drop(long_ago().lock());
    let result = steps();
    drop(long_ago().lock());
    SECTIONS.set(SECTIONS.get() - 1);
    result
}

/// Waits until no thread is in a section: then all that those did is long ago, and for those that enter one later, all that this
/// thread did. A collector assumes it of the time that its system calls take between closing rings and making new ones.
pub fn outlast_sections() {
    let lock = long_ago();
    loop {
        let held = lock.lock();
        if SECTIONS.get() == 0 {
            return;
        }
        drop(held);
        loom::thread::yield_now();
    }
}

/// A lock whose holders see what earlier ones did.
fn long_ago() -> Rc<loom::sync::Mutex<()>> {
    known(0, || loom::sync::Mutex::new(()))
}

/// See [`crate::cpu`].
pub(crate) fn cpu() -> u32 {
    CPU.with(Cell::get)
}
