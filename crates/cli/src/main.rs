//! `sordino`: low-latency tracing for multicore real-time Linux.

#[macro_use]
extern crate sordino_terminal as terminal;

mod arguments;
mod commands;
mod record_options;

use arguments::{Arguments, Misunderstood, SordinoCommand};
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
        SordinoCommand::Record(options) => commands::record::run(options),
        SordinoCommand::Start(options) => commands::session::start(options),
        SordinoCommand::Status(options) => commands::session::status(options),
        SordinoCommand::Snapshot(options) => commands::session::snapshot(options),
        SordinoCommand::Rotate(options) => commands::session::rotate(options),
        SordinoCommand::Enable(options) => commands::session::enable(options),
        SordinoCommand::Disable(options) => commands::session::disable(options),
        SordinoCommand::Attach(options) => commands::session::attach(options),
        SordinoCommand::Stop(options) => commands::session::stop(options),
        SordinoCommand::Destroy(options) => commands::session::destroy(options),
        SordinoCommand::SessionRecorder(options) => commands::session::run_recorder(options),
        SordinoCommand::List(options) => commands::list::run(options),
        SordinoCommand::Events(options) => commands::events::run(options),
        SordinoCommand::Sql(_) => commands::sql::run(),
        SordinoCommand::Export(options) => commands::export::run(options),
        SordinoCommand::Explain(options) => commands::explain::run(options),
        SordinoCommand::Report(options) => commands::report::run(options),
        SordinoCommand::Peak(options) => commands::peak::run(options),
        SordinoCommand::View(options) => commands::view::run(options),
        SordinoCommand::Watch(options) => commands::watch::run(options),
        SordinoCommand::Query(options) => commands::query::run(options),
        SordinoCommand::Npt(options) => commands::npt::run(options),
        SordinoCommand::Shield(options) => commands::shield::run(options),
        SordinoCommand::Check(options) => commands::check::run(options),
        SordinoCommand::Compare(options) => commands::compare::run(options),
        SordinoCommand::Grant(options) => commands::grant::grant(options),
        SordinoCommand::Revoke(options) => commands::grant::revoke(options),
        SordinoCommand::Recover(options) => commands::recover::run(options),
        SordinoCommand::Demo(options) => commands::demo::run(options),
        SordinoCommand::Disturb(options) => commands::disturb::run(options),
        SordinoCommand::Completion(options) => commands::manual::completion(options, &Arguments::command()),
        SordinoCommand::ManPage(options) => commands::manual::page(options, Arguments::command()),
        SordinoCommand::DemoLoad(options) => commands::demo::run_load(options),
        SordinoCommand::UndoGuard => commands::serve_as_guardian(),
        SordinoCommand::Keep(options) => commands::check::keep(options),
        SordinoCommand::JoinShield(options) => commands::shield::join(options),
        SordinoCommand::Become(options) => commands::become_user::run(options),
    };
    result.unwrap_or_else(|failure| failure.report())
}
