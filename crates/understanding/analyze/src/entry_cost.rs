//! The cost of an interrupt beyond its events: the CPU enters it before the first and leaves it after the last of them.
//!
//! The cost can be derived where nothing else takes time: in a loop that always does the same, from the intervals that
//! only interrupts made longer. Elsewhere it is known if the recorder [measured](MeasuredCosts) it, and the intervals
//! themselves may show its [error](Charged::error).

use crate::cause::Cause;
use crate::findings::{Explanation, Part};
use sordino_event::Nanos;
use std::cmp::Reverse;

/// The minimum number of intervals from which the cost is derived.
const FEW: usize = 5;
/// The number of intervals after which the cost is settled.
const HELD_MAX: usize = 1000;

/// Explanations in progress: the first ones are held until the cost is known.
#[derive(Debug)]
pub(crate) enum EntryCosts<Role> {
    /// The cost is not known yet; these explanations are held.
    Held(Vec<(Explanation, Role)>),
    /// The cost is settled for the rest of the recording; `None` if it cannot be derived.
    Known(Option<Nanos>),
}

impl<Role> EntryCosts<Role> {
    /// Creates the state for a loop that always does the same, or for other intervals.
    pub(crate) fn new(is_constant: bool) -> Self {
        if is_constant { Self::Held(Vec::new()) } else { Self::Known(None) }
    }

    /// Adds an explanation; returns those that are ready.
    pub(crate) fn take(&mut self, explanation: Explanation, role: Role) -> Vec<(Explanation, Role)> {
        match self {
            Self::Held(held) => {
                held.push((explanation, role));
                if held.len() < HELD_MAX { Vec::new() } else { self.settle() }
            }
            Self::Known(cost) => {
                let mut explanation = explanation;
                charge(&mut explanation.parts, *cost);
                vec![(explanation, role)]
            }
        }
    }

    /// Returns the explanations that are held, as there are no more.
    pub(crate) fn settle(&mut self) -> Vec<(Explanation, Role)> {
        let Self::Held(held) = self else { return Vec::new() };
        let mut held = std::mem::take(held);
        let mut costs: Vec<Nanos> = held.iter().filter_map(|(held, _)| learn(&held.parts)).collect();
        costs.sort_unstable();
        let cost = (costs.len() >= FEW).then(|| costs[costs.len() / 2]);
        held.iter_mut().for_each(|(held, _)| charge(&mut held.parts, cost));
        *self = Self::Known(cost);
        held
    }
}

/// The kind of an interrupt that a CPU enters and leaves by itself, as far as its cost differs: a hypervisor does more
/// for a timer than for a message from another CPU or a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    Timer,
    Message,
}

impl Entered {
    /// Returns the kind of an interrupt; `None` for other causes.
    pub(crate) fn of(cause: &Cause) -> Option<Self> {
        match cause {
            Cause::Vector { name } if &**name == "local_timer" => Some(Self::Timer),
            Cause::Irq { .. } | Cause::Vector { .. } => Some(Self::Message),
            _ => None,
        }
    }
}

/// Measured costs of interrupts, each from one gap in the recorder's own loop.
#[derive(Debug, Default)]
pub(crate) struct MeasuredCosts {
    timers: Ascending,
    messages: Ascending,
}

impl MeasuredCosts {
    /// Adds the result of a measurement, if it has one.
    pub(crate) fn measured(&mut self, cost: Option<(Entered, Nanos)>) {
        match cost {
            Some((Entered::Timer, cost)) => self.timers.add(cost),
            Some((Entered::Message, cost)) => self.messages.add(cost),
            None => {}
        }
    }

    /// Returns the typical cost of each kind; that of timers stands for messages that were not measured.
    pub(crate) fn typical(&self) -> Option<TypicalCost> {
        let timer = self.timers.first_quartile();
        let message = self.messages.first_quartile().or(timer)?;
        Some(TypicalCost { timer: timer.unwrap_or(message), message })
    }
}

/// The typical cost of an interrupt beyond its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypicalCost {
    pub(crate) timer: Nanos,
    pub(crate) message: Nanos,
}

impl TypicalCost {
    /// Returns the cost of an interrupt; zero for what the CPU does not enter by itself.
    pub(crate) fn of(self, interrupt: &Cause) -> Nanos {
        match Entered::of(interrupt) {
            Some(Entered::Timer) => self.timer,
            Some(Entered::Message) => self.message,
            None => Nanos::ZERO,
        }
    }
}

/// The maximum number of measurements of a kind that are kept.
const MEASURED_MAX: usize = 1000;

/// Measured costs in ascending order.
#[derive(Debug, Default)]
struct Ascending(Vec<Nanos>);

impl Ascending {
    fn add(&mut self, cost: Nanos) {
        if self.0.len() < MEASURED_MAX {
            self.0.insert(self.0.partition_point(|less| *less < cost), cost);
        }
    }

