//! The clock of a recording, and its relation to the time of day.

use crate::counters::CounterOffsets;
use crate::uuid;
use sordino_clock::{
    Clock, Rate, Sample, Unusable, cycles_in_order, cycles_usable, nanoseconds, realtime_error,
};
use sordino_ctf::{Environment, Uuid};
use sordino_event::{EventCosts, Ticks};
use sordino_proc::machine::sysctl;
use sordino_ring::write::TimestampClock;
use std::time::{Duration, Instant};

/// The clock that timestamps a recording's events, in programs and in the kernel.
#[derive(Clone, Debug)]
pub struct TraceClock {
    /// The reason not to use the cycle counter, if it is not used.
    pub not_cycles: Option<Unusable>,
    /// The time at which the recording began.
    pub begin: Sample,
    /// The counter's rate in Hz.
    pub rate: Rate,
    uuid: Uuid,
    /// The entries of traces' environments: the clock's relation to those of other recordings, the costs of events.
    entries: Environment,
    /// The offsets of the CPUs' counters, as far as they were measured.
    pub offsets: CounterOffsets,
}

/// The name of the machine, the boot, the greatest error of the time of day when recording began, and the time of day
/// when `CLOCK_MONOTONIC` was 0.
const RELATION: [&str; 4] = ["hostname", "boot_id", "time_of_day_error_ns", "monotonic_offset_ns"];

/// The cycle counter's name in metadata.
const CYCLES: &str = "cycles";

/// Duration of the rate's measurement before a recording. It is measured again over the whole recording.
const FIRST_LOOK: Duration = Duration::from_millis(40);

/// A measurement of the counter's rate that goes on beside the preparation of a recording.
///
/// ```
/// use sordino_inspect::clock::FirstLook;
///
/// let look = FirstLook::begin();
/// // Other preparations take some of the time that the measurement takes.
/// assert_eq!(look.end().ring_clock(), FirstLook::begin().ring_clock());
/// ```
#[derive(Debug)]
pub struct FirstLook {
    not_cycles: Option<Unusable>,
    earlier: Sample,
    began: Instant,
}

impl FirstLook {
    /// Chooses the cycle counter, or `CLOCK_MONOTONIC` where the counter is unusable as a clock.
    pub fn begin() -> Self {
        Self { not_cycles: cycles_usable().err(), earlier: Sample::take(), began: Instant::now() }
    }

    /// Returns the clock that writers of the rings use.
    pub fn ring_clock(&self) -> TimestampClock {
        ring_clock(self.not_cycles.as_ref())
    }

    /// Sleeps for the rest of the measurement: at most 40 ms.
    pub fn end(self) -> TraceClock {
        std::thread::sleep(FIRST_LOOK.saturating_sub(self.began.elapsed()));
        let rate = Rate::between(&self.earlier, &Sample::take());
        TraceClock::begin(self.not_cycles, rate.unwrap_or(Rate { hertz: 1e9, uncertainty: 1.0 }))
    }
}

fn ring_clock(not_cycles: Option<&Unusable>) -> TimestampClock {
    if not_cycles.is_none() { TimestampClock::Cycles } else { TimestampClock::Monotonic }
}

impl TraceClock {
    fn begin(not_cycles: Option<Unusable>, rate: Rate) -> Self {
        let begin = Sample::take();
        let sysctl = |name| sysctl(name).unwrap_or_default();
        let mut entries = Environment::default();
        entries
            .set("hostname", sysctl("kernel/hostname").as_str())
            .set("boot_id", sysctl("kernel/random/boot_id").as_str());
        entries.set("monotonic_offset_ns", begin.realtime.wrapping_sub(begin.monotonic).cast_signed());
        if let Some(error) = realtime_error() {
            let error = error.saturating_add(rate.nanoseconds(begin.width) as u64);
            entries.set("time_of_day_error_ns", i64::try_from(error).unwrap_or(i64::MAX));
        }
        let offsets = CounterOffsets::default();
        Self { not_cycles, begin, rate, uuid: uuid::random(), entries, offsets }
    }

    /// Restores the clock of a recording from its metadata.
    pub fn known(clock: &sordino_ctf::ClockDescription, environment: &Environment) -> Self {
        let hertz = clock.frequency as f64;
        let not_cycles = (clock.name != CYCLES).then_some(Unusable::Unknown);
        // The time of day when the counter was 0.
        let realtime = clock.time(Ticks(0)).0.unsigned_abs();
        let begin = Sample { realtime, ..Sample::default() };
        let uuid = clock.uuid.unwrap_or_default();
        let mut entries = Environment::default();
        for name in RELATION {
            environment.get(name).into_iter().for_each(|known| _ = entries.set(name, known.clone()));
        }
        let costs = EventCosts::from_entries(|name| environment.integer(name));
        let (rate, offsets) = (Rate { hertz, uncertainty: 0.0 }, CounterOffsets::default());
        let mut known = Self { not_cycles, begin, rate, uuid, entries, offsets };
        known.set_costs(&costs);
        known
    }

    /// Replaces the rate by that measured over the whole recording if it is more accurate.
    pub fn refine(&mut self, end: &Sample) {
        if let Some(rate) =
            Rate::between(&self.begin, end).filter(|rate| rate.uncertainty < self.rate.uncertainty)
        {
            self.rate = rate;
        }
    }

