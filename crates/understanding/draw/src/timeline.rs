//! The timeline: a lane for each CPU and thread around an interval.

use crate::axis::Axis;
use crate::lane::{Colours, described, interrupts, name, runs, since, states};
use crate::markup::{escape, shortened, time};
use crate::style::hatching;
use crate::thin::{SEVERAL, Stretch, thin};

use sordino_event::text::count;
use sordino_event::{Nanos, Tid, Time};
use sordino_lanes::{LaneState, Lanes, Mark, WakeUp, Window};
use std::fmt::Write;

/// Measures of the picture, in its own units.
const WIDTH: f64 = 1100.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;
/// Heights of a lane, of its bar, and of the strip of one depth of interrupts.
const LANE: f64 = 26.0;
const BAR: f64 = 17.0;
const STRIP: f64 = 7.0;
/// The depths of interrupts that have a strip; deeper ones lie in the last.
const DEPTHS: u32 = 3;
/// Widths of a letter in a bar, and in a lane's name.
const LETTER: f64 = 6.6;
const NAME_LETTER: f64 = 7.2;
/// The length of an arrow whose waker has no lane.
const STUB: f64 = 14.0;
/// The maximum number of marks and of arrows in a picture.
const MOST_MARKS: usize = 1000;

/// The interval that a timeline shows, and the picture's title.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The begin of the interval; times in the picture are relative to it.
    pub from: Time,
    /// The end of the interval.
    pub to: Time,
    /// The picture's title, for readers who don't see it.
    pub title: &'a str,
    /// The maximum number of stretches that are drawn; each takes some 250 bytes.
    pub most: usize,
}

/// A lane with its place.
struct Row {
    y: f64,
    height: f64,
    name: String,
    title: String,
    class: &'static str,
    bars: Vec<Bar>,
}

/// The stretches at one height of a lane.
struct Bar {
    y: f64,
    height: f64,
    stretches: Vec<Stretch>,
}

/// Returns the lanes as an SVG element. Each stretch has its words in a `title`, and its times, in nanoseconds from the
/// begin of the window, in `data-f` and `data-t`. Where there are more stretches than the
/// frame allows, the shortest are joined.
pub fn timeline(lanes: &Lanes, frame: &Frame<'_>) -> String {
    let mut rows = rows(lanes, frame.from);
    thin_rows(&mut rows, lanes, frame.most);
    let bottom = rows.last().map_or(TOP, |row| row.y + row.height);
    let window = &lanes.window;
    let x = Axis {
        low: 0.0,
        high: (window.to - window.from).0 as f64,
        is_logarithmic: false,
        begin: LEFT,
        end: WIDTH - RIGHT,
    };
    let picture = Picture { lanes, frame, x, rows: &rows, bottom };
    picture.draw()
}

fn rows(lanes: &Lanes, origin: Time) -> Vec<Row> {
    let (own, colours) = (lanes.window.tid, Colours::of(lanes));
    let mut y = TOP;
    let mut rows = Vec::new();
    for lane in &lanes.cpus {
        let depths =
            lane.interrupts.iter().map(|span| span.activity.depth + 1).max().unwrap_or(0).min(DEPTHS);
        let strips = f64::from(depths) * STRIP;
        let strip = |depth: u32| Bar {
            y: y + 2.0 + f64::from(depth) * STRIP,
            height: STRIP - 1.0,
            stretches: interrupts(lane, depth, origin),
        };
        let mut bars: Vec<Bar> = (0..depths).map(strip).collect();
        bars.push(Bar { y: y + 2.0 + strips, height: BAR, stretches: runs(lane, own, &colours, origin) });
        let name = format!("cpu{}", lane.cpu);
        rows.push(Row { y, height: LANE + strips, title: name.clone(), name, class: "name", bars });
        y += LANE + strips;
    }
    for lane in &lanes.threads {
        let class = if lane.thread.tid == own { "own" } else { "name" };
        let bars = vec![Bar { y: y + 2.0, height: BAR, stretches: states(lane, own, &colours, origin) }];
        let title = format!("{}: {} on a CPU here", described(&lane.thread), time(lane.ran));
        rows.push(Row { y, height: LANE, name: name(&lane.thread), title, class, bars });
        y += LANE;
    }
    rows
}

