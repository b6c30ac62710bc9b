//! Jobs of threads, each from its begin to the next sleep.

use crate::evidence_finder::Follows;
use crate::record_gap::RecordGap;
use crate::span::{FoundSpan, Span};
use foldhash::{HashMap, HashSet};
use sordino_event::{ClassId, Classes, Loss, Tid, Time};
use sordino_timeline::{Kernel, Moment, TaskState};

/// The jobs of threads: from an event in a thread, or its wake-up, until the thread sleeps.
#[derive(Debug)]
pub(crate) struct Jobs {
    begins: HashSet<ClassId>,
    /// The threads with a known last sleep or a known job.
    threads: HashMap<Tid, JobProgress>,
    gap: RecordGap,
}

/// The progress of a thread between two sleeps.
#[derive(Clone, Copy, Debug)]
enum JobProgress {
    /// It slept, or was created, and its next begin is that of a job.
    Rested(Time),
    /// The begin of its present job.
    Works(Time),
    /// The present job may have begun before the first recorded begin.
    MayHaveWorked,
}

impl JobProgress {
    fn has_begun(self) -> bool {
        !matches!(self, Self::Rested(_))
    }
}

impl Jobs {
    /// Creates the finder of jobs that begin with this event; `None` if the trace does not have the event.
    pub(crate) fn new(event: &str, classes: &Classes) -> Option<Self> {
        let begins = classes.iter().filter(|(_, class)| class.name == event).map(|(id, _)| id);
        let begins: HashSet<ClassId> = begins.collect();
        (!begins.is_empty()).then(|| Self { begins, threads: HashMap::default(), gap: RecordGap::default() })
    }

    /// Processes a begin. A second one without sleep belongs to the same job.
    fn begin(&mut self, tid: Tid, now: Time) {
        let progress = match self.threads.get(&tid) {
            Some(JobProgress::Rested(at)) if !self.gap.touches(*at) => JobProgress::Works(now),
            Some(progress) if progress.has_begun() => return,
            _ => JobProgress::MayHaveWorked,
        };
        self.threads.insert(tid, progress);
    }

    /// Ends the job of a thread that leaves its CPU to sleep.
    fn end(&mut self, tid: Tid, now: Time, moment: &Moment<'_>) -> Option<FoundSpan> {
        match self.threads.insert(tid, JobProgress::Rested(now))? {
            JobProgress::Rested(_) => None,
            JobProgress::MayHaveWorked => Some(FoundSpan::Broken),
            JobProgress::Works(from) => {
                let (tid, cpu) = (Some(tid), moment.cpu);
                Some(FoundSpan::Whole(Span { tid, cpu, ..Span::between(from, now) }))
            }
        }
    }
}

impl Follows for Jobs {
    fn take(&mut self, moment: &Moment<'_>, found: &mut Vec<FoundSpan>) {
        let now = moment.event.time;
        if self.begins.contains(&moment.event.class) {
            // The job of a wake-up is that of the thread that is woken.
            let tid = match moment.kernel {
                Some(Kernel::Waking { tid, .. } | Kernel::Woken { tid, .. }) => Some(tid),
                Some(Kernel::Switch { next, .. }) => Some(next.tid),
                _ => moment.tid,
            };
            tid.filter(|tid| *tid != Tid(0)).into_iter().for_each(|tid| self.begin(tid, now));
        }
        match moment.kernel {
            Some(Kernel::Switch { prev, state, .. }) if state != TaskState::Runnable => {
                found.extend(self.end(prev.tid, now, moment));
            }
            Some(Kernel::Thread(born)) if !born.dumped => {
                self.threads.insert(born.tid, JobProgress::Rested(now));
            }
            Some(Kernel::Gone { tid }) => _ = self.threads.remove(&tid),
            _ => {}
        }
    }

    fn lose(&mut self, loss: &Loss, found: &mut Vec<FoundSpan>) {
        self.gap.add(loss);
        let jobs = self.threads.drain().filter(|(_, progress)| progress.has_begun());
        found.extend(jobs.map(|_| FoundSpan::Broken));
    }

    /// A thread that starts continues its job.
    fn starts(&mut self, _: Tid, _: Time, _: &Moment<'_>, _: &mut Vec<FoundSpan>) {}

    /// It may have slept: its job may be several.
    fn doubts(&mut self, tid: Tid, found: &mut Vec<FoundSpan>) {
        let job = self.threads.remove(&tid).filter(|progress| progress.has_begun());
        found.extend(job.map(|_| FoundSpan::Broken));
    }

    fn cut(&mut self, _: Time) -> u64 {
        self.threads.values().filter(|progress| progress.has_begun()).count() as u64
    }
}
