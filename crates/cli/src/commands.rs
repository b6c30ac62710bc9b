//! The commands: a file for each, with its options and its function, and the parts that several share.

pub(crate) mod become_user;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod disturb;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod grant;
pub(crate) mod list;
pub(crate) mod manual;
pub(crate) mod npt;
pub(crate) mod peak;
pub(crate) mod queries;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod refused;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod shield;
pub(crate) mod sql;
pub(crate) mod view;
pub(crate) mod watch;

pub(crate) use crate::terminal::print;

use crate::Failure;
use std::process::ExitCode;

/// Undoes the changes of the process that started this one, when that has ended.
pub(crate) fn serve_as_guardian() -> Result<ExitCode, Failure> {
    sordino_guard::serve()?;
    Ok(ExitCode::SUCCESS)
}
