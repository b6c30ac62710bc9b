//! Expected output: some of its lines, with `*` for the parts that differ from run to run.

/// Returns a description of the first expected line that the output lacks behind the line before; `None` if it fits.
pub(super) fn mismatch(expected: &[String], output: &str) -> Option<String> {
    let mut lines = output.lines().map(words).filter(|line| !line.is_empty());
    if expected.is_empty() {
        return lines.next().map(|line| format!("it prints '{line}', and no output is expected"));
    }
    let missing = expected.iter().find(|pattern| !lines.any(|line| is_like(&line, &words(pattern))));
    missing.map(|pattern| format!("no line '{pattern}' in its output:\n{}", excerpt(output)))
}

/// The first and the last lines of an output.
pub(super) fn excerpt(output: &str) -> String {
    const SHOWN: usize = 12;
    let lines: Vec<&str> = output.lines().collect();
    let hidden = lines.len().saturating_sub(2 * SHOWN);
    if hidden == 0 {
        return output.to_owned();
    }
    let (first, last) = (&lines[..SHOWN], &lines[SHOWN + hidden..]);
    format!("{}\n({hidden} lines more)\n{}", first.join("\n"), last.join("\n"))
}

/// The words of a line, one space between two.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_like(line: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return line == pattern };
    let Some(mut line) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = line.find(part) else { return false };
        line = &line[at + part.len()..];
    }
    line.ends_with(last)
}
