//! How the machine is set, line by line: what it is, whether that is good, why it matters, and what makes it better.
//!
//! What a shield can set is asked of its knobs, so that this table and `sordino shield` never disagree.

mod kernel;
mod processor;
mod rights;
mod shielded;

pub use kernel::machine_info;

use crate::{Line, Sources, Step, Verdict};
use sordino_sched::CpuList;
use sordino_shield::{Machine, Status, boot};

/// What the table is about, and what can't be read from files.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The machine as the shield sees it.
    pub machine: &'a Machine,
    /// What its kernel was told and can do.
    pub kernel: &'a boot::Kernel,
    /// The shield, or why it is not known.
    pub shield: Result<&'a Status, String>,
    /// The CPUs that are measured.
    pub cpus: &'a CpuList,
    /// The tracers of the kernel's, or why they can't be used.
    pub tracers: Result<Vec<String>, String>,
}

/// The step `system`.
pub fn step(subject: &Subject<'_>) -> Step {
    let sources = Sources::new(&subject.machine.root);
    let mut step = Step::new("system", "How the machine is set");
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

    /// What this machine does not tell.
    fn unknown(name: &str, reason: impl Into<String>, why: &str) -> Self {
        Self::new(name, format!("unknown: {}", reason.into()), Verdict::NotMeasured, why)
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Good or not.
fn good(is_good: bool) -> Verdict {
    if is_good { Verdict::Pass } else { Verdict::Warn }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A tree with these files.
    pub(crate) fn tree(root: &Path, files: &[(&str, &str)]) -> Sources {
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Sources::new(root)
    }

    /// A line by its name, as `VERDICT value`.
    pub(crate) fn told(lines: &[Line], name: &str) -> String {
        let line = lines.iter().find(|line| line.name == name).unwrap_or_else(|| panic!("no line {name}"));
        format!("{} {}", line.verdict, line.value)
    }
}
