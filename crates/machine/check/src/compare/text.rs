//! Formats a comparison for a terminal.

use super::{Comparison, Row, Trend};
use sordino_event::text::printable;
use std::fmt::{self, Write};

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Same => "same",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::Different => "different",
            Self::Unknown => "not in both",
        })
    }
}

/// Prints each row with its values, and the direction of each difference from the first.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (letter, name) in ('A'..='Z').zip(&self.names) {
            writeln!(f, "{letter}: {}", printable(name))?;
        }
        for (title, rows) in [
            ("Conditions that differ", &self.conditions),
            ("Settings that differ", &self.settings),
            ("Times", &self.times),
        ] {
            if rows.is_empty() {
                continue;
            }
            writeln!(f, "\n{title}")?;
            for row in rows {
                writeln!(f, "{}", one(row))?;
            }
        }
        Ok(())
    }
}

/// Formats a row: short values side by side, long ones below each other.
fn one(row: &Row) -> String {
    let mut text = format!("  {:<32}", printable(&row.what));
    // Two such values fit into 80 columns.
    let is_long = row.values.len() > 2 || row.values.iter().flatten().any(|value| value.len() > 11);
    for (index, (letter, value)) in ('A'..='Z').zip(&row.values).enumerate() {
        let value = printable(value.as_deref().unwrap_or("-"));
        let change = index.checked_sub(1).and_then(|index| row.changes.get(index));
        let change = change.map(|change| format!(" {change}")).unwrap_or_default();
        let _ = match is_long {
            true => write!(text, "\n    {letter}{change}: {value}"),
            false => write!(text, " {value:>11}{change}"),
        };
    }
    text.trim_end().to_owned()
}