/// Joins the shortest stretches until the picture has few enough.
fn thin_rows(rows: &mut [Row], lanes: &Lanes, most: usize) {
    let mut resolution = Nanos((lanes.window.to - lanes.window.from).0 / 4000);
    while rows.iter().flat_map(|row| &row.bars).map(|bar| bar.stretches.len()).sum::<usize>() > most {
        for bar in rows.iter_mut().flat_map(|row| &mut row.bars) {
            bar.stretches = thin(std::mem::take(&mut bar.stretches), resolution);
        }
        if resolution > lanes.window.to - lanes.window.from {
            break;
        }
        resolution = Nanos(resolution.0.saturating_mul(2).max(1));
    }
}

struct Picture<'a> {
    lanes: &'a Lanes,
    frame: &'a Frame<'a>,
    x: Axis,
    rows: &'a [Row],
    bottom: f64,
}

impl Picture<'_> {
    fn draw(&self) -> String {
        let mut svg = String::new();
        let (height, origin) = (self.bottom + BOTTOM, (self.frame.from - self.lanes.window.from).0);
        let length = (self.lanes.window.to - self.lanes.window.from).0;
        // A page has several timelines, and an id stands for one element of the page.
        let Window { from, to, tid } = self.lanes.window;
        let hatch = format!("hatch-{}-{}-{}", tid.0, from.0, to.0);
        let _ = writeln!(
            svg,
            "<svg class=\"timeline\" style=\"--hatch: url(#{hatch})\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" data-length=\"{length}\" \
             data-origin=\"{origin}\" data-left=\"{LEFT}\" data-right=\"{}\">",
            escape(self.frame.title),
            WIDTH - RIGHT
        );
        let _ = writeln!(svg, "{}", hatching(&hatch));
        self.frame(&mut svg);
        self.rows.iter().for_each(|row| self.row(row, &mut svg));
        self.losses(&mut svg);
        self.wake_ups(&mut svg);
        self.marks(&mut svg);
        self.notes(&mut svg);
        svg + "</svg>\n"
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
        let height = self.bottom - TOP;
        let _ = writeln!(
            svg,
            "<rect class=\"band\" data-f=\"{f}\" data-t=\"{t}\" x=\"{from:.2}\" y=\"{TOP}\" width=\"{:.2}\" height=\"{height}\"/>",
            to - from
        );
        svg.push_str("<g class=\"axis\">\n");
        // Marks are round times from the interval's begin on.
        let origin = f as f64;
        let relative = Axis { low: self.x.low - origin, high: self.x.high - origin, ..self.x };
        for mark in relative.marks() {
            let at = relative.at(mark);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"{TOP}\" y2=\"{}\"/>\
                 <text x=\"{at:.2}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                self.bottom,
                TOP - 8.0,
                time(Nanos(mark as i64))
            );
        }
        svg.push_str("</g>\n");
    }

    fn row(&self, row: &Row, svg: &mut String) {
        let _ = writeln!(
            svg,
            "<g class=\"lane\"><text class=\"{}\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            row.class,
            LEFT - 8.0,
            row.y + row.height - 9.0,
            escape(&shortened(&row.name, ((LEFT - 10.0) / NAME_LETTER) as usize)),
            escape(&row.title)
        );
        for bar in &row.bars {
            bar.stretches.iter().for_each(|stretch| self.stretch(bar, stretch, svg));
        }
        svg.push_str("</g>\n");
    }

    fn stretch(&self, bar: &Bar, stretch: &Stretch, svg: &mut String) {
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
            let dark = if stretch.class == "runnable" { " dark" } else { "" };
            let _ = write!(
                svg,
                "<text class=\"in{dark}\" font-size=\"11\" data-f=\"{f}\" data-t=\"{t}\" x=\"{:.2}\" y=\"{:.1}\"{hidden}>{}</text>",
                from + 4.0,
                bar.y + 12.5,
                escape(&stretch.label)
            );
        }
        svg.push('\n');
    }

    fn losses(&self, svg: &mut String) {
        for hole in &self.lanes.lost {
            let (from, to) = (self.at(hole.from), self.at(hole.to));
            let of = if hole.is_programs { "a program's" } else { "the kernel's" };
            let cpu = hole.cpu.map_or_else(String::new, |cpu| format!(" on cpu{cpu}"));
            let _ = writeln!(
                svg,
                "<rect class=\"lost\" data-f=\"{}\" data-t=\"{}\" x=\"{from:.2}\" y=\"{TOP}\" width=\"{:.2}\" height=\"{}\">\
                 <title>{of} records{cpu} are lost: {}</title></rect>",
                self.offset(hole.from),
                self.offset(hole.to),
                (to - from).max(1.0),
                self.bottom - TOP,
                time(hole.to - hole.from)
            );
        }
    }

    /// Returns the middle of a thread's lane.
    fn middle(&self, tid: Tid) -> Option<f64> {
        let index = self.lanes.threads.iter().position(|lane| lane.thread.tid == tid)?;
        let row = &self.rows[self.lanes.cpus.len() + index];
        Some(row.y + row.height / 2.0 - 2.0)
    }

    fn wake_ups(&self, svg: &mut String) {
        for wake_up in self.lanes.wake_ups.iter().take(MOST_MARKS) {
            let Some(to) = self.middle(wake_up.tid) else { continue };
            let from = wake_up.by.and_then(|by| self.middle(by)).unwrap_or(to - STUB);
            let (x, f) = (self.at(wake_up.at), self.offset(wake_up.at));
            let tip = if from < to { to - 6.0 } else { to + 6.0 };
            let _ = writeln!(
                svg,
                "<g class=\"arrow\" data-f=\"{f}\" data-x=\"{x:.2}\"><line class=\"wake\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"{from:.1}\" \
                 y2=\"{to:.1}\"/><path class=\"wake-end\" d=\"M{x:.2} {to:.1} L{:.2} {tip:.1} L{:.2} {tip:.1} Z\"/><title>{}</title></g>",
                x - 3.0,
                x + 3.0,
                escape(&self.woken(wake_up))
            );
        }
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

    fn marks(&self, svg: &mut String) {
        let in_lanes = self.lanes.marks.iter().filter_map(|mark| Some((mark, self.middle(mark.tid)?)));
        for (mark, middle) in in_lanes.take(MOST_MARKS) {
            let Mark { at, name, count, .. } = mark;
            let times = if *count > 1 { format!("{count} times ") } else { String::new() };
            let (x, y) = (self.at(*at), middle + BAR / 2.0 + 1.0);
            let _ = writeln!(
                svg,
                "<g class=\"point\" data-f=\"{}\" data-x=\"{x:.2}\"><path class=\"mark\" d=\"M{x:.2} {:.1} L{:.2} {:.1} L{:.2} {:.1} Z\"/>\
                 <title>{times}{} at {}</title></g>",
                self.offset(*at),
                y - 4.0,
                x - 3.5,
                y + 3.0,
                x + 3.5,
                y + 3.0,
                escape(name),
                since(*at, self.frame.from)
            );
        }
    }

    /// Writes what the picture leaves out.
    fn notes(&self, svg: &mut String) {
        let lanes = self.lanes;
        let mut notes = Vec::new();
        if !lanes.has_switches {
            notes.push("the switches between threads are not recorded: lanes of CPUs need sordino record --kernel rt".to_owned());
        }
        if lanes.hidden_threads > 0 {
            notes.push(format!("{} without a lane", count(lanes.hidden_threads, "thread")));
        }
        let more = [lanes.wake_ups.len(), lanes.marks.len()];
        let more: usize = more.iter().map(|all| all.saturating_sub(MOST_MARKS)).sum();
        let left_out = lanes.left_out + more as u64;
        if left_out > 0 {
            notes.push(format!("{left_out} more stretches, arrows and marks left out"));
        }
        let mut stretches = self.rows.iter().flat_map(|row| &row.bars).flat_map(|bar| &bar.stretches);
        if stretches.any(|stretch| stretch.class == SEVERAL) {
            notes.push("grey: several short stretches, joined".to_owned());
        }
        let mut states = lanes.threads.iter().flat_map(|lane| &lane.states);
        if states.any(|span| span.activity == LaneState::Unknown) {
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
