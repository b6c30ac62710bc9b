//! The program's own state: its area, its lock, what a fork does to it.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `program:A`, taking the lock | `program:B`, giving it back | one at a time, and each sees what the one before did |

use crate::counters;
use crate::session::Recorders;
use crate::system::{self, AreaFile};
use crate::text::Hash;
use sordino_percpu::primitive::{Acquire, AtomicU32, Relaxed, Release};
use sordino_percpu::{process, thread};
use sordino_ring::area::{Area, Request};
use sordino_ring::layout::{PAGE, POINTS, RingHeader};
use sordino_ring::map;
use sordino_ring::slots::Slots;
use std::cell::UnsafeCell;

/// Whether the program has an area.
///
/// The child of a fork, however it was forked, has none until it has made its own: the kernel hands out zeros in the place
/// of the process's word. So it writes to nobody's rings, whatever its threads remember.
#[inline(always)]
pub(crate) fn has_area() -> bool {
    process::word() != 0
}

/// The program's slots, if it has an area.
#[inline(always)]
pub(crate) fn slots() -> Option<Slots> {
    let first = process::word() as *const RingHeader;
    // SAFETY: the word is the address of the first ring of slot 0 of an area that is never unmapped.
    (!first.is_null()).then(|| unsafe { Slots::of(first) })
}

/// The area's file.
static FILE: AreaFile = AreaFile::new();

/// Whether a living recorder has `slot`; `false` also if the program has closed the area's descriptor, through which it looks.
///
/// System calls, none of which waits.
pub(crate) fn is_recorded(slot: u32) -> bool {
    FILE.get().is_some_and(|file| map::is_locked(&file, slot.into()).unwrap_or(false))
}

/// The program's area and what it knows of its tracepoints. Only for whoever holds the lock.
pub(crate) struct Program {
    pub(crate) area: Area,
    /// How many tracepoints are registered.
    count: u16,
    /// The length of the catalogue that recorders were last told of, and its tracepoints.
    announced: u64,
    told: u16,
    recorders: Recorders,
    request: Request,
}

struct Global {
    /// 0: free; 1: taken.
    lock: AtomicU32,
    /// 0: not tried; 1: there is a program; 2: it failed.
    state: AtomicU32,
    program: UnsafeCell<Option<Program>>,
    /// The hash of each registered tracepoint's text. Apart from `program`, so that what is not used is not touched.
    hashes: UnsafeCell<[u64; POINTS]>,
}

// SAFETY: the cells are only touched with `lock` taken.
unsafe impl Sync for Global {}

static GLOBAL: Global = Global {
    lock: AtomicU32::new(0),
    state: AtomicU32::new(0),
    program: UnsafeCell::new(None),
    hashes: UnsafeCell::new([0; POINTS]),
};

/// Calls `use_it` with the program's state, making it first if need be; not at all if that fails.
///
/// Not for the recording path: takes a lock. Whoever holds it runs a module's constructors or a fork's child.
pub(crate) fn with_area(use_it: impl FnOnce(&mut Program)) {
    // A module's constructors run one after the other; threads that load modules at the same time may meet here.
    // ORDER(program:A) pairs with program:B.
    while GLOBAL.lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
    // SAFETY: we hold the lock.
    let program = unsafe { &mut *GLOBAL.program.get() };
    if GLOBAL.state.load(Relaxed) == 0 {
        *program = start();
        GLOBAL.state.store(if program.is_some() { 1 } else { 2 }, Relaxed);
    }
    if let Some(program) = program {
        use_it(program);
    }
    // ORDER(program:B) pairs with program:A.
    GLOBAL.lock.store(0, Release);
}

fn start() -> Option<Program> {
    if system::wants_no_area() {
        return None;
    }
    let restartable = sordino_percpu::init(system::wants_shared_ring());
    let request = Request {
        cpus: system::possible_cpus(),
        catalogue: 192 << 10,
        reserve: system::reserve(),
        pid: std::process::id(),
        restartable,
        allows_blocking: system::allows_blocking(),
    };
    system::check_thread_id();
    if !system::wipe_on_fork(process::page(), PAGE) {
        return None;
    }
    let (area, file) = Area::create(&request).ok()?;
    if !system::at_fork(after_fork) {
        return None;
    }
    FILE.keep(file);
    publish(&area);
    let recorders = Recorders::from_environment();
    Some(Program { area, count: 0, announced: 0, told: 0, recorders, request })
}

/// From here on tracepoints may write.
fn publish(area: &Area) {
    process::set_word(area.rings(0).first as usize);
}

impl Program {
    /// The number of the tracepoint whose text hashes to `hash`; if there is none, the next one, for which `write` writes the
    /// text. `None` if there is no room.
    pub(crate) fn find_or_add(
        &mut self,
        hash: Hash,
        write: impl FnOnce(u16, &mut [u8]) -> Option<usize>,
    ) -> Option<u16> {
        // SAFETY: whoever has a `Program` holds the lock.
        let hashes = unsafe { &mut *GLOBAL.hashes.get() };
        let known = hashes.iter().take(usize::from(self.count)).position(|&known| known == hash.0);
        if let Some(id) = known {
            return Some(id as u16);
        }
        let id = self.count;
        // SAFETY: we are the only one: the lock is held.
        let added = usize::from(id) < POINTS && unsafe { self.area.append(|room| write(id, room)) };
        if !added {
            return self.refuse();
        }
        hashes[usize::from(id)] = hash.0;
        self.count += 1;
        Some(id)
    }

    /// Counts a tracepoint that cannot be recorded.
    pub(crate) fn refuse(&self) -> Option<u16> {
        self.area.header().refused.fetch_add(1, Relaxed);
        None
    }

    /// Shows recorders what there is, if there is something new, and waits until they have looked.
    fn announce(&mut self) {
        let length = self.area.header().catalogue_length.load(Relaxed);
        if length != self.announced {
            self.announced = length;
            let new = std::mem::replace(&mut self.told, self.count)..self.count;
            let slots = self.area.slots();
            system::keep_errno(|| self.recorders.announce(&FILE, slots.pending(), new));
        }
    }
}

/// Called when all tracepoints of a module are registered: recorders enable those they want before the module's code runs.
/// Waits for them, a bounded time; where nobody listens, returns at once.
pub extern "C" fn ready() {
    with_area(Program::announce);
}

/// In the child of a fork: an area of its own, with the same tracepoints, none enabled. No allocation and no lock: other
/// threads of the parent may have held any.
extern "C" fn after_fork() {
    GLOBAL.lock.store(1, Relaxed);
    thread::set_tag(0);
    thread::set_place(0);
    counters::after_fork();
    // SAFETY: this is the only thread of the child.
    if let Some(program) = unsafe { &mut *GLOBAL.program.get() } {
        let restartable = program.request.restartable;
        // SAFETY: this is the only thread of the child.
        if let Ok(file) = unsafe { program.area.renew(system::process_id(), restartable) } {
            FILE.replace(file);
            publish(&program.area);
            (program.announced, program.told) = (0, 0);
            program.announce();
        }
    }
    // ORDER(program:B) pairs with program:A.
    GLOBAL.lock.store(0, Release);
}
