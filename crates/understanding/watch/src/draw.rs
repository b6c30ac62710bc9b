//! The drawing of figures for a terminal.
//!
//! ```text
//! motor: running   10.0k events/s   ...             the state
//! recorder 0.8% of a CPU ...                        the cost
//! a line about losses, leaving out, the last action
//! THREAD         WAKE/S   P99   WORST  AGO  CAUSE   wake-up latencies, worst first
//! LATENCY               | EVENT                     the last ten seconds
//! INTERRUPT             | CPU
//! keys
//! ```
//!
//! | module | content |
//! |---|---|
//! | `cells` | text from outside made harmless, cut to columns; rates and shares |
//! | `panels` | the histogram, events, interrupts and CPUs |
//! | `table` | the threads |

mod cells;
mod panels;
mod table;

use crate::figures::Figures;
use crate::view::{ScreenPage, WatchView};
use cells::{Canvas, per_second, share};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use sordino_event::Nanos;
use sordino_event::text::count;

/// The means of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSupport {
    /// True if the terminal can show colours.
    pub has_colors: bool,
    /// True if the terminal shows all of Unicode; otherwise text is ASCII alone.
    pub is_utf8: bool,
}

/// Smallest area with room for the figures, in columns and rows.
const LEAST: (u16, u16) = (40, 10);
/// Rows above the threads, and below the panels.
const HEAD: u16 = 3;
const FOOT: u16 = 1;
/// The keys of the figures' page.
const KEYS: &str = "q end  ? help  s sort  w where  enter explain  t snapshot  c clear";
/// The text of the help page.
const HELP: &str = "\
Waits of threads from a wake-up until they have a CPU, worst first, with the
longest part of the worst: interrupts, other threads (the one that had the CPU
last is named), idle and switch, or unknown.  WAKE/S, LATENCY, EVENT, INTERRUPT
and CPU are about the last ten seconds; P99, WORST and CAUSE about all so far.

  q, Ctrl-C     end; the recording goes on
  s             sort the threads: by worst, count, p99, name
  up, down      select a thread (also k, j)
  enter         explain the worst wait of the selected thread
  w             count only what meets a condition, such as $comm == \"motor*\"
  t             take a snapshot, or complete the present chunk
  c             clear: begin anew with all counts and worst waits
  ?             this page; any key leaves it

SAMPLED: there are more events than this view reads, so it reads only a part
of the time; rates are those of that part. The recording itself is complete.";

/// Returns the text of a buffer without its last line, which lists the keys.
pub fn text_of(buffer: &Buffer) -> String {
    let mut lines = String::new();
    for y in 0..buffer.area.height.saturating_sub(1) {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        lines += line.trim_end();
        lines.push('\n');
    }
    lines
}

/// Draws the figures, or the page that the user chose, into the area.
pub fn draw(figures: &Figures, view: &WatchView, support: TerminalSupport, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    let mut canvas = Canvas::new(buffer, support);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.line(area, 0, "the terminal is too small: 40x10", Style::new());
        return;
    }
    let body = Rect { y: area.y + 1, height: area.height - 1 - FOOT, ..area };
    canvas.line(area, 0, &state(figures), Style::new().add_modifier(Modifier::REVERSED));
    let foot = match &view.page {
        ScreenPage::Figures => {
            draw_figures(figures, view, body, &mut canvas);
            match &view.typed {
                Some(typed) => format!("where: {}_", end_of(typed, usize::from(area.width) - 9)),
                None => KEYS.to_owned(),
            }
        }
        ScreenPage::Help => {
            let lines: Vec<&str> = HELP.lines().collect();
            draw_text("Help", &lines, body, &mut canvas);
            "any key goes back".to_owned()
        }
        ScreenPage::Text { title, lines, first } => {
            let lines: Vec<&str> = lines.iter().skip(*first).map(String::as_str).collect();
            draw_text(title, &lines, body, &mut canvas);
            "up, down, page up, page down; any other key goes back".to_owned()
        }
    };
    canvas.line(area, area.height - 1, &foot, Style::new().add_modifier(Modifier::DIM));
}

