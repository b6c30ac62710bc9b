//! The timeline: a lane for each CPU, thread and fiber around an interval.

mod rows;

use crate::axis::{Axis, time_mark};
use crate::key::write_key;
use crate::lane::{fiber_name, name, since};
use crate::markup::{escape, lines, named, shortened};
use crate::style::Fillings;
use crate::thin::{DrawnStretch, SEVERAL};
use rows::{BAR, LaneBar, LaneRow, letters, rows, thin_rows};

use sordino_event::text::count;
use sordino_event::{Domain, Tid, Time};
use sordino_lanes::{FiberWakeUp, Lanes, Mark, WakeUp, Window};
use sordino_timeline::FiberId;
use std::fmt::Write;

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;
/// The heights of a line of the title, and the letters in it.
const TITLE: f64 = 21.0;
const TITLE_LETTERS: usize = 125;
/// Width of a letter in a bar.
const LETTER: f64 = 6.6;
/// The length of an arrow whose waker has no lane.
const STUB: f64 = 14.0;
/// The maximum number of marks, of arrows of threads and of fibers, and of losses, in a picture.
const MOST_MARKS: usize = 1000;

/// The interval that a timeline shows, and the picture's title.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The begin of the interval; times in the picture are relative to it.
    pub from: Time,
    /// The end of the interval.
    pub to: Time,
    /// The title of the picture, also for readers who can't see it.
    pub title: &'a str,
    /// True for a picture that stands alone: its title and the key of its colours are drawn.
    pub is_alone: bool,
    /// The maximum number of stretches that are drawn, and that of marks, of arrows and of losses; each takes some 200
    /// bytes.
    pub most: usize,
}

/// Returns the lanes as an SVG element. Each stretch has its words in a `title`, and its times, in nanoseconds from the
/// begin of the window, in `data-f` and `data-t`. If there are more stretches than the frame allows, the shortest are
/// joined.
pub fn timeline(lanes: &Lanes, frame: &Frame<'_>) -> String {
    let title = if frame.is_alone { lines(frame.title, TITLE_LETTERS) } else { Vec::new() };
    let top = TOP + title.len() as f64 * TITLE;
    let mut rows = rows(lanes, frame.from, top);
    thin_rows(&mut rows, lanes, frame.most);
    let bottom = rows.last().map_or(top, |row| row.y + row.height);
    let window = &lanes.window;
    let x = Axis {
        low: 0.0,
        high: (window.to - window.from).0 as f64,
        is_logarithmic: false,
        begin: LEFT,
        end: WIDTH - RIGHT,
    };
    Picture { lanes, frame, x, title, rows: &rows, top, bottom }.draw()
}