    /// Returns the first quartile, if there are enough measurements. A busy hypervisor makes single ones longer, and a
    /// charge that is too high would be missing in the interrupted activity.
    fn first_quartile(&self) -> Option<Nanos> {
        (self.0.len() >= FEW).then(|| self.0[self.0.len() / 4])
    }
}

/// The bounds of what interrupts may take beyond the measured cost, as a multiple and as a divisor of it: in storms the
/// whole was 0.7 to 2.6 times the measured cost. The work of a hypervisor differs, and other code has used the caches.
const MORE_MAX: i64 = 2;
const LESS_MAX: i64 = 2;

/// The own code of an interval whose interrupts were charged with their measured cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charged {
    /// The time of own code beyond its usual time.
    pub(crate) longer: Nanos,
    /// The usual time of own code, and the median deviation from it.
    pub(crate) usual: (Nanos, Nanos),
    /// The charge beyond the usual one.
    pub(crate) charge: Nanos,
}

impl Charged {
    /// Returns the time by which the charge is too low, or too high if it is negative: own code that always takes about
    /// the same time did so here, too. Code that took more than a quarter longer has done more work.
    pub(crate) fn error(self) -> Nanos {
        const DEVIATIONS: i64 = 3;
        let Self { longer, usual: (usual, varies), charge } = self;
        let differs = longer.0.saturating_abs();
        let is_same_code = differs > varies.0.saturating_mul(DEVIATIONS) && differs <= usual.0 / 4;
        let may_be = -charge.0 / LESS_MAX..=charge.0.saturating_mul(MORE_MAX);
        if is_same_code && may_be.contains(&longer.0) { longer } else { Nanos::ZERO }
    }

    /// Returns the most that interrupts may have taken of the time by which own code took longer.
    pub(crate) fn doubtful(self) -> Nanos {
        self.longer.min(Nanos(self.charge.0.saturating_mul(MORE_MAX))).max(Nanos::ZERO)
    }
}

/// Returns one interrupt's share of the error. The interrupt was charged with `entry`, all of them with `all`.
pub(crate) fn share(error: Nanos, entry: Nanos, all: Nanos) -> Nanos {
    let share = i128::from(error.0) * i128::from(entry.0) / i128::from(all.0.max(1));
    Nanos(i64::try_from(share).unwrap_or_default())
}

/// Charges interrupts with their shares in this error.
pub(crate) fn correct(parts: &mut [Part], error: Nanos) {
    let all: Nanos = parts.iter().map(|part| part.entry).sum();
    let Some(own) = parts.iter().position(|part| part.cause.is_own_code()) else { return };
    for index in 0..parts.len() {
        let (share, count) = (share(error, parts[index].entry, all), parts[index].count);
        let part = &mut parts[index];
        part.time += share;
        part.entry += share;
        part.longest += Nanos(share.0 / i64::try_from(count.max(1)).unwrap_or(i64::MAX));
        let own = &mut parts[own];
        own.time -= share;
        own.longest = own.longest.min(own.time);
    }
    parts.sort_by_key(|part| Reverse(part.time));
}

/// Returns true for interrupts that the hardware enters and leaves.
fn is_entered(part: &Part) -> bool {
    Entered::of(&part.cause).is_some() || matches!(part.cause, Cause::Nmi { .. })
}

fn entries(parts: &[Part]) -> u64 {
    parts.iter().filter(|part| is_entered(part)).map(|part| part.count).sum()
}

/// Returns the time that each interrupt took beyond its events, in an interval that contains nothing else.
fn learn(parts: &[Part]) -> Option<Nanos> {
    let is_only = |part: &Part| {
        matches!(part.cause, Cause::Own | Cause::Unexplained | Cause::Softirq { .. }) || is_entered(part)
    };
    let count = entries(parts);
    if count == 0 || !parts.iter().all(is_only) {
        return None;
    }
    let unexplained = parts.iter().find(|part| part.cause == Cause::Unexplained);
    Some(Nanos(unexplained.map_or(0, |part| part.time.0) / i64::try_from(count).ok()?))
}

/// Moves the cost of each interrupt from the unexplained time to the interrupt.
fn charge(parts: &mut Vec<Part>, cost: Option<Nanos>) {
    let (Some(cost), Ok(count)) = (cost, i64::try_from(entries(parts))) else { return };
    let Some(place) = parts.iter().position(|part| part.cause == Cause::Unexplained) else { return };
    if count == 0 {
        return;
    }
    let unexplained = &mut parts[place];
    let each = cost.min(Nanos(unexplained.time.0 / count));
    unexplained.time -= Nanos(each.0 * count);
    unexplained.longest = unexplained.longest.min(unexplained.time);
    for part in parts.iter_mut().filter(|part| is_entered(part)) {
        part.entry = Nanos(each.0 * part.count.cast_signed());
        part.time += part.entry;
        part.longest += each;
    }
    parts.retain(|part| part.time > Nanos::ZERO || part.cause.is_page_fault());
    parts.sort_by_key(|part| Reverse(part.time));
}
