//! Counts that may only fall: `xtask/ratchet.txt` lists the accepted faults, and more are rejected.

use super::{Findings, Tree};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The file of the limits, relative to the workspace.
pub(super) const FILE: &str = "xtask/ratchet.txt";
/// Number of places that a finding names before it points to `xtask list`.
const NAMED: usize = 10;

/// One kind of fault, counted over the workspace.
pub(super) struct Measure {
    /// The measure's name in [`FILE`], such as `short-docs`.
    pub(super) name: &'static str,
    /// The faults in the plural, such as "doc comments of fewer than four words".
    pub(super) faults: &'static str,
    /// Advice for the author of a fault.
    pub(super) remedy: &'static str,
    /// Number of faults that a group may have without being listed.
    pub(super) free: usize,
    /// Share of comments that may have the fault; `None` if every single one counts.
    pub(super) bar: Option<Bar>,
    /// The faults by crate, term or name.
    pub(super) groups: BTreeMap<String, Group>,
}

/// The share of the workspace's comments that may have a fault.
pub(super) struct Bar {
    /// The greatest share in percent.
    pub(super) percent: usize,
    /// The number of all comments that could have the fault.
    pub(super) all: usize,
}

/// The faults of one group of a [`Measure`].
#[derive(Default)]
pub(super) struct Group {
    /// Number of faults, or of a crate's lines of code.
    pub(super) count: usize,
    /// Their places: file, line, and the text that was found.
    pub(super) places: Vec<String>,
}

impl Measure {
    /// Counts one fault of a group.
    pub(super) fn add(&mut self, group: &str, place: String) {
        let group = self.groups.entry(group.to_owned()).or_default();
        group.count += 1;
        group.places.push(place);
    }

    /// Returns true if so few comments have the fault that none is rejected.
    fn is_within_bar(&self) -> bool {
        let count: usize = self.groups.values().map(|group| group.count).sum();
        self.bar.as_ref().is_some_and(|bar| 100 * count <= bar.percent * bar.all)
    }

    /// Returns the count and the limit in a few words, for tidy's own line.
    pub(super) fn summary(&self) -> String {
        let count: usize = self.groups.values().map(|group| group.count).sum();
        match &self.bar {
            Some(Bar { percent, all }) => format!("{count} of {all}, bar {percent} %"),
            None if self.free > 0 => {
                let above = self.groups.values().filter(|group| group.count > self.free).count();
                format!("{above} above {}", self.free)
            }
            None => count.to_string(),
        }
    }
}

/// The limits of [`FILE`].
#[derive(Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// First lines of the file, which describe it.
    head: String,
    /// The greatest count of each measure's groups.
    counts: BTreeMap<(String, String), usize>,
}

