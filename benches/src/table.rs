//! Measured figures as a table.

use sordino_proc::machine::{CpuInfo, kernel_release};
use std::fmt;
use std::process::Command;

/// Values of one figure, one a round.
#[derive(Clone, Debug, Default)]
pub(crate) struct FigureSamples(Vec<f64>);

impl FigureSamples {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => f64::NAN,
            length => (sorted[(length - 1) / 2] + sorted[length / 2]) / 2.0,
        }
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.spread().1
    }

    fn spread(&self) -> (f64, f64) {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, greatest)
    }
}

/// Figures of one run.
#[derive(Debug, Default)]
pub(crate) struct FigureTable(Vec<FigureTableRow>);

#[derive(Debug)]
enum FigureTableRow {
    Heading(String),
    Figure {
        name: String,
        samples: FigureSamples,
        unit: &'static str,
    },
    /// A ratio or a difference, with its limit if there is one.
    Ratio {
        name: String,
        value: f64,
        unit: &'static str,
        bar: Option<(f64, LimitSide)>,
    },
    Missing {
        name: String,
        reason: String,
    },
}

/// Side of a limit on which a value is good.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LimitSide {
    AtMost,
    AtLeast,
}

impl FigureTable {
    pub(crate) fn heading(&mut self, text: &str) {
        self.0.push(FigureTableRow::Heading(text.to_owned()));
    }

    pub(crate) fn figure(&mut self, name: &str, samples: &FigureSamples, unit: &'static str) {
        self.0.push(FigureTableRow::Figure { name: name.to_owned(), samples: samples.clone(), unit });
    }

    pub(crate) fn ratio(&mut self, name: &str, value: f64, bar: Option<(f64, LimitSide)>) {
        self.difference(name, value, "x", bar);
    }

    pub(crate) fn difference(
        &mut self,
        name: &str,
        value: f64,
        unit: &'static str,
        bar: Option<(f64, LimitSide)>,
    ) {
        self.0.push(FigureTableRow::Ratio { name: name.to_owned(), value, unit, bar });
    }

    pub(crate) fn missing(&mut self, name: &str, reason: &str) {
        self.0.push(FigureTableRow::Missing { name: name.to_owned(), reason: reason.to_owned() });
    }
}

impl fmt::Display for FigureTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.0 {
            match row {
                FigureTableRow::Heading(text) => writeln!(f, "\n{text}")?,
                FigureTableRow::Figure { name, samples, unit } => {
                    let (least, greatest) = samples.spread();
                    let [median, least, greatest] = [samples.median(), least, greatest].map(number);
                    writeln!(f, "  {name:<52} {median:>10} {unit:<10} ({least} to {greatest})")?;
                }
                FigureTableRow::Ratio { name, value, unit, bar } => {
                    let verdict = bar.map_or(String::new(), |(limit, side)| verdict(*value, limit, side));
                    writeln!(f, "  {name:<52} {:>10} {unit:<10} {verdict}", number(*value))?;
                }
                FigureTableRow::Missing { name, reason } => {
                    writeln!(f, "  {name}: not measured here: {reason}")?
                }
            }
        }
        Ok(())
    }
}

fn verdict(value: f64, limit: f64, side: LimitSide) -> String {
    let (word, met) = match side {
        LimitSide::AtMost => ("at most", value <= limit),
        LimitSide::AtLeast => ("at least", value >= limit),
    };
    format!("{word} {limit}: {}", if met { "met" } else { "MISSED" })
}

/// Formats a value with about three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Describes the machine and the software of a measurement.
pub(crate) fn machine() -> String {
    let cpuinfo = CpuInfo::read().unwrap_or_default();
    let cpus = cpuinfo.entries().filter(|entry| entry.cpu().is_some()).count();
    let version = |program: &str| {
        let output = Command::new(program).arg("--version").output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("not here").to_owned()
    };
    format!(
        "{} x{cpus}, Linux {}\n{}; {}; {}",
        cpuinfo.field("model name").unwrap_or_default(),
        kernel_release(),
        version("lttng"),
        version("babeltrace2"),
        version("gcc"),
    )
}
