//! The table of the machine's settings: for each line a value, a verdict, the reason why it matters, and a remedy.
//!
//! Lines that a shield can set are computed by the shield's knobs, so that this table and `sordino shield` never
//! disagree.

mod kernel;
mod processor;
mod rights;
mod shielded;

pub use kernel::machine_info;

use crate::{CheckStep, Line, Verdict};
use sordino_proc::SystemFiles;
use sordino_sched::CpuList;
use sordino_shield::{Machine, ShieldStatus, boot};

/// Input of the table.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The machine as the shield reads it.
    pub machine: &'a Machine,
    /// Configuration and command line of the kernel.
    pub kernel: &'a boot::KernelConfig,
    /// State of the shield, or the reason why it is unknown.
    pub shield: Result<&'a ShieldStatus, String>,
    /// CPUs that are measured.
    pub cpus: &'a CpuList,
    /// Tracers of the kernel, or the reason why they cannot be used.
    pub tracers: Result<Vec<String>, String>,
}

/// Creates the step `system`.
pub fn step(subject: &Subject<'_>) -> CheckStep {
    let sources = SystemFiles::new(&subject.machine.root);
    let mut step = CheckStep::new("system", "How the machine is set");
    step.lines = [
        kernel::lines(&sources, subject.kernel.config.as_deref(), subject.tracers.as_deref()),
        processor::lines(&sources, subject.cpus),
        rights::lines(&sources),
        shielded::lines(subject),
    ]
    .concat();
    let count = |verdict| step.lines.iter().filter(|line| line.verdict == verdict).count();
    let (warnings, unknown) = (count(Verdict::Warn), count(Verdict::NotMeasured));
    let of = step.lines.len();
    step.reason = match warnings {
        0 => format!("none of {of} settings disturbs real-time work"),
        _ => format!("{warnings} of {of} settings can disturb real-time work"),
    };
    if unknown > 0 {
        step.reason += &format!("; {unknown} could not be read");
    }
    if warnings > 0 {
        step.verdict = Verdict::Warn;
        let by_shield = step
            .lines
            .iter()
            .filter_map(|line| line.remedy.as_ref())
            .find(|remedy| remedy.contains("sordino shield"));
        step.next = by_shield
            .map(|_| shielded::remedy(subject, true))
            .or(Some("see the remedy in each line".to_owned()));
    } else {
        step.verdict = Verdict::Pass;
    }
    step
}

impl Line {
    fn new(name: &str, value: impl Into<String>, verdict: Verdict, why: &str) -> Self {
        Self { name: name.to_owned(), value: value.into(), verdict, why: why.to_owned(), remedy: None }
    }

    /// Creates a line for a setting that could not be read.
    fn unknown(name: &str, reason: impl Into<String>, why: &str) -> Self {
        Self::new(name, format!("unknown: {}", reason.into()), Verdict::NotMeasured, why)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Converts a truth value to PASS or WARN.
fn good(is_good: bool) -> Verdict {
    if is_good { Verdict::Pass } else { Verdict::Warn }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Writes these files below `root`.
    pub(crate) fn tree(root: &Path, files: &[(&str, &str)]) -> SystemFiles {
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        SystemFiles::new(root)
    }

    /// Finds a line by its name and formats it as `VERDICT value`.
    pub(crate) fn verdict_of(lines: &[Line], name: &str) -> String {
        let line = lines.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("no line {name}"));
        format!("{} {}", line.verdict, line.value)
    }
}
