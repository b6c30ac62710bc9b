//! The command line: its parsing, and its errors.

pub(crate) mod groups;

use crate::Failure;
use crate::commands::{
    become_user, check, compare, demo, disturb, events, explain, export, grant, list, manual, npt, peak,
    query, record, recover, report, session, shield, view, watch,
};
use crate::failure::UNUSABLE;
use crate::terminal::layout_columns;
use crate::words::typed;
use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use sordino_event::text::printable;
use sordino_selection::SqlOptions;
use std::ffi::{OsStr, OsString};

/// Maximum number of columns of help, also in a wider terminal.
const MOST_COLUMNS: usize = 100;
/// Styles of help and of errors, in a terminal's basic colours.
const STYLES: Styles = Styles::plain()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(Style::new().bold())
    .error(AnsiColor::Red.on_default())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Low-latency tracing for multicore real-time Linux.
///
/// Records events of programs (static tracepoints in C, C++, Rust) and of the kernel together, on one clock, without a
/// daemon, a kernel module or a thread in the traced program; then names the cause of each latency peak.
///
/// Exit status: 0 success; 1 a check failed (events were lost with --fail-on-loss, a limit was exceeded); 2 wrong
/// usage, or something is missing; 'record' returns the command's own status.
#[derive(Debug, Parser)]
#[command(name = "sordino", version, styles = STYLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: SordinoCommand,
    /// Use colours: always, never, or automatically (auto): on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, display_order = 998)]
    color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SordinoCommand {
    Record(record::Options),
    Start(session::StartOptions),
    Status(session::StatusOptions),
    Snapshot(session::SnapshotOptions),
    Rotate(session::RotateOptions),
    /// Record more tracepoints in a running session
    Enable(session::EventsOptions),
    /// Record fewer tracepoints in a running session
    Disable(session::EventsOptions),
    Attach(session::AttachProcessOptions),
    Stop(session::StopOptions),
    Destroy(session::DestroyOptions),
    List(list::Options),
    Events(events::Options),
    Watch(watch::Options),
    Explain(explain::Options),
    Report(report::Options),
    Peak(peak::Options),
    View(view::Options),
    Query(query::Options),
    Sql(SqlOptions),
    Export(export::Options),
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
    /// Undoes the changes of its parent when that has ended.
    #[command(hide = true)]
    UndoGuard,
    #[command(hide = true)]
    Keep(check::KeepOptions),
    #[command(hide = true)]
    JoinShield(shield::JoinOptions),
    #[command(hide = true)]
    Become(become_user::Options),
}

/// The reason why a command line was not accepted.
#[derive(Debug)]
pub(crate) enum Misunderstood {
    /// clap's message, which may also be the requested help.
    Clap(clap::Error),
    /// A message of sordino's own.
    Failure(Failure),
}

impl Arguments {
    /// Parses a command line.
    pub(crate) fn of(words: &[OsString]) -> Result<Self, Misunderstood> {
        let columns = layout_columns().min(MOST_COLUMNS);
        let command = groups::grouped(Self::command().term_width(columns), columns);
        let matches = command.try_get_matches_from(words);
        let arguments = matches.and_then(|matches| Self::from_arg_matches(&matches));
        let arguments = arguments.map_err(|error| match with_dashes(words, &error) {
            Some(failure) => Misunderstood::Failure(failure),
            None => Misunderstood::Clap(error),
        })?;
        match arguments.lacks_command() && words.last().is_some_and(|word| word == "--") {
            true => Err(Misunderstood::Failure(nothing_behind(words))),
            false => Ok(arguments),
        }
    }

    /// Returns true if the command accepts a COMMAND and none is given.
    fn lacks_command(&self) -> bool {
        match &self.command {
            SordinoCommand::Record(options) => options.what.command.is_empty(),
            SordinoCommand::Start(options) => options.what.command.is_empty(),
            _ => false,
        }
    }
}

/// Returns an error that shows the command line with a `--` in front of a stray word, if it is valid then.
fn with_dashes(words: &[OsString], error: &clap::Error) -> Option<Failure> {
    let Some(ContextValue::String(stray)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || stray.starts_with('-') {
        return None;
    }
    let places = (2..words.len()).filter(|place| words[*place] == OsStr::new(stray));
    let mut corrected = places.map(|place| [&words[..place], &["--".into()], &words[place..]].concat());
    let corrected = corrected.find(|words| Arguments::try_parse_from(words).is_ok())?;
    let text = format!("'{}': a command follows '--': {}", printable(stray), typed(&corrected));
    Some(Failure::new(UNUSABLE, text))
}

fn nothing_behind(words: &[OsString]) -> Failure {
    let without = words.split_last().map_or(words, |(_, others)| others);
    let with = [words, &["./motor".into()]].concat();
    Failure::new(
        UNUSABLE,
        format!(
            "no command after '--': name one ({}), or leave '--' out to record every program ({})",
            typed(&with),
            typed(without)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    fn failure(words: &str) -> Option<String> {
        let words: Vec<OsString> = words.split('|').map(OsString::from).collect();
        match Arguments::of(&words) {
            Err(Misunderstood::Failure(failure)) => Some(failure.text().to_owned()),
            Ok(_) | Err(Misunderstood::Clap(_)) => None,
        }
    }

    #[test]
    fn a_command_without_dashes_is_shown_with_them() {
        for (words, corrected) in [
            ("sordino|record|./x", "sordino record -- ./x"),
            ("sordino|record|-o|./x|./x|-o|a b", "sordino record -o ./x -- ./x -o 'a b'"),
            ("sordino|record|--kernel|sched|./x|--own", "sordino record --kernel sched -- ./x --own"),
            ("sordino|start|box|--overwrite|./x", "sordino start box --overwrite -- ./x"),
            ("sordino|shield|run|./x", "sordino shield run -- ./x"),
        ] {
            let text = failure(words).expect(words);
            assert!(text.ends_with(&format!("'--': {corrected}")), "{text}");
        }
        for words in ["sordino|events|a|b", "sordino|record|--kernle|sched", "sordino|record|--|./x"] {
            assert_eq!(failure(words), None, "{words}");
        }
    }

    #[test]
    fn dashes_without_a_command_are_refused() {
        let text = failure("sordino|record|--duration|1s|--").unwrap();
        assert!(text.contains("(sordino record --duration 1s -- ./motor)"), "{text}");
        assert!(text.contains("every program (sordino record --duration 1s)"), "{text}");
        assert!(failure("sordino|start|box|--").is_some());
        assert_eq!(failure("sordino|record|--|echo|--"), None);
    }

    #[test]
    fn options_for_the_kernel_need_the_kernel() {
        for words in ["--kernel-tid|7", "--kernel-buffer|1M", "--no-user"] {
            let parse = |words: &str| Arguments::try_parse_from(words.split('|')).map(drop);
            let error = parse(&format!("sordino|record|{words}")).unwrap_err();
            assert!(error.to_string().contains("--kernel <EVENTS>"), "{error}");
            parse(&format!("sordino|record|--kernel|sched|{words}")).unwrap();
        }
        let both = ["sordino", "record", "--kernel", "sched", "--no-user", "--user", "motor"];
        assert!(Arguments::try_parse_from(both).is_err());
    }
}
