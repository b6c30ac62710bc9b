//! Processes that the user named, with the command line or in a request.

use super::control::Reply;
use super::state::{Attaching, RecordingSession};
use sordino_collect::Error;
use sordino_inspect::discover::{Glance, Hidden, glance, user_of};
use sordino_intake::{Job, JobSource};

impl RecordingSession<'_> {
    /// Submits a process that the user named. Returns the number of its job.
    pub(super) fn submit_named(&mut self, pid: i32) -> Result<u64, Error> {
        let gone = || Error::Program { pid, reason: "there is no such process".to_owned() };
        let user = user_of(pid).ok_or_else(gone)?;
        Ok(self.arrivals.intake.submit(pid, user, JobSource::Named))
    }

    pub(super) fn take_up_named(&mut self, job: Job) -> Result<(), Error> {
        let pid = job.pid;
        let refused = |reason: String| Error::Program { pid, reason };
        match job.found.hidden {
            Some(Hidden::Ended) => return Err(refused("there is no such process".to_owned())),
            Some(hidden) => return Err(refused(hidden.to_string())),
            None => {}
        }
        let is_there = !(job.taken.is_empty() && job.found.known.is_empty());
        job.taken.into_iter().try_for_each(|taken| self.begin_program(taken))?;
        let reasons = job.refused.into_iter().map(|(_, reason)| reason);
        if let Some(reason) = reasons.chain(job.found.skipped.into_iter().map(|(_, reason)| reason)).next() {
            return Err(refused(reason));
        }
        if !is_there {
            let Glance { name, has_memory, .. } = glance(pid);
            return Err(refused(match has_memory {
                true => format!("{name} is not linked with sordino, nor is what it has loaded"),
                false => "it has ended, or is a thread of the kernel".to_owned(),
            }));
        }
        self.arrivals.search.settle_named(pid);
        Ok(())
    }

    /// Records a process that a request named. The client is answered when all processes of the request have returned.
    pub(super) fn take_up_requested(&mut self, job: Job) {
        let (ticket, pid) = (job.ticket, job.pid);
        let taken_up = self.take_up_named(job);
        if taken_up.is_ok() {
            self.arrivals.named.push(pid);
        }
        let Some(index) =
            self.arrivals.attaching.iter().position(|attaching| attaching.tickets.contains(&ticket))
        else {
            return;
        };
        let attaching = &mut self.arrivals.attaching[index];
        attaching.tickets.retain(|other| *other != ticket);
        if let Err(error) = taken_up {
            attaching.refused.get_or_insert(error.to_string());
        }
        if attaching.tickets.is_empty() {
            let Attaching { client, refused, .. } = self.arrivals.attaching.swap_remove(index);
            client.reply(&refused.map_or(Reply::Done, |reason| Reply::Refused { reason }));
        }
    }
}
