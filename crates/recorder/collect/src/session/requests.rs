//! Carries out the requests to a session.

use super::control::{Asker, Reply, Request};
use super::{Session, Sink, writer};
use crate::Error;
use crate::intake::Job;
use crate::options::{UserEvents, excluded};
use std::time::Duration;

impl Session<'_> {
    pub(super) fn answer_requests(&mut self) {
        let asked = self.outlet.as_ref().map_or(Vec::new(), |outlet| outlet.control.asked());
        for (request, asker) in asked {
            match self.carry_out(request) {
                Ok(Answer::Now(reply)) => asker.tell(&reply),
                Ok(Answer::Written(job)) => self.write(job, Some(asker)),
                Ok(Answer::Attached(tickets)) => {
                    self.attaching.push(Attaching { asker, tickets, refused: None });
                }
                Ok(Answer::Ended) => {
                    if let Some(outlet) = &mut self.outlet {
                        outlet.enders.push(asker);
                    }
                }
                Err(reason) => asker.tell(&Reply::Refused { reason }),
            }
        }
    }

    fn carry_out(&mut self, request: Request) -> Result<Answer, String> {
        let name = &self.options.name;
        let reported = |error: Error| error.to_string();
        match (request, &self.sink) {
            (Request::Status, _) => Ok(Answer::Now(Reply::Status(Box::new(self.status())))),
            (Request::Snapshot { .. }, Sink::Chunk(_)) => Err(format!(
                "'{name}' writes to disk as it goes: 'sordino rotate {name}' completes what it has; snapshots need 'sordino \
                 start --overwrite'"
            )),
            (Request::Rotate, Sink::Memory(_)) => {
                Err(format!("'{name}' keeps what is newest in memory: use 'sordino snapshot {name}'"))
            }
            (Request::Snapshot { .. }, Sink::Memory(_)) if self.has_backlog() => {
                Err("others are still being written: ask again when they are".to_owned())
            }
            (Request::Snapshot { last_ns, why }, Sink::Memory(_)) => {
                Ok(Answer::Written(self.snapshot(last_ns.map(Duration::from_nanos), &why)))
            }
            (Request::Live, _) => self.show().map(Answer::Written).map_err(reported),
            (Request::Rotate, Sink::Chunk(_)) => self.rotate().map(Answer::Written).map_err(reported),
            (Request::Enable { events }, _) => self.change(&events).map(Answer::Now),
            (Request::Disable { events }, _) => self.change(&excluded(&events)).map(Answer::Now),
            (Request::Attach { pids }, _) => {
                let tickets = pids.iter().map(|&pid| self.submit_named(pid)).collect::<Result<_, _>>();
                tickets.map(Answer::Attached).map_err(reported)
            }
            (Request::Stop { snapshot }, _) => {
                self.stopped = true;
                if let Some(outlet) = &mut self.outlet {
                    outlet.last_snapshot = snapshot;
                }
                Ok(Answer::Ended)
            }
        }
    }

    /// Changes the enabled tracepoints. Returns the rules among `events` that choose nothing so far.
    fn change(&mut self, events: &str) -> Result<Reply, String> {
        let typed = UserEvents::new([events.to_owned()])?.patterns();
        self.user = self.user.and(events)?;
        self.programs.iter_mut().for_each(|program| program.choose(&self.user, &self.clock));
        self.coverage.set_rules(&self.user);
        (0..self.programs.len()).for_each(|index| self.observe(index, 0));
        let mut rules = self.coverage.problems();
        rules.retain(|problem| !problem.trigger && typed.contains(&problem.rule));
        Ok(Reply::Changed { rules })
    }

    /// Records a process that a request named. The client is answered when all processes of the request have returned.
    pub(super) fn take_up_requested(&mut self, job: Job) {
        let (ticket, pid) = (job.ticket, job.pid);
        let taken_up = self.take_up_named(job);
        if taken_up.is_ok() {
            self.pids.push(pid);
        }
        let Some(index) = self.attaching.iter().position(|attaching| attaching.tickets.contains(&ticket))
        else {
            return;
        };
        let attaching = &mut self.attaching[index];
        attaching.tickets.retain(|other| *other != ticket);
        if let Err(error) = taken_up {
            attaching.refused.get_or_insert(error.to_string());
        }
        if attaching.tickets.is_empty() {
            let Attaching { asker, refused, .. } = self.attaching.swap_remove(index);
            asker.tell(&refused.map_or(Reply::Done, |reason| Reply::Refused { reason }));
        }
    }
}

/// A request to record processes to which the intake is attaching.
pub(super) struct Attaching {
    asker: Asker,
    /// The jobs that have not returned.
    tickets: Vec<u64>,
    /// The reason for the first process that could not be recorded.
    refused: Option<String>,
}

/// The time of the reply to a client.
enum Answer {
    Now(Reply),
    /// When this job is done.
    Written(writer::Job),
    /// When the processes with these tickets have returned.
    Attached(Vec<u64>),
    /// When the session has ended.
    Ended,
}
