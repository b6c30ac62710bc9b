//! Replies, snapshots and explanations. They take time, so a thread beside a reader makes them.

use crate::{Error, LiveSession};
use sordino_collect::{Directory, Summary};
use sordino_session::{Reply, Request, Status};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

/// Time before and after a wait that is explained with it, in nanoseconds: it has to contain the wake-up and the
/// switch.
const AROUND: i64 = 1_000_000;
/// Time within which a recorder usually replies with its status.
const PROMPT: Duration = Duration::from_millis(100);

/// The result of work beside a reader.
#[derive(Debug)]
pub enum Aside {
    /// The directory of a snapshot, or of a completed chunk.
    Snapshot(PathBuf),
    /// An explanation, or the reason why there is none.
    Explanation(String),
    /// The reason why it failed.
    Failed(String),
}

/// A wait to be explained.
#[derive(Clone, Copy, Debug)]
pub struct SelectedWait {
    /// The id of the thread.
    pub tid: i32,
    /// The time of the wake-up.
    pub at_ns: i64,
    /// The length of the wait.
    pub length_ns: i64,
    /// The columns of the text.
    pub columns: u16,
}

/// Work that goes on beside a reader, in a thread of its own.
#[derive(Debug)]
pub struct Beside(Receiver<Aside>);

impl Beside {
    fn start(work: impl FnOnce() -> Result<Aside, Error> + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let made = work().unwrap_or_else(|error| Aside::Failed(error.to_string()));
            // The view may have ended.
            let _ = sender.send(made);
        });
        Self(receiver)
    }

    /// Takes a snapshot of a flight recorder, or completes the chunk of a session that writes to disk.
    pub fn snapshot(session: LiveSession) -> Self {
        Self::start(move || Ok(Aside::Snapshot(take(&session)?)))
    }

    /// Explains a wait from the given recording, or from a recording of the session. If no recording contains the wait,
    /// the session makes one.
    pub fn explain(session: Option<LiveSession>, directory: Option<PathBuf>, wait: SelectedWait) -> Self {
        Self::start(move || {
            let directory = match (session, directory) {
                (Some(session), _) => match holding(&session, wait.at_ns)? {
                    Some(directory) => directory,
                    None => take(&session)?,
                },
                (None, directory) => directory.unwrap_or_default(),
            };
            explain(&directory, wait)
        })
    }

    /// Returns the result when it is available.
    pub fn made(&self) -> Option<Aside> {
        match self.0.try_recv() {
            Ok(made) => Some(made),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Aside::Failed("it ended early".to_owned())),
        }
    }
}

/// The process id of a session's recorder, requested in a thread of its own: a stopped recorder does not reply.
#[derive(Debug, Default)]
pub struct RecorderId {
    id: Option<u32>,
    reply: Option<Receiver<Option<u32>>>,
}

impl RecorderId {
    /// Returns the process id once the recorder has replied; waits a tenth of a second for that at most.
    pub fn of(&mut self, session: &LiveSession) -> Option<u32> {
        if self.id.is_none() {
            let reply = self.reply.get_or_insert_with(|| {
                let (sender, reply) = channel();
                let session = session.clone();
                // The reader may have ended.
                std::thread::spawn(move || {
                    _ = sender.send(status(&session).ok().map(|status| status.recorder))
                });
                reply
            });
            match reply.recv_timeout(PROMPT) {
                Err(RecvTimeoutError::Timeout) => {}
                replied => (self.id, self.reply) = (replied.ok().flatten(), None),
            }
        }
        self.id
    }
}

/// Returns the status of a session, if its recorder replies.
///
/// # Errors
/// The recorder does not reply, or rejects the request.
fn status(session: &LiveSession) -> Result<Box<Status>, Error> {
    match session.request(&Request::Status)? {
        Reply::Status(status) => Ok(status),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::Refused(match reply {
        Reply::Refused { reason } => reason.clone(),
        other => format!("the session's recorder is another version of sordino: it replied {other:?}"),
    })
}

fn take(session: &LiveSession) -> Result<PathBuf, Error> {
    let request = match status(session)?.overwrite {
        true => Request::Snapshot { last_ns: None, why: "asked for by sordino watch".to_owned() },
        false => Request::Rotate,
    };
    match session.request(&request)? {
        Reply::Written { directory, .. } => Ok(directory),
        other => Err(unexpected(&other)),
    }
}

/// Returns the finished recording of a session that reaches over this time, if there is one.
fn holding(session: &LiveSession, at_ns: i64) -> Result<Option<PathBuf>, Error> {
    let recordings = status(session)?.recordings;
    let holds = |path: &Path| {
        let summary = Directory::open(path).and_then(|directory| Summary::read(&directory));
        summary.is_ok_and(|summary| {
            let (begin, end) = (summary.begin_ns as i64, (summary.begin_ns + summary.duration_ns) as i64);
            (begin..end).contains(&at_ns)
        })
    };
    let mut finished = recordings.into_iter().filter(|recording| recording.finished).rev();
    Ok(finished.find(|recording| holds(&recording.directory)).map(|recording| recording.directory))
}

/// Runs `sordino explain` for a wait.
fn explain(directory: &Path, wait: SelectedWait) -> Result<Aside, Error> {
    let SelectedWait { tid, at_ns, length_ns, columns } = wait;
    let seconds = |time: i64| format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000);
    let (from, to) = (seconds(at_ns - AROUND), seconds(at_ns + length_ns + AROUND));
    let mut command = Command::new("/proc/self/exe");
    command.arg("--color=never").arg("explain").arg(directory).args(["--thread", &tid.to_string()]);
    command.args(["--top", "1", "--from", &from, "--to", &to]).env("COLUMNS", columns.to_string());
    let output = command.stdin(std::process::Stdio::null()).output()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(Aside::Explanation(String::from_utf8_lossy(&text).into_owned()))
}
