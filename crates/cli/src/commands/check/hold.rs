//! What is held on the machine while it is measured, and given back.

use crate::Failure;
use crate::commands::guard;
use crate::privilege::is_root;
use sordino_check::Held;
use sordino_undo::{Guardian, Step};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

const THROTTLE: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const LATENCY: &str = "/dev/cpu_dma_latency";

/// What is held; dropping it gives it back.
pub(super) struct Hold {
    pub(super) held: Vec<Held>,
    /// What could not be held, and what follows from that.
    pub(super) not_held: Vec<String>,
    _guardian: Option<Guardian>,
    /// The kernel forgets the request when it is closed, by whatever death.
    _latency: Option<File>,
}

impl Hold {
    /// Nothing at all.
    pub(super) fn nothing() -> Self {
        Self { held: Vec::new(), not_held: Vec::new(), _guardian: None, _latency: None }
    }

    /// No throttling of real-time threads, no deep sleep. Where loops take all CPUs, the throttling is what lets anybody else run, the one
    /// who would end them among them.
    pub(super) fn all(takes_all: bool) -> Self {
        let mut hold = Self::nothing();
        let was = fs::read_to_string(THROTTLE).unwrap_or_default().trim().to_owned();
        if !was.is_empty() && was != "-1" {
            let lifted = match takes_all {
                true => Err("no other CPU is left".to_owned()),
                false if !is_root() => Err("not root".to_owned()),
                false => lift().map_err(|failure| failure.text().to_owned()),
            };
            match lifted {
                Ok(guardian) => {
                    hold._guardian = Some(guardian);
                    hold.hold(THROTTLE, was, "-1", "real-time threads are not stopped for a twentieth of each second");
                }
                Err(why) => hold.not_held.push(format!(
                    "{THROTTLE} stays {was} ({why}): a real-time thread that does not sleep is stopped for up to 50 ms in each second"
                )),
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

fn lift() -> Result<Guardian, Failure> {
    let mut guardian = guard::start()?;
    guardian.add(Step::restore(THROTTLE)?)?;
    Step::write(Path::new(THROTTLE), b"-1")?;
    Ok(guardian)
}

/// `Documentation/power/pm_qos_interface.rst`: the target in microseconds, as 32 bits.
fn latency() -> std::io::Result<(i32, File)> {
    let mut file = OpenOptions::new().read(true).write(true).open(LATENCY)?;
    let mut was = [0; 4];
    file.read_exact(&mut was)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok((i32::from_ne_bytes(was), file))
}
