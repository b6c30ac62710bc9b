//! Tables of interrupts: `/proc/interrupts` and `/proc/softirqs`.

/// A line of such a table: the counts of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptCounts<'a> {
    /// Number or abbreviation of the source, such as `24` or `LOC`.
    pub label: &'a str,
    /// The counts by CPU; empty for sources that are counted for the whole machine only.
    pub counts: Vec<(u32, u64)>,
    /// The words behind the counts: for a numbered interrupt, its chip, its pin and its handler.
    pub description: Vec<&'a str>,
}

/// Returns the sources of the text of `/proc/interrupts` or `/proc/softirqs`. Allocates.
///
/// ```
/// use sordino_proc::machine::interrupts;
/// let table = "      CPU0 CPU2\n 24:  7  9  IO-APIC  5-edge  virtio\nERR:  0\n";
/// let sources: Vec<_> = interrupts(table).collect();
/// assert_eq!((sources[0].label, &sources[0].counts[..]), ("24", &[(0, 7), (2, 9)][..]));
/// assert_eq!(sources[0].description, ["IO-APIC", "5-edge", "virtio"]);
/// assert!(sources[1].counts.is_empty());
/// ```
pub fn interrupts(table: &str) -> impl Iterator<Item = InterruptCounts<'_>> {
    let mut lines = table.lines();
    let cpus = lines.next().unwrap_or_default().split_whitespace();
    let cpus: Vec<u32> = cpus.filter_map(|cpu| cpu.strip_prefix("CPU")?.parse().ok()).collect();
    lines.filter_map(move |line| {
        let (label, rest) = line.split_once(':')?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<u64> = words.iter().map_while(|word| word.parse().ok()).take(cpus.len()).collect();
        let description = words[counts.len()..].to_vec();
        let is_of_cpus = counts.len() == cpus.len();
        let counts = if is_of_cpus { cpus.iter().copied().zip(counts).collect() } else { Vec::new() };
        Some(InterruptCounts { label: label.trim(), counts, description })
    })
}
