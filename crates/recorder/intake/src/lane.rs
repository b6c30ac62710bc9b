//! One user's queue of programs to attach to, and its thread.

use super::hold::{Taken, Wishes};
use super::job::{Job, StepOutcome};
use super::ledger::Ledger;
use super::prepared::PreparedAreas;
use sordino_inspect::threads;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which an idle thread ends: programs often register one after the other.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum number of a user's threads that hang: the first may wait for pages, the second may not. After that the
/// user's programs are refused.
const MOST_STUCK: u32 = 2;
/// Maximum number of jobs with open areas that wait for the next, slower step: each holds descriptors.
const MOST_OPENED: usize = 256;

/// State shared by all lanes.
pub(super) struct IntakeState {
    pub(super) wishes: Wishes,
    pub(super) ledger: Ledger,
    pub(super) prepared: PreparedAreas,
    pub(super) done: Sender<Job>,
    pub(super) ring: Box<dyn Fn() + Send + Sync>,
}

impl IntakeState {
    /// Returns a job to the session.
    pub(super) fn finish(&self, job: Job) {
        match self.done.send(job) {
            Ok(()) => (self.ring)(),
            // The session has ended.
            Err(unsent) => unsent.0.taken.iter().for_each(Taken::let_go_at_once),
        }
    }
}

/// The queue of one user's jobs, and its thread.
#[derive(Debug, Default)]
pub(super) struct Lane {
    state: Mutex<LaneQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LaneQueue {
    /// Jobs whose areas are to be opened. They come first, because a program that ends while it waits leaves its counts
    /// in an open area.
    queue: VecDeque<Job>,
    /// Jobs with open areas, in order of arrival, and those that detach from programs.
    opened: VecDeque<Job>,
    /// Jobs whose lock was held, and the time of their next attempt.
    locked: Vec<Job>,
    retry: Option<Instant>,
    /// The job whose step may hang, and its deadline.
    guarded: Option<(Job, Instant)>,
    /// The number of threads given up so far, which identifies the present thread.
    generation: u64,
    has_thread: bool,
    /// Threads that were given up and still hang.
    stuck: u32,
    closed: bool,
}

impl Lane {
    /// Ignores poisoning: no code panics while it holds the lock, and each change is complete.
    fn lock(&self) -> MutexGuard<'_, LaneQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, job: Job) {
        self.lock().push(job);
        self.changed.notify_one();
    }

    /// Returns the number of waiting jobs.
    pub(super) fn waiting(&self) -> usize {
        let state = self.lock();
        state.ready() + state.locked.len()
    }

    /// Returns true if the lane uses one of the permitted threads, including one that hangs.
    pub(super) fn has_thread(&self) -> bool {
        let state = self.lock();
        state.has_thread || state.stuck > 0
    }

    /// Returns true if jobs wait for a thread to be started.
    pub(super) fn needs_thread(&self) -> bool {
        let state = self.lock();
        !(state.has_thread || state.is_empty())
    }

    /// Returns true if the lane has work, a thread or a thread that hangs.
    pub(super) fn is_needed(&self) -> bool {
        let state = self.lock();
        state.has_thread || state.stuck > 0 || !state.is_empty()
    }

    /// Returns true if the user's programs may keep a thread waiting for their pages.
    pub(super) fn may_wait_for_pages(&self) -> bool {
        self.lock().stuck == 0
    }

    /// Removes and returns the jobs that have waited for longer than `age`.
    pub(super) fn take_older_than(&self, age: Duration) -> Vec<Job> {
        let mut state = self.lock();
        let LaneQueue { queue, opened, .. } = &mut *state;
        let (old, young): (Vec<Job>, Vec<Job>) =
            queue.drain(..).chain(opened.drain(..)).partition(|job| job.since.elapsed() > age);
        young.into_iter().for_each(|job| state.push(job));
        old
    }

    /// Starts a thread if there are jobs and no thread. Refuses the jobs if that fails, or too many threads hang.
    pub(super) fn start(lane: &Arc<Self>, shared: &Arc<IntakeState>) {
        let mut state = lane.lock();
        if state.has_thread || state.closed || state.is_empty() {
            return;
        }
        let problem = if state.stuck >= MOST_STUCK {
            Some("programs of its user keep the recorder waiting".to_owned())
        } else {
            let (mine, theirs, generation) = (Arc::clone(lane), Arc::clone(shared), state.generation);
            let started = threads::start("sordino-intake", move || mine.run(generation, &theirs));
            state.has_thread = started.is_ok();
            started.err().map(|error| format!("no thread for it: {error}"))
        };
        let Some(reason) = problem else { return };
        let refused = state.take_all();
        drop(state);
        for mut job in refused {
            job.refuse(reason.clone());
            shared.finish(job);
        }
    }