impl Limits {
    /// Reads the limits of a workspace.
    pub(super) fn of(tree: &Tree) -> Result<Self, String> {
        Self::parse(&tree.read(FILE))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                [mark, ..] if mark.starts_with('#') => limits.head += &format!("{line}\n"),
                [measure, group, count] => {
                    let count =
                        count.parse().map_err(|_| format!("{FILE}:{number}: '{count}' is no number"))?;
                    limits.counts.insert((measure.to_owned(), group.to_owned()), count);
                }
                _ => return Err(format!("{FILE}:{number}: '{line}': expected MEASURE GROUP COUNT")),
            }
        }
        Ok(limits)
    }

    fn get(&self, measure: &Measure, group: &str) -> usize {
        let listed = self.counts.get(&(measure.name.to_owned(), group.to_owned()));
        listed.copied().unwrap_or(measure.free)
    }

    /// Returns the groups that exceed their limits.
    pub(super) fn exceeded(&self, measure: &Measure) -> Findings {
        if measure.is_within_bar() {
            return Vec::new();
        }
        let mut findings = Vec::new();
        for (name, group) in &measure.groups {
            let limit = self.get(measure, name);
            if group.count <= limit {
                continue;
            }
            let (faults, count) = (measure.faults, group.count);
            let mut finding = format!("{name}: {count} {faults}, at most {limit}: {}", measure.remedy);
            for place in group.places.iter().take(NAMED) {
                finding += &format!("\n    {place}");
            }
            if group.places.len() > NAMED {
                let more = group.places.len() - NAMED;
                finding +=
                    &format!("\n    and {more} more: cargo run -p xtask -- list {} {name}", measure.name);
            }
            findings.push(finding);
        }
        findings
    }

    /// Returns the same limits, lowered to the counts and without unused ones.
    pub(super) fn lowered(&self, measures: &[Measure]) -> Self {
        let lower = |((name, group), limit): (&(String, String), &usize)| {
            let measure = measures.iter().find(|measure| measure.name == *name)?;
            let count = measure.groups.get(group).map_or(0, |group| group.count);
            let limit = count.min(*limit);
            (limit > measure.free).then(|| ((name.clone(), group.clone()), limit))
        };
        Self { head: self.head.clone(), counts: self.counts.iter().filter_map(lower).collect() }
    }

    /// Lists the limits that differ from others.
    pub(super) fn changes(&self, lowered: &Self) -> Vec<String> {
        let changed = self.counts.iter().filter_map(|(key, limit)| {
            let new = lowered.counts.get(key);
            (new != Some(limit)).then(|| match new {
                Some(new) => format!("{} {} {limit} to {new}", key.0, key.1),
                None => format!("{} {} {limit}, of no use", key.0, key.1),
            })
        });
        changed.collect()
    }

    /// The text of [`FILE`].
    pub(super) fn text(&self) -> String {
        let mut text = self.head.clone();
        for ((measure, group), count) in &self.counts {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{measure} {group} {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(counts: &[(&str, usize)]) -> Measure {
        let mut measure = Measure {
            name: "m",
            faults: "faults",
            remedy: "mend",
            free: 0,
            bar: None,
            groups: BTreeMap::new(),
        };
        for (group, count) in counts {
            (0..*count).for_each(|number| measure.add(group, format!("file:{number}: text")));
        }
        measure
    }

    #[test]
    fn more_than_the_limit_is_refused_and_named() {
        let limits = Limits::parse("# head\nm a 2\n").unwrap();
        assert!(limits.exceeded(&measure(&[("a", 2)])).is_empty());
        let found = limits.exceeded(&measure(&[("a", 3), ("b", 1)]));
        assert_eq!(found[0].lines().next(), Some("a: 3 faults, at most 2: mend"));
        assert!(found[0].ends_with("    file:2: text"), "{}", found[0]);
        assert!(found[1].starts_with("b: 1 faults, at most 0: mend"));
        let many = limits.exceeded(&measure(&[("a", 12)]));
        assert!(many[0].ends_with("    and 2 more: cargo run -p xtask -- list m a"), "{}", many[0]);
    }

    #[test]
    fn below_the_bar_nothing_is_refused() {
        let with_bar = |count| Measure { bar: Some(Bar { percent: 8, all: 50 }), ..measure(&[("a", count)]) };
        assert!(Limits::default().exceeded(&with_bar(4)).is_empty());
        assert_eq!(Limits::default().exceeded(&with_bar(5)).len(), 1);
        assert_eq!(with_bar(5).summary(), "5 of 50, bar 8 %");
    }

    #[test]
    fn limits_fall_and_never_rise() {
        let limits = Limits::parse("# head\nm a 5\nm b 5\nm c 5\nm d 5\ngone x 1\n").unwrap();
        let counted = measure(&[("a", 3), ("b", 7), ("c", 5), ("e", 1)]);
        let lowered = limits.lowered(&[counted]);
        assert_eq!(lowered.text(), "# head\nm a 3\nm b 5\nm c 5\n");
        assert_eq!(limits.changes(&lowered), ["gone x 1, of no use", "m a 5 to 3", "m d 5, of no use"]);
    }

    #[test]
    fn a_line_that_is_no_limit_is_an_error() {
        assert_eq!(
            Limits::parse("m a\n").unwrap_err(),
            format!("{FILE}:1: 'm a': expected MEASURE GROUP COUNT")
        );
        assert_eq!(Limits::parse("\nm a x\n").unwrap_err(), format!("{FILE}:2: 'x' is no number"));
    }
}
