//! Waits for futexes: the waiting threads, the threads that they waited for, and the times.

use crate::evidence_finder::Follows;
use crate::record_gap::RecordGap;
use crate::span::{FoundSpan, Span};
use foldhash::HashMap;
use sordino_event::{Loss, Nanos, Tid, Time};
use sordino_timeline::{Arch, Futex, FutexOperation, Kernel, Moment, TaskState};

/// The use of the time of a wait; the names are those of [`PARTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Asleep = 0,
    Runnable = 1,
    InCall = 2,
}

/// The names of the parts of a wait.
pub(crate) const PARTS: [&str; 3] = ["asleep", "waits for a CPU", "in the call"];

/// The threads in calls of `futex`.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    waits: HashMap<Tid, Wait>,
    /// The words by which threads wake others.
    wakers: HashMap<Tid, u64>,
    gap: RecordGap,
}

/// The wait of a thread for a futex.
#[derive(Debug)]
struct Wait {
    from: Time,
    word: u64,
    phase: Phase,
    since: Time,
    parts: [Nanos; 3],
    slept: bool,
    /// The thread that ended its sleep by a call with the same word.
    waker: Option<Tid>,
}

impl Wait {
    fn enter(&mut self, phase: Phase, now: Time) {
        self.parts[self.phase as usize] += now - self.since;
        (self.phase, self.since) = (phase, now);
        self.slept |= phase == Phase::Asleep;
    }
}

impl Locks {
    fn enter(&mut self, tid: Tid, futex: Option<Futex>, now: Time, found: &mut Vec<FoundSpan>) {
        // The exit from the call before was not recorded.
        let before = self.waits.remove(&tid).filter(|wait| wait.slept);
        found.extend(before.map(|_| FoundSpan::Broken));
        self.wakers.remove(&tid);
        let Some(Futex { operation, word, .. }) = futex else { return };
        match operation {
            FutexOperation::Wait | FutexOperation::LockPi => {
                let parts = [Nanos::ZERO; 3];
                let (phase, since) = (Phase::InCall, now);
                self.waits
                    .insert(tid, Wait { from: now, word, phase, since, parts, slept: false, waker: None });
            }
            FutexOperation::Wake | FutexOperation::UnlockPi => _ = self.wakers.insert(tid, word),
        }
    }

    /// Returns the thread that wakes sleepers by the word for which `tid` waits. Both are in the same process, if both
    /// processes are known.
    fn waker(&self, tid: Tid, moment: &Moment<'_>) -> Option<Tid> {
        let by = moment.tid?;
        let is_its = self.wakers.get(&by) == self.waits.get(&tid).map(|wait| &wait.word);
        let pids = [tid, by].map(|tid| moment.system.pid(tid));
        (is_its && (pids[0] == pids[1] || pids.contains(&None))).then_some(by)
    }
}

impl Follows for Locks {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let (Some(kernel), now) = (moment.kernel, moment.event.time) else { return };
        match kernel {
            Kernel::SyscallEntry { call, arguments } => {
                let Some(tid) = moment.tid else { return };
                self.enter(tid, Futex::of(Arch::default(), &call, arguments), now, found);
            }
            Kernel::SyscallExit => {
                let Some(tid) = moment.tid else { return };
                self.wakers.remove(&tid);
                let Some(mut wait) = self.waits.remove(&tid) else { return };
                wait.enter(Phase::InCall, now);
                if self.gap.touches(wait.from) {
                    found.push(FoundSpan::Broken);
                } else if wait.slept {
                    found.push(FoundSpan::Whole(Span {
                        tid: Some(tid),
                        cpu: moment.cpu,
                        other: wait.waker,
                        address: Some(wait.word),
                        parts: wait.parts.to_vec(),
                        ..Span::between(wait.from, now)
                    }));
                }
            }
            Kernel::Switch { prev, state, next } => {
                let left = if state == TaskState::Runnable { Phase::Runnable } else { Phase::Asleep };
                self.waits.get_mut(&prev.tid).into_iter().for_each(|wait| wait.enter(left, now));
                self.waits.get_mut(&next.tid).into_iter().for_each(|wait| wait.enter(Phase::InCall, now));
            }
            Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. } => {
                let waker = self.waker(tid, moment);
                let asleep = self.waits.get_mut(&tid).filter(|wait| wait.phase == Phase::Asleep);
                if let Some(wait) = asleep {
                    wait.enter(Phase::Runnable, now);
                    wait.waker = waker;
                }
            }
            Kernel::Gone { tid } => {
                found.extend(self.waits.remove(&tid).map(|_| FoundSpan::Broken));
                self.wakers.remove(&tid);
            }
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        if loss.pid.is_none() {
            self.gap.add(loss);
            found.extend(self.waits.drain().map(|_| FoundSpan::Broken));
            self.wakers.clear();
        }
    }

    fn starts(&mut self, tid: Tid, since: Time, _: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        match self.waits.get_mut(&tid) {
            // It was woken after the last record of its CPU.
            Some(wait) if wait.phase == Phase::Runnable => wait.enter(Phase::InCall, since.max(wait.since)),
            Some(_) => self.doubts(tid, found),
            None => {}
        }
    }

    fn doubts(&mut self, tid: Tid, found: &mut Vec<FoundSpan>) {
        found.extend(self.waits.remove(&tid).map(|_| FoundSpan::Broken));
    }

    fn cut(&mut self, _: Time) -> u64 {
        self.waits.values().filter(|wait| wait.slept).count() as u64
    }
}
