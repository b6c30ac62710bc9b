//! The intervals of all threads, where the user names none of them.

use sordino_event::Tid;
use sordino_event::text::count;
use sordino_timeline::{Moment, Priority};
use std::cell::Cell;

/// The numbers of intervals of the recorder's threads, which are left out, and of real-time threads.
#[derive(Debug, Default)]
pub(super) struct AllThreads {
    recorder: Cell<u64>,
    real_time: Cell<u64>,
}

impl AllThreads {
    /// Returns true unless the thread is the recorder's: nothing of it would be there without the recording.
    pub(super) fn takes(&self, moment: &Moment<'_>, tid: Option<Tid>) -> bool {
        let Some(tid) = tid else { return true };
        let is_recorder = moment.system.is_recorder(tid);
        let is_real_time = moment.system.priority(tid).is_some_and(Priority::is_real_time);
        let add = |counter: &Cell<u64>| counter.set(counter.get() + 1);
        match (is_recorder, is_real_time) {
            (true, _) => add(&self.recorder),
            (false, true) => add(&self.real_time),
            (false, false) => {}
        }
        !is_recorder
    }

    /// Tells which intervals are left out, and how to see those of real-time threads among `all`.
    pub(super) fn report(&self, all: u64) {
        let (recorder, real_time) = (self.recorder.get(), self.real_time.get());
        if recorder > 0 {
            message!("sordino: {} of the recorder's own threads left out", count(recorder, "interval"));
        }
        if 0 < real_time && real_time < all {
            message!(
                "sordino: {} of {} are of real-time threads; --where '$prio < 100' explains those alone",
                real_time,
                count(all, "interval")
            );
        }
    }
}
