//! The basis of the recording crates under `--cfg loom`: memory of which the checker loom sees every access, and CPUs
//! that are threads.
//!
//! Shared memory leads to more shared memory by offsets, so its words are reached by casts, and loom's atomics, which
//! hold a key instead of a value, can't lie there. Here an [atomic](primitive) has std's size and no content: loom's
//! own atomic is found by the address, and so is loom's state of a [plain](plain) word. So layout, casts and every
//! function that uses them are the same in the model and outside.

pub mod futex;
pub mod plain;
pub mod primitive;

use core::any::{Any, TypeId};
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of the one piece of memory that all mappings are parts of.
const SIZE: usize = 64 << 10;

/// A page, the alignment of mappings.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct AlignedPage([u8; 4096]);

struct ModelMemory {
    bytes: Box<[AlignedPage]>,
    /// Loom's state of each address: an atomic, the accesses to a plain word, the sleepers there.
    known: BTreeMap<(usize, TypeId), Rc<dyn Any>>,
}

impl ModelMemory {
    fn new() -> Self {
        Self { bytes: vec![AlignedPage([0; 4096]); SIZE / 4096].into(), known: BTreeMap::new() }
    }
}

// Loom runs all threads of a model on one thread of the system.
thread_local! {
    static MEMORY: RefCell<ModelMemory> = RefCell::new(ModelMemory::new());
    /// Number of the model's threads that are in a section.
    static SECTIONS: Cell<u32> = const { Cell::new(0) };
}

loom::thread_local! {
    static CPU: Cell<u32> = Cell::new(crate::NO_CPU);
}

/// Begins one execution of a model: memory becomes zero, and loom's state of it, which belonged to the execution
/// before, is dropped.
pub fn begin() {
    MEMORY.set(ModelMemory::new());
    SECTIONS.set(0);
    plain::begin();
}

/// The memory that a mapping of these bytes of the model's one file leads to.
///
/// # Panics
/// Panics if the model needs more than `SIZE` bytes.
pub fn memory(offset: usize, length: usize) -> NonNull<u8> {
    assert!(offset + length <= SIZE, "the model's memory ends at {SIZE}, not {}", offset + length);
    let first = MEMORY.with_borrow_mut(|memory| NonNull::from(&mut memory.bytes[..]).cast::<u8>());
    first.map_addr(|start| start.saturating_add(offset))
}

/// Sets the atomics in these bytes of the file to zero, ordered with nothing, as the kernel does when memory is given
/// back to it. The other bytes keep their values, since nothing may rely on them.
pub fn clear(offset: usize, length: usize) {
    let start = memory(offset, length).as_ptr() as usize;
    let all: Vec<_> = MEMORY.with_borrow(|memory| {
        let within = |&(&(address, _), _): &(&(usize, TypeId), _)| (start..start + length).contains(&address);
        memory.known.iter().filter(within).map(|(_, known)| Rc::clone(known)).collect()
    });
    all.iter().for_each(|known| primitive::clear(&**known));
}

/// Writes to each word in use among these bytes of the file, as the kernel does while others may use them.
pub fn overwrite(offset: usize, length: usize) {
    let start = memory(offset, length).as_ptr() as usize;
    plain::written_where_known(start, length);
}

/// Loom's state of `address` as a `T`, made by `new` at the first request. Loom requires that the thread that starts
/// all others is the first to request an atomic.
fn known<T: 'static>(address: usize, new: impl FnOnce() -> T) -> Rc<T> {
    let key = (address, TypeId::of::<T>());
    let known = MEMORY.with_borrow(|memory| memory.known.get(&key).cloned());
    known.and_then(|known| known.downcast().ok()).unwrap_or_else(|| {
        let new = Rc::new(new());
        MEMORY.with_borrow_mut(|memory| memory.known.insert(key, Rc::clone(&new) as Rc<dyn Any>));
        new
    })
}

/// Returns true if `address` has been requested as a `T`.
fn is_known<T: 'static>(address: usize) -> bool {
    MEMORY.with_borrow(|memory| memory.known.contains_key(&(address, TypeId::of::<T>())))
}

/// Drops loom's state of a value's bytes: that of atomics that lay at its address before, and are gone. Outside of the
/// file, an address differs in each execution, and so would loom's state of it.
pub fn forget<T>(value: &T) {
    let start = core::ptr::from_ref(value) as usize;
    MEMORY.with_borrow_mut(|memory| {
        memory.known.retain(|&(address, _), _| !(start..start + size_of::<T>()).contains(&address));
    });
}

/// Makes this thread the one that runs on `cpu`. No other thread may run on it, because nothing restarts in the model.
pub fn run_on(cpu: u32) {
    CPU.with(|of_this_thread| of_this_thread.set(cpu));
}

/// Runs the steps of a section.
pub(crate) fn section<R>(steps: impl FnOnce() -> R) -> R {
    SECTIONS.set(SECTIONS.get() + 1);
    drop(long_ago().lock());
    let result = steps();
    drop(long_ago().lock());
    SECTIONS.set(SECTIONS.get() - 1);
    result
}

/// Waits until no thread is in a section. The caller then sees all that those threads did, and threads that enter a
/// section later see all that the caller did. A collector assumes this of the time that its system calls take between
/// closing rings and making new ones.
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

/// A lock: its holder sees all that earlier holders did.
fn long_ago() -> Rc<loom::sync::Mutex<()>> {
    known(0, || loom::sync::Mutex::new(()))
}

/// The CPU that this thread runs on, as [`crate::cpu`] returns it.
pub(crate) fn cpu() -> u32 {
    CPU.with(Cell::get)
}
