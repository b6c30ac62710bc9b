//! Tables of statistics, as text for people and as JSON for programs.

use crate::TimeFormat;
use crate::layout::{fit, table};
use crate::span::{share, span};
use crate::styled_text::TIE;
use serde::Serialize;
use sordino_event::Nanos;
use sordino_event::text::{count, printable};
use sordino_query::{Bar, DurationStatistics, StatisticsRow, StatisticsTable};
use std::io::{self, Write};

/// The version of the statistics' JSON.
const VERSION: u32 = 1;
/// The columns of a histogram's longest bar.
const BAR: usize = 40;

/// The format of statistics as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFormat {
    /// The format of points in time.
    pub time: TimeFormat,
    /// The maximum number of rows.
    pub top: usize,
    /// True to show only the main columns, without parts.
    pub brief: bool,
    /// True if the distribution of all rows together is drawn.
    pub histogram: bool,
    /// The maximum number of columns of a line.
    pub width: usize,
}

/// Writes a table for a person under a title: a line for each row, the spans that are in none, and a histogram.
///
/// # Errors
/// The error of `out`.
pub fn write_statistics(
    table: &StatisticsTable,
    format: TableFormat,
    out: &mut impl Write,
) -> io::Result<()> {
    let spans = count(table.all.as_ref().map_or(0, |all| all.count), table.unit);
    let title = format!("{} per {}: {spans} in {}", table.measure, table.keys.join(", "), span(table.wall));
    let mut text = fit(&title, format.width) + "\n";
    if !table.rows.is_empty() {
        text += &rows(table, format);
    }
    let more = table.rows.len().saturating_sub(format.top);
    if more > 0 {
        text += &format!("  and {}; --top sets the number\n", count(more, "more row"));
    }
    if let Some(all) = table.all.as_ref().filter(|_| format.histogram && table.has_lengths) {
        text += "\n";
        text += &histogram(&all.histogram);
    }
    for line in apart(table) {
        text += &fit(&line, format.width);
        text += "\n";
    }
    out.write_all(text.replace(TIE, " ").as_bytes())
}

/// Writes tables for a program: one JSON object in one line.
///
/// # Errors
/// The error of `out`.
pub fn write_statistics_json(tables: &[StatisticsTable], out: &mut impl Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        version: u32,
        tables: &'a [StatisticsTable],
    }
    serde_json::to_writer(&mut *out, &Document { version: VERSION, tables })?;
    out.write_all(b"\n")
}

/// A column: its title, and the text of a row's cell.
type Column<'a> = (&'a str, Box<dyn Fn(&StatisticsRow) -> String + 'a>);

fn rows(statistics: &StatisticsTable, format: TableFormat) -> String {
    let columns = if statistics.has_lengths { lengths(statistics, format) } else { rates(statistics.wall) };
    let head: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let name = |row: &StatisticsRow| {
        let labels = row.labels.iter().map(|label| printable(label).into_owned());
        labels.collect::<Vec<_>>().join("  ")
    };
    let cells = |row: &StatisticsRow| columns.iter().map(|(_, cell)| cell(row)).collect();
    let rows: Vec<_> = statistics.rows.iter().take(format.top).map(|row| (name(row), cells(row))).collect();
    table(&head, &rows, format.width)
}

fn rates<'a>(wall: Nanos) -> Vec<Column<'a>> {
    let rate =
        move |row: &StatisticsRow| format!("{:.1}", row.summary.count as f64 / wall.seconds().max(1e-9));
    vec![("count", Box::new(|row| row.summary.count.to_string())), ("per second", Box::new(rate))]
}

