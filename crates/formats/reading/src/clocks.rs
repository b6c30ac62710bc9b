//! The relation of the recordings' clocks, by which several recordings are merged.
//!
//! Traces of one boot of a machine with the same kind of clock have timestamps of one clock, although each recording
//! describes it by a measurement of its own: they are read by the first one's description. Two kinds of clocks of one
//! boot are related by `CLOCK_MONOTONIC`. All others are related by pairs of events that happened at one time, if there
//! are any, or else by the time of day.

use sordino_ctf::{ClockDescription, Environment};
use sordino_event::{Nanos, Ticks, Time};

/// Nanoseconds in which two clocks may drift apart by one: 100 parts per million, as crystals and `adjtimex` do.
const DRIFT: i64 = 10_000;
/// The uncertainty of two clocks of one boot that were read one after the other, in nanoseconds.
const READING: i64 = 1_000;

/// The offset of a recording's clock from the first recording's, by pairs of events that happened at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairedOffset {
    /// The time that is added to the recording's.
    pub shift: Nanos,
    /// Half of the difference between the pairs' offsets.
    pub spread: Nanos,
    /// The first and the last time of the pairs, by the first recording's clock.
    pub span: (Time, Time),
}

/// Offsets of pairs that contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairContradiction {
    /// The indexes of the pairs.
    pub pairs: (usize, usize),
    /// The difference between their offsets.
    pub difference: Nanos,
}

impl PairedOffset {
    /// The difference between the offsets of two pairs that is always accepted: events are never quite at one time.
    pub const ACCEPTED: Nanos = Nanos(1_000_000);

    /// Returns the offset in the middle of those of `pairs`, each with the time by the first recording's clock and that
    /// by the other's; `None` without a pair.
    ///
    /// # Errors
    /// Two offsets differ by more than a thousandth of the distance of their pairs, and a millisecond.
    pub fn of(pairs: &[(Time, Time)]) -> Result<Option<Self>, PairContradiction> {
        let offset = |index: usize| pairs[index].0 - pairs[index].1;
        for second in 1..pairs.len() {
            for first in 0..second {
                let difference = Nanos((offset(second) - offset(first)).0.saturating_abs());
                let distance = (pairs[second].0 - pairs[first].0).0.saturating_abs();
                if difference.0 > Self::ACCEPTED.0 + distance / 1000 {
                    return Err(PairContradiction { pairs: (first, second), difference });
                }
            }
        }
        let offsets = || (0..pairs.len()).map(|index| offset(index).0);
        let Some((least, greatest)) = offsets().min().zip(offsets().max()) else { return Ok(None) };
        let spread = (greatest.saturating_sub(least).saturating_add(1)) / 2;
        let times = || pairs.iter().map(|(first, _)| *first);
        let span = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
        Ok(Some(Self { shift: Nanos(least.saturating_add(spread)), spread: Nanos(spread), span }))
    }
}

/// The relation of a recording's clock to the first recording's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockRelation {
    /// It is the clock of the recording with this index.
    Same(usize),
    /// It and the clock of the recording with this index are different clocks of one boot.
    Boot(usize),
    /// Pairs of events relate the clocks.
    Pairs {
        /// The amount by which the times of day of both disagree.
        shift: Nanos,
        /// The greatest error of both times of day, if the traces have it.
        error: Option<Nanos>,
    },
    /// The time of day relates the clocks.
    TimeOfDay,
}

/// The clock of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingClock {
    /// The relation to the first recording's clock.
    pub relation: ClockRelation,
    /// The uncertainty against the first recording's clock; `None` if it is unknown.
    pub uncertainty: Option<Nanos>,
}

/// A clock of a trace, after its adjustment.
#[derive(Clone, Debug)]
struct KnownClock {
    /// The index of its recording.
    recording: usize,
    boot: Option<String>,
    description: ClockDescription,
    /// The time at which `CLOCK_MONOTONIC` was 0.
    monotonic: Option<Time>,
    /// The greatest error of the time of day.
    error: Option<Nanos>,
    relation: ClockRelation,
}

