//! The intervals of all threads, where the user names none of them.

use sordino_event::Tid;
use sordino_event::text::count;
use sordino_timeline::{Moment, Priority};
use std::cell::Cell;

/// The numbers of intervals of the recorder's threads, which are left out, and of real-time threads.
#[derive(Debug, Default)]
pub struct AllThreads {
    recorder: Cell<u64>,
    real_time: Cell<u64>,
}

impl AllThreads {
    /// Returns true unless the thread is the recorder's, which exists only because of the recording.
    pub fn takes(&self, moment: &Moment<'_>, tid: Option<Tid>) -> bool {
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

    /// Returns the notes about intervals that are left out, and the option that shows those of real-time threads among
    /// `all`.
    pub fn notes(&self, all: u64) -> Vec<String> {
        let (recorder, real_time) = (self.recorder.get(), self.real_time.get());
        let left_out = || format!("{} of the recorder's own threads left out", count(recorder, "interval"));
        let alone = || {
            let all = count(all, "interval");
            format!(
                "{real_time} of {all} are of real-time threads; --where '$prio < 100' explains those alone"
            )
        };
        let alone = (0 < real_time && real_time < all).then(alone);
        (recorder > 0).then(left_out).into_iter().chain(alone).collect()
    }
}
