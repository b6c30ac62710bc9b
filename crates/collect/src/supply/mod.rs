//! Pages for the rings of the programs that are recorded: who runs gets some, who idles gives some back.
//!
//! The thread that empties a ring sees that writers come near the end of its pages, and wakes a thread of this module. Making pages
//! present takes as long as a program likes, so each user has a thread; root's programs and those of the recorder's user share one.
//! A program whose thread hangs gets no more pages, and loses what finds no room: its own events, which are counted.
//!
//! | file | what it does |
//! |---|---|
//! | `supplier` | one user's thread |
//! | `supplied` | one program's rings |
//! | `ring` | one ring: when it gets pages, and gives them back |

mod ring;
mod supplied;
mod supplier;

pub(crate) use supplied::Supplied;
pub(crate) use supplier::Waker;

use crate::intake::{Claim, is_trusted};
use sordino_ring::control::{Pager, Program};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use supplier::Supplier;

/// Threads at most for users who are not trusted.
const MOST_SUPPLIERS: u32 = 16;

/// The threads that give rings pages.
#[derive(Debug)]
pub(crate) struct Supply {
    /// By account; that of trusted users is `None`.
    suppliers: HashMap<Option<u32>, Arc<Supplier>>,
    /// Rings of all programs.
    rings: Arc<AtomicUsize>,
}

impl Supply {
    /// Starts the thread for programs of trusted users.
    pub(crate) fn begin() -> Self {
        let rings = Arc::<AtomicUsize>::default();
        let supplier = Arc::new(Supplier::new(Arc::clone(&rings), true));
        // Where it can't be started, it is tried again with the first program, which is told.
        let _ = Supplier::start(&supplier);
        Self { suppliers: HashMap::from([(None, supplier)]), rings }
    }

    /// Returns true if there is no room for one more supplier, which this user would need.
    fn is_full(&self, user: u32) -> bool {
        !self.suppliers.contains_key(&Some(user)) && self.suppliers.len() > MOST_SUPPLIERS as usize
    }

    /// Has a program's rings get pages from now on.
    ///
    /// # Errors
    /// The rings get no pages besides those that they have; the text has the reason.
    pub(crate) fn add(
        &mut self,
        pid: i32,
        program: &Arc<Program>,
        claim: &Arc<Claim>,
        pagers: Vec<Pager>,
    ) -> Result<Arc<Supplied>, String> {
        let account = Some(claim.user()).filter(|user| !is_trusted(*user));
        self.suppliers.retain(|account, supplier| account.is_none() || supplier.is_needed());
        // The programs of more users share a thread: one of these can then keep the others waiting for memory.
        let account = account.map(|user| if self.is_full(user) { user % MOST_SUPPLIERS } else { user });
        let supplier = self
            .suppliers
            .entry(account)
            .or_insert_with(|| Arc::new(Supplier::new(Arc::clone(&self.rings), false)));
        let program = Supplied::new(pid, program, claim, pagers, &self.rings);
        Supplier::add(supplier, program)
            .map_err(|error| format!("its rings get no more pages: no thread for it: {error}"))
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.suppliers.values().for_each(|supplier| supplier.close());
    }
}