    /// Returns the clock that writers of the rings use.
    pub fn ring_clock(&self) -> TimestampClock {
        ring_clock(self.not_cycles.as_ref())
    }

    /// Returns the clock's name in the kernel's tracer.
    pub fn kernel_name(&self) -> &'static str {
        if self.not_cycles.is_none() { "x86-tsc" } else { "mono" }
    }

    /// Returns a function that reads the clock, ordered after preceding instructions.
    pub fn now(&self) -> fn() -> Ticks {
        match self.not_cycles {
            None => || Ticks(cycles_in_order()),
            Some(_) => || Ticks(nanoseconds(Clock::Monotonic)),
        }
    }

    /// Converts a duration into ticks of the clock.
    pub fn ticks_in(&self, time: Duration) -> u64 {
        let hertz = if self.not_cycles.is_none() { self.rate.hertz } else { 1e9 };
        (time.as_secs_f64() * hertz) as u64
    }

    /// Returns the length of a tick in nanoseconds.
    pub fn nanoseconds_in_tick(&self) -> f64 {
        if self.not_cycles.is_none() { 1e9 / self.rate.hertz } else { 1.0 }
    }

    /// Computes the sample of an earlier `timestamp` from that of `later`. Its time of day is the trace's, even if the
    /// system's clock was set in between.
    pub fn sample_at(&self, timestamp: Ticks, later: &Sample) -> Sample {
        let hertz = if self.not_cycles.is_none() { self.rate.hertz } else { 1e9 };
        let nanoseconds = |from: Ticks, to: Ticks| (to.0.saturating_sub(from.0) as f64 / hertz * 1e9) as u64;
        let since_begin = nanoseconds(self.ticks(&self.begin), timestamp);
        Sample {
            cycles: if self.not_cycles.is_none() { timestamp.0 } else { later.cycles },
            monotonic: later.monotonic.saturating_sub(nanoseconds(timestamp, self.ticks(later))),
            realtime: self.begin.realtime.saturating_add(since_begin),
            ..*later
        }
    }

    /// Returns the clock's timestamp of `sample`.
    pub fn ticks(&self, sample: &Sample) -> Ticks {
        Ticks(if self.not_cycles.is_none() { sample.cycles } else { sample.monotonic })
    }

    /// Returns the machine's name at the start of the recording.
    pub fn hostname(&self) -> &str {
        self.entries.text("hostname").unwrap_or_default()
    }

    /// Sets the costs of events, which traces state from then on.
    pub fn set_costs(&mut self, costs: &EventCosts) {
        for (name, cost) in costs.entries() {
            if let Some(cost) = cost.and_then(|cost| i64::try_from(cost).ok()) {
                self.entries.set(name, cost);
            }
        }
    }

    /// Adds to a trace's environment what relates the clock to those of other recordings, and the costs of events.
    pub fn relate(&self, environment: &mut Environment) {
        for (name, value) in self.entries.iter() {
            environment.set(name, value.clone());
        }
    }

    /// Returns the clock's description for the traces' metadata.
    pub fn ctf(&self) -> sordino_ctf::ClockDescription {
        let hertz = if self.not_cycles.is_none() { self.rate.hertz.round() as u64 } else { 1_000_000_000 };
        let (seconds, rest) = offset(self.ticks(&self.begin).0, hertz, self.begin.realtime);
        let mut clock =
            sordino_ctf::ClockDescription::new(if self.not_cycles.is_none() { CYCLES } else { "monotonic" });
        clock.uuid = Some(self.uuid);
        clock.description = match self.not_cycles {
            None => "the CPUs' cycle counter".to_owned(),
            Some(_) => "CLOCK_MONOTONIC".to_owned(),
        };
        (clock.frequency, clock.offset_seconds, clock.offset_ticks) = (hertz, seconds, rest);
        clock.absolute = true;
        clock
    }
}

/// Returns the counter's zero as whole seconds since the epoch and ticks, given that it shows `ticks` at `realtime`
/// nanoseconds after the epoch.
fn offset(ticks: u64, hertz: u64, realtime: u64) -> (i64, u64) {
    let hertz = i128::from(hertz.max(1));
    let realtime_ticks = i128::from(realtime) * hertz / 1_000_000_000;
    let offset = realtime_ticks - i128::from(ticks);
    (offset.div_euclid(hertz) as i64, offset.rem_euclid(hertz) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_leads_back_to_the_time_of_day() {
        for (ticks, hertz, realtime) in [
            (5_000, 1_000, 7_250_000_000),
            (2_596_136_000 * 86_400 * 30, 2_596_136_001, 1_790_000_000_123_456_789),
            (u64::MAX / 2, 2_000_000_000, 1_000_000_000),
        ] {
            let (seconds, rest) = offset(ticks, hertz, realtime);
            assert!(rest < hertz);
            let total = i128::from(seconds) * i128::from(hertz) + i128::from(rest) + i128::from(ticks);
            let back = total * 1_000_000_000 / i128::from(hertz);
            assert!((back - i128::from(realtime)).abs() <= 1_000_000_000 / i128::from(hertz) + 1);
        }
    }
}