    fn run(&self, generation: u64, shared: &IntakeState) {
        while let Some(job) = self.next(generation) {
            match job.proceed(self, generation, shared) {
                StepOutcome::Done(job) => shared.finish(job),
                StepOutcome::Opened(job) => self.lock().opened.push_back(job),
                StepOutcome::Locked(job) => self.retry(job),
                StepOutcome::GivenUp => {
                    let mut state = self.lock();
                    state.stuck = state.stuck.saturating_sub(1);
                    return;
                }
            }
        }
    }

    /// Returns the next job for the thread of this generation; `None` if the thread is to end.
    fn next(&self, generation: u64) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed || state.generation != generation {
                return None;
            }
            let now = Instant::now();
            if state.retry.is_some_and(|retry| retry <= now) {
                let LaneQueue { opened, locked, retry, .. } = &mut *state;
                opened.extend(locked.drain(..));
                *retry = None;
            }
            if let Some(job) = state.pop() {
                return Some(job);
            }
            let wait = state.retry.map_or(IDLE, |retry| retry.saturating_duration_since(now));
            let waited = self.changed.wait_timeout(state, wait);
            let timeout;
            (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && state.ready() == 0 && state.retry.is_none() {
                state.has_thread &= state.generation != generation;
                return None;
            }
        }
    }

    /// Schedules another attempt: the more such jobs, the later.
    fn retry(&self, job: Job) {
        let mut state = self.lock();
        state.locked.push(job);
        let pause = Duration::from_micros(1000 + 100 * state.locked.len() as u64);
        state.retry.get_or_insert_with(|| Instant::now() + pause);
    }

    /// Calls `step`, which a program may block for ever, while the job is stored where it can be taken away after
    /// `patience`. If it was taken away, the result alone is the error.
    pub(super) fn guard<T>(
        &self,
        generation: u64,
        job: Job,
        patience: Duration,
        step: impl FnOnce() -> T,
    ) -> Result<(Job, T), Option<T>> {
        let mut state = self.lock();
        if state.generation != generation {
            drop(state);
            job.taken.iter().for_each(Taken::let_go_at_once);
            return Err(None);
        }
        state.guarded = Some((job, Instant::now() + patience));
        drop(state);
        let result = step();
        let mut state = self.lock();
        let job = if state.generation == generation { state.guarded.take() } else { None };
        match job {
            Some((job, _)) => Ok((job, result)),
            None => Err(Some(result)),
        }
    }

    /// Gives up the thread if its program has taken too long; another thread continues.
    pub(super) fn give_up_if_overdue(lane: &Arc<Self>, shared: &Arc<IntakeState>) {
        let mut state = lane.lock();
        if state.guarded.as_ref().is_none_or(|(_, until)| Instant::now() < *until) {
            return;
        }
        let Some((mut job, _)) = state.guarded.take() else { return };
        state.generation += 1;
        state.stuck += 1;
        state.has_thread = false;
        let is_over = job.give_up();
        let over = if is_over {
            Some(job)
        } else {
            state.opened.push_front(job);
            None
        };
        drop(state);
        if let Some(job) = over {
            shared.finish(job);
        }
        Self::start(lane, shared);
    }

    /// Ends the thread as soon as possible, and detaches from the waiting programs.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.generation += 1;
        let (waiting, guarded) = (state.take_all(), state.guarded.take());
        drop(state);
        self.changed.notify_all();
        let guarded = guarded.map(|(job, _)| job);
        let taken = waiting.iter().chain(&guarded).flat_map(|job| &job.taken);
        taken.for_each(Taken::let_go_at_once);
    }
}

impl LaneQueue {
    fn push(&mut self, job: Job) {
        let jobs = if job.is_to_be_opened() { &mut self.queue } else { &mut self.opened };
        jobs.push_back(job);
    }

    fn pop(&mut self) -> Option<Job> {
        let new = if self.opened.len() < MOST_OPENED { self.queue.pop_front() } else { None };
        new.or_else(|| self.opened.pop_front())
    }

    /// Returns the number of jobs that wait for no lock.
    fn ready(&self) -> usize {
        self.queue.len() + self.opened.len()
    }

    fn is_empty(&self) -> bool {
        self.ready() == 0 && self.locked.is_empty()
    }

    fn take_all(&mut self) -> Vec<Job> {
        let Self { queue, opened, locked, .. } = self;
        queue.drain(..).chain(opened.drain(..)).chain(locked.drain(..)).collect()
    }
}
