//! The program's own state: its area, its lock, and their renewal in the child of a fork.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `program:A`, taking the lock | `program:B` and `program:C`, releasing it | one holder at a time; it sees the last one's stores |

use crate::counters;
use crate::register::Recorders;
use crate::system::{self, AreaFile};
use crate::text::{TracepointText, start_of};
use sordino_event::catalogue::{Unregistered, Writer};
use sordino_percpu::primitive::{Acquire, AtomicU32, Relaxed, Release};
use sordino_percpu::{process, thread};
use sordino_ring::area::map;
use sordino_ring::area::slots::Slots;
use sordino_ring::area::{Area, AreaRequest};
use sordino_ring::layout::{PAGE, RingHeader};
use sordino_ring::number::{PointId, SlotIndex};
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Returns true if the program has an area.
///
/// The child of a fork, however it was forked, has none until it has made its own: the kernel replaces the process's
/// word by zeros. So it never writes to its parent's rings, whatever its threads have cached.
#[inline(always)]
pub(crate) fn has_area() -> bool {
    process::word() != 0
}

/// The program's slots, if it has an area.
#[inline(always)]
pub(crate) fn slots() -> Option<Slots> {
    let first = process::word() as *const RingHeader;
    // SAFETY: the word is not null, so it is the address of slot 0's first ring in an area that is never unmapped.
    (!first.is_null()).then(|| unsafe { Slots::of(first) })
}

/// The file of the program's area.
static FILE: AreaFile = AreaFile::new();

/// Returns true if a living recorder has `slot`. Always false after the program has closed the area's descriptor, on
/// which the recorder's lock is tested.
///
/// Makes system calls, none of which waits.
pub(crate) fn is_recorded(slot: SlotIndex) -> bool {
    FILE.get().is_some_and(|file| map::is_locked(&file, slot.index().into()).unwrap_or(false))
}

/// The program's area and its registered tracepoints. Only for the holder of the lock.
pub(crate) struct ProgramRegistry {
    pub(crate) area: Area,
    /// The numbers of the registered tracepoints, by the hashes of their texts.
    ids: HashMap<u64, PointId, BuildHasherDefault<Hashed>>,
    /// The text of the tracepoint that is being registered.
    text: TracepointText,
    /// The number of refused tracepoints that the catalogue names.
    named: usize,
    /// The length of the catalogue at the last registration with recorders, and the number of its tracepoints.
    registered_length: u64,
    registered_points: u16,
    recorders: Recorders,
    request: AreaRequest,
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

/// The most refused tracepoints that the catalogue names; others are only counted.
const MOST_NAMED: usize = 64;
/// The most bytes of each name of a refused tracepoint.
const MOST_OF_A_NAME: usize = 100;
/// Bytes of the catalogue that are reserved for refused tracepoints: two names, the reason and the separators of each.
const NAMED: usize = MOST_NAMED * (2 * MOST_OF_A_NAME + 20);

struct Global {
    /// The lock's state: 0 free, 1 taken.
    lock: AtomicU32,
    /// The start's state: 0 not tried, 1 done, 2 failed.
    state: AtomicU32,
    program: UnsafeCell<Option<ProgramRegistry>>,
}

// SAFETY: only the holder of `lock` accesses the cell, and the only thread of a fork's child, which takes it first.
unsafe impl Sync for Global {}

static GLOBAL: Global =
    Global { lock: AtomicU32::new(0), state: AtomicU32::new(0), program: UnsafeCell::new(None) };

/// Calls `use_it` with the program's state, which it makes first if there is none yet. Does not call it if that fails.
///
/// Not for the recording path: takes a lock, whose holder runs a module's constructors or a fork's child.
pub(crate) fn with_area(use_it: impl FnOnce(&mut ProgramRegistry)) {
    // A module's constructors run one after the other; threads that load modules at the same time may wait here.
    // ORDER(program:A) pairs with program:B and program:C: if the exchange sees the lock free, then it sees the last
    // holder's stores.
    while GLOBAL.lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        std::thread::yield_now();
    }
    // SAFETY: this thread holds the lock, so it alone accesses the cell.
    let program = unsafe { &mut *GLOBAL.program.get() };
    if GLOBAL.state.load(Relaxed) == 0 {
        *program = start();
        GLOBAL.state.store(if program.is_some() { 1 } else { 2 }, Relaxed);
    }
    if let Some(program) = program {
        use_it(program);
    }
    // ORDER(program:B) pairs with program:A: if a thread sees the lock free, then it sees this thread's stores.
    GLOBAL.lock.store(0, Release);
}

