//! Performance counters of one thread, as perf events.
//!
//! | label | partner | guarantee |
//! |---|---|---|
//! | `events:A`, taking a place | `events:B`, giving it back | if a thread takes the place, it sees that the one before has left it |

use super::kind::{MOST, Of, RequestedCounter};
use super::page::{self, PerfPage};
use super::{NoCounters, kernel};
use crate::system;
use sordino_percpu::primitive::{Acquire, Relaxed, Release};
use sordino_percpu::primitive::{AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64};
use sordino_percpu::read_performance_counter;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// The place for one thread's events. Only this thread uses them; a fork's child closes the events that it inherited.
#[derive(Debug)]
pub(super) struct PerfEvents {
    /// 1 while a thread has this place.
    taken: AtomicU32,
    /// The number of open events.
    count: AtomicU32,
    events: [PerfEvent; MOST],
}

/// An open perf event.
#[derive(Debug)]
struct PerfEvent {
    /// The counter's number: [`RequestedCounter::number`].
    number: AtomicU8,
    fd: AtomicI32,
    /// The event's id, as [`kernel::id`] returned it for the descriptor.
    id: AtomicU64,
    /// The event's page; null if it has none.
    page: AtomicPtr<PerfPage>,
}

impl PerfEvents {
    pub(super) const fn new() -> Self {
        Self {
            taken: AtomicU32::new(0),
            count: AtomicU32::new(0),
            events: [const { PerfEvent::new() }; MOST],
        }
    }

    /// Takes the place, if it is free.
    pub(super) fn take(&self) -> bool {
        // ORDER(events:A) pairs with events:B: if the exchange sees the place free, then it sees that the thread before
        // has left it.
        self.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    /// Closes the open events, and gives the place back.
    pub(super) fn vacate(&self) {
        for event in self.each() {
            // SAFETY: `add` mapped this page, or it is null; the only thread that reads it is this one.
            unsafe { kernel::unmap(event.page.load(Relaxed)) };
            event.close();
        }
        self.empty();
    }

    /// Closes the events that a fork's child inherited, whose pages the kernel left out.
    pub(super) fn disinherit(&self) {
        if self.taken.load(Relaxed) != 0 {
            system::keep_errno(|| self.each().for_each(PerfEvent::close));
            self.empty();
        }
    }

    fn empty(&self) {
        self.count.store(0, Relaxed);
        // ORDER(events:B) pairs with events:A: if a thread sees the place free, then it sees that this one has left it.
        self.taken.store(0, Release);
    }

    fn each(&self) -> impl Iterator<Item = &PerfEvent> {
        self.events.iter().take(self.count.load(Relaxed) as usize)
    }

    /// Opens another counter for the calling thread, which has less than [`MOST`] before.
    pub(super) fn add(&self, asked: RequestedCounter) -> Result<(), NoCounters> {
        let (asked, fd) = open(asked)?;
        if self.each().any(|other| other.number.load(Relaxed) == asked.number()) {
            return Err(NoCounters::Twice(asked.name()));
        }
        // If the processor's counters are in use, or too few for all, the event does not count from the beginning.
        if kernel::read(fd.as_raw_fd()).is_none() {
            return Err(NoCounters::Taken(asked.name()));
        }
        let count = self.count.load(Relaxed);
        let event = &self.events[count as usize];
        event.number.store(asked.number(), Relaxed);
        event.page.store(kernel::map(&fd), Relaxed);
        event.id.store(kernel::id(fd.as_raw_fd()).unwrap_or(0), Relaxed);
        event.fd.store(fd.into_raw_fd(), Relaxed);
        self.count.store(count + 1, Relaxed);
        // Touches the page, so that no hit is the first to do it.
        let _ = event.read_page();
        Ok(())
    }

    /// Reads the events that have counted all the time, and stores their numbers and values; returns their count.
    pub(super) fn read(&self, numbers: &mut [u8; MOST], values: &mut [u64; MOST]) -> usize {
        let counts = self.each().filter_map(|event| Some((event.number.load(Relaxed), event.count()?)));
        let pairs = numbers.iter_mut().zip(values);
        pairs.zip(counts).map(|((number, value), counts)| (*number, *value) = counts).count()
    }
}

/// Opens a counter; without the kernel's part if that is not permitted.
fn open(asked: RequestedCounter) -> Result<(RequestedCounter, OwnedFd), NoCounters> {
    let may_see_kernel = !asked.user_only;
    let error = match kernel::open(asked, may_see_kernel) {
        Ok(fd) => return Ok((asked, fd)),
        Err(error) => error,
    };
    let less = match asked.kind().of {
        Of::Time => Some(asked),
        Of::Both | Of::Kernel => asked.without_kernel(),
    };
    let is_forbidden = matches!(error, libc::EACCES | libc::EPERM);
    match less.filter(|_| is_forbidden) {
        Some(less) => match kernel::open(less, false) {
            Ok(fd) => Ok((less, fd)),
            Err(error) => Err(NoCounters::of_errno(error, asked.name(), 2)),
        },
        None => Err(NoCounters::of_errno(error, asked.name(), if may_see_kernel { 1 } else { 2 })),
    }
}

impl PerfEvent {
    const fn new() -> Self {
        Self {
            number: AtomicU8::new(0),
            fd: AtomicI32::new(0),
            id: AtomicU64::new(0),
            page: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The event's count, if it counted all the time.
    fn count(&self) -> Option<u64> {
        self.read_page().or_else(|| self.read_from_kernel())
    }

    /// The same count, read from the page, without the kernel.
    #[inline(always)]
    fn read_page(&self) -> Option<u64> {
        let page = self.page.load(Relaxed);
        if page.is_null() {
            return None;
        }
        // SAFETY: `page::count` calls this only if the event's page has `cap_user_rdpmc` set, so the kernel lets this
        // process read it.
        let read = |number| unsafe { read_performance_counter(number) };
        // SAFETY: `add` mapped the page, and only this thread unmaps it, in `vacate`.
        unsafe { page::count(page, read) }
    }

    /// The same count, read from the kernel. Leaves `errno` as it was.
    #[inline(never)]
    fn read_from_kernel(&self) -> Option<u64> {
        let mut count = None;
        system::keep_errno(|| count = self.descriptor().and_then(kernel::read));
        count
    }

    /// The event's descriptor, unless the program has closed it or uses its number for something else.
    fn descriptor(&self) -> Option<RawFd> {
        let fd = self.fd.load(Relaxed);
        (kernel::id(fd) == Some(self.id.load(Relaxed))).then_some(fd)
    }

    fn close(&self) {
        if let Some(fd) = self.descriptor() {
            // SAFETY: the descriptor is the event's (its id matches), and nothing else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
}

#[cfg(test)]
impl PerfEvents {
    /// The descriptor of the event that was opened first.
    pub(super) fn first(&self) -> Option<RawFd> {
        self.events[0].descriptor()
    }
}
