//! The recorder's own threads. All are started here, so that the recorder can choose their CPUs, and a recording can
//! name them.

use crate::rights;
use rustix::thread::gettid;
use rustix::time::{ClockId, clock_gettime};
use sordino_clock::{Clock, nanoseconds};
use sordino_sched::{CpuList, ThreadIdentity, set_affinity};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Maximum number of ended threads that are remembered: some live for a moment, and a recording may take days.
const MOST_ENDED: usize = 1000;

/// The recorder threads of this process, the oldest first.
static OWN: Mutex<Vec<OwnThread>> = Mutex::new(Vec::new());

/// A thread of the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnThread {
    /// The thread's id in the kernel.
    pub tid: i32,
    /// The name that the thread was started with.
    pub name: String,
    /// True if the thread stays on the CPU that the user chose for it.
    stays: bool,
    /// The time at which it ended, in nanoseconds of `CLOCK_MONOTONIC`.
    ended: Option<u64>,
}

/// Starts a thread of the recorder, with no more rights than it needs.
pub fn start<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let own = name.to_owned();
    Builder::new().name(name.to_owned()).spawn(move || {
        let _entry = enter(own);
        rights::confine();
        run()
    })
}

/// Counts the calling thread among the recorder's, as long as the result lives.
pub fn enter(name: String) -> OwnThreadGuard {
    let tid = gettid().as_raw_nonzero().get();
    own().push(OwnThread { tid, name, stays: false, ended: None });
    OwnThreadGuard(tid)
}

/// Excludes the calling thread from [`move_to`].
pub fn stay() {
    let tid = gettid().as_raw_nonzero().get();
    living(&mut own(), tid).into_iter().for_each(|thread| thread.stays = true);
}

/// Moves all threads, except those that stay, to these CPUs: the calling thread first, from which later ones inherit.
///
/// # Errors
/// The kernel's error, if the calling thread may not run there. No other thread is moved then.
pub fn move_to(cpus: &CpuList) -> io::Result<()> {
    set_affinity(cpus)?;
    let moved: Vec<i32> = own()
        .iter()
        .filter(|thread| thread.ended.is_none() && !thread.stays)
        .map(|thread| thread.tid)
        .collect();
    for tid in moved {
        // A thread that ends meanwhile needs no CPU.
        let _ = ThreadIdentity::find(tid).and_then(|thread| thread.set_affinity(cpus));
    }
    Ok(())
}

/// Returns the threads that lived at this time of `CLOCK_MONOTONIC` or later.
pub fn since(monotonic: u64) -> Vec<OwnThread> {
    let own = own();
    own.iter().filter(|thread| thread.ended.is_none_or(|ended| ended >= monotonic)).cloned().collect()
}

/// Ignores poisoning: no code panics while it holds the lock, and each change is complete.
fn own() -> MutexGuard<'static, Vec<OwnThread>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn living(own: &mut [OwnThread], tid: i32) -> Option<&mut OwnThread> {
    own.iter_mut().find(|thread| thread.tid == tid && thread.ended.is_none())
}

/// The time during which a thread is one of the recorder's.
#[derive(Debug)]
pub struct OwnThreadGuard(i32);

impl Drop for OwnThreadGuard {
    fn drop(&mut self) {
        let now = nanoseconds(Clock::Monotonic);
        let mut own = own();
        living(&mut own, self.0).into_iter().for_each(|thread| thread.ended = Some(now));
        let ended = own.iter().filter(|thread| thread.ended.is_some()).count();
        if ended > MOST_ENDED
            && let Some(oldest) = own.iter().position(|thread| thread.ended.is_some())
        {
            own.remove(oldest);
        }
    }
}

/// Returns the CPU time that a clock shows, in seconds.
pub fn cpu_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_sched::affinity;
    use std::sync::mpsc::channel;

    /// Held by tests that move threads, because all threads of the process are moved.
    static MOVING: Mutex<()> = Mutex::new(());

    #[test]
    fn threads_are_known_by_number_and_moved_unless_they_stay() {
        let _moving = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
        let all = affinity().unwrap();
        let first = CpuList::new([all.as_slice()[0]]);
        std::thread::spawn(move || {
            let _entry = enter("main".to_owned());
            let [(moves, may_move), (stays, may_stay)] = [channel::<()>(), channel::<()>()];
            let (ready, is_ready) = channel();
            let sender = ready.clone();
            let moving = start("moving", move || {
                sender.send(gettid().as_raw_nonzero().get()).unwrap();
                may_move.recv().unwrap();
                affinity().unwrap()
            });
            let moving_tid = is_ready.recv().unwrap();
            let staying = start("staying", move || {
                stay();
                ready.send(gettid().as_raw_nonzero().get()).unwrap();
                may_stay.recv().unwrap();
                affinity().unwrap()
            });
            is_ready.recv().unwrap();
            move_to(&first).unwrap();
            assert_eq!(affinity().unwrap(), first);
            assert!(since(u64::MAX).iter().any(|own| own.tid == moving_tid && own.name == "moving"));
            moves.send(()).unwrap();
            assert_eq!(moving.unwrap().join().unwrap(), first);
            stays.send(()).unwrap();
            assert_eq!(staying.unwrap().join().unwrap(), all);
            let is_ended = |own: &OwnThread| own.tid == moving_tid && own.ended.is_some();
            assert!(since(0).iter().any(is_ended) && !since(u64::MAX).iter().any(is_ended));
            assert!(move_to(&CpuList::new([60_000])).is_err());
        })
        .join()
        .unwrap();
    }
}
