//! The program's own state: its area, its lock, what a fork does to it.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `program:A`, taking the lock | `program:B`, giving it back | one at a time, and each sees what the one before did |

use crate::counters;
use crate::register::Recorders;
use crate::system::{self, AreaFile};
use crate::text::{Text, start_of};
use sordino_event::catalogue::{Unregistered, Writer};
use sordino_percpu::primitive::{Acquire, AtomicU32, Relaxed, Release};
use sordino_percpu::{process, thread};
use sordino_ring::area::{Area, Request};
use sordino_ring::layout::{PAGE, RingHeader};
use sordino_ring::map;
use sordino_ring::slots::Slots;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
    /// The registered tracepoints: their numbers, by the hashes of their texts.
    ids: HashMap<u64, u16, BuildHasherDefault<Hashed>>,
    /// The text of the one that is being registered.
    text: Text,
    /// Tracepoints that the catalogue says could not be registered.
    named: usize,
    /// The length of the catalogue at the last registration with recorders, and the number of its tracepoints.
    registered_length: u64,
    registered_points: u16,
    recorders: Recorders,
    request: Request,
}

/// The state of an FNV-1a hash.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Tracepoints that could not be registered and are named in the catalogue, at most; others are only counted.
const MOST_NAMED: usize = 64;
/// Bytes of each of their names.
const MOST_OF_A_NAME: usize = 100;
/// Bytes of the catalogue that are kept for them: two names, the reason and what stands between.
const NAMED: usize = MOST_NAMED * (2 * MOST_OF_A_NAME + 20);

struct Global {
    /// 0: free; 1: taken.
    lock: AtomicU32,
    /// 0: not tried; 1: there is a program; 2: it failed.
    state: AtomicU32,
    program: UnsafeCell<Option<Program>>,
}

// SAFETY: the cell is only touched with `lock` taken.
unsafe impl Sync for Global {}

static GLOBAL: Global =
    Global { lock: AtomicU32::new(0), state: AtomicU32::new(0), program: UnsafeCell::new(None) };

/// Calls `use_it` with the program's state, making it first if need be; not at all if that fails.
///
/// Not for the recording path: takes a lock. Whoever holds it runs a module's constructors or a fork's child.
pub(crate) fn with_area(use_it: impl FnOnce(&mut Program)) {
    // A module's constructors run one after the other; threads that load modules at the same time may wait here.
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
    let reserve = system::reserve();
    let (points, catalogue) = system::capacity(reserve);
    let request = Request {
        cpus: system::possible_cpus(),
        points,
        catalogue,
        reserve,
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
    let (ids, text) = (HashMap::default(), Text::default());
    Some(Program {
        area,
        ids,
        text,
        named: 0,
        registered_length: 0,
        registered_points: 0,
        recorders,
        request,
    })
}

/// From here on tracepoints may write.
fn publish(area: &Area) {
    process::set_word(area.rings(0).first as usize);
}

impl Program {
    /// The number of the tracepoint whose text `write` writes for a number; if there is none yet, the next one.
    ///
    /// # Errors
    /// The errors of `write`; [`Unregistered::NoRoom`] if the area has no room for another tracepoint.
    pub(crate) fn find_or_add(
        &mut self,
        write: impl FnOnce(u16, &mut Text) -> Result<(), Unregistered>,
    ) -> Result<u16, Unregistered> {
        let count = self.area.header().points.load(Relaxed);
        let id = u16::try_from(count).or(Err(Unregistered::NoRoom))?;
        write(id, self.text.begin())?;
        let hash = self.text.hash();
        if let Some(id) = self.ids.get(&hash) {
            return Ok(*id);
        }
        let has_room = self.area.room() >= self.text.bytes().len() + NAMED && self.ids.try_reserve(1).is_ok();
        // SAFETY: we are the only one: the lock is held. There is one more than before.
        if !has_room || !unsafe { self.area.append(self.text.bytes(), count + 1) } {
            return Err(Unregistered::NoRoom);
        }
        self.ids.insert(hash, id);
        self.area.touch(id);
        Ok(id)
    }

    /// Counts a tracepoint that cannot be recorded, and names it to recorders.
    pub(crate) fn refuse(&mut self, reason: Unregistered, provider: &[u8], name: &[u8]) {
        let header = self.area.header();
        header.refused.fetch_add(1, Relaxed);
        if self.named == MOST_NAMED {
            return;
        }
        self.named += 1;
        let (mut first, mut second) = ([0; MOST_OF_A_NAME], [0; MOST_OF_A_NAME]);
        let (provider, name) = (start_of(provider, &mut first), start_of(name, &mut second));
        let written = Writer::new(self.text.begin()).refused(reason, provider, name);
        if written.is_ok() {
            // SAFETY: we are the only one: the lock is held. There are as many as before.
            unsafe { self.area.append(self.text.bytes(), header.points.load(Relaxed)) };
        }
    }

    /// Registers with recorders if there is something new, and waits until they have looked.
    fn register(&mut self) {
        let length = self.area.header().catalogue_length.load(Relaxed);
        if length != self.registered_length {
            self.registered_length = length;
            // As many have a number of 16 bits.
            let count = self.area.header().points.load(Relaxed) as u16;
            let new = std::mem::replace(&mut self.registered_points, count)..count;
            let slots = self.area.slots();
            system::keep_errno(|| self.recorders.register(&FILE, slots.pending(), new));
        }
    }
}

/// Called when all tracepoints of a module are registered: recorders enable those they want before the module's code runs.
/// Waits for them, a bounded time; where nobody listens, returns at once.
pub extern "C" fn ready() {
    with_area(Program::register);
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
            (program.registered_length, program.registered_points) = (0, 0);
            program.register();
        }
    }
    // ORDER(program:B) pairs with program:A.
    GLOBAL.lock.store(0, Release);
}
