//! Carries out the requests to a session.

use super::control::{Reply, Request};
use super::recordings::Sink;
use super::state::{Attaching, Session};
use super::writer::WriteJob;
use sordino_collect::Error;
use sordino_collect::options::{UserEvents, excluded};
use std::time::Duration;

impl Session<'_> {
    pub(super) fn answer_requests(&mut self) {
        let asked = self.recordings.outlet.as_ref().map_or(Vec::new(), |outlet| outlet.control.asked());
        for (request, asker) in asked {
            match self.carry_out(request) {
                Ok(Answer::Now(reply)) => asker.tell(&reply),
                Ok(Answer::Written(job)) => self.recordings.write(job, Some(asker)),
                Ok(Answer::Attached(tickets)) => {
                    self.arrivals.attaching.push(Attaching { asker, tickets, refused: None });
                }
                Ok(Answer::Ended) => {
                    if let Some(outlet) = &mut self.recordings.outlet {
                        outlet.enders.push(asker);
                    }
                }
                Err(reason) => asker.tell(&Reply::Refused { reason }),
            }
        }
    }

    fn carry_out(&mut self, request: Request) -> Result<Answer, String> {
        let name = &self.options.name;
        let reason_of = |error: Error| error.to_string();
        match (request, &self.recordings.sink) {
            (Request::Status, _) => Ok(Answer::Now(Reply::Status(Box::new(self.status())))),
            (Request::Snapshot { .. }, Sink::Chunk(_)) => Err(format!(
                "'{name}' writes to disk as it goes: 'sordino rotate {name}' completes what it has; snapshots need 'sordino \
                 start --overwrite'"
            )),
            (Request::Rotate, Sink::Memory(_)) => {
                Err(format!("'{name}' keeps what is newest in memory: use 'sordino snapshot {name}'"))
            }
            (Request::Snapshot { .. }, Sink::Memory(_)) if self.recordings.has_backlog() => {
                Err("others are still being written: ask again when they are".to_owned())
            }
            (Request::Snapshot { last_ns, why }, Sink::Memory(_)) => {
                Ok(Answer::Written(self.snapshot(last_ns.map(Duration::from_nanos), &why)))
            }
            (Request::Live, _) => self.show().map(Answer::Written).map_err(reason_of),
            (Request::Rotate, Sink::Chunk(_)) => self.rotate().map(Answer::Written).map_err(reason_of),
            (Request::Enable { events }, _) => self.change(&events).map(Answer::Now),
            (Request::Disable { events }, _) => self.change(&excluded(&events)).map(Answer::Now),
            (Request::Attach { pids }, _) => {
                let tickets = pids.iter().map(|&pid| self.submit_named(pid)).collect::<Result<_, _>>();
                tickets.map(Answer::Attached).map_err(reason_of)
            }
            (Request::Stop { snapshot }, _) => {
                self.progress.stopped = true;
                if let Some(outlet) = &mut self.recordings.outlet {
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
        self.recorded.programs.iter_mut().for_each(|program| program.choose(&self.user, &self.clock));
        self.findings.coverage.set_rules(&self.user);
        (0..self.recorded.programs.len()).for_each(|index| self.observe(index, 0));
        let mut rules = self.findings.coverage.problems();
        rules.retain(|problem| !problem.trigger && typed.contains(&problem.rule));
        Ok(Reply::Changed { rules })
    }
}

/// The time of the reply to a client.
enum Answer {
    Now(Reply),
    /// When this job is done.
    Written(WriteJob),
    /// When the processes with these tickets have returned.
    Attached(Vec<u64>),
    /// When the session has ended.
    Ended,
}
