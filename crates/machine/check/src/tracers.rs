//! Parsers for the kernel's tracers that measure by themselves, a line at a time.

mod hwlat;
mod osnoise;
mod timerlat;

use crate::{Distribution, InterruptionSource, Measurement, Samples};
use sordino_clock::Rate;
use sordino_event::text::count;
use sordino_npt::Histogram;
use std::collections::BTreeMap;

/// A measuring tracer of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// `hwlat`: a loop with interrupts disabled. Hardware, a hypervisor or an NMI takes the time that it misses. A line
    /// has the longest gap of a window that has one.
    Hwlat,
    /// `osnoise`: a loop that can be interrupted. A line has the longest noise of a period, and the number of
    /// interruptions by each source.
    Osnoise,
    /// `timerlat`: a timer that wakes a thread. Lines have the latency of each interrupt and of each wake-up.
    Timerlat,
}

impl Tracer {
    /// Name of the tracer in tracefs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hwlat => "hwlat",
            Self::Osnoise => "osnoise",
            Self::Timerlat => "timerlat",
        }
    }

    /// Parses a line's text behind the timestamp.
    fn read(self, text: &str) -> Option<LineValues> {
        match self {
            Self::Hwlat => hwlat::read(text),
            Self::Osnoise => osnoise::read(text),
            Self::Timerlat => timerlat::read(text),
        }
    }
}

/// Values of one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LineValues {
    /// Suffix for the measured object, if a tracer measures several for each CPU.
    of: &'static str,
    time_ns: u64,
    /// Sources of interruptions, with their numbers.
    who: Vec<(&'static str, u64)>,
    /// Length of the period and its total noise in microseconds, if the tracer reports them.
    noise: Option<(u64, u64)>,
}

/// Sums of all lines of one CPU.
#[derive(Clone, Debug, Default)]
struct LineSums {
    times: Histogram,
    longest_ns: u64,
    /// Sources in the order of the tracer's columns.
    who: Vec<(&'static str, u64)>,
    noise: Option<(u64, u64)>,
}

/// Sums of a tracer's lines so far. Memory use does not depend on the number of lines.
#[derive(Clone, Debug)]
pub struct Reading {
    tracer: Tracer,
    sums: BTreeMap<(u32, &'static str), LineSums>,
    lost: LostLines,
    /// Number of lines that could not be parsed; `other` is the first of them.
    others: u64,
    other: String,
}

/// Lines for which the kernel's buffer had no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LostLines {
    #[default]
    Nothing,
    Lines(u64),
    /// The kernel reported a loss without its number.
    Some,
}

/// Rate of a clock whose cycles are nanoseconds.
const NANOSECONDS: Rate = Rate { hertz: 1e9, uncertainty: 0.0 };

impl Reading {
    /// Starts without any lines.
    pub fn new(tracer: Tracer) -> Self {
        Self { tracer, sums: BTreeMap::new(), lost: LostLines::Nothing, others: 0, other: String::new() }
    }

    /// Adds a line, and returns its time in nanoseconds if it has one.
    pub fn take(&mut self, line: &str) -> Option<u64> {
        let Some((cpu, seen)) = record(line).and_then(|(cpu, text)| Some((cpu, self.tracer.read(text)?)))
        else {
            self.take_other(line);
            return None;
        };
        let sums = self.sums.entry((cpu, seen.of)).or_default();
        sums.add(&seen);
        Some(seen.time_ns)
    }

    fn take_other(&mut self, line: &str) {
        if let Some(lost) = lost(line) {
            self.lost = match (self.lost, lost) {
                (LostLines::Nothing, lost) => lost,
                (LostLines::Lines(before), LostLines::Lines(now)) => {
                    LostLines::Lines(before.saturating_add(now))
                }
                _ => LostLines::Some,
            };
        } else if !line.trim().is_empty() {
            if self.others == 0 {
                line.trim().clone_into(&mut self.other);
            }
            self.others += 1;
        }
    }

    /// Returns one measurement for each CPU and measured object.
    pub fn measurements(&self) -> Vec<Measurement> {
        let measurement = |(&(cpu, of), sums): (&(u32, &str), &LineSums)| Measurement {
            interrupters: sums
                .who
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|&(name, count)| InterruptionSource { name: name.to_owned(), count })
                .collect(),
            ..Measurement::new(format!("CPU {cpu}{of}"), sums.times())
        };
        self.sums.iter().map(measurement).collect()
    }

    /// Returns notes for the report: the share of noise, and lines that could not be parsed.
    pub fn notes(&self) -> Vec<String> {
        let noise = |(&(cpu, _), sums): (&(u32, &str), &LineSums)| {
            let (looked, noise) = sums.noise?;
            let part = 100.0 * noise as f64 / (looked as f64).max(1.0);
            Some(format!("CPU {cpu}: {part:.4} % of its time was noise"))
        };
        let notes = self.sums.iter().filter_map(noise);
        let others = (self.others > 0).then(|| {
            format!("{} that could not be read, the first: {}", count(self.others, "line"), self.other)
        });
        notes.chain(others).collect()
    }

