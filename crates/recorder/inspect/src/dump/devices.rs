//! Devices whose files did not answer in time, which the recorder does not access again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of late answers after which a device is barred.
const LATE_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, Default)]
struct DeviceDelays {
    /// The number of threads that wait for it now.
    hanging: u32,
    /// The number of times that it kept a thread waiting too long.
    late: u8,
}

/// The delays of devices by device number.
static DELAYS: Mutex<Option<HashMap<u64, DeviceDelays>>> = Mutex::new(None);

fn delays() -> MutexGuard<'static, Option<HashMap<u64, DeviceDelays>>> {
    DELAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if files of `device` must not be accessed: a thread hangs there, or it answered too late too often.
pub(super) fn is_barred(device: u64) -> bool {
    let delays = delays();
    let delay = delays.as_ref().and_then(|delays| delays.get(&device));
    delay.is_some_and(|delay| delay.hanging > 0 || delay.late >= LATE_MAX)
}

/// Notes that a thread has waited for a file of `device` for too long.
pub(super) fn hangs(device: u64) {
    let mut delays = delays();
    let delay = delays.get_or_insert_default().entry(device).or_default();
    *delay = DeviceDelays { hanging: delay.hanging + 1, late: delay.late.saturating_add(1) };
}

/// Notes that a file of `device` has answered after a thread had waited for too long.
pub(super) fn answered(device: u64) {
    if let Some(delay) = delays().as_mut().and_then(|delays| delays.get_mut(&device)) {
        delay.hanging = delay.hanging.saturating_sub(1);
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
