//! The parts of a program's prepared rings that have memory and are open, but are not present in the program yet.

use super::recipient::Recipient;
use crate::accounts::is_trusted;
use sordino_ring::area::map::{MemoryPart, populate, populate_apart};
use std::collections::VecDeque;
use std::iter::once;

/// Size of the part that is made present in one step, in bytes: rings in use wait no longer.
const STEP: u64 = 256 << 10;

/// The parts that are left.
#[derive(Debug)]
pub(super) struct HiddenParts(VecDeque<MemoryPart>);

impl HiddenParts {
    /// Cuts the parts into steps, taken from each in turn: any ring may be the one that is used.
    pub(super) fn of(parts: &[MemoryPart]) -> Self {
        let mut rest: Vec<MemoryPart> = parts.to_vec();
        let mut steps = VecDeque::new();
        while !rest.is_empty() {
            for part in &mut rest {
                let step = MemoryPart { length: part.length.min(STEP), ..*part };
                steps.push_back(step);
                *part = MemoryPart { address: part.address + step.length, length: part.length - step.length };
            }
            rest.retain(|part| part.length > 0);
        }
        Self(steps)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the next part present. The program can delay it for ever.
    pub(super) fn step(&mut self, recipient: &Recipient) {
        let Some(part) = self.0.pop_front() else { return };
        let is_trusted = is_trusted(recipient.claim.user());
        let populate = if is_trusted { populate } else { populate_apart };
        // If it is not permitted, or the program has something else there, its threads fault once on each page.
        if populate(recipient.pid, once(part)).is_err() {
            self.forget();
        }
    }

    /// Forgets the parts that are left: idle rings are about to lose pages, which must not come back by this.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_from_each_part_in_turn() {
        let part = |(address, length)| MemoryPart { address, length };
        let parts = HiddenParts::of(&[(0, 2 * STEP + 7), (1 << 30, STEP), (5 << 30, 3)].map(part));
        let steps = [(0, STEP), (1 << 30, STEP), (5 << 30, 3), (STEP, STEP), (2 * STEP, 7)];
        assert_eq!(parts.0, steps.map(part));
        assert!(HiddenParts::of(&[]).is_empty());
    }
}
