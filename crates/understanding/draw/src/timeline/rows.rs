//! The rows of a timeline: the stretches of each lane, with their place in the picture.

use crate::lane::{Colours, described, fiber_name, fibers, interrupts, name, runs, states};
use crate::markup::named;
use crate::thin::{DrawnStretch, thin};
use crate::timeline::LEFT;
use sordino_event::{Nanos, Time};
use sordino_lanes::{FiberLane, Lanes};

/// Heights of a lane, of its bar, and of the strip of one depth of interrupts.
pub(super) const LANE: f64 = 26.0;
pub(super) const BAR: f64 = 17.0;
const STRIP: f64 = 7.0;
/// Widths of a letter in a lane's name, and in that of the explained thread or fiber.
const NAME_LETTER: f64 = 7.2;
const BOLD_LETTER: f64 = 8.0;
/// The depths of interrupts that have a strip; deeper ones lie in the last.
const DEPTHS: u32 = 3;

/// A lane with its place.
pub(super) struct LaneRow {
    pub(super) y: f64,
    pub(super) height: f64,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) class: &'static str,
    pub(super) bars: Vec<LaneBar>,
}

/// The stretches at one height of a lane.
pub(super) struct LaneBar {
    pub(super) y: f64,
    pub(super) height: f64,
    pub(super) stretches: Vec<DrawnStretch>,
}

impl LaneRow {
    /// Returns the middle of the lane's bar.
    pub(super) fn middle(&self) -> f64 {
        self.y + self.height / 2.0 - 2.0
    }
}

/// Returns the rows of CPUs, threads and fibers, in this order, from `top` on; `origin` is the time that times in words
/// are relative to.
pub(super) fn rows(lanes: &Lanes, origin: Time, top: f64) -> Vec<LaneRow> {
    let (own, colours) = (lanes.window.tid, Colours::of(lanes));
    let mut y = top;
    let mut rows = Vec::new();
    for lane in &lanes.cpus {
        let depths =
            lane.interrupts.iter().map(|span| span.activity.depth + 1).max().unwrap_or(0).min(DEPTHS);
        let strips = f64::from(depths) * STRIP;
        let strip = |depth: u32| LaneBar {
            y: y + 2.0 + f64::from(depth) * STRIP,
            height: STRIP - 1.0,
            stretches: interrupts(lane, depth, origin),
        };
        let mut bars: Vec<LaneBar> = (0..depths).map(strip).collect();
        bars.push(LaneBar { y: y + 2.0 + strips, height: BAR, stretches: runs(lane, own, &colours, origin) });
        let name = format!("cpu{}", lane.cpu);
        rows.push(LaneRow { y, height: LANE + strips, title: name.clone(), name, class: "name", bars });
        y += LANE + strips;
    }
    for lane in &lanes.threads {
        let class = if lane.thread.tid == own { "own" } else { "name" };
        let bars = vec![LaneBar { y: y + 2.0, height: BAR, stretches: states(lane, own, &colours, origin) }];
        let title = format!("{}: {} on a CPU here", described(&lane.thread), lane.ran);
        rows.push(LaneRow { y, height: LANE, name: name(&lane.thread), title, class, bars });
        y += LANE;
    }
    for lane in &lanes.fibers {
        let class = if Some(lane.fiber) == lanes.window.fiber { "own" } else { "name" };
        let bars =
            vec![LaneBar { y: y + 2.0, height: BAR, stretches: fibers(lane, lanes, &colours, origin) }];
        let title = format!("fiber {} of process {}", fiber_name(lane), lane.fiber.pid);
        rows.push(LaneRow { y, height: LANE, name: fiber_label(lane, letters(class)), title, class, bars });
        y += LANE;
    }
    rows
}

/// Returns the number of letters for which a lane's name has room.
pub(super) fn letters(class: &str) -> usize {
    let letter = if class == "own" { BOLD_LETTER } else { NAME_LETTER };
    ((LEFT - 10.0) / letter) as usize
}

/// Returns a fiber's name, with its number if there is room: a library's number may be an address.
fn fiber_label(lane: &FiberLane, letters: usize) -> String {
    let whole = format!("fiber {}", fiber_name(lane));
    match &lane.name {
        Some(name) if !name.is_empty() && whole.chars().count() > letters => format!("fiber {}", named(name)),
        _ => whole,
    }
}

/// Joins the shortest stretches until the picture has few enough.
pub(super) fn thin_rows(rows: &mut [LaneRow], lanes: &Lanes, most: usize) {
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