/// The clocks of the traces and of the recordings so far.
#[derive(Debug, Default)]
pub(crate) struct RelatedClocks {
    traces: Vec<KnownClock>,
    recordings: Vec<((Time, Time), RecordingClock)>,
}

impl RelatedClocks {
    /// Relates the clock of a trace of the next recording to those of the recordings before it.
    pub(crate) fn adjust(
        &mut self,
        environment: &Environment,
        clock: &mut ClockDescription,
        paired: Option<&PairedOffset>,
    ) {
        let nanos = |name| environment.integer(name).map(Nanos);
        let boot = boot(environment, clock);
        let is_monotonic = clock.name == "monotonic" && boot.is_some();
        let own = is_monotonic.then(|| clock.time(Ticks(0)));
        let monotonic = own.or(nanos("monotonic_offset_ns").map(|offset| Time(0) + offset));
        let error = nanos("time_of_day_error_ns");
        let recording = self.recordings.len();
        let mut of_boot = self
            .traces
            .iter()
            .filter(|known| known.recording < recording && known.boot.is_some() && known.boot == boot);
        let same = of_boot.clone().find(|known| known.description.name == clock.name);
        let beside = of_boot.find_map(|known| Some((known.recording, known.monotonic? - monotonic?)));
        let (relation, shift) = match (same, beside, paired) {
            (Some(same), ..) => {
                let first = &same.description;
                (clock.frequency, clock.offset_seconds, clock.offset_ticks) =
                    (first.frequency, first.offset_seconds, first.offset_ticks);
                (ClockRelation::Same(same.recording), Nanos::ZERO)
            }
            (None, Some((other, shift)), _) => (ClockRelation::Boot(other), shift),
            (None, None, Some(paired)) => {
                (ClockRelation::Pairs { shift: paired.shift, error: self.day_error(error) }, paired.shift)
            }
            (None, None, None) => (ClockRelation::TimeOfDay, Nanos::ZERO),
        };
        clock.shift(shift);
        let description = clock.clone();
        let monotonic = monotonic.map(|zero| zero + shift);
        self.traces.push(KnownClock { recording, boot, description, monotonic, error, relation });
    }

    /// Returns the greatest error of the times of day of the first recording and of another one.
    fn day_error(&self, other: Option<Nanos>) -> Option<Nanos> {
        Some(self.traces.first()?.error? + other?)
    }

    /// Ends the next recording, given its span. Returns its clock and its boot, if its traces have that. The first
    /// recording's clock is certain.
    pub(crate) fn end(
        &mut self,
        span: (Time, Time),
        paired: Option<&PairedOffset>,
    ) -> (RecordingClock, Option<&str>) {
        let recording = self.recordings.len();
        let drift = |from: (Time, Time)| {
            let furthest = (span.1 - from.0).0.saturating_abs().max((span.0 - from.1).0.saturating_abs());
            Nanos(furthest / DRIFT)
        };
        let uncertainty = |clock: &KnownClock| match (clock.relation, paired) {
            (ClockRelation::Same(other), _) => self.recordings.get(other)?.1.uncertainty,
            (ClockRelation::Boot(other), _) => {
                let (other_span, other) = self.recordings.get(other)?;
                Some(other.uncertainty? + Nanos(READING) + drift(*other_span))
            }
            (ClockRelation::Pairs { .. }, Some(paired)) => Some(paired.spread + drift(paired.span)),
            _ => Some(self.day_error(clock.error)? + drift(self.recordings.first()?.0)),
        };
        let own = || self.traces.iter().filter(|clock| clock.recording == recording);
        let clocks =
            own().map(|clock| RecordingClock { relation: clock.relation, uncertainty: uncertainty(clock) });
        // Of several traces, the one whose clock is least certain.
        let last = clocks.max_by_key(|clock| (clock.uncertainty.is_none(), clock.uncertainty));
        let clock = match recording {
            0 => RecordingClock { relation: ClockRelation::Same(0), uncertainty: Some(Nanos::ZERO) },
            _ => last.unwrap_or(RecordingClock { relation: ClockRelation::TimeOfDay, uncertainty: None }),
        };
        self.recordings.push((span, clock));
        let mut own = self.traces.iter().filter(|clock| clock.recording == recording);
        (clock, own.find_map(|clock| clock.boot.as_deref()))
    }
}

