//! The threads with their wake-up latencies.

use super::cells::{Canvas, TextAlignment, per_second};
use crate::figures::{Figures, ThreadFigures};
use crate::threads::SortKey;
use crate::view::WatchView;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use sordino_event::Nanos;

/// A column: its title, its width, the alignment of its texts; the last one takes the rest of the line.
type ThreadColumn = (&'static str, u16, TextAlignment);

const NARROW: [ThreadColumn; 6] = [
    ("THREAD", 18, TextAlignment::Left),
    ("WAKE/S", 7, TextAlignment::Right),
    ("P99", 10, TextAlignment::Right),
    ("WORST", 10, TextAlignment::Right),
    ("AGO", 6, TextAlignment::Right),
    ("CAUSE", 0, TextAlignment::Left),
];
const WIDE: [ThreadColumn; 8] = [
    ("THREAD", 24, TextAlignment::Left),
    ("PRIORITY", 9, TextAlignment::Left),
    ("WAKE/S", 8, TextAlignment::Right),
    ("MEDIAN", 10, TextAlignment::Right),
    ("P99", 10, TextAlignment::Right),
    ("WORST", 10, TextAlignment::Right),
    ("AGO", 7, TextAlignment::Right),
    ("CAUSE", 0, TextAlignment::Left),
];
/// Columns from which on the wide table is drawn.
const WIDE_FROM: u16 = 110;
/// Length from which on a wait is marked.
const LONG: i64 = 1_000_000;

pub(super) fn draw(figures: &Figures, view: &WatchView, area: Rect, canvas: &mut Canvas<'_>) {
    let is_wide = area.width >= WIDE_FROM;
    let columns: &[ThreadColumn] = if is_wide { &WIDE } else { &NARROW };
    let titles = columns.iter().map(|(title, ..)| match *title == title_of(view.sort) {
        true => format!("*{title}"),
        false => (*title).to_owned(),
    });
    let titles: Vec<String> = titles.collect();
    row(area, 0, columns, &titles, Style::new().add_modifier(Modifier::BOLD), canvas);
    let selected = view.selected_in(figures);
    let rows = usize::from(area.height.saturating_sub(1));
    // The selected thread is always in sight.
    let first = (selected + 1).saturating_sub(rows);
    for (place, (index, thread)) in (1..area.height).zip(figures.threads.iter().enumerate().skip(first)) {
        let is_long = thread.worst.as_ref().is_some_and(|worst| worst.length_ns >= LONG);
        let mut style = match is_long && canvas.support.has_colors {
            true => Style::new().fg(Color::Red),
            false => Style::new(),
        };
        if index == selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        row(area, place, columns, &cells(thread, figures, is_wide), style, canvas);
    }
    if figures.threads.is_empty() && area.height > 1 {
        canvas.line(area, 1, "no wake-up so far", Style::new());
    }
}

/// Returns the title of the column that decides the order.
fn title_of(sort: SortKey) -> &'static str {
    match sort {
        SortKey::Worst => "WORST",
        SortKey::Count => "WAKE/S",
        SortKey::Quantile => "P99",
        SortKey::Name => "THREAD",
    }
}

fn cells(thread: &ThreadFigures, figures: &Figures, is_wide: bool) -> Vec<String> {
    let worst = thread.worst.as_ref();
    let ago = |at: i64| seconds(figures.last_ns.unwrap_or(at).saturating_sub(at));
    let mut cells = vec![thread.label.clone()];
    if is_wide {
        cells.push(thread.priority.clone().unwrap_or_default());
    }
    cells.push(per_second(thread.per_s));
    if is_wide {
        cells.push(Nanos(thread.median_ns).to_string());
    }
    cells.push(Nanos(thread.p99_ns).to_string());
    cells.push(worst.map_or_else(String::new, |worst| Nanos(worst.length_ns).to_string()));
    cells.push(worst.map_or_else(String::new, |worst| ago(worst.at_ns)));
    cells.push(worst.map_or_else(String::new, |worst| worst.cause.clone()));
    cells
}

/// Returns a time in whole seconds, minutes or hours.
fn seconds(time_ns: i64) -> String {
    match time_ns.max(0) / 1_000_000_000 {
        seconds @ 0..100 => format!("{seconds}s"),
        seconds @ 100..6000 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

fn row(
    area: Rect,
    place: u16,
    columns: &[ThreadColumn],
    cells: &[String],
    style: Style,
    canvas: &mut Canvas<'_>,
) {
    canvas.line(area, place, "", style);
    let mut x = 0;
    for ((_, width, side), cell) in columns.iter().zip(cells) {
        let left = area.width.saturating_sub(x);
        let width = if *width == 0 { left } else { (*width).min(left) };
        canvas.text(Rect { x: area.x + x, y: area.y + place, width, height: 1 }, cell, *side, style);
        x += width + 1;
    }
}
