//! rtla's `timerlat hist`: how late a timer's interrupt, the kernel's thread and the user's thread are.

use super::BadResult;
use crate::{Bin, Measurement, Samples};

/// A column of the table: what it is about, and its figures.
struct Column {
    what: String,
    bins: Vec<Bin>,
    over: u64,
    figures: [Option<f64>; 3],
}

/// What stands behind the table, in this order in [`Column::figures`].
const FIGURES: [&str; 3] = ["min:", "avg:", "max:"];

fn bad(what: impl Into<String>) -> BadResult {
    BadResult { program: "rtla timerlat", what: what.into() }
}

/// One measurement for each column of its table, in microseconds: `CPU 1, interrupt`, `CPU 1, thread`, `CPU 1, return to user`.
///
/// # Errors
/// If it is no such table.
pub fn read(text: &str) -> Result<Vec<Measurement>, BadResult> {
    let mut columns: Vec<Column> = Vec::new();
    let mut end = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&first, values)) = words.split_first() else { continue };
        if first == "Index" {
            // A later table sums up all CPUs.
            if !columns.is_empty() {
                break;
            }
            columns = values.iter().map(|name| column(name)).collect::<Result<_, _>>()?;
        } else if !columns.is_empty() && values.len() == columns.len() {
            row(first, values, &mut columns, &mut end)?;
        }
    }
    if columns.is_empty() {
        return Err(bad("there is no table in what it printed"));
    }
    columns.into_iter().filter_map(|column| measurement(column, end).transpose()).collect()
}

/// `IRQ-001`, `Thr-001`, `Usr-001`.
fn column(name: &str) -> Result<Column, BadResult> {
    let (kind, cpu) =
        name.split_once('-').ok_or_else(|| bad(format!("'{name}' is no column of its table")))?;
    let cpu: u32 = cpu.parse().map_err(|_| bad(format!("'{name}' is no column of its table")))?;
    let kind = match kind {
        "IRQ" => "interrupt",
        "Thr" => "thread",
        "Usr" => "return to user",
        _ => return Err(bad(format!("'{name}' is no column of its table"))),
    };
    Ok(Column { what: format!("CPU {cpu}, {kind}"), bins: Vec::new(), over: 0, figures: [None; 3] })
}

fn row(first: &str, values: &[&str], columns: &mut [Column], end: &mut u64) -> Result<(), BadResult> {
    let figure = FIGURES.iter().position(|name| *name == first);
    for (value, column) in values.iter().zip(columns) {
        // `-` where nothing was measured.
        let number = match value.parse::<f64>() {
            _ if *value == "-" => None,
            Ok(number) if number >= 0.0 && number.is_finite() => Some(number),
            _ => return Err(bad(format!("'{value}' is no time and no count"))),
        };
        match (figure, first.parse::<u64>(), number) {
            (Some(figure), _, number) => column.figures[figure] = number.map(|us| us * 1e3),
            (None, Ok(us), Some(count)) => {
                *end = us + 1;
                let ns = us as f64 * 1e3;
                if count > 0.0 {
                    column.bins.push(Bin { low_ns: ns, high_ns: ns, count: count as u64 });
                }
            }
            (None, Err(_), Some(count)) if first == "over:" => column.over = count as u64,
            _ => {}
        }
    }
    Ok(())
}

fn measurement(column: Column, end: u64) -> Result<Option<Measurement>, BadResult> {
    let Column { what, mut bins, over, figures } = column;
    let [Some(minimum_ns), Some(mean_ns), Some(maximum_ns)] = figures else {
        return if bins.is_empty() && over == 0 {
            Ok(None)
        } else {
            Err(bad(format!("{what}: no min, avg and max")))
        };
    };
    if over > 0 {
        bins.push(Bin { low_ns: (end as f64 * 1e3).min(maximum_ns), high_ns: maximum_ns, count: over });
    }
    Ok(Some(Measurement::new(what, Samples { bins, minimum_ns, mean_ns, maximum_ns })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of `Documentation/tools/rtla/rtla-timerlat-hist.rst`, shortened.
    const TEXT: &str = "# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:10:00
Index   IRQ-000   Thr-000   IRQ-001   Thr-001   Usr-001
0          6         0         0         0         0
2          0         3         0         0         0
9          1         0         0         0         0
over:      0         4         0         0         0
count:     7         7         0         0         0
min:       0         2         -         -         -
avg:       1        20         -         -         -
max:       9        70         -         -         -
ALL:        IRQ       Thr       Usr
count:     7         7         0
";

    #[test]
    fn each_column_is_a_measurement_with_what_is_over_the_table() {
        let [interrupt, thread] = read(TEXT).unwrap().try_into().unwrap();
        assert_eq!((interrupt.what.as_str(), interrupt.times.count), ("CPU 0, interrupt", 7));
        assert_eq!(thread.times.histogram.last(), Some(&Bin { low_ns: 10e3, high_ns: 70e3, count: 4 }));
        assert_eq!(
            (thread.times.minimum_ns, thread.times.mean_ns, thread.times.maximum_ns),
            (2e3, 20e3, 70e3)
        );
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for text in [
            "",
            "Tracer timerlat not found!\n",
            "Index X-1\n",
            "Index IRQ-x\n",
            "Index IRQ-000\n0 x\n",
            "Index IRQ-000\n3 5\n",
            "Index IRQ-000\n3 5\nmin: nan\navg: nan\nmax: inf\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
