//! `sordino`: low-latency tracing for multicore real-time Linux.

#[macro_use]
extern crate sordino_terminal as terminal;

mod arguments;
mod commands;
mod record_options;

use arguments::{Arguments, Command, Misunderstood};
use clap::CommandFactory;
use failure::Failure;
use sordino_command::{failure, output, picture, privilege, progress, recording, signals, words};
use std::process::ExitCode;

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    let line: Vec<_> = std::env::args_os().collect();
    terminal::choose_color(words::color(&line));
    let arguments = match Arguments::of(&line) {
        Ok(arguments) => arguments,
        Err(Misunderstood::Failure(failure)) => return failure.report(),
        Err(Misunderstood::Clap(error)) => {
            terminal::show_usage(&error);
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let result = match &arguments.command {
        Command::Record(options) => commands::record::run(options),
        Command::Start(options) => commands::session::start(options),
        Command::Status(options) => commands::session::status(options),
        Command::Snapshot(options) => commands::session::snapshot(options),
        Command::Rotate(options) => commands::session::rotate(options),
        Command::Enable(options) => commands::session::enable(options),
        Command::Disable(options) => commands::session::disable(options),
        Command::Attach(options) => commands::session::attach(options),
        Command::Stop(options) => commands::session::stop(options),
        Command::Destroy(options) => commands::session::destroy(options),
        Command::SessionRecorder(options) => commands::session::run_recorder(options),
        Command::List(options) => commands::list::run(options),
        Command::Events(options) => commands::events::run(options),
        Command::Sql(_) => commands::sql::run(),
        Command::Export(options) => commands::export::run(options),
        Command::Explain(options) => commands::explain::run(options),
        Command::Report(options) => commands::report::run(options),
        Command::Peak(options) => commands::peak::run(options),
        Command::View(options) => commands::view::run(options),
        Command::Watch(options) => commands::watch::run(options),
        Command::Query(options) => commands::query::run(options),
        Command::Npt(options) => commands::npt::run(options),
        Command::Shield(options) => commands::shield::run(options),
        Command::Check(options) => commands::check::run(options),
        Command::Compare(options) => commands::compare::run(options),
        Command::Grant(options) => commands::grant::grant(options),
        Command::Revoke(options) => commands::grant::revoke(options),
        Command::Recover(options) => commands::recover::run(options),
        Command::Demo(options) => commands::demo::run(options),
        Command::Disturb(options) => commands::disturb::run(options),
        Command::Completion(options) => commands::manual::completion(options, &Arguments::command()),
        Command::ManPage(options) => commands::manual::page(options, Arguments::command()),
        Command::DemoLoad(options) => commands::demo::run_load(options),
        Command::UndoGuard => commands::serve_as_guardian(),
        Command::Keep(options) => commands::check::keep(options),
        Command::JoinShield(options) => commands::shield::join(options),
        Command::Become(options) => commands::become_user::run(options),
    };
    result.unwrap_or_else(|failure| failure.report())
}
