//! The guardian's process: stores steps, and carries them out at the end.

use crate::step::Malformed;
use crate::{FailedStep, UndoStep};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getppid, pidfd_open, setsid};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// First line that the guardian sends; the number is the protocol's version.
pub(crate) const GREETING: &str = "sordino-undo 1";

/// Runs as a guardian: receives steps from the [`Guardian`](crate::Guardian) that started this process, and carries
/// them out in reverse order on request or when the parent has exited. Returns the failures; if the parent has exited,
/// nobody else knows them.
///
/// To be called before the process does anything else: it closes every descriptor but the standard ones, leaves the
/// terminal's session and ignores SIGINT, SIGTERM, SIGHUP and SIGQUIT.
///
/// # Errors
/// Returns an error if the process cannot be set up so; the parent then makes no change.
pub fn guard(carry_out: impl FnMut(&UndoStep) -> Result<(), String>) -> io::Result<Vec<FailedStep>> {
    let parent = getppid().ok_or(io::ErrorKind::NotFound)?;
    close_all_but_standard()?;
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
        signal_hook::consts::SIGQUIT,
        // The parent may exit before it has received the last reply.
        signal_hook::consts::SIGPIPE,
    ] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    // Fails for the leader of a process group, which is in a group of its own already.
    let _ = setsid();
    rustix::process::chdir("/")?;
    // ps shows this name for the process, whichever thread this is.
    std::fs::write("/proc/self/comm", "sordino-undo")?;
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let commands =
        WhileParentLives { stream: stream.try_clone()?, parent: pidfd_open(parent, PidfdFlags::empty())? };
    Ok(serve(BufReader::new(commands), stream, carry_out))
}

/// Closes all descriptors that the parent had open without close-on-exec: the guardian must not keep a pipe or a
/// terminal open.
fn close_all_but_standard() -> io::Result<()> {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|&descriptor| descriptor > 2)
        .collect();
    for descriptor in open {
        // The descriptor that listed the directory is closed by now.
        let _ = nix::unistd::close(descriptor);
    }
    Ok(())
}

/// The parent's commands. Reading ends when the parent exits, even if another process still holds its end of the
/// socket.
struct WhileParentLives {
    stream: UnixStream,
    parent: OwnedFd,
}

impl Read for WhileParentLives {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ready = [
            PollFd::new(&self.stream, PollFlags::IN),
            PollFd::from_borrowed_fd(self.parent.as_fd(), PollFlags::IN),
        ];
        poll(&mut ready, None)?;
        // Commands that the parent sent before it exited come first.
        if ready[0].revents().is_empty() { Ok(0) } else { self.stream.read(buffer) }
    }
}

/// A command: one line from the parent.
enum GuardianCommand {
    /// Stores a step under this number.
    Add(u64, UndoStep),
    /// Drops the step with this number, because its change stays.
    Forget(u64),
    /// Carries out the remaining steps.
    Undo,
}

impl std::str::FromStr for GuardianCommand {
    type Err = Malformed;
    fn from_str(line: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed(line.to_owned());
        let number = |text: &str| text.parse().map_err(|_| malformed());
        Ok(match line.split_once('\t') {
            None if line == "undo" => Self::Undo,
            Some(("forget", change)) => Self::Forget(number(change)?),
            Some(("add", rest)) => {
                let (change, step) = rest.split_once('\t').ok_or_else(malformed)?;
                Self::Add(number(change)?, step.parse()?)
            }
            _ => return Err(malformed()),
        })
    }
}

