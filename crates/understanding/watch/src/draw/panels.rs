//! The four panels below the threads: latencies, events, interrupts, CPUs.

use super::cells::{Canvas, TextAlignment, per_second, share};
use crate::figures::Figures;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use sordino_event::Nanos;
use sordino_query::Bar;

pub(super) fn draw(figures: &Figures, area: Rect, canvas: &mut Canvas<'_>) {
    let (left, upper) = (area.width / 2, area.height.div_ceil(2));
    let at = |x, y, width, height| Rect { x: area.x + x, y: area.y + y, width, height };
    let right = area.width - left - 1;
    histogram(figures, at(0, 0, left, upper), canvas);
    events(figures, at(left + 1, 0, right, upper), canvas);
    interrupts(figures, at(0, upper, left, area.height - upper), canvas);
    cpus(figures, at(left + 1, upper, right, area.height - upper), canvas);
}

/// A row of a panel: a name, and figures at the right end.
fn row(area: Rect, place: u16, name: &str, figures: &[String], style: Style, canvas: &mut Canvas<'_>) {
    const WIDTH: u16 = 8;
    if place >= area.height {
        return;
    }
    let taken = (WIDTH + 1) * figures.len() as u16;
    let y = area.y + place;
    let name_width = area.width.saturating_sub(taken);
    canvas.text(Rect { x: area.x, y, width: name_width, height: 1 }, name, TextAlignment::Left, style);
    for (x, figure) in (0..).map(|index| area.x + name_width + 1 + index * (WIDTH + 1)).zip(figures) {
        let width = WIDTH.min((area.x + area.width).saturating_sub(x));
        canvas.text(Rect { x, y, width, height: 1 }, figure, TextAlignment::Right, style);
    }
}

fn title(area: Rect, name: &str, figures: &[&str], canvas: &mut Canvas<'_>) {
    let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
    row(area, 0, name, &figures, Style::new().add_modifier(Modifier::BOLD), canvas);
}

fn histogram(figures: &Figures, area: Rect, canvas: &mut Canvas<'_>) {
    title(area, "LATENCY below", &["COUNT"], canvas);
    let rows = usize::from(area.height.saturating_sub(1)).max(1);
    let shown = grouped(&figures.histogram, rows);
    let most = shown.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    for (place, (below, count)) in (1..area.height).zip(shown) {
        row(area, place, &below.to_string(), &[per_second(count as f64)], Style::new(), canvas);
        let room = area.width.saturating_sub(10 + 9);
        let length = (u64::from(room) * count).div_ceil(most) as usize;
        let bar = if canvas.support.is_utf8 { "\u{2588}" } else { "#" }.repeat(length);
        let rect = Rect { x: area.x + 10, y: area.y + place, width: room, height: 1 };
        canvas.text(rect, &bar, TextAlignment::Left, Style::new());
    }
}

/// Returns at most so many bars: each is the sum of as many neighbours as necessary.
fn grouped(bars: &[Bar], most: usize) -> Vec<(Nanos, u64)> {
    let sum = |bars: &[Bar]| Some((bars.last()?.below, bars.iter().map(|bar| bar.count).sum()));
    let mut grouped: Vec<_> = bars.rchunks(bars.len().div_ceil(most).max(1)).filter_map(sum).collect();
    grouped.reverse();
    grouped
}

fn events(figures: &Figures, area: Rect, canvas: &mut Canvas<'_>) {
    title(area, "EVENT", &["/S", "TOTAL"], canvas);
    for (place, event) in (1..area.height).zip(&figures.events) {
        let numbers = [per_second(event.per_s), per_second(event.total as f64)];
        row(area, place, &event.name, &numbers, Style::new(), canvas);
    }
}

fn interrupts(figures: &Figures, area: Rect, canvas: &mut Canvas<'_>) {
    title(area, "INTERRUPT", &["/S", "CPU", "MAX"], canvas);
    for (place, handler) in (1..area.height).zip(&figures.interrupts) {
        let numbers = [per_second(handler.per_s), share(handler.share), Nanos(handler.max_ns).to_string()];
        row(area, place, &handler.name, &numbers, Style::new(), canvas);
    }
}

fn cpus(figures: &Figures, area: Rect, canvas: &mut Canvas<'_>) {
    title(area, "CPU", &["BUSY", "EVENTS/S"], canvas);
    let rows = usize::from(area.height.saturating_sub(1));
    let hidden = figures.cpus.len().saturating_sub(rows);
    for (place, cpu) in (1..area.height).zip(&figures.cpus) {
        let busy = cpu.busy_share.map_or_else(String::new, share);
        let name = match hidden > 0 && usize::from(place) == rows {
            true => format!("cpu{} and {hidden} more", cpu.cpu),
            false => format!("cpu{}", cpu.cpu),
        };
        row(area, place, &name, &[busy, per_second(cpu.events_per_s)], Style::new(), canvas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn grouped_bars_fit_and_keep_the_sum_and_the_end(counts in prop::collection::vec(0_u64..1000, 0..64), most in 1_usize..20) {
            let bars = (0..).zip(&counts).map(|(bits, count)| Bar { below: Nanos(1 << bits), count: *count });
            let bars: Vec<Bar> = bars.collect();
            let grouped = grouped(&bars, most);
            prop_assert!(grouped.len() <= most);
            prop_assert_eq!(grouped.iter().map(|(_, count)| count).sum::<u64>(), counts.iter().sum::<u64>());
            prop_assert_eq!(grouped.last().map(|(below, _)| *below), bars.last().map(|bar| bar.below));
        }
    }
}
