//! The results of `sordino npt` as text, as JSON and as a file for plots.

use crate::text::{histogram, statistics};
use crate::{Frequency, GapStatistics, Interrupter, Measured, Plan, Unit, row};
use serde_json::{Value, json};
use sordino_event::Nanos;
use sordino_event::text::{count, printable};
use std::fmt::Write;
use std::time::Duration;

/// A function that lays out named rows of figures as a table.
type RowLayout<'a> = &'a dyn Fn(&[(String, Vec<String>)]) -> String;

/// Version of the JSON's schema. 2 has several CPUs; 1 had one.
const SCHEMA: u32 = 2;

/// A measurement of one CPU or several.
pub struct NptReport {
    /// The plan that each CPU followed.
    pub plan: Plan,
    /// True if interrupts were disabled.
    pub interrupts_off: bool,
    /// The measurement of each CPU.
    pub cpus: Vec<CpuReport>,
}

/// The measurement of one CPU's loop, and the kernel's counts for that time.
pub struct CpuReport {
    /// Number of the CPU.
    pub cpu: u32,
    /// The loop's measured values.
    pub measured: Measured,
    /// The statistics of its gaps.
    pub statistics: GapStatistics,
    /// The interrupts and threads that interrupted the loop; `None` if they are not known.
    pub interrupters: Option<Vec<Interrupter>>,
    /// The time that a hypervisor took; `None` if it is not known.
    pub stolen: Option<Duration>,
    /// The CPU's frequency as the kernel has it.
    pub frequency: Frequency,
}

/// Number of interrupters that the text shows; JSON has all.
const MOST_INTERRUPTERS: usize = 12;

impl CpuReport {
    fn text(&self, plan: &Plan, interrupts_off: bool, unit: Unit) -> String {
        let plan = Plan { cpu: Some(self.cpu), ..plan.clone() };
        let interrupts = if interrupts_off { ", interrupts disabled" } else { "" };
        let mut text = format!("npt: {plan}{interrupts}\n{}", statistics(&self.statistics, unit));
        let mut line = |name: &str, value: String| _ = writeln!(text, "  {name:<22}{value:>16}");
        if plan.tracepoint {
            line("tracepoint hit", self.measured.hits.to_string());
        }
        if let Some(mhz) = self.frequency.cpuinfo_mhz {
            line("/proc/cpuinfo says", format!("{mhz:.3} MHz"));
        }
        let _ = writeln!(text, "  turbo                 {}", self.frequency.turbo_text());
        let left_out = self.measured.gaps_without_room;
        if left_out > 0 {
            let _ = writeln!(text, "  {} in the histogram alone", count(left_out, "more long gap"));
        }
        let _ = write!(text, "\n{}", histogram(&self.measured, unit));
        text + &self.interruptions()
    }

    fn interruptions(&self) -> String {
        let Some(interrupters) = &self.interrupters else { return String::new() };
        let mut text = "\n  interrupted by                                        times\n".to_owned();
        for Interrupter { name, count } in interrupters.iter().take(MOST_INTERRUPTERS) {
            let _ = writeln!(text, "  {:<46} {count:>12}", printable(name));
        }
        if let Some(more) = interrupters.len().checked_sub(MOST_INTERRUPTERS).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more; --json has all");
        }
        if let Some(stolen) = self.stolen.filter(|stolen| !stolen.is_zero()) {
            let stolen = Nanos::from(stolen);
            let _ = writeln!(text, "  the hypervisor, in all {:>23} {stolen:>12}", "");
        }
        text
    }

    fn json(&self) -> Value {
        let buckets = self.measured.histogram.buckets();
        let gaps = self.measured.gaps.iter();
        let nanoseconds = |cycles| self.measured.rate.nanoseconds(cycles);
        json!({
            "cpu": self.cpu,
            "statistics": self.statistics,
            "seconds": self.measured.seconds(),
            "tracepoint_hits": self.measured.hits,
            "histogram_cycles": buckets.map(|bucket| json!([bucket.low, bucket.high, bucket.count])).collect::<Vec<_>>(),
            "noted_gaps": gaps.map(|gap| json!({ "end_cycles": gap.end, "gap_ns": nanoseconds(gap.cycles) })).collect::<Vec<_>>(),
            "noted_gaps_left_out": self.measured.gaps_without_room,
            "interrupters": self.interrupters,
            "stolen_ms": self.stolen.map(|stolen| stolen.as_millis() as u64),
            "frequency": self.frequency,
        })
    }
}

impl NptReport {
    /// Each CPU, and its longest gap in nanoseconds.
    pub fn longest(&self) -> impl Iterator<Item = (u32, f64)> {
        self.cpus.iter().map(|of_cpu| (of_cpu.cpu, of_cpu.statistics.maximum_ns))
    }

    /// All CPUs as one sample.
    fn all(&self) -> Option<(Measured, GapStatistics)> {
        let all: Vec<Measured> = self.cpus.iter().map(|of_cpu| of_cpu.measured.clone()).collect();
        let all = Measured::combined(&all)?;
        let statistics = GapStatistics::of(&all);
        Some((all, statistics))
    }

    /// Returns the report as text. `table` lays out the rows of several CPUs under [`ROW_TITLES`](crate::ROW_TITLES).
    pub fn text(&self, unit: Unit, table: RowLayout<'_>) -> String {
        let of_cpu = |of_cpu: &CpuReport| of_cpu.text(&self.plan, self.interrupts_off, unit);
        let each: Vec<String> = self.cpus.iter().map(of_cpu).collect();
        let mut text = each.join("\n");
        if self.cpus.len() > 1
            && let Some((_, all)) = self.all()
        {
            let rows = self.cpus.iter().map(|of_cpu| (format!("CPU {}", of_cpu.cpu), &of_cpu.statistics));
            let rows = rows.chain([("all".to_owned(), &all)]);
            let rows: Vec<_> = rows.map(|(name, figures)| (name, row(figures, unit).to_vec())).collect();
            text += &format!("\n{}", table(&rows));
        }
        text
    }

    /// Returns the report as one JSON object in one line.
    pub fn json(&self) -> String {
        let value = json!({
            "schema": SCHEMA,
            "plan": self.plan.to_string(),
            "interrupts_off": self.interrupts_off,
            "cpus": self.cpus.iter().map(CpuReport::json).collect::<Vec<_>>(),
            "all": self.all().map(|(_, statistics)| statistics),
        });
        value.to_string() + "\n"
    }

    /// Returns the report as comments, then each CPU's complete histogram, one bucket in each line: its greatest time,
    /// and its number of loops.
    pub fn file(&self, unit: Unit, table: RowLayout<'_>) -> String {
        let mut text: String = self.text(unit, table).lines().map(|line| format!("# {line}\n")).collect();
        let (name, in_unit): (_, fn(f64) -> String) = match unit {
            Unit::Fitting => ("microseconds", |ns| format!("{:.6}", ns / 1e3)),
            Unit::Nanoseconds => ("nanoseconds", |ns| format!("{ns:.3}")),
            Unit::Picoseconds => ("picoseconds", |ns| format!("{:.0}", ns * 1e3)),
        };
        for of_cpu in &self.cpus {
            let _ = writeln!(text, "\n# CPU {}: {name}, loops", of_cpu.cpu);
            for bucket in of_cpu.measured.histogram.buckets() {
                let time = in_unit(of_cpu.measured.rate.nanoseconds(bucket.high));
                let _ = writeln!(text, "{time}\t{}", bucket.count);
            }
        }
        text
    }
}