fn draw_figures(figures: &Figures, view: &WatchView, area: Rect, canvas: &mut Canvas<'_>) {
    canvas.line(area, 0, &cost(figures), Style::new());
    let (text, style) = remark(figures, view, canvas.support);
    canvas.line(area, 1, &text, style);
    let rest = Rect { y: area.y + HEAD - 1, height: area.height - (HEAD - 1), ..area };
    let upper = rest.height.div_ceil(2);
    let threads = Rect { height: upper, ..rest };
    table::draw(figures, view, threads, canvas);
    panels::draw(figures, Rect { y: rest.y + upper, height: rest.height - upper, ..rest }, canvas);
}

fn draw_text(title: &str, lines: &[&str], area: Rect, canvas: &mut Canvas<'_>) {
    canvas.line(area, 0, title, Style::new().add_modifier(Modifier::BOLD));
    for (row, line) in (2..area.height).zip(lines) {
        canvas.line(area, row, line, Style::new());
    }
}

fn state(figures: &Figures) -> String {
    let Figures { name, state, events_per_s, events_total, .. } = figures;
    let lost = match (figures.losses.count, figures.losses.uncounted) {
        (0, 0) => "nothing lost".to_owned(),
        (count, 0) => format!("LOST {}", per_second(count as f64)),
        (count, _) => format!("LOST {} and more", per_second(count as f64)),
    };
    let rate = count(per_second(*events_per_s), "event");
    let (total, time) = (per_second(*events_total as f64), Nanos(figures.duration_ns));
    format!("{name}: {state}  {rate}/s  {total} in {time}  {lost}")
}

fn cost(figures: &Figures) -> String {
    let cost = &figures.cost;
    let reader = cost.reader_share.map(|own| format!("this view {}", share(own)));
    let recorder = cost.recorder_share.map(|whole| {
        let threads = cost.threads.iter().filter(|thread| thread.share >= 0.0005);
        let threads: Vec<String> =
            threads.map(|thread| format!("{} {}", thread.name, share(thread.share))).collect();
        match threads.is_empty() {
            true => format!("recorder {} of a CPU", share(whole)),
            false => format!("recorder {} of a CPU ({})", share(whole), threads.join(", ")),
        }
    });
    reader.into_iter().chain(recorder).collect::<Vec<_>>().join("  ")
}

/// Returns the most important remark: on the last action, on what is left out, or a note.
fn remark(figures: &Figures, view: &WatchView, support: TerminalSupport) -> (String, Style) {
    let colored = |color| if support.has_colors { Style::new().fg(color) } else { Style::new() };
    if !view.notice.is_empty() {
        return (view.notice.clone(), colored(Color::Yellow));
    }
    let sampled = (figures.read_share < 0.995)
        .then(|| format!("SAMPLED: {} of the time is read", share(figures.read_share)));
    let lost = (!figures.losses.by_cause.is_empty()).then(|| {
        let causes = figures.losses.by_cause.iter();
        let causes: Vec<String> = causes.map(|(cause, count)| format!("{cause} {count}")).collect();
        format!("LOST: {}", causes.join(", "))
    });
    let condition = figures.condition.as_ref().map(|condition| format!("where {condition}"));
    let is_bad = sampled.is_some() || lost.is_some();
    let remarks = sampled.into_iter().chain(lost).chain(condition).chain(figures.notes.iter().cloned());
    let text = remarks.collect::<Vec<_>>().join("  ");
    (text, if is_bad { colored(Color::Red) } else { Style::new() })
}

/// Returns the last characters of a text that is being typed.
fn end_of(text: &str, columns: usize) -> String {
    let skipped = text.chars().count().saturating_sub(columns);
    text.chars().skip(skipped).collect()
}
