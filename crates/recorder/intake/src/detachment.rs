//! The work that remains when a program is detached from.

use crate::accounts::is_trusted;
use crate::ledger::Claim;
use crate::supply::Supplied;
use sordino_ring::area::control::{Hold, Program};
use std::sync::Arc;
use std::time::Instant;

/// A program that is not detached yet: its area is locked, or it could delay the detachment.
#[derive(Clone, Debug)]
pub struct Detachment {
    /// The name of the process.
    pub name: String,
    /// The program's area in shared memory.
    pub program: Arc<Program>,
    /// The session's hold on its slot.
    pub hold: Hold,
    /// The supply of its rings, which ends first.
    pub supplied: Option<Arc<Supplied>>,
    /// The claim for the rings' memory, held until they are freed.
    pub claim: Arc<Claim>,
    /// The time until which others may lock the area.
    pub until: Instant,
}

impl Detachment {
    /// Returns the name of the process.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tries again to detach; if the lock was held for too long, detaches without it. Returns `None` if it must be
    /// tried again, otherwise a note if there was an error.
    pub fn retry(&self, must_end: bool) -> Option<Option<String>> {
        let is_overdue = must_end || Instant::now() >= self.until;
        if !close(self.supplied.as_ref(), is_trusted(self.claim.user())) {
            let note = || format!("the rings of {} could not be given back: it delays its pages", self.name);
            return is_overdue.then(|| Some(note()));
        }
        let result = match self.program.try_detach(self.hold) {
            Ok(true) => Ok(()),
            Ok(false) if !is_overdue => return None,
            Ok(false) => self.program.detach_unlocked(self.hold),
            Err(error) => Err(error),
        };
        let Self { name, .. } = self;
        Some(result.err().map(|error| format!("the rings of {name} could not be given back: {error}")))
    }
}

/// Stops the supply of pages before the rings are removed. Returns true if it has stopped.
pub fn close(supplied: Option<&Arc<Supplied>>, wait: bool) -> bool {
    supplied.is_none_or(|member| member.close(wait))
}
