//! Devices whose files did not answer in time, which the recorder does not access again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of late answers after which a device is barred.
const LATE_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Bar {
    /// The number of threads that wait for it now.
    hanging: u32,
    /// The number of times that it kept a thread waiting too long.
    late: u8,
}

static BARS: Mutex<Option<HashMap<u64, Bar>>> = Mutex::new(None);

fn bars() -> MutexGuard<'static, Option<HashMap<u64, Bar>>> {
    BARS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if files of `device` must not be accessed: a thread hangs there, or it answered too late too often.
pub(super) fn is_barred(device: u64) -> bool {
    let bars = bars();
    let bar = bars.as_ref().and_then(|bars| bars.get(&device));
    bar.is_some_and(|bar| bar.hanging > 0 || bar.late >= LATE_MAX)
}

/// Notes that a thread has waited for a file of `device` for too long.
pub(super) fn hangs(device: u64) {
    let mut bars = bars();
    let bar = bars.get_or_insert_default().entry(device).or_default();
    *bar = Bar { hanging: bar.hanging + 1, late: bar.late.saturating_add(1) };
}

/// Notes that a file of `device` has answered after a thread had waited for too long.
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