/// Returns the boot on which a trace was recorded. LTTng identifies its clock by the boot.
fn boot(environment: &Environment, clock: &ClockDescription) -> Option<String> {
    let is_lttng = environment.text("tracer_name").is_some_and(|name| name.starts_with("lttng"));
    let of_clock =
        || clock.uuid.filter(|_| is_lttng && clock.name == "monotonic").map(|uuid| uuid.to_string());
    environment.text("boot_id").filter(|id| !id.is_empty()).map(ToOwned::to_owned).or_else(of_clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOT: &str = "11111111-2222-3333-4444-555555555555";
    const SECOND: i64 = 1_000_000_000;

    fn environment(boot: Option<&str>, error: Option<i64>) -> Environment {
        let mut environment = Environment::default();
        environment.set("tracer_name", "sordino");
        boot.into_iter().for_each(|boot| _ = environment.set("boot_id", boot));
        error.into_iter().for_each(|error| _ = environment.set("time_of_day_error_ns", error));
        environment
    }

    /// Returns a clock that is 0 at this second.
    fn clock(name: &str, frequency: u64, zero: i64) -> ClockDescription {
        ClockDescription { frequency, offset_seconds: zero, ..ClockDescription::new(name) }
    }

    /// Returns the second clock as it is read, and its relation to the first one's, both of recordings from 0 to 10 s.
    fn related(
        first: (Environment, ClockDescription),
        second: (Environment, ClockDescription),
        paired: Option<PairedOffset>,
    ) -> (ClockDescription, RecordingClock) {
        let mut clocks = RelatedClocks::default();
        let (mut first_clock, mut second_clock) = (first.1, second.1);
        let span = (Time(0), Time(10 * SECOND));
        clocks.adjust(&first.0, &mut first_clock, None);
        assert_eq!(clocks.end(span, None).0.uncertainty, Some(Nanos(0)));
        clocks.adjust(&second.0, &mut second_clock, paired.as_ref());
        let clock = clocks.end(span, paired.as_ref()).0;
        (second_clock, clock)
    }

    #[test]
    fn one_clock_of_one_boot_is_read_by_the_first_description() {
        let of_boot = || environment(Some(BOOT), None);
        let first = clock("cycles", 2_000_000_000, 100);
        let (second, relation) =
            related((of_boot(), first.clone()), (of_boot(), clock("cycles", 2_000_000_050, 101)), None);
        assert_eq!(second, first);
        let expected = RecordingClock { relation: ClockRelation::Same(0), uncertainty: Some(Nanos(0)) };
        assert_eq!(relation, expected);
    }

    #[test]
    fn two_clocks_of_one_boot_meet_at_the_zero_of_the_monotonic_clock() {
        let mut of_cycles = environment(Some(BOOT), None);
        of_cycles.set("monotonic_offset_ns", 50 * SECOND + 7);
        let mut of_lttng = Environment::default();
        of_lttng.set("tracer_name", "lttng-ust");
        let mut monotonic = clock("monotonic", 1_000_000_000, 52);
        monotonic.uuid = BOOT.parse().ok();
        let cycles = clock("cycles", 2_000_000_000, 40);
        let both = (of_cycles, cycles.clone());
        let (second, relation) = related(both.clone(), (of_lttng.clone(), monotonic.clone()), None);
        assert_eq!(second.time(Ticks(0)), Time(50 * SECOND + 7));
        assert_eq!(relation.relation, ClockRelation::Boot(0));
        assert_eq!(relation.uncertainty, Some(Nanos(READING + 10 * SECOND / DRIFT)));
        // The other way round, the cycle counter moves.
        let (second, _) = related((of_lttng, monotonic), both, None);
        assert_eq!(second.time(Ticks(0)), Time(42 * SECOND - 7));
    }

    #[test]
    fn clocks_of_two_boots_are_as_uncertain_as_their_times_of_day() {
        let cycles = || clock("cycles", 2_000_000_000, 40);
        for (first_error, error, uncertainty) in [
            (Some(300), Some(500), Some(Nanos(800 + 10 * SECOND / DRIFT))),
            (Some(300), None, None),
            (None, Some(1), None),
        ] {
            let other = environment(Some("another"), error);
            let (second, relation) =
                related((environment(Some(BOOT), first_error), cycles()), (other, cycles()), None);
            assert_eq!(second, cycles());
            assert_eq!(relation, RecordingClock { relation: ClockRelation::TimeOfDay, uncertainty });
        }
        // Without boots, nothing shows that two clocks are one.
        let unknown = || (environment(None, None), cycles());
        assert_eq!(related(unknown(), unknown(), None).1.relation, ClockRelation::TimeOfDay);
    }

    #[test]
    fn pairs_move_a_clock_into_the_middle_of_their_offsets() {
        let pairs = [(Time(5 * SECOND), Time(2 * SECOND)), (Time(6 * SECOND + 10), Time(3 * SECOND))];
        let paired = PairedOffset::of(&pairs).unwrap().unwrap();
        assert_eq!((paired.shift, paired.spread), (Nanos(3 * SECOND + 5), Nanos(5)));
        let of = |boot| (environment(Some(boot), Some(100)), clock("cycles", 1_000_000_000, 0));
        let (second, relation) = related(of(BOOT), of("another"), Some(paired));
        assert_eq!(second.time(Ticks(0)), Time(3 * SECOND + 5));
        let disagreement = ClockRelation::Pairs { shift: paired.shift, error: Some(Nanos(200)) };
        assert_eq!(relation.relation, disagreement);
        // The recording begins 6 s and 10 ns before the last of the pairs, and ends 5 s behind the first.
        assert_eq!(relation.uncertainty, Some(Nanos(5 + (6 * SECOND + 10) / DRIFT)));
        // The clock of one boot is better known than by pairs.
        assert_eq!(related(of(BOOT), of(BOOT), Some(paired)).1.relation, ClockRelation::Same(0));
    }

    #[test]
    fn offsets_that_differ_more_than_clocks_drift_contradict_each_other() {
        let pair = |first, offset: i64| (Time(first), Time(first - offset));
        assert_eq!(PairedOffset::of(&[]), Ok(None));
        let accepted = PairedOffset::ACCEPTED.0;
        assert!(PairedOffset::of(&[pair(0, 0), pair(0, accepted)]).is_ok());
        let contradiction = PairedOffset::of(&[pair(0, 0), pair(50, 1), pair(0, accepted + 1)]).unwrap_err();
        assert_eq!((contradiction.pairs, contradiction.difference), ((0, 2), Nanos(accepted + 1)));
        assert!(PairedOffset::of(&[pair(0, 0), pair(SECOND, accepted + SECOND / 1000)]).is_ok());
    }

    proptest! {
        #[test]
        fn the_spread_reaches_the_offset_of_every_pair(
            pairs in prop::collection::vec((0..1000 * SECOND, 0..1_000_000_i64), 1..9),
            offset in -1000 * SECOND..1000 * SECOND,
        ) {
            let pairs: Vec<_> =
                pairs.iter().map(|(first, late)| (Time(*first), Time(first - offset - late))).collect();
            let paired = PairedOffset::of(&pairs).unwrap().unwrap();
            for (first, other) in &pairs {
                prop_assert!(((*first - *other) - paired.shift).0.abs() <= paired.spread.0);
                prop_assert!(paired.span.0 <= *first && *first <= paired.span.1);
            }
        }
    }
}
