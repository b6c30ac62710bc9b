//! One user's thread, which supplies the rings of that user's programs with pages.

use super::ring::{RETRY, WATCH, kept};
use super::supplied::Supplied;
use super::waker::SupplyWaker;
use sordino_inspect::threads;
use sordino_sched::CpuList;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, park, park_timeout};
use std::time::{Duration, Instant};

/// Time between two checks for idle rings.
const TICK: Duration = Duration::from_secs(1);
/// Length of its time slice on a CPU: a writer at full speed must not wait for other threads' slices, which last
/// milliseconds.
const TURN: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub(super) struct Supplier {
    state: Mutex<SupplyState>,
    /// True if its thread stays when it is idle: a program may need pages sooner than a thread starts.
    stays: bool,
    /// The number of rings of all suppliers' programs.
    rings: Arc<AtomicUsize>,
    /// Returns the CPUs that are shielded at present.
    shielded: fn() -> CpuList,
}

#[derive(Debug, Default)]
struct SupplyState {
    supplied: Vec<Arc<Supplied>>,
    /// The CPUs that were shielded at the last tick, or when the first program came.
    shielded: CpuList,
    thread: Option<Thread>,
    closed: bool,
}

impl Supplier {
    pub(super) fn new(rings: Arc<AtomicUsize>, shielded: fn() -> CpuList, stays: bool) -> Self {
        Self { state: Mutex::default(), stays, rings, shielded }
    }

    /// Ignores poisoning: no code panics while it holds the lock, and each change is complete.
    fn lock(&self) -> MutexGuard<'_, SupplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if it has a thread.
    pub(super) fn is_needed(&self) -> bool {
        self.lock().thread.is_some()
    }

    /// Adds a program, and starts the thread if there is none.
    ///
    /// # Errors
    /// If no thread could be started.
    pub(super) fn add(supplier: &Arc<Self>, mut program: Supplied) -> io::Result<Arc<Supplied>> {
        let mut state = supplier.lock();
        let thread = Self::thread(supplier, &mut state)?;
        let is_only = state.supplied.is_empty();
        if is_only {
            state.shielded = (supplier.shielded)();
        }
        program.begin(is_only, state.shielded.clone(), SupplyWaker::of(thread.clone()));
        let program = Arc::new(program);
        state.supplied.push(Arc::clone(&program));
        drop(state);
        thread.unpark();
        Ok(program)
    }

    /// Starts the thread before there is a program.
    ///
    /// # Errors
    /// If no thread could be started.
    pub(super) fn start(supplier: &Arc<Self>) -> io::Result<()> {
        Self::thread(supplier, &mut supplier.lock()).map(drop)
    }

    /// Returns the thread, which is started if there is none.
    fn thread(supplier: &Arc<Self>, state: &mut SupplyState) -> io::Result<Thread> {
        if let Some(thread) = &state.thread {
            return Ok(thread.clone());
        }
        let mine = Arc::clone(supplier);
        let thread = threads::start("sordino-pages", move || mine.run())?.thread().clone();
        state.thread = Some(thread.clone());
        Ok(thread)
    }

    /// Ends the thread as soon as possible.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.supplied.clear();
        if let Some(thread) = &state.thread {
            thread.unpark();
        }
    }

    fn run(&self) {
        // On kernels without such slices, other threads run first more often, and a burst may outrun this one.
        let _ = sordino_sched::set_turn(TURN);
        let mut ticked = Instant::now();
        loop {
            let now = Instant::now();
            let is_tick = now - ticked >= TICK;
            let Some(supplied) = self.supplied(is_tick) else { return };
            if is_tick {
                ticked = now;
                self.look_for_idle(&supplied, now);
            }
            let urgent = supplied.iter().filter_map(|program| Some((program.urgency(now)?, program)));
            if let Some((_, program)) = urgent.min_by_key(|(urgency, _)| *urgency) {
                program.step(now);
                continue;
            }
            if supplied.is_empty() && self.stays {
                park();
                ticked = Instant::now();
                continue;
            }
            let is_short = supplied.iter().any(|program| program.is_short());
            let is_watched = supplied.iter().any(|program| program.is_watched(now));
            drop(supplied);
            let left = TICK.saturating_sub(ticked.elapsed());
            let left = if is_watched { left.min(WATCH) } else { left };
            park_timeout(if is_short { left.min(RETRY) } else { left });
        }
    }

    fn look_for_idle(&self, supplied: &[Arc<Supplied>], now: Instant) {
        let (rings, shielded) = (self.rings.load(Relaxed), (self.shielded)());
        for program in supplied {
            program.look_for_idle(now, &shielded, |geometry| kept(geometry, rings));
        }
        self.lock().shielded = shielded;
    }

    /// Returns the programs; `None` if the thread is to end, as it does after being idle.
    fn supplied(&self, was_idle: bool) -> Option<Vec<Arc<Supplied>>> {
        let mut state = self.lock();
        state.supplied.retain(|program| !program.is_closed());
        if state.closed || was_idle && state.supplied.is_empty() && !self.stays {
            state.thread = None;
            return None;
        }
        Some(state.supplied.clone())
    }
}
