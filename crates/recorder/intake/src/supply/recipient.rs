//! The program that gets pages for its rings.

use crate::ledger::Claim;
use sordino_ring::area::control::Program;
use std::sync::Arc;

/// The program that owns the rings.
#[derive(Debug)]
pub(super) struct Recipient {
    pub(super) pid: i32,
    pub(super) program: Arc<Program>,
    pub(super) claim: Arc<Claim>,
    /// True if no page is taken from it while there is memory for more. The kernel interrupts each CPU that the program
    /// runs on for one that is, and a shielded CPU is among them.
    pub(super) keeps_pages: bool,
}
