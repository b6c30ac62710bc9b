//! What would be done.

use crate::{Change, Error, KNOBS, Knob, Machine, Request, Wants};
use rustix::fs::{Access, access};
use serde::{Serialize, Serializer};
use std::io;

/// What would be done about one knob.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// The knob.
    #[serde(serialize_with = "name_of")]
    pub knob: &'static Knob,
    /// Whether the request leaves it out.
    pub left_out: bool,
    /// What it wants.
    #[serde(flatten)]
    pub wants: Wants,
}

fn name_of<S: Serializer>(knob: &&'static Knob, serializer: S) -> Result<S::Ok, S::Error> {
    knob.name.serialize(serializer)
}

/// What would be done to meet `request`, knob by knob. Changes nothing, and needs no right to.
///
/// # Errors
/// If the request can't be met.
pub fn plan(machine: &Machine, request: &Request) -> Result<Vec<Planned>, Error> {
    request.check(machine)?;
    KNOBS
        .iter()
        .map(|knob| {
            let wants = knob.plan(machine, request)?;
            Ok(Planned { knob, left_out: knob.is_left_out(request), wants })
        })
        .collect()
}

/// Whether this process may change anything at all.
///
/// # Errors
/// [`Error::Permission`].
pub(crate) fn check_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let source = io::ErrorKind::PermissionDenied.into();
    Err(Error::Permission { what: "the machine".to_owned(), source })
}

/// Whether what nothing is shielded without may be changed.
///
/// # Errors
/// [`Error::Permission`].
pub(crate) fn check_permission(planned: &[Planned]) -> Result<(), Error> {
    check_root()?;
    for planned in planned.iter().filter(|planned| planned.knob.essential) {
        for Change { place, to, .. } in &planned.wants.changes {
            // What a change before it makes is not there yet.
            let Some(path) = place.path().filter(|path| to.is_some() && path.exists()) else { continue };
            access(path, Access::WRITE_OK).map_err(|errno| Error::Permission {
                what: path.display().to_string(),
                source: errno.into(),
            })?;
        }
    }
    Ok(())
}
