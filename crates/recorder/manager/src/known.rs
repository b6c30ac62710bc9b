//! The known facts about a session.

use crate::place::{Life, SessionPlace};
use serde_json::{Value, json};
use sordino_collect::{Directory, user_events_so_far};
use sordino_event::text::with_causes;
use sordino_session::{Reply, Request, Status};

/// A session and, if its recorder replies, its status.
pub struct KnownSession {
    /// The directory of the session.
    pub place: SessionPlace,
    /// The state of the recorder's process.
    pub life: Life,
    /// The recorder's reply; `None` if there is none.
    pub status: Option<Status>,
    /// The reason why a running recorder did not reply.
    pub silent: Option<String>,
}

/// Returns this user's sessions.
pub fn sessions() -> Vec<KnownSession> {
    SessionPlace::all().into_iter().map(look).collect()
}

/// Determines the state of a session.
pub fn look(place: SessionPlace) -> KnownSession {
    let life = place.life().unwrap_or(Life::Died);
    let reply = (life == Life::Running).then(|| place.request(&Request::Status));
    let (status, silent) = match reply {
        Some(Ok(Reply::Status(status))) => (Some(*status), None),
        Some(Ok(other)) => {
            (None, Some(format!("its recorder is another version of sordino: it replied {other:?}")))
        }
        Some(Err(failure)) => (None, Some(with_causes(&failure))),
        None => (None, None),
    };
    KnownSession { place, life, status, silent }
}

/// Adds the number of events in the recording that is being written: it takes time, which only a user who asks for one
/// session waits for.
pub fn counted(mut known: KnownSession) -> KnownSession {
    let recordings = known.status.iter_mut().flat_map(|status| &mut status.recordings);
    for recording in recordings.filter(|recording| !recording.finished) {
        let directory = Directory::open(&recording.directory).ok();
        recording.user_events_so_far = directory.and_then(|directory| user_events_so_far(&directory));
    }
    known
}

/// Returns the state of a session as JSON.
pub fn as_json(known: &KnownSession) -> Value {
    let state = match known.life {
        Life::Running => "running",
        Life::Stopped => "stopped",
        Life::Died => "died",
    };
    let output = known.place.definition().ok().map(|definition| definition.output);
    json!({ "name": known.place.name, "state": state, "output": output, "silent": known.silent, "status": known.status })
}