fn start() -> Option<ProgramRegistry> {
    if system::forbids_recording() {
        return None;
    }
    let restartable = sordino_percpu::init(system::forbids_cpu_rings());
    let reserve = system::reserve();
    let (points, catalogue) = system::capacity(reserve);
    let request = AreaRequest {
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
    let recorders = Recorders::from_environment();
    if !system::at_fork(after_fork) {
        return None;
    }
    // The memory is that of CPUs' rings.
    let prepared = if restartable { recorders.prepared_area(&request) } else { None };
    // A prepared file that is no area's, or has no room, is not used.
    let in_prepared = prepared.and_then(|file| Some((Area::create_in(&file, &request).ok()?, file)));
    let (area, file) = in_prepared.or_else(|| Area::create(&request).ok())?;
    FILE.keep(file);
    publish(&area);
    let (ids, text) = (HashMap::default(), TracepointText::default());
    Some(ProgramRegistry {
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

/// Publishes the area to tracepoints, which may write from here on.
fn publish(area: &Area) {
    process::set_word(area.rings(SlotIndex::FIRST).first as usize);
}

impl ProgramRegistry {
    /// Returns the number of the tracepoint with the text that `write` writes. Adds the tracepoint under the next
    /// number, which `write` receives, if there is none yet.
    ///
    /// # Errors
    /// The errors of `write`; [`Unregistered::NoRoom`] if the area has no room for another tracepoint.
    pub(crate) fn find_or_add(
        &mut self,
        write: impl FnOnce(PointId, &mut TracepointText) -> Result<(), Unregistered>,
    ) -> Result<PointId, Unregistered> {
        let count = self.area.header().points.load(Relaxed);
        let id = u16::try_from(count).map(PointId).or(Err(Unregistered::NoRoom))?;
        write(id, self.text.begin())?;
        let hash = self.text.hash();
        if let Some(id) = self.ids.get(&hash) {
            return Ok(*id);
        }
        let has_room = self.area.room() >= self.text.bytes().len() + NAMED && self.ids.try_reserve(1).is_ok();
        // SAFETY: `self` is the lock's holder's, so this is the only writer; the area has one tracepoint more than
        // before.
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
            // SAFETY: `self` is the lock's holder's, so this is the only writer; the number of tracepoints stays.
            unsafe { self.area.append(self.text.bytes(), header.points.load(Relaxed)) };
        }
    }

    /// Registers with recorders if the catalogue has grown, and waits for their replies.
    fn register(&mut self) {
        let length = self.area.header().catalogue_length.load(Relaxed);
        if length != self.registered_length {
            self.registered_length = length;
            // The area has at most 32,768 tracepoints.
            let count = self.area.header().points.load(Relaxed) as u16;
            let new = std::mem::replace(&mut self.registered_points, count)..count;
            let slots = self.area.slots();
            system::keep_errno(|| self.recorders.register(&FILE, slots.pending(), new));
        }
    }
}

/// Registers the program with recorders, when all tracepoints of a module are registered: the recorders enable
/// tracepoints before the module's code runs. Waits for them, a bounded time; returns at once if no recorder listens.
pub extern "C" fn ready() {
    with_area(ProgramRegistry::register);
}

/// Makes a new area for the child of a fork, with the same tracepoints, none enabled. Does not allocate and takes no
/// lock: other threads of the parent may have held any.
extern "C" fn after_fork() {
    GLOBAL.lock.store(1, Relaxed);
    thread::set_tag(0);
    thread::set_base(0);
    counters::after_fork();
    // SAFETY: this is the only thread of the child, so it alone accesses the cell.
    if let Some(program) = unsafe { &mut *GLOBAL.program.get() } {
        let restartable = program.request.restartable;
        // SAFETY: this is the only thread of the child, so nothing else uses the area.
        if let Ok(file) = unsafe { program.area.renew(system::process_id(), restartable) } {
            FILE.replace(file);
            publish(&program.area);
            (program.registered_length, program.registered_points) = (0, 0);
            program.register();
        }
    }
    // ORDER(program:C) pairs with program:A: if a thread sees the lock free, then it sees this thread's stores.
    GLOBAL.lock.store(0, Release);
}
