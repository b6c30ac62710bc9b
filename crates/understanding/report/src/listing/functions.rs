//! Names of functions beside their addresses.

use crate::value::{bare, json_text};
use sordino_event::{Pid, View};
use sordino_query::NameAddress;
use sordino_timeline::Moment;
use std::fmt;

/// Writer of functions' names beside their addresses, if the listing has names.
#[derive(Default)]
pub(super) struct FunctionNamer(Option<NameAddress>);

impl fmt::Debug for FunctionNamer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FunctionNamer").field(&self.0.is_some()).finish()
    }
}

impl FunctionNamer {
    pub(super) fn new(names: NameAddress) -> Self {
        Self(Some(names))
    }

    /// Writes the name of an address in the event's process, with a space before it.
    pub(super) fn text(&self, value: &View<'_>, pid: Option<Pid>, out: &mut Vec<u8>) {
        let (Some(names), Some(pid), &View::Unsigned(address, _)) = (&self.0, pid, value) else { return };
        if let Some(name) = names(pid, address) {
            out.push(b' ');
            bare(name.as_bytes(), out);
        }
    }

    /// Writes `,"function_name":"solve"`, or `null` if the function has no name.
    pub(super) fn json(&self, field: usize, moment: &Moment<'_>, out: &mut Vec<u8>) {
        let Some(names) = &self.0 else { return };
        let address = match moment.event.value(field) {
            Some(View::Unsigned(address, _)) => Some(address),
            _ => None,
        };
        let name = moment.pid().zip(address).and_then(|(pid, address)| names(pid, address));
        out.extend_from_slice(b",\"function_name\":");
        match name {
            Some(name) => json_text(name.as_bytes(), out),
            None => out.extend_from_slice(b"null"),
        }
    }
}
