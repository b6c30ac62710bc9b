//! Settings of the machine that are held during measurements, and restored.

use crate::Held;
use sordino_guard::{THROTTLE, Throttle};
use sordino_undo::Guardian;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

const LATENCY: &str = "/dev/cpu_dma_latency";

/// The settings that are held; dropping it restores them.
pub(crate) struct HeldSettings {
    pub(crate) held: Vec<Held>,
    /// The settings that could not be held, and the consequences.
    pub(crate) not_held: Vec<String>,
    _guardian: Option<Guardian>,
    /// The kernel drops the request when this file is closed, also if the process is killed.
    _latency: Option<File>,
}

impl HeldSettings {
    /// Holds nothing, and measures the machine as it is.
    pub(crate) fn nothing() -> Self {
        Self { held: Vec::new(), not_held: Vec::new(), _guardian: None, _latency: None }
    }

    /// Disables throttling of real-time threads and deep sleep of CPUs. If loops take all CPUs, throttling stays: other
    /// threads, such as one that ends the loops, run only because of it.
    pub(crate) fn all(takes_all: bool) -> Self {
        let mut hold = Self::nothing();
        match sordino_guard::lift(takes_all.then_some("no other CPU is left")) {
            Throttle::Unlimited => {}
            Throttle::Lifted { was, guardian } => {
                hold._guardian = Some(guardian);
                hold.hold(THROTTLE, was, "-1", "real-time threads are not stopped for 5 % of each second");
            }
            Throttle::Stays { now, why } => {
                let now = now.unwrap_or_else(|| "as it is".to_owned());
                hold.not_held.push(format!(
                    "{THROTTLE} stays {now} ({why}): a real-time thread that does not sleep is stopped for up to 50 ms in each second"
                ));
            }
        }
        match latency() {
            Ok((was, file)) => {
                hold._latency = Some(file);
                hold.hold(
                    LATENCY,
                    format!("{was} us"),
                    "0 us",
                    "CPUs sleep no deeper than they wake from at once",
                );
            }
            Err(error) => hold.not_held.push(format!("{LATENCY} ({error}): CPUs may sleep deeply")),
        }
        hold
    }

    fn hold(&mut self, place: &str, was: String, held: &str, why: &str) {
        self.held.push(Held { place: place.to_owned(), was, held: held.to_owned(), why: why.to_owned() });
    }
}

/// Requests the lowest wake-up latency of CPUs, and returns the previous target.
/// `Documentation/power/pm_qos_interface.rst`: it is a number of microseconds in 32 bits.
fn latency() -> std::io::Result<(i32, File)> {
    let mut file = OpenOptions::new().read(true).write(true).open(LATENCY)?;
    let mut was = [0; 4];
    file.read_exact(&mut was)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok((i32::from_ne_bytes(was), file))
}
