//! The key: the colours of a timeline, with their meaning.

use std::fmt::Write;

/// The classes of the shapes in a timeline, each with its meaning.
const KEY: [(&str, &str); 12] = [
    ("own", "the explained thread runs"),
    ("c0", "another thread runs"),
    ("runnable", "waits for a CPU"),
    ("asleep", "sleeps, or is idle"),
    ("disk", "sleeps, uninterruptible"),
    ("irq", "interrupt"),
    ("softirq", "softirq"),
    ("several", "several short stretches"),
    ("unknown", "not recorded"),
    ("mark", "event of a program"),
    ("fault", "page fault"),
    ("wake-end", "wake-up"),
];
/// The width of a letter, and the space around an entry's words.
const LETTER: f64 = 6.4;
const AROUND: f64 = 32.0;
const LINE: f64 = 18.0;

/// Returns the entries of these classes; any colour of a thread stands for all.
fn entries<'a>(
    is_used: &'a dyn Fn(&str) -> bool,
) -> impl Iterator<Item = &'static (&'static str, &'static str)> + 'a {
    KEY.iter().filter(|(class, _)| is_used(class))
}

/// Returns the shape of an entry, in a square of 11 units at this place. `hatch` and `line` are as in the picture.
fn symbol(class: &str, x: f64, y: f64) -> String {
    let (middle, right, bottom) = (x + 5.5, x + 11.0, y + 11.0);
    match class {
        "mark" => format!("<path class=\"mark\" d=\"M{middle} {y} L{x} {bottom} L{right} {bottom} Z\"/>"),
        "fault" | "wake-end" => {
            format!("<path class=\"{class}\" d=\"M{middle} {bottom} L{x} {y} L{right} {y} Z\"/>")
        }
        _ => format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"11\" height=\"11\"/>"),
    }
}

/// Writes the entries of the used classes as lines between two coordinates, from `y` on. Returns their lower end.
pub(crate) fn write_key(
    is_used: &dyn Fn(&str) -> bool,
    (left, right): (f64, f64),
    y: f64,
    svg: &mut String,
) -> f64 {
    let (mut x, mut y) = (left, y);
    for (class, words) in entries(is_used) {
        let width = AROUND + words.len() as f64 * LETTER;
        if x + width > right && x > left {
            (x, y) = (left, y + LINE);
        }
        let _ = write!(
            svg,
            "{}<text x=\"{}\" y=\"{:.1}\">{words}</text>",
            symbol(class, x, y),
            x + 16.0,
            y + 10.0
        );
        x += width;
    }
    svg.push('\n');
    y + LINE
}

/// Returns all entries as HTML. `style` defines the variables of the shapes that are not filled with a colour.
pub(crate) fn html_key(style: &str) -> String {
    let mut html = String::new();
    for (class, words) in entries(&|_| true) {
        let _ = write!(
            html,
            "<span><svg viewBox=\"0 0 13 13\" style=\"{style}\" aria-hidden=\"true\">{}</svg> {words}</span>",
            symbol(class, 1.0, 1.0)
        );
    }
    html
}
