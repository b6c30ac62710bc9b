//! What a session does when it is asked.

use super::control::{Reply, Request};
use super::writer::Job;
use super::{Session, Sink};
use crate::Error;
use std::time::Duration;

impl Session<'_> {
    pub(super) fn answer_requests(&mut self) {
        let asked = self.outlet.as_ref().map_or(Vec::new(), |outlet| outlet.control.asked());
        for (request, asker) in asked {
            match self.carry_out(request) {
                Ok(Answer::Now(reply)) => asker.tell(&reply),
                Ok(Answer::Written(job)) => self.write(job, Some(asker)),
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
        let told = |error: Error| error.to_string();
        match (request, &self.sink) {
            (Request::Status, _) => return Ok(Answer::Now(Reply::Status(Box::new(self.status())))),
            (Request::Snapshot { .. }, Sink::Chunk(_)) => {
                return Err(format!(
                    "'{name}' writes to disk as it goes: 'sordino rotate {name}' completes what it has; snapshots need 'sordino \
                     start --overwrite'"
                ));
            }
            (Request::Rotate, Sink::Memory(_)) => {
                return Err(format!(
                    "'{name}' keeps what is newest in memory: use 'sordino snapshot {name}'"
                ));
            }
            (Request::Snapshot { .. }, Sink::Memory(_)) if self.has_backlog() => {
                return Err("others are still being written: ask again when they are".to_owned());
            }
            (Request::Snapshot { last_ns, why }, Sink::Memory(_)) => {
                return Ok(Answer::Written(self.snapshot(last_ns.map(Duration::from_nanos), &why)));
            }
            (Request::Live, _) => return self.show().map(Answer::Written).map_err(told),
            (Request::Rotate, Sink::Chunk(_)) => return self.rotate().map(Answer::Written).map_err(told),
            (Request::Enable { events }, _) => self.change(&events, true)?,
            (Request::Disable { events }, _) => self.change(&events, false)?,
            (Request::Attach { pids }, _) => {
                pids.iter().try_for_each(|&pid| self.attach_also(pid)).map_err(told)?;
            }
            (Request::Stop { snapshot }, _) => {
                self.stopped = true;
                if let Some(outlet) = &mut self.outlet {
                    outlet.last_snapshot = snapshot;
                }
                return Ok(Answer::Ended);
            }
        }
        Ok(Answer::Now(Reply::Done))
    }

    /// Records other tracepoints from now on.
    fn change(&mut self, events: &str, enable: bool) -> Result<(), String> {
        self.user = if enable { self.user.and(events) } else { self.user.but(events) }?;
        self.programs.iter_mut().for_each(|program| program.choose(&self.user));
        Ok(())
    }

    fn attach_also(&mut self, pid: i32) -> Result<(), Error> {
        self.attach_named(pid)?;
        self.pids.push(pid);
        Ok(())
    }
}

/// When who asked is answered.
enum Answer {
    Now(Reply),
    /// When this is done.
    Written(Job),
    /// When the session has ended.
    Ended,
}
