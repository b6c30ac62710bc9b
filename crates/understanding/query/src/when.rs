//! Points in time as users write them, and the part of a recording that they limit.

use jiff::civil::{DateTime, Time as Clock};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use sordino_event::{Nanos, Time};
use std::str::FromStr;

/// Default time before and after `--around`.
const AROUND: Nanos = Nanos(1_000_000);

/// A point in time, as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// A time since the recording began.
    Since(Nanos),
    /// A time before the recording ended.
    BeforeEnd(Nanos),
    /// A time since 1970-01-01 UTC.
    Epoch(Time),
    /// A local time of day.
    Clock(Clock),
    /// A local time of day with its date.
    Date(DateTime),
}

/// A point in time, and the time on both sides of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around(TimePoint, Nanos);

impl FromStr for TimePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains(':') {
            let date = text.parse().map(Self::Date);
            return date.or_else(|_| text.parse().map(Self::Clock)).map_err(|_| {
                format!("'{text}' is no time; write it as 14:03:27.5 or '2026-01-31 14:03:27.5'")
            });
        }
        match (text.strip_prefix('-'), text.strip_prefix('+').unwrap_or(text)) {
            (Some(text), _) => span(text).map(Self::BeforeEnd),
            (None, text) => match epoch(text) {
                Some(time) => Ok(Self::Epoch(time)),
                None => span(text).map(Self::Since),
            },
        }
    }
}

/// Returns the span of a text such as `200us`, `1.5s` or `2min`.
fn span(text: &str) -> Result<Nanos, String> {
    let span: Option<SignedDuration> = text.parse().ok().filter(|span: &SignedDuration| !span.is_negative());
    let nanos = span.and_then(|span| i64::try_from(span.as_nanos()).ok());
    nanos.map(Nanos).ok_or_else(|| format!("'{text}' is no time; write it as 200us, 1.5s or 2min"))
}

/// Returns the time of a number of seconds since 1970, as `sordino events --time seconds` prints it. Numbers below 1 Gs
/// are no such time: no recording is that old.
fn epoch(text: &str) -> Option<Time> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.len() < 10 || !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos).map(Time)
}

impl FromStr for Around {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (peak, near) = match text.split_once('±').or_else(|| text.split_once("+-")) {
            Some((peak, near)) => (peak, span(near)?),
            None => return Ok(Self(text.parse()?, AROUND)),
        };
        Ok(Self(peak.trim().parse()?, near))
    }
}

impl TimePoint {
    /// Returns the time in a recording from `first` to `last`. A time of day without a date is the first one that lies
    /// in the recording, or else that of the day on which it began.
    fn resolve(self, (first, last): (Time, Time), zone: &TimeZone) -> Option<Time> {
        let instant = |date: DateTime| {
            let nanos = date.to_zoned(zone.clone()).ok()?.timestamp().as_nanosecond();
            i64::try_from(nanos).ok().map(Time)
        };
        match self {
            Self::Since(since) => Some(first + since),
            Self::BeforeEnd(before) => Some(last - before),
            Self::Epoch(time) => Some(time),
            Self::Date(date) => instant(date),
            Self::Clock(clock) => {
                let day = Timestamp::from_nanosecond(first.0.into()).ok()?.to_zoned(zone.clone()).date();
                let days =
                    || (0..400).map_while(|days| Some(day.checked_add(days.days()).ok()?.to_datetime(clock)));
                let times = || days().filter_map(instant).take_while(|time| *time <= last);
                times().find(|time| *time >= first).or_else(|| instant(day.to_datetime(clock)))
            }
        }
    }
}

/// The part of a recording that is read, by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// The time from which on it is read.
    pub from: Option<TimePoint>,
    /// The time until which it is read.
    pub to: Option<TimePoint>,
    /// The time around which it is read; if it is given, the other two are not used.
    pub around: Option<Around>,
}

impl Within {
    /// Returns the first and the last time to read of a recording from `first` to `last`.
    ///
    /// # Errors
    /// No time of the recording is left; the message names the option.
    pub fn resolve(&self, (first, last): (Time, Time), zone: &TimeZone) -> Result<(Time, Time), String> {
        let at =
            |at: TimePoint| at.resolve((first, last), zone).ok_or("a time that no clock can show".to_owned());
        let (from, to, name) = match (self.around, self.from, self.to) {
            (Some(Around(peak, near)), ..) => (at(peak)? - near, at(peak)? + near, "--around"),
            (None, from, to) => {
                let from = from.map(at).transpose()?.unwrap_or(Time::MIN);
                (
                    from,
                    to.map(at).transpose()?.unwrap_or(Time::MAX),
                    if from > last { "--from" } else { "--until" },
                )
            }
        };
        if from > to {
            return Err("--from is later than --until".to_owned());
        }
        if from > last || to < first {
            let shown = |time: Time| {
                let time = Timestamp::from_nanosecond(time.0.into()).unwrap_or_default();
                time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
            };
            return Err(format!(
                "{name}: the recording has events from {} to {} only",
                shown(first),
                shown(last)
            ));
        }
        Ok((from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-24 23:59:58 UTC, and four seconds later.
    const SPAN: (Time, Time) = (Time(1_795_564_798_000_000_000), Time(1_795_564_802_000_000_000));

    fn of(from: Option<&str>, to: Option<&str>, around: Option<&str>) -> Result<(i64, i64), String> {
        let within = Within {
            from: from.map(str::parse).transpose()?,
            to: to.map(str::parse).transpose()?,
            around: around.map(str::parse).transpose()?,
        };
        let (from, to) = within.resolve(SPAN, &TimeZone::UTC)?;
        let since = |time: Time| (time - SPAN.0).0;
        Ok((since(from), since(to)))
    }

    #[test]
    fn times_are_read_as_listings_print_them() {
        for (text, since) in [
            ("23:59:59", 1_000_000_000),
            ("23:59:59.000000001", 1_000_000_001),
            ("00:00:01.5", 3_500_000_000),
            ("23:59", -58_000_000_000),
            ("2026-11-25 00:00:00", 2_000_000_000),
            ("2026-11-25T00:00:00.25", 2_250_000_000),
            ("1795564799.5", 1_500_000_000),
            ("1.5s", 1_500_000_000),
            ("+200us", 200_000),
            ("-1s", 3_000_000_000),
        ] {
            assert_eq!(of(Some(text), None, None).unwrap().0, since, "{text}");
        }
    }

    #[test]
    fn a_peak_has_time_on_both_sides() {
        assert_eq!(of(None, None, Some("00:00:00±1us")), Ok((1_999_999_000, 2_000_001_000)));
        assert_eq!(of(None, None, Some("1.5s+-2ms")), Ok((1_498_000_000, 1_502_000_000)));
        assert_eq!(of(None, None, Some("1s")), Ok((999_000_000, 1_001_000_000)));
    }

    #[test]
    fn nonsense_and_times_outside_are_refused_by_name() {
        for text in ["5", "12:99", "yesterday", "", "±1us", "1s±", "1s±5"] {
            assert!(of(None, None, Some(text)).is_err(), "{text}");
        }
        assert!(
            of(Some("5s"), None, None)
                .unwrap_err()
                .starts_with("--from: the recording has events from 2026-11-24 23")
        );
        assert!(of(None, Some("20:00:00"), None).unwrap_err().starts_with("--until: "));
        assert!(of(None, None, Some("9s")).unwrap_err().starts_with("--around: "));
        assert_eq!(of(Some("3s"), Some("2s"), None), Err("--from is later than --until".to_owned()));
    }
}
