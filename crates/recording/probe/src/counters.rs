//! Performance counters of threads, as context of their events.
//!
//! A thread opens its counters by a call, and every hit in a session that records counters reads them before it is
//! recorded: those of the processor in user space if the kernel allows it, others by a system call. They are pinned, to
//! count all the time; one that did not is left out. They form no group, since not every kernel updates a sibling's
//! count when it is read.
//!
//! A fork's child has no counters: its copies of the descriptors are closed, the pages are not there. A program may
//! close any descriptor, and use its number for something else: so a descriptor's event id is compared before it is
//! used.

mod events;
mod kernel;
mod kind;
mod page;
mod paranoid;
mod record;
mod refusal;

pub use paranoid::Paranoid;
pub use refusal::NoCounters;

use crate::point::register;
use crate::program;
use events::PerfEvents;
use kind::{MOST, parse};
use record::{CountersPayload, POINT};
use sordino_percpu::thread;
use sordino_ring::area::slots::Slots;
use sordino_ring::number::{PointId, SlotIndex, Tag};

/// Threads of a program that may have counters at the same time.
const THREADS: usize = 256;

static SETS: [PerfEvents; THREADS] = [const { PerfEvents::new() }; THREADS];

/// A guard that closes the thread's counters when it ends.
struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        close();
    }
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

/// Opens counters for the calling thread, whose values precede its later events in every recording with counters.
/// `names` are those of perf, separated by commas, 8 at most. They replace the thread's former counters; the empty text
/// only closes those, and so does the thread's end.
///
/// ```
/// if let Err(why) = sordino::counters("page-faults, context-switches") {
///     eprintln!("no counters: {why}");
/// }
/// // ... events ...
/// sordino::counters("")?;
/// # Ok::<(), sordino::NoCounters>(())
/// ```
///
/// The processor's are `cycles`, `instructions`, `cache-references`, `cache-misses`, `branches`, `branch-misses`,
/// `bus-cycles`, `stalled-cycles-frontend`, `stalled-cycles-backend`, `ref-cycles`; the kernel's `page-faults`,
/// `minor-faults`, `major-faults`, `context-switches`, `cpu-migrations`, `task-clock` (nanoseconds). The kernel's work
/// for the thread counts, too, unless that is not permitted or the name ends with `:u`: then the counter is recorded
/// under the name with `:u`.
///
/// Not for a thread's real-time part, and not for signal handlers: it makes system calls for each counter, which has a
/// descriptor and a page then, and allocates. The first call in a program registers `sordino:counters` with recorders,
/// and waits for them as a program does when it begins. In a program that cannot be recorded, it does nothing.
///
/// Real-time, of a hit in a recording with counters (others cost nothing): for each of the processor's that may be read
/// in user space, an instruction and some loads; for each other two system calls, which never wait. Then a record of at
/// most 94 bytes more.
///
/// # Errors
/// A [`NoCounters`] with the reason; the thread has no counters then.
pub fn counters(names: &str) -> Result<(), NoCounters> {
    close();
    if names.trim().is_empty() {
        return Ok(());
    }
    let asked = parse(names)?;
    // Without an area, and if none can be made, no recorder records.
    program::with_area(|_| {});
    if !program::has_area() {
        return Ok(());
    }
    AT_END.try_with(|_| ()).map_err(|_| NoCounters::Ending)?;
    let events = SETS.iter().find(|events| events.take()).ok_or(NoCounters::TooManyThreads)?;
    asked.into_iter().try_for_each(|asked| events.add(asked)).inspect_err(|_| events.vacate())?;
    // SAFETY: the tracepoint and all that it leads to are constants of this module.
    unsafe { register(&POINT) };
    program::ready();
    // Last: from here on, a signal handler's hits read the events.
    thread::set_counters(&raw const *events as usize);
    Ok(())
}

