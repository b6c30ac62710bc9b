//! Supplies the rings of recorded programs with pages: rings in use get some, idle ones give some back.
//!
//! The thread that empties a ring detects that writers approach the end of its pages, and wakes a thread of this
//! module, which also looks at the rings in use itself: the other one may wait for a disk. A program can delay access
//! to its pages for ever, so each user has a thread of its own; root's programs and those of the recorder's user share
//! one. A program whose thread hangs gets no more pages and loses records without room: its own events, which are
//! counted.
//!
//! | file | contents |
//! |---|---|
//! | `supplier`, `waker` | one user's thread, and its handle |
//! | `supplied`, `recipient` | one program's rings, and that program |
//! | `hidden` | parts of prepared rings that are not present yet |
//! | `ring` | one ring: the times at which it gets pages and gives them back |

mod hidden;
mod recipient;
mod ring;
mod supplied;
mod supplier;
mod waker;

pub use supplied::Supplied;
pub use waker::SupplyWaker;

use crate::accounts::is_trusted;
use crate::ledger::Claim;
use sordino_ring::area::control::{Pager, Program};
use sordino_ring::area::map::MemoryPart;
use sordino_sched::CpuList;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use supplier::Supplier;

/// Maximum number of threads for untrusted users.
const MOST_SUPPLIERS: u32 = 16;

/// The threads that supply rings with pages.
#[derive(Debug)]
pub struct Supply {
    /// The threads, by account; that of trusted users is `None`.
    suppliers: HashMap<Option<u32>, Arc<Supplier>>,
    /// The number of rings of all programs.
    rings: Arc<AtomicUsize>,
    shielded: fn() -> CpuList,
}

impl Supply {
    /// Starts the thread for programs of trusted users. `shielded` returns the CPUs that are shielded at present.
    pub fn begin(shielded: fn() -> CpuList) -> Self {
        let rings = Arc::<AtomicUsize>::default();
        let supplier = Arc::new(Supplier::new(Arc::clone(&rings), shielded, true));
        // On failure, it is tried again with the first program, which reports the error.
        let _ = Supplier::start(&supplier);
        Self { suppliers: HashMap::from([(None, supplier)]), rings, shielded }
    }

    /// Returns true if this user needs another supplier and the limit is reached.
    fn is_full(&self, user: u32) -> bool {
        !self.suppliers.contains_key(&Some(user)) && self.suppliers.len() > MOST_SUPPLIERS as usize
    }

    /// Supplies a program's rings with pages from now on, and makes `hidden` parts of its memory present.
    ///
    /// # Errors
    /// A description of the error, after which the rings get no pages beyond those that they have.
    pub fn add(
        &mut self,
        pid: i32,
        program: &Arc<Program>,
        claim: &Arc<Claim>,
        pagers: Vec<Pager>,
        hidden: &[MemoryPart],
    ) -> Result<Arc<Supplied>, String> {
        let account = Some(claim.user()).filter(|user| !is_trusted(*user));
        self.suppliers.retain(|account, supplier| account.is_none() || supplier.is_needed());
        // Beyond the limit, users share threads: one of them can then block the others' supply.
        let account = account.map(|user| if self.is_full(user) { user % MOST_SUPPLIERS } else { user });
        let supplier = self
            .suppliers
            .entry(account)
            .or_insert_with(|| Arc::new(Supplier::new(Arc::clone(&self.rings), self.shielded, false)));
        let program = Supplied::new(pid, program, claim, pagers, hidden, &self.rings);
        Supplier::add(supplier, program)
            .map_err(|error| format!("its rings get no more pages: no thread for it: {error}"))
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.suppliers.values().for_each(|supplier| supplier.close());
    }
}
