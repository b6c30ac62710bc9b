//! What can be typed.

use crate::commands::{
    become_user, check, compare, demo, disturb, events, explain, grant, list, manual, npt, record, recover,
    session, shield,
};
use clap::{Parser, Subcommand};
use std::time::Duration;

/// Low-latency tracing for multicore real-time Linux.
///
/// Records what programs do (static tracepoints in C, C++, Rust) and what the kernel does, at once and on one clock,
/// without a daemon, a kernel module or a thread in the traced program; then says what caused each latency peak.
///
/// Exit status: 0 fine; 1 the answer is "no" (loss with --fail-on-loss, a limit exceeded); 2 bad usage, or something is
/// missing; 'record' passes the command's own status on.
#[derive(Debug, Parser)]
#[command(name = "sordino", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(record::Options),
    Start(session::StartOptions),
    Status(session::StatusOptions),
    Snapshot(session::SnapshotOptions),
    Rotate(session::RotateOptions),
    Enable(session::EventsOptions),
    Disable(session::EventsOptions),
    Attach(session::AttachOptions),
    Stop(session::StopOptions),
    Destroy(session::DestroyOptions),
    List(list::Options),
    Events(events::Options),
    Explain(explain::Options),
    Npt(npt::Options),
    Shield(shield::Options),
    Check(check::Options),
    Compare(compare::Options),
    Grant(grant::GrantOptions),
    Revoke(grant::RevokeOptions),
    Recover(recover::Options),
    Disturb(disturb::Options),
    Demo(demo::Options),
    Completion(manual::CompletionOptions),
    #[command(hide = true)]
    ManPage(manual::PageOptions),
    #[command(hide = true)]
    SessionRecorder(session::StartOptions),
    #[command(hide = true)]
    DemoLoad(demo::LoadOptions),
    /// Undoes what its parent changed, when the parent is gone.
    #[command(hide = true)]
    UndoGuard,
    #[command(hide = true)]
    Keep(check::KeepOptions),
    #[command(hide = true)]
    JoinShield(shield::JoinOptions),
    #[command(hide = true)]
    Become(become_user::Options),
}

/// `200us`, `1.5s`, `2min`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let fraction = text.find(|c: char| !c.is_ascii_digit() && c != '.').map(|end| text.split_at(end));
    if let Some((number, unit)) = fraction.filter(|(number, _)| number.contains('.')) {
        let number: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
        let one = humantime::parse_duration(&format!("1{unit}")).map_err(|error| error.to_string())?;
        return Duration::try_from_secs_f64(one.as_secs_f64() * number).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it as 200us, 1.5s or 2min"))
}

/// `4096`, `64K`, `1M`, `2G`: powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no size; write it as 64K, 1M or 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert!(duration("5").is_err() && duration("x").is_err() && duration("1.5x").is_err());
        assert_eq!(
            [size("4096"), size("64K"), size("1MiB"), size("2g")],
            [Ok(4096), Ok(65_536), Ok(1 << 20), Ok(2 << 30)]
        );
        for bad in ["", "K", "-1", "1.5M", "1T", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
