//! The loop with interrupts disabled. A program cannot disable them, so the loop is a kernel module:
//! `crates/machine/npt/module`.

use crate::measure::on_each;
use crate::{Bucket, Error, Histogram, Measured, Monitor, Plan};
use sordino_clock::Rate;
use sordino_sched::{CpuList, set_affinity, set_policy};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Device file that the module creates.
pub const DEVICE: &str = "/dev/sordino_npt";

/// Time for which interrupts are disabled at once, in microseconds: no kernel notices that its tick is late by so
/// little.
const WINDOW_US: u64 = 1_000;

/// Measures like [`run_on`](crate::run_on), with interrupts disabled for a millisecond at a time; the time between two
/// such windows does not count. Of the plan, only the duration, the number of loops (rounded up to whole windows) and
/// the policy apply.
///
/// # Errors
/// [`Error::Module`] if the module is not loaded or may not be used.
pub fn run_without_interrupts(
    cpus: &CpuList,
    plan: &Plan,
    monitors: &[Monitor],
) -> Result<Vec<Measured>, Error> {
    on_each(cpus, plan, monitors, measure)
}

fn measure(plan: &Plan, monitor: &Monitor) -> Result<Measured, Error> {
    if let Some(cpu) = plan.cpu {
        set_affinity(&CpuList::new([cpu])).map_err(|source| Error::Affinity { cpu, source })?;
    }
    let mut device = OpenOptions::new().read(true).write(true).open(DEVICE).map_err(Error::Module)?;
    let rate = Rate::measure(Duration::from_millis(100)).ok_or(Error::Nothing)?;
    set_policy(plan.policy)?;
    let begin = Instant::now();
    let window = WINDOW_US.to_string();
    let mut windows = 0_u64;
    loop {
        // Not write_all: the module accepts a number only as a whole.
        device.write(window.as_bytes()).map_err(Error::Module)?;
        windows += 1;
        let is_over = plan.duration.is_some_and(|duration| begin.elapsed() >= duration);
        // Progress is checked every 64 windows, because each check is a system call that reads a table.
        if is_over || monitor.is_stopped() {
            return noted(&mut device, rate);
        }
        if windows.is_multiple_of(64) || plan.duration.is_none() {
            let measured = noted(&mut device, rate)?;
            let loops = measured.histogram.count();
            monitor.show(loops, rate.nanoseconds(measured.longest));
            if loops >= plan.loops {
                return Ok(measured);
            }
        }
    }
}

/// Reads the module's results so far.
fn noted(device: &mut File, rate: Rate) -> Result<Measured, Error> {
    use std::io::Seek;
    let mut text = String::new();
    device.rewind().and_then(|()| device.read_to_string(&mut text)).map_err(Error::Module)?;
    parse(&text, rate).ok_or_else(|| Error::Module(io::Error::other("its table is of another version")))
}

/// Parses the module's text; its buckets are those of [`Histogram`].
fn parse(text: &str, rate: Rate) -> Option<Measured> {
    let number = |name: &str| {
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next()?.parse::<u64>().ok()
    };
    let mut histogram = Histogram::new();
    for bucket in text.lines().filter_map(|line| line.strip_prefix("bucket ")) {
        let (low, count) = bucket.split_once(' ')?;
        let (low, count) = (low.parse().ok()?, count.parse().ok()?);
        histogram.add_bucket(Bucket { low, high: low, count });
    }
    let span = (number("first")?, number("last")?);
    let waited = span.1.checked_sub(span.0)?.checked_sub(number("cycles")?)?;
    let is_whole = histogram.count() == number("loops")?;
    is_whole.then_some(Measured {
        histogram,
        gaps: Vec::new(),
        gaps_without_room: 0,
        longest: number("longest")?,
        span,
        waited,
        hits: 0,
        rate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { hertz: 1e9, uncertainty: 0.0 };

    #[test]
    fn the_modules_table_becomes_a_measurement() {
        let text = "loops 8\ncycles 5300\nlongest 5020\nfirst 100\nlast 9100\nkhz 1000000\nbucket 40 7\nbucket 5008 1\n";
        let measured = parse(text, RATE).unwrap();
        assert_eq!((measured.histogram.count(), measured.longest, measured.cycles()), (8, 5020, 5300));
        assert_eq!(measured.waited, 3700);
        assert_eq!(crate::GapStatistics::of(&measured).percentiles[0].gap_ns, 40.0);
    }

    #[test]
    fn a_table_that_does_not_fit_together_is_refused() {
        for bad in [
            "",
            "loops 8\ncycles 5300\nlongest 5020\nfirst 100\nlast 9100\nbucket 40 7\n",
            "loops 0\ncycles 5\nlongest 0\nfirst 9\nlast 3\n",
            "loops 1\ncycles 5\nlongest 0\nfirst 1\nlast 30\nbucket 5\n",
        ] {
            assert!(parse(bad, RATE).is_none(), "{bad}");
        }
    }

    #[test]
    fn without_the_module_it_is_refused() {
        if std::path::Path::new(DEVICE).exists() {
            return;
        }
        let plan = Plan { policy: sordino_sched::Policy::Other, ..Plan::default() };
        let ours = sordino_sched::affinity().unwrap();
        let monitors: Vec<_> = ours.as_slice().iter().map(|_| Monitor::default()).collect();
        let refused = run_without_interrupts(&ours, &plan, &monitors).unwrap_err();
        assert!(refused.to_string().contains("insmod"), "{refused}");
    }
}
