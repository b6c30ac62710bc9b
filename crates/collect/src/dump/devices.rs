//! Devices whose files did not answer: a recorder does not touch them again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Late answers of a device, at most.
const LATE_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Bar {
    /// Threads that wait for it now.
    hanging: u32,
    /// How often it kept one waiting.
    late: u8,
}

static BARS: Mutex<Option<HashMap<u64, Bar>>> = Mutex::new(None);

fn bars() -> MutexGuard<'static, Option<HashMap<u64, Bar>>> {
    BARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether files of `device` are not to be touched: one hangs there, or it answered too late too often.
pub(super) fn is_barred(device: u64) -> bool {
    let bars = bars();
    let bar = bars.as_ref().and_then(|bars| bars.get(&device));
    bar.is_some_and(|bar| bar.hanging > 0 || bar.late >= LATE_MAX)
}

/// A thread waits for a file of `device` for too long.
pub(super) fn hangs(device: u64) {
    let mut bars = bars();
    let bar = bars.get_or_insert_default().entry(device).or_default();
    *bar = Bar { hanging: bar.hanging + 1, late: bar.late.saturating_add(1) };
}

/// A file of `device` that a thread waited for too long for has answered.
pub(super) fn answered(device: u64) {
    if let Some(bar) = bars().as_mut().and_then(|bars| bars.get_mut(&device)) {
        bar.hanging = bar.hanging.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_late_too_often_stays_barred() {
        let device = u64::MAX;
        for _ in 0..LATE_MAX {
            assert!(!is_barred(device));
            hangs(device);
            assert!(is_barred(device) && !is_barred(device - 1));
            answered(device);
        }
        assert!(is_barred(device));
    }
}