struct Picture<'a> {
    lanes: &'a Lanes,
    frame: &'a Frame<'a>,
    x: Axis,
    /// The lines of the title that is drawn.
    title: Vec<String>,
    rows: &'a [LaneRow],
    /// The upper and the lower end of the lanes.
    top: f64,
    bottom: f64,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let mut body = String::new();
        for (index, line) in self.title.iter().enumerate() {
            let y = (index + 1) as f64 * TITLE;
            let _ = writeln!(
                body,
                "<text class=\"title\" font-size=\"14\" x=\"14\" y=\"{y}\">{}</text>",
                escape(line)
            );
        }
        self.frame(&mut body);
        self.rows.iter().for_each(|row| self.row(row, &mut body));
        self.losses(&mut body);
        self.wake_ups(&mut body);
        self.marks(&mut body);
        self.notes(&mut body);
        let mut height = self.bottom + BOTTOM;
        if self.frame.is_alone {
            height = write_key(&|class| self.uses(class), (LEFT, WIDTH - RIGHT), height, &mut body);
        }
        let origin = (self.frame.from - self.lanes.window.from).0;
        let Window { from, to, tid, .. } = self.lanes.window;
        let fillings = Fillings::new(&format!("{}-{}-{}", tid.0, from.0, to.0));
        format!(
            "<svg class=\"timeline\" style=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" data-length=\"{}\" \
             data-origin=\"{origin}\" data-left=\"{LEFT}\" data-right=\"{}\" data-top=\"{}\" data-bottom=\"{}\">\n{}\n{body}</svg>\n",
            fillings.variables(),
            escape(self.frame.title),
            (to - from).0,
            WIDTH - RIGHT,
            self.top,
            self.bottom,
            fillings.definitions()
        )
    }

    /// Returns true if the picture shows anything of this class of the key.
    fn uses(&self, class: &str) -> bool {
        let Lanes { marks, lost, wake_ups, .. } = self.lanes;
        let mut classes = self.rows.iter().flat_map(|row| &row.bars).flat_map(|bar| &bar.stretches);
        let is_it = |stretch: &DrawnStretch| match class {
            // The colours of threads have one entry.
            "c0" => stretch.class.starts_with('c'),
            "asleep" => matches!(stretch.class, "asleep" | "idle"),
            _ => stretch.class == class,
        };
        match class {
            "mark" => marks.iter().any(|mark| mark.domain == Domain::User),
            "fault" => marks.iter().any(|mark| mark.domain == Domain::Kernel),
            "wake-end" => !wake_ups.is_empty(),
            "unknown" => !lost.is_empty() || classes.any(is_it),
            _ => classes.any(is_it),
        }
    }

    fn offset(&self, at: Time) -> i64 {
        (at - self.lanes.window.from).0
    }

    fn at(&self, at: Time) -> f64 {
        self.x.at(self.offset(at) as f64)
    }

    /// Draws the interval's band, and the axis of time.
    fn frame(&self, svg: &mut String) {
        let (from, to) = (self.at(self.frame.from), self.at(self.frame.to));
        let (f, t) = (self.offset(self.frame.from), self.offset(self.frame.to));
        let (top, bottom) = (self.top, self.bottom);
        let _ = writeln!(
            svg,
            "<rect class=\"band\" data-f=\"{f}\" data-t=\"{t}\" x=\"{from:.2}\" y=\"{top}\" width=\"{:.2}\" height=\"{}\"/>",
            to - from,
            bottom - top
        );
        for (offset, at) in [(f, from), (t, to)] {
            let _ = writeln!(
                svg,
                "<g data-f=\"{offset}\" data-x=\"{at:.2}\"><line class=\"edge\" x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"{top}\" y2=\"{bottom}\"/></g>"
            );
        }
        svg.push_str("<g class=\"axis\">\n");
        // Marks are round times from the interval's begin on.
        let origin = f as f64;
        let relative = Axis { low: self.x.low - origin, high: self.x.high - origin, ..self.x };
        for mark in relative.marks() {
            let at = relative.at(mark);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"{top}\" y2=\"{bottom}\"/>\
                 <text x=\"{at:.2}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                top - 8.0,
                time_mark(mark)
            );
        }
        svg.push_str("</g>\n");
    }

    fn row(&self, row: &LaneRow, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<g class=\"lane\"><text class=\"{}\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            row.class,
            LEFT - 8.0,
            row.y + row.height - 9.0,
            escape(&shortened(&row.name, letters(row.class))),
            escape(&row.title)
        );
        for bar in &row.bars {
            bar.stretches.iter().for_each(|stretch| self.stretch(bar, stretch, svg));
        }
        svg.push_str("</g>\n");
    }

    fn stretch(&self, bar: &LaneBar, stretch: &DrawnStretch, svg: &mut String) {
        let (from, to) = (self.at(stretch.from), self.at(stretch.to));
        let (f, t) = (self.offset(stretch.from), self.offset(stretch.to));
        let width = (to - from).max(0.3);
        let _ = write!(
            svg,
            "<rect class=\"{}\" data-f=\"{f}\" data-t=\"{t}\" x=\"{from:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{:.1}\">\
             <title>{}</title></rect>",
            stretch.class,
            bar.y,
            bar.height,
            escape(&stretch.title)
        );
        let letters = stretch.label.chars().count();
        // Shorter ones have no room even when they are zoomed.
        let is_long = width > (WIDTH - LEFT) / 200.0;
        if letters > 0 && is_long && bar.height >= BAR {
            let fits = width > letters as f64 * LETTER + 6.0;
            let hidden = if fits { "" } else { " visibility=\"hidden\"" };
            let class = if stretch.class == "own" { "in-own" } else { "in" };
            let _ = write!(
                svg,
                "<text class=\"{class}\" font-size=\"11\" data-f=\"{f}\" data-t=\"{t}\" x=\"{:.2}\" y=\"{:.1}\"{hidden}>{}</text>",
                from + 4.0,
                bar.y + 12.5,
                escape(&stretch.label)
            );
        }
        svg.push('\n');
    }

    fn losses(&self, svg: &mut String) {
        for hole in self.thinned(&self.lanes.lost) {
            let (from, to) = (self.at(hole.from), self.at(hole.to));
            let of = if hole.is_programs { "a program's" } else { "the kernel's" };
            let cpu = hole.cpu.map_or_else(String::new, |cpu| format!(" on cpu{cpu}"));
            let _ = writeln!(
                svg,
                "<rect class=\"lost\" data-f=\"{}\" data-t=\"{}\" x=\"{from:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\">\
                 <title>{of} records{cpu} are lost: {}</title></rect>",
                self.offset(hole.from),
                self.offset(hole.to),
                self.top,
                (to - from).max(1.0),
                self.bottom - self.top,
                hole.to - hole.from
            );
        }
    }

    /// Returns the middle of a thread's lane.
    fn middle(&self, tid: Tid) -> Option<f64> {
        let index = self.lanes.threads.iter().position(|lane| lane.thread.tid == tid)?;
        Some(self.rows[self.lanes.cpus.len() + index].middle())
    }

    /// Returns the middle of a fiber's lane.
    fn middle_of_fiber(&self, fiber: FiberId) -> Option<f64> {
        let index = self.lanes.fibers.iter().position(|lane| lane.fiber == fiber)?;
        Some(self.rows[self.lanes.cpus.len() + self.lanes.threads.len() + index].middle())
    }

    /// Returns as many of these marks, arrows or losses as the picture may have, from its whole length.
    fn thinned<'a, T>(&self, all: &'a [T]) -> impl Iterator<Item = &'a T> {
        all.iter().step_by(all.len().div_ceil(self.frame.most.clamp(1, MOST_MARKS)).max(1))
    }

    /// Returns the number of those that the picture leaves out.
    fn hidden<T>(&self, all: &[T]) -> u64 {
        (all.len() - self.thinned(all).count()) as u64
    }

    fn wake_ups(&self, svg: &mut String) {
        for wake_up in self.thinned(&self.lanes.wake_ups) {
            let Some(to) = self.middle(wake_up.tid) else { continue };
            let from = wake_up.by.and_then(|by| self.middle(by));
            self.arrow(wake_up.at, from, to, &self.woken(wake_up), svg);
        }
        for wake_up in self.thinned(&self.lanes.fiber_wake_ups) {
            let Some(to) = self.middle_of_fiber(wake_up.fiber) else { continue };
            let from = wake_up.by.and_then(|by| self.middle_of_fiber(by));
            self.arrow(wake_up.at, from, to, &self.fiber_woken(wake_up), svg);
        }
    }

    /// Draws a wake-up from the middle of one lane to that of another; a short arrow if the waker has no lane.
    fn arrow(&self, at: Time, from: Option<f64>, to: f64, title: &str, svg: &mut String) {
        let from = from.unwrap_or(to - STUB);
        let (x, f) = (self.at(at), self.offset(at));
        let tip = if from < to { to - 6.0 } else { to + 6.0 };
        let _ = writeln!(
            svg,
            "<g class=\"arrow\" data-f=\"{f}\" data-x=\"{x:.2}\"><line class=\"wake\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{from:.1}\" \
             y2=\"{to:.1}\"/><path class=\"wake-end\" d=\"M{x:.2} {to:.1} L{:.2} {tip:.1} L{:.2} {tip:.1} Z\"/><title>{}</title></g>",
            x - 3.0,
            x + 3.0,
            escape(title)
        );
    }

    fn fiber_woken(&self, wake_up: &FiberWakeUp) -> String {
        let find = |fiber: FiberId| self.lanes.fibers.iter().find(|lane| lane.fiber == fiber);
        let name = |fiber: FiberId| find(fiber).map_or_else(|| fiber.to_string(), fiber_name);
        let by = wake_up
            .by
            .map_or_else(|| "code outside of fibers".to_owned(), |by| format!("fiber {}", name(by)));
        format!("{by} wakes fiber {} at {}", name(wake_up.fiber), since(wake_up.at, self.frame.from))
    }

    fn woken(&self, wake_up: &WakeUp) -> String {
        let find = |tid: Tid| self.lanes.threads.iter().find(|lane| lane.thread.tid == tid);
        let name = |tid: Tid| find(tid).map_or_else(|| format!("thread {tid}"), |lane| name(&lane.thread));
        let by = match (wake_up.by, wake_up.cpu) {
            (Some(by), _) => name(by),
            (None, Some(cpu)) => format!("cpu{cpu}, in an interrupt"),
            (None, None) => "somebody".to_owned(),
        };
        format!("{by} wakes {} at {}", name(wake_up.tid), since(wake_up.at, self.frame.from))
    }

    /// Draws the events of programs below their threads' bars, and page faults above.
    fn marks(&self, svg: &mut String) {
        for mark in self.thinned(&self.lanes.marks) {
            let Some(middle) = self.middle(mark.tid) else { continue };
            let Mark { at, name, count, domain, .. } = mark;
            let times = if *count > 1 { format!("{count} times ") } else { String::new() };
            let (class, side) = if *domain == Domain::User { ("mark", 1.0) } else { ("fault", -1.0) };
            let (x, y) = (self.at(*at), middle + side * (BAR / 2.0 + 1.0));
            let (tip, base) = (y - side * 4.0, y + side * 3.0);
            let _ = writeln!(
                svg,
                "<g class=\"point\" data-f=\"{}\" data-x=\"{x:.2}\"><path class=\"{class}\" d=\"M{x:.2} {tip:.1} L{:.2} {base:.1} L{:.2} {base:.1} Z\"/>\
                 <title>{times}{} at {}</title></g>",
                self.offset(*at),
                x - 3.5,
                x + 3.5,
                escape(&named(name)),
                since(*at, self.frame.from)
            );
        }
    }

    /// Writes the numbers of things that the picture leaves out.
    fn notes(&self, svg: &mut String) {
        let lanes = self.lanes;
        let mut notes = Vec::new();
        if !lanes.has_switches {
            notes.push("the switches between threads are not recorded: lanes of CPUs need sordino record --kernel rt".to_owned());
        }
        if lanes.hidden_cpus > 0 {
            notes.push(format!("{} without a lane", count(lanes.hidden_cpus, "more CPU")));
        }
        if lanes.hidden_threads > 0 {
            notes.push(format!("{} without a lane", count(lanes.hidden_threads, "more thread")));
        }
        if lanes.waiting_threads > 0 {
            notes.push(format!(
                "{} that waited for a CPU all the time",
                count(lanes.waiting_threads, "thread")
            ));
        }
        if lanes.hidden_fibers > 0 {
            notes.push(format!("{} without a lane", count(lanes.hidden_fibers, "more fiber")));
        }
        let left_out = lanes.left_out
            + self.hidden(&lanes.wake_ups)
            + self.hidden(&lanes.fiber_wake_ups)
            + self.hidden(&lanes.marks)
            + self.hidden(&lanes.lost);
        if left_out > 0 {
            notes.push(format!("{left_out} more stretches, arrows and marks left out"));
        }
        if self.uses(SEVERAL) {
            notes.push("grey: several short stretches, joined".to_owned());
        }
        if self.uses("unknown") {
            notes.push("hatched: not recorded".to_owned());
        }
        let _ = writeln!(
            svg,
            "<text class=\"note\" x=\"{LEFT}\" y=\"{:.1}\">{}</text>",
            self.bottom + 16.0,
            escape(&notes.join("; "))
        );
    }
}
