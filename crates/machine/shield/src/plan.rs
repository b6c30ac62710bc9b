//! Plans the changes for a request.

use crate::{Change, Error, KNOBS, Knob, KnobPlan, Machine, ShieldRequest};
use rustix::fs::{Access, access};
use serde::{Serialize, Serializer};
use std::io;

/// Planned changes of one knob.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// The knob, by its name.
    #[serde(serialize_with = "name_of")]
    pub knob: &'static Knob,
    /// True if the request does not use the knob.
    pub left_out: bool,
    /// Changes and remarks for this machine.
    #[serde(flatten)]
    pub plan: KnobPlan,
}

fn name_of<S: Serializer>(knob: &&'static Knob, serializer: S) -> Result<S::Ok, S::Error> {
    knob.name.serialize(serializer)
}

/// Plans the changes for `request`, knob by knob. Changes nothing, and needs no rights.
///
/// # Errors
/// Returns an error if the request cannot be met.
pub fn plan(machine: &Machine, request: &ShieldRequest) -> Result<Vec<Planned>, Error> {
    request.check(machine)?;
    KNOBS
        .iter()
        .map(|knob| {
            let plan = knob.plan(machine, request)?;
            Ok(Planned { knob, left_out: knob.is_left_out(request), plan })
        })
        .collect()
}

/// Checks that this process runs as root.
///
/// # Errors
/// [`Error::Permission`] if it does not.
pub(crate) fn check_root() -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let source = io::ErrorKind::PermissionDenied.into();
    Err(Error::Permission { what: "the machine".to_owned(), source })
}

/// Checks that this process may make all essential changes.
///
/// # Errors
/// [`Error::Permission`] with the first file that cannot be written.
pub(crate) fn check_permission(planned: &[Planned]) -> Result<(), Error> {
    check_root()?;
    for planned in planned.iter().filter(|planned| planned.knob.essential) {
        for Change { place, to, .. } in &planned.plan.changes {
            // Files that an earlier change creates do not exist yet.
            let Some(path) = place.path().filter(|path| to.is_some() && path.exists()) else { continue };
            access(path, Access::WRITE_OK).map_err(|errno| Error::Permission {
                what: path.display().to_string(),
                source: errno.into(),
            })?;
        }
    }
    Ok(())
}