fn lengths(statistics: &StatisticsTable, format: TableFormat) -> Vec<Column<'_>> {
    type Value = fn(&DurationStatistics) -> Nanos;
    let value = |title, value: Value| -> Column<'_> {
        (title, Box::new(move |row: &StatisticsRow| span(value(&row.summary))))
    };
    let mut columns: Vec<Column<'_>> =
        vec![("count", Box::new(|row| row.summary.count.to_string())), value("total", |all| all.total)];
    if statistics.is_share_of_wall {
        columns.push(("share", Box::new(|row| share(row.summary.total, statistics.wall))));
    }
    let values: [(&str, bool, Value); 7] = [
        ("min", false, |all| all.min),
        ("median", true, |all| all.median),
        ("mean", false, |all| all.mean),
        ("p90", false, |all| all.p90),
        ("p99", true, |all| all.p99),
        ("p99.9", false, |all| all.p999),
        ("max", true, |all| all.max),
    ];
    let shown = values.into_iter().filter(|(_, is_brief, _)| *is_brief || !format.brief);
    columns.extend(shown.map(|(title, _, of)| value(title, of)));
    columns.push(("worst at", Box::new(move |row| format.time.text(row.summary.worst_at))));
    let counts = statistics.rows.first().map_or(&[][..], |row| &row.counts);
    for (number, count) in counts.iter().enumerate() {
        let of = move |row: &StatisticsRow| {
            row.counts.get(number).map_or(String::new(), |it| it.count.to_string())
        };
        columns.push((count.name, Box::new(of)));
    }
    let parts = statistics.rows.first().filter(|_| !format.brief).map_or(&[][..], |row| &row.parts);
    for (number, part) in parts.iter().enumerate() {
        let of = move |row: &StatisticsRow| {
            row.parts.get(number).map_or(String::new(), |part| share(part.time, row.summary.total))
        };
        columns.push((part.name, Box::new(of)));
    }
    columns
}

/// Draws a line for each bar: the limit, the number, and a bar of that share of the greatest.
fn histogram(bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let line = |bar: &Bar| {
        let stars = (u128::from(bar.count) * BAR as u128).div_ceil(most.into()) as usize;
        let below = span(bar.below).replace(TIE, " ");
        format!("  below {below:>8}  {:>10}  {}\n", bar.count, "#".repeat(stars))
    };
    bars.iter().map(line).collect()
}

/// Returns the lines about the spans that are in no row.
fn apart(table: &StatisticsTable) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |number: u64, noun: &str, text: &str| {
        if number > 0 {
            lines.push(format!("{} {text}", count(number, noun)));
        }
    };
    line(table.apart.broken, table.unit, "apart: records are missing there, or the begin was not recorded");
    line(table.apart.cut, table.unit, "apart: the recording's begin or end cuts them");
    line(table.crowded, table.unit, "apart: there are too many rows; use --where, or another --per");
    line(table.lost, "record", "lost in all; spans that touch a loss are apart");
    if table.overhead > Nanos::ZERO {
        lines.push(format!("{} in all subtracted, which recording took (estimated)", span(table.overhead)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use sordino_event::Time;
    use sordino_query::{Apart, Durations};

    fn table() -> StatisticsTable {
        let mut distribution = Durations::default();
        [1000, 3000, 900]
            .into_iter()
            .zip(0..)
            .for_each(|(value, at)| distribution.add(Nanos(value), Time(at)));
        let summary = distribution.summary().unwrap();
        let row = StatisticsRow {
            labels: vec!["mo\x1btor/7".into()],
            summary: summary.clone(),
            parts: Vec::new(),
            counts: Vec::new(),
            distribution,
        };
        StatisticsTable {
            measure: "slices",
            unit: "slice",
            has_lengths: true,
            is_share_of_wall: false,
            keys: vec!["thread".to_owned()],
            wall: Nanos(1_000_000),
            overhead: Nanos(7_000),
            rows: vec![row.clone(), row],
            all: Some(summary),
            apart: Apart { broken: 1, cut: 2 },
            crowded: 0,
            lost: 5,
        }
    }

    #[test]
    fn a_table_has_rows_a_histogram_and_what_is_apart() {
        let format = TableFormat {
            time: TimeFormat::Since(Time(0)),
            top: 1,
            brief: false,
            histogram: true,
            width: 140,
        };
        let mut out = Vec::new();
        write_statistics(&table(), format, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("slices per thread: 3 slices in 1.00 ms\n"), "{text}");
        for part in [
            r"mo\x1btor/7      3  4.90 us  900 ns  1.00 us  1.63 us  3.00 us",
            "  and 1 more row; --top sets the number\n",
            "  below  1.02 us           2  ########################################\n",
            "1 slice apart: records are missing",
            "2 slices apart: the recording's begin or end cuts them",
            "7.00 us in all subtracted, which recording took (estimated)",
            "5 records lost in all",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn json_has_all_rows_and_what_is_apart() {
        let mut out = Vec::new();
        write_statistics_json(&[table()], &mut out).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let table = &document["tables"][0];
        assert_eq!((&document["version"], &table["rows"][1]["summary"]["max_ns"]), (&1.into(), &3000.into()));
        assert_eq!((&table["apart"]["broken"], &table["lost"]), (&1.into(), &5.into()));
    }
}
