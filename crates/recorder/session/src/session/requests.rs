//! Carries out the requests to a session.

use super::control::{Reply, Request};
use super::recordings::RecordSink;
use super::state::{Attaching, RecordingSession};
use super::writer::WriteJob;
use sordino_collect::Error;
use sordino_collect::options::{UserEvents, excluded};
use std::time::Duration;

impl RecordingSession<'_> {
    pub(super) fn answer_requests(&mut self) {
        let requests = self.recordings.outlet.as_ref().map_or(Vec::new(), |outlet| outlet.control.requests());
        for (request, client) in requests {
            match self.carry_out(request) {
                Ok(ReplyTime::Now(reply)) => client.reply(&reply),
                Ok(ReplyTime::Written(job)) => self.recordings.write(job, Some(client)),
                Ok(ReplyTime::Attached(tickets)) => {
                    self.arrivals.attaching.push(Attaching { client, tickets, refused: None });
                }
                Ok(ReplyTime::Ended) => {
                    if let Some(outlet) = &mut self.recordings.outlet {
                        outlet.enders.push(client);
                    }
                }
                Err(reason) => client.reply(&Reply::Refused { reason }),
            }
        }
    }

    fn carry_out(&mut self, request: Request) -> Result<ReplyTime, String> {
        let name = &self.options.recording.name;
        let reason_of = |error: Error| error.to_string();
        match (request, &self.recordings.sink) {
            (Request::Status, _) => Ok(ReplyTime::Now(Reply::Status(Box::new(self.status())))),
            (Request::Snapshot { .. }, RecordSink::Chunk(_)) => Err(format!(
                "'{name}' writes to disk as it goes: 'sordino rotate {name}' completes what it has; snapshots need 'sordino \
                 start --overwrite'"
            )),
            (Request::Rotate, RecordSink::Memory(_)) => {
                Err(format!("'{name}' keeps what is newest in memory: use 'sordino snapshot {name}'"))
            }
            (Request::Snapshot { .. }, RecordSink::Memory(_)) if self.recordings.has_backlog() => {
                Err("others are still being written: ask again when they are".to_owned())
            }
            (Request::Snapshot { last_ns, why }, RecordSink::Memory(_)) => {
                Ok(ReplyTime::Written(self.snapshot(last_ns.map(Duration::from_nanos), &why)))
            }
            (Request::Live, _) => self.show().map(ReplyTime::Written).map_err(reason_of),
            (Request::Rotate, RecordSink::Chunk(_)) => {
                self.rotate().map(ReplyTime::Written).map_err(reason_of)
            }
            (Request::Enable { events }, _) => self.change(&events).map(ReplyTime::Now),
            (Request::Disable { events }, _) => self.change(&excluded(&events)).map(ReplyTime::Now),
            (Request::Attach { pids }, _) => {
                let tickets = pids.iter().map(|&pid| self.submit_named(pid)).collect::<Result<_, _>>();
                tickets.map(ReplyTime::Attached).map_err(reason_of)
            }
            (Request::Stop { snapshot }, _) => {
                self.progress.stopped = true;
                if let Some(outlet) = &mut self.recordings.outlet {
                    outlet.last_snapshot = snapshot;
                }
                Ok(ReplyTime::Ended)
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
enum ReplyTime {
    Now(Reply),
    /// The end of this job.
    Written(WriteJob),
    /// The return of the processes with these tickets.
    Attached(Vec<u64>),
    /// The end of the session.
    Ended,
}
