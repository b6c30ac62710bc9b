//! The thread that completes recordings while recording continues.

use super::bell::Bell;
use super::control::WaitingClient;
use sordino_collect::Error;
use sordino_collect::directory::Directory;
use sordino_collect::summary::Summary;
use sordino_inspect::threads;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A job that completes a recording.
pub(super) type WriteJob = Box<dyn FnOnce() -> Result<(Directory, Summary), Error> + Send>;

/// The result of a job.
pub(super) struct CompletedWrite {
    pub(super) result: Result<(Directory, Summary), Error>,
    /// The client that waits for it.
    pub(super) whom: Option<WaitingClient>,
}

enum WriterTask {
    Write(WriteJob, Option<WaitingClient>),
    Remove(Directory),
}

/// The thread that performs jobs one after the other.
pub(super) struct WriterThread {
    jobs: Option<Sender<WriterTask>>,
    done: Receiver<CompletedWrite>,
    thread: Option<JoinHandle<()>>,
    /// The number of jobs that are not done.
    open: usize,
}

impl WriterThread {
    pub(super) fn start(bell: Bell) -> Result<Self, Error> {
        let (jobs, orders) = channel::<WriterTask>();
        let (report, done) = channel();
        let thread = threads::start("sordino-write", move || {
            for order in orders {
                match order {
                    WriterTask::Write(job, whom) => {
                        let result = job();
                        if report.send(CompletedWrite { result, whom }).is_err() {
                            return;
                        }
                        bell.ring();
                    }
                    WriterTask::Remove(directory) => remove(&directory),
                }
            }
        });
        let thread = thread.map_err(Error::system("can't start the thread that writes"))?;
        Ok(Self { jobs: Some(jobs), done, thread: Some(thread), open: 0 })
    }

    /// Adds a job; `whom` is the client that waits for it.
    pub(super) fn give(&mut self, job: WriteJob, whom: Option<WaitingClient>) {
        let given = self.jobs.as_ref().is_some_and(|jobs| jobs.send(WriterTask::Write(job, whom)).is_ok());
        self.open += usize::from(given);
    }

    /// Adds the removal of a recording: removing gigabytes takes long, and new programs would wait meanwhile.
    pub(super) fn remove(&mut self, directory: Directory) {
        match &self.jobs {
            Some(jobs) => _ = jobs.send(WriterTask::Remove(directory)),
            None => remove(&directory),
        }
    }

    /// Returns the number of jobs that are not done.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Returns the jobs that were done since the last call.
    pub(super) fn done(&mut self) -> Vec<CompletedWrite> {
        let done: Vec<CompletedWrite> = self.done.try_iter().collect();
        self.open -= done.len().min(self.open);
        done
    }

    /// Waits for all jobs, and returns the results.
    pub(super) fn finish(&mut self) -> Vec<CompletedWrite> {
        self.jobs = None;
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        self.done.try_iter().collect()
    }
}

/// Removes a recording. On failure it stays, and is not tried again.
fn remove(directory: &Directory) {
    let _ = directory.remove_whole();
}