/// The calling thread's counters.
fn own() -> Option<&'static PerfEvents> {
    let events = thread::counters() as *const PerfEvents;
    // SAFETY: the word is 0, or the address of one of `SETS`, which are static.
    unsafe { events.as_ref() }
}

fn close() {
    if let Some(events) = own() {
        thread::set_counters(0);
        // A child that was not forked by the C library's `fork` has no area, and no pages of the events: others may be
        // there by now.
        if program::has_area() {
            events.vacate();
        }
    }
}

/// Drops the parent's counters in a fork's child, whose only thread this is.
pub(crate) fn after_fork() {
    thread::set_counters(0);
    SETS.iter().for_each(PerfEvents::disinherit);
}

/// The record of the calling thread's counters that precedes one of tracepoint `event`, and the part of its tag that
/// names the tracepoint of counters. `None` if the thread has no counters, the session in `slot` has not enabled such
/// records yet, or no counter can be read.
///
/// Real-time: see [`counters()`].
pub(crate) fn payload(slots: Slots, slot: SlotIndex, event: PointId) -> Option<(Tag, CountersPayload)> {
    let events = own()?;
    let is_known = POINT.enabled().sessions(slots.cpus()).has(slot);
    // The child of a vfork has its parent's words, and no counters of its own.
    if !is_known || thread::borrowed() != 0 {
        return None;
    }
    let (mut numbers, mut values) = ([0; MOST], [0; MOST]);
    let count = events.read(&mut numbers, &mut values);
    (count > 0).then(|| (POINT.tag(), CountersPayload::of(event, &numbers[..count], &values[..count])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read() -> Option<[u64; 2]> {
        let (mut numbers, mut values) = ([0; MOST], [0; MOST]);
        let count = own()?.read(&mut numbers, &mut values);
        values[..count].try_into().ok()
    }

    /// Machines without counters of the processor have those of the kernel.
    #[test]
    fn a_thread_counts_its_own_page_faults_until_it_says_otherwise() {
        const PAGES: usize = 100;
        counters("page-faults:u,task-clock").unwrap();
        let fresh = vec![0u8; (PAGES + 1) * 4096];
        let [faults, clock] = read().unwrap();
        for page in 0..PAGES {
            // SAFETY: page `page` lies inside the vector, which is this thread's own.
            unsafe { fresh.as_ptr().wrapping_add(4096 * page).cast_mut().write_volatile(1) };
        }
        let [faults_after, clock_after] = read().unwrap();
        // One page may have been touched by the allocator.
        assert!(
            (PAGES as u64 - 1..PAGES as u64 + 5).contains(&(faults_after - faults)),
            "{}",
            faults_after - faults
        );
        assert!(clock_after > clock);
        std::thread::spawn(|| assert_eq!(read(), None)).join().unwrap();
        counters("").unwrap();
        assert_eq!(read(), None);
    }

    #[test]
    fn a_descriptor_that_has_become_another_is_neither_read_nor_closed() {
        counters("page-faults:u,task-clock").unwrap();
        let leader = own().unwrap().first().unwrap();
        let (mut ends, byte) = ([0; 2], [7u8; 1]);
        // SAFETY: writes two descriptors to `ends`.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let [reader, writer] = ends;
        // SAFETY: one byte of this function's own is read.
        assert_eq!(unsafe { libc::write(writer, byte.as_ptr().cast(), 1) }, 1);
        // SAFETY: both descriptors are this test's: the program uses the counter's number for its pipe.
        assert_eq!(unsafe { libc::dup2(reader, leader) }, leader);
        assert_eq!(read(), None);
        counters("").unwrap();
        let mut back = [0u8; 1];
        // SAFETY: there is room for one byte.
        assert_eq!(unsafe { libc::read(leader, back.as_mut_ptr().cast(), 1) }, 1);
        assert_eq!(back, byte);
        for fd in [reader, writer, leader] {
            // SAFETY: nothing else owns these descriptors.
            unsafe { libc::close(fd) };
        }
    }
}