    /// Describes lost lines, among which the longest time may be; `None` if no line was lost.
    pub fn loss(&self) -> Option<String> {
        let lines = match self.lost {
            LostLines::Nothing => return None,
            LostLines::Lines(lines) => count(lines, "line"),
            LostLines::Some => "lines".to_owned(),
        };
        Some(format!("{lines} of the kernel's tracer lost, and the longest time may be among them"))
    }
}

impl LineSums {
    fn add(&mut self, seen: &LineValues) {
        self.times.record(seen.time_ns);
        self.longest_ns = self.longest_ns.max(seen.time_ns);
        if let Some((looked, noise)) = seen.noise {
            let (looked_before, noise_before) = self.noise.unwrap_or_default();
            self.noise = Some((looked_before.saturating_add(looked), noise_before.saturating_add(noise)));
        }
        for &(name, count) in &seen.who {
            match self.who.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => self.who.push((name, count)),
            }
        }
    }

    fn times(&self) -> Distribution {
        Samples::of_cycles(self.times.buckets(), self.longest_ns, &NANOSECONDS).into()
    }
}

/// Splits a line into its CPU and the text behind the timestamp:
/// `           <...>-159     [001] d....     5.499099: #2     inner/outer(us): 7558/16031 ts:1795313749.185026511 count:185`
///
/// The last bracket ends the CPU: a thread's name may contain brackets, a tracer's text does not.
fn record(line: &str) -> Option<(u32, &str)> {
    let (head, rest) = line.rsplit_once(']')?;
    let (_, cpu) = head.rsplit_once('[')?;
    let (_, text) = rest.split_once(": ")?;
    Some((cpu.parse().ok()?, text.trim()))
}

/// Parses `CPU:1 [LOST 5 EVENTS]`, in which the number may be missing.
fn lost(line: &str) -> Option<LostLines> {
    let (_, rest) = line.strip_prefix("CPU:")?.split_once(" [LOST ")?;
    let rest = rest.trim_end().strip_suffix("EVENTS]")?.trim();
    if rest.is_empty() { Some(LostLines::Some) } else { rest.parse().ok().map(LostLines::Lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a tracer's output line by line.
    fn reading(tracer: Tracer, text: &str) -> Reading {
        let mut reading = Reading::new(tracer);
        for line in text.lines() {
            reading.take(line);
        }
        reading
    }

    /// Output of Linux 6.12 with PREEMPT_RT, two periods of 100 ms.
    const OSNOISE: &str = "           <...>-171     [001] ....1     7.366597: 101857      60294  40.80524   16161     19      0     25      0     14
           <...>-171     [001] ....1     7.674547: 100000      27735  72.26500    4063     27      0     25      0      3
";

    #[test]
    fn the_noise_of_all_periods_is_one_measurement_with_who_made_it() {
        let reading = reading(Tracer::Osnoise, OSNOISE);
        let [cpu] = reading.measurements().try_into().unwrap();
        assert_eq!((cpu.what.as_str(), cpu.times.count, cpu.times.maximum_ns), ("CPU 1", 2, 16_161e3));
        assert_eq!(cpu.who(9).as_deref(), Some("46 hardware, 50 IRQ, 17 thread"));
        assert_eq!(reading.notes(), ["CPU 1: 43.6096 % of its time was noise"]);
        assert_eq!(reading.loss(), None);
    }

    #[test]
    fn interrupt_and_thread_are_distinguished() {
        // The line of the interrupt is printed in the context of the thread that it interrupted, which may have any
        // name.
        let text =
            "      a [7] b: c-30      [001] d.h..    10.154391: #2     context    irq timer_latency   5630701 ns
           <...>-183     [001] ....1    10.154468: #2     context thread timer_latency   5709930 ns
          <idle>-0       [000] d..h1..     9.407538: #1     context    irq timer_latency       932 ns
";
        let measurements = reading(Tracer::Timerlat, text).measurements();
        let maxima: Vec<_> = measurements.iter().map(|m| (m.what.as_str(), m.times.maximum_ns)).collect();
        assert_eq!(
            maxima,
            [("CPU 0, interrupt", 932.0), ("CPU 1, interrupt", 5_630_701.0), ("CPU 1, thread", 5_709_930.0)]
        );
    }

    #[test]
    fn lost_lines_are_counted_and_unknown_ones_reported() {
        let with = |text: &str| reading(Tracer::Osnoise, &format!("{OSNOISE}{text}"));
        let lost = |text: &str| with(text).loss().map(|text| text.split(" of ").next().unwrap().to_owned());
        assert_eq!(lost("CPU:1 [LOST 5 EVENTS]\nCPU:0 [LOST 2 EVENTS]\n").as_deref(), Some("7 lines"));
        assert_eq!(lost("CPU:1 [LOST 5 EVENTS]\nCPU:0 [LOST EVENTS]\n").as_deref(), Some("lines"));
        let notes =
            with("           <...>-171     [001] ....1     7.4: 0x1: osnoise is tainted!\nx\n\n").notes();
        assert_eq!(notes.len(), 2);
        assert!(notes[1].starts_with("2 lines that could not be read") && notes[1].ends_with("tainted!"));
    }
}
