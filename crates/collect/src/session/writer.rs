//! The thread that finishes what was recorded, while recording goes on.

use super::bell::Bell;
use super::control::Asker;
use crate::Error;
use crate::directory::Directory;
use crate::summary::Summary;
use crate::threads;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What it has to do: make a recording complete.
pub(super) type Job = Box<dyn FnOnce() -> Result<(Directory, Summary), Error> + Send>;

/// What became of a job.
pub(super) struct Done {
    pub(super) result: Result<(Directory, Summary), Error>,
    /// Who waits for it.
    pub(super) whom: Option<Asker>,
}

enum Order {
    Write(Job, Option<Asker>),
    Remove(Directory),
}

/// Does one job after the other.
pub(super) struct Writer {
    jobs: Option<Sender<Order>>,
    done: Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    /// Jobs that are not done.
    open: usize,
}

impl Writer {
    pub(super) fn start(bell: Bell) -> Result<Self, Error> {
        let (jobs, orders) = channel::<Order>();
        let (report, done) = channel();
        let thread = threads::start("sordino-write", move || {
            for order in orders {
                match order {
                    Order::Write(job, whom) => {
                        let result = job();
                        if report.send(Done { result, whom }).is_err() {
                            return;
                        }
                        bell.ring();
                    }
                    Order::Remove(directory) => remove(&directory),
                }
            }
        });
        let thread = thread.map_err(Error::system("can't start the thread that writes"))?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread), open: 0 })
    }

    /// Has it do a job, for whom it may concern.
    pub(super) fn give(&mut self, job: Job, whom: Option<Asker>) {
        let given = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Order::Write(job, whom)).is_ok());
        self.open += usize::from(given);
    }

    /// Has it remove a recording: that of gigabytes takes long, and programs that start would wait meanwhile.
    pub(super) fn remove(&mut self, directory: Directory) {
        match &self.jobs {
            Some(jobs) => _ = jobs.send(Order::Remove(directory)),
            None => remove(&directory),
        }
    }

    /// How many jobs are not done.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// What was done since this was asked last.
    pub(super) fn done(&mut self) -> Vec<Done> {
        let done: Vec<Done> = self.done.try_iter().collect();
        self.open -= done.len().min(self.open);
        done
    }

    /// Waits for all that it was given.
    pub(super) fn finish(&mut self) -> Vec<Done> {
        self.jobs = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        self.done.try_iter().collect()
    }
}

/// What can't be removed stays; it is not looked at again.
fn remove(directory: &Directory) {
    let _ = directory.remove_whole();
}
