//! The comparison of two recordings as text and JSON.

use crate::layout::{fit, table};
use crate::span::span;
use crate::styled_text::TIE;
use serde::Serialize;
use sordino_event::text::{count, printable};
use sordino_query::{ComparedRow, Difference, DurationStatistics, TableComparison};
use std::io::{self, Write};

/// The version of the comparison's JSON.
const VERSION: u32 = 1;

/// Writes the rows of a measure in two recordings for a person: `top` rows in lines of `width` columns.
///
/// # Errors
/// The error of `out`.
pub fn write_comparison(
    comparison: &TableComparison,
    (top, width): (usize, usize),
    out: &mut impl Write,
) -> io::Result<()> {
    let differences = comparison.rows.iter().filter(|row| is_certain(row.difference)).count() as u64;
    let (differences, keys) = (count(differences, "difference"), comparison.keys.join(", "));
    let title = format!("{} per {keys}: {differences} beyond noise", comparison.measure);
    let mut text = fit(&title, width) + "\n";
    let head = ["count", "median", "p99", "max", "longer in", "difference"];
    let rows: Vec<_> = comparison.rows.iter().take(top).map(|row| (name(row), cells(row))).collect();
    if !rows.is_empty() {
        text += &table(&head, &rows, width);
    }
    let more = comparison.rows.len().saturating_sub(top);
    if more > 0 {
        text += &format!("  and {}; --top sets the number\n", count(more, "more row"));
    }
    for (side, unknown) in ["first", "second"].into_iter().zip(comparison.unknown) {
        if unknown.is_any() {
            let (lost, broken) = (count(unknown.lost, "record"), count(unknown.apart.broken, "span"));
            text += &fit(
                &format!(
                    "  the {side} recording lost {lost}: {broken} of unknown length, {} without a row, are in no line",
                    unknown.crowded
                ),
                width,
            );
            text += "\n";
        }
    }
    out.write_all(text.replace(TIE, " ").as_bytes())
}

/// Writes comparisons for a program: one JSON object in one line.
///
/// # Errors
/// The error of `out`.
pub fn write_comparison_json(comparisons: &[TableComparison], out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        version: u32,
        comparisons: &'a [TableComparison],
    }
    serde_json::to_writer(&mut *out, &Document { version: VERSION, comparisons })?;
    out.write_all(b"\n")
}

fn is_certain(difference: Difference) -> bool {
    matches!(difference, Difference::Longer | Difference::Shorter)
}

fn name(row: &ComparedRow) -> String {
    row.labels.iter().map(|label| printable(label).into_owned()).collect::<Vec<_>>().join("  ")
}

fn cells(row: &ComparedRow) -> Vec<String> {
    let both = |of: &dyn Fn(&DurationStatistics) -> String| {
        let side = |side: &Option<DurationStatistics>| side.as_ref().map_or("-".to_owned(), of);
        format!("{}{TIE}->{TIE}{}", side(&row.before), side(&row.after))
    };
    let difference = match row.difference {
        Difference::Longer => "longer",
        Difference::Shorter => "shorter",
        Difference::Noise => "noise",
        Difference::TooFew => "too few",
        Difference::OnlyAfter => "only in the second",
        Difference::OnlyBefore => "only in the first",
    };
    vec![
        both(&|all| all.count.to_string()),
        both(&|all| span(all.median)),
        both(&|all| span(all.p99)),
        both(&|all| span(all.max)),
        row.test.map_or("-".to_owned(), |test| format!("{:.0}%", test.longer * 100.0)),
        difference.replace(' ', &TIE.to_string()),
    ]
}
