//! What a session does when it is asked.

use super::control::{Reply, Request};
use super::{Session, Sink};
use crate::Error;
use std::sync::mpsc::Sender;
use std::time::Duration;

impl Session<'_> {
    pub(super) fn answer_requests(&mut self) {
        let asked = self.outlet.as_ref().map_or(Vec::new(), |outlet| outlet.control.asked());
        for (request, whom) in asked {
            if let Some(reply) = self.answer(request, &whom) {
                // Who asked may be gone.
                let _ = whom.send(reply);
            }
        }
    }

    /// The reply, unless it comes later.
    fn answer(&mut self, request: Request, whom: &Sender<Reply>) -> Option<Reply> {
        let name = &self.options.name;
        Some(match (request, &self.sink) {
            (Request::Status, _) => Reply::Status(Box::new(self.status())),
            (Request::Snapshot { .. }, Sink::Chunk(_)) => refused(format!(
                "'{name}' writes to disk as it goes: 'sordino rotate {name}' completes what it has; snapshots need 'sordino \
                 start --overwrite'"
            )),
            (Request::Rotate, Sink::Memory(_)) => {
                refused(format!("'{name}' keeps what is newest in memory: use 'sordino snapshot {name}'"))
            }
            (Request::Snapshot { last_ns, why }, Sink::Memory(_)) => {
                self.snapshot(last_ns.map(Duration::from_nanos), &why, Some(whom.clone()));
                return None;
            }
            (Request::Live, _) => match self.show(whom.clone()) {
                Ok(()) => return None,
                Err(error) => refused(error.to_string()),
            },
            (Request::Rotate, Sink::Chunk(_)) => match self.rotate(Some(whom.clone())) {
                Ok(()) => return None,
                Err(error) => refused(error.to_string()),
            },
            (Request::Enable { events }, _) => self.change(&events, true),
            (Request::Disable { events }, _) => self.change(&events, false),
            (Request::Attach { pids }, _) => reply(pids.iter().try_for_each(|&pid| self.attach_also(pid))),
            (Request::Stop { snapshot }, _) => {
                self.stopped = true;
                if let Some(outlet) = &mut self.outlet {
                    outlet.last_snapshot = snapshot;
                }
                Reply::Done
            }
        })
    }

    /// Records other tracepoints from now on.
    fn change(&mut self, events: &str, enable: bool) -> Reply {
        let changed = if enable { self.user.and(events) } else { self.user.but(events) };
        match changed {
            Ok(user) => {
                self.user = user;
                self.programs.iter_mut().for_each(|program| program.choose(&self.user));
                Reply::Done
            }
            Err(reason) => refused(reason),
        }
    }

    fn attach_also(&mut self, pid: i32) -> Result<(), Error> {
        self.attach_named(pid)?;
        self.pids.push(pid);
        Ok(())
    }
}

fn refused(reason: String) -> Reply {
    Reply::Refused { reason }
}

fn reply(result: Result<(), Error>) -> Reply {
    result.map_or_else(|error| refused(error.to_string()), |()| Reply::Done)
}
