//! The program that gets pages for its rings.

use crate::ledger::Claim;
use sordino_ring::control::Program;
use std::sync::Arc;

/// The program that owns the rings.
#[derive(Debug)]
pub(super) struct Recipient {
    pub(super) pid: i32,
    pub(super) program: Arc<Program>,
    pub(super) claim: Arc<Claim>,
}