/// Executes commands until one is `undo` or `commands` ends, then carries out the steps. Errors of `replies` are
/// ignored: undoing does not depend on a receiver.
fn serve(
    mut commands: impl BufRead,
    mut replies: impl Write,
    mut carry_out: impl FnMut(&UndoStep) -> Result<(), String>,
) -> Vec<FailedStep> {
    let mut steps: Vec<(u64, UndoStep)> = Vec::new();
    let mut reply = |line: &dyn std::fmt::Display| drop(writeln!(replies, "{line}"));
    reply(&GREETING);
    let mut line = String::new();
    // The parent died while it wrote a line without its end, and made no change for it.
    while commands.read_line(&mut line).is_ok() && line.ends_with('\n') {
        match line.trim_end_matches('\n').parse() {
            Ok(GuardianCommand::Undo) => break,
            Ok(GuardianCommand::Add(change, step)) => steps.push((change, step)),
            Ok(GuardianCommand::Forget(change)) => steps.retain(|&(number, _)| number != change),
            Err(Malformed(text)) => {
                reply(&format_args!("refused\t{}", text.escape_default()));
                line.clear();
                continue;
            }
        }
        reply(&"ok");
        line.clear();
    }
    let mut failures = Vec::new();
    while let Some((change, step)) = steps.pop() {
        let outcome = catch_unwind(AssertUnwindSafe(|| carry_out(&step)));
        if let Err(reason) = outcome.unwrap_or_else(|_| Err("panicked".to_owned())) {
            reply(&format_args!("failed\t{change}\t{}", reason.as_bytes().escape_ascii()));
            failures.push(FailedStep { step, reason });
        }
    }
    reply(&"done");
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps carried out and the replies after `commands`. Steps named `bad` fail, and those named `worse`
    /// panic.
    fn talk(commands: &str) -> (Vec<String>, String) {
        let (mut done, mut replies) = (Vec::new(), Vec::new());
        let failures = serve(commands.as_bytes(), &mut replies, |step| {
            let UndoStep::RemoveInstance { name } = step else { return Err("unexpected".to_owned()) };
            done.push(name.clone());
            match name.as_str() {
                "bad" => Err("it is\nbad".to_owned()),
                "worse" => panic!("on purpose"),
                _ => Ok(()),
            }
        });
        let replies = String::from_utf8(replies).unwrap();
        assert_eq!(failures.len(), replies.matches("failed").count());
        (done, replies)
    }

    fn add(number: u64, name: &str) -> String {
        format!("add\t{number}\t{}\n", UndoStep::RemoveInstance { name: name.to_owned() })
    }

    #[test]
    fn steps_are_undone_in_reverse_order_and_failures_do_not_stop_it() {
        let commands =
            [add(0, "a"), add(1, "bad"), add(2, "worse"), add(3, "b"), "undo\n".to_owned()].concat();
        let (done, replies) = talk(&commands);
        assert_eq!(done, ["b", "worse", "bad", "a"]);
        assert_eq!(
            replies,
            "sordino-undo 1\nok\nok\nok\nok\nfailed\t2\tpanicked\nfailed\t1\tit is\\nbad\ndone\n"
        );
    }

    #[test]
    fn the_end_of_the_commands_means_undo() {
        assert_eq!(talk(&add(0, "a")).0, ["a"]);
        assert_eq!(talk("").1, "sordino-undo 1\ndone\n");
    }

    #[test]
    fn what_is_forgotten_is_not_undone() {
        let commands = [add(0, "a"), add(1, "b"), "forget\t0\n".to_owned()].concat();
        assert_eq!(talk(&commands).0, ["b"]);
    }

    #[test]
    fn a_line_cut_off_by_the_parents_death_is_left_out() {
        let commands = add(0, "a") + add(1, "b").trim_end();
        assert_eq!(talk(&commands).0, ["a"]);
    }

    #[test]
    fn the_parents_death_counts_even_if_someone_holds_its_socket() {
        let (held, stream) = UnixStream::pair().unwrap();
        let mut parent = std::process::Command::new("true").spawn().unwrap();
        let process = pidfd_open(rustix::process::Pid::from_child(&parent), PidfdFlags::empty()).unwrap();
        let mut commands = WhileParentLives { stream, parent: process };
        (&held).write_all(b"last words").unwrap();
        let mut text = String::new();
        commands.read_to_string(&mut text).unwrap();
        assert_eq!(text, "last words");
        parent.wait().unwrap();
    }

    #[test]
    fn nonsense_is_refused_and_the_rest_obeyed() {
        let commands = format!("hello\nadd\tx\ty\nadd\t1\nforget\t-1\nundo\tnow\n{}", add(0, "a"));
        let (done, replies) = talk(&commands);
        assert_eq!(done, ["a"]);
        assert_eq!(replies.matches("refused").count(), 5);
    }
}
