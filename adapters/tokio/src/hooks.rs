//! Hooks of tokio's that make every task of a runtime a fiber.

use crate::thread::{current, mount, unmount};
use sordino_fiber::SwitchReason;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use tokio::runtime::Builder;
use tokio::task::Id;

/// Offset of tasks' numbers, above those of wrapped futures.
const TASKS: u64 = 1 << 48;

thread_local! {
    /// Fiber around the task that this thread polls.
    static OUTER: Cell<u64> = const { Cell::new(0) };
}

/// Sets the hooks of a runtime's tasks: every task is a fiber, whose number is [`number`] of its id.
///
/// tokio has one hook of each kind, which this replaces. The hooks do not know the result of a poll, so the reason of a
/// switch is `unknown` until the task ends, and wakes are not recorded.
pub fn tasks(builder: &mut Builder) -> &mut Builder {
    builder
        .on_task_spawn(|task| sordino_fiber::new(number(task.id()), ""))
        .on_before_task_poll(|task| OUTER.set(mount(number(task.id()))))
        .on_after_task_poll(|task| {
            unmount_task(number(task.id()), SwitchReason::Unknown);
        })
        .on_task_terminate(|task| {
            let fiber = number(task.id());
            if unmount_task(fiber, SwitchReason::Ended) {
                sordino_fiber::end(fiber);
            }
        })
}

/// Switches back from a task, and returns true, if this thread polls it. tokio terminates a task within its last poll,
/// and calls that hook for blocking work, too, which is no fiber.
fn unmount_task(fiber: u64, why: SwitchReason) -> bool {
    let is_polled = current() == fiber;
    if is_polled {
        unmount(OUTER.get(), why);
    }
    is_polled
}

/// Returns the number of a task's fiber: the task's id and 2 to the power of 48.
pub fn number(id: Id) -> u64 {
    // The id shows its number only as text, and to a hasher.
    let mut hasher = NumberHasher(0);
    id.hash(&mut hasher);
    hasher.0 + TASKS
}

/// A hasher whose hash is the last number that it was given.
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tasks_number_is_that_of_its_id() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ids = runtime.block_on(async { [(); 3].map(|()| tokio::spawn(async {}).id()) });
        for id in ids {
            assert_eq!(number(id) - TASKS, id.to_string().parse::<u64>().unwrap());
        }
    }
}
