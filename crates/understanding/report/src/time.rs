//! The text of points in time.

use sordino_event::Time;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// The format of a point in time; always with nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since the Unix epoch: `1763700000.123456789`.
    #[default]
    Seconds,
    /// Seconds since this time, usually the begin of the trace: `12.345678901`.
    Since(Time),
    /// The time of the day, in a time zone: `04:41:07.123456789`.
    Clock {
        /// Seconds to add to UTC.
        offset_s: i32,
    },
    /// The same, with the date: `2025-11-21 04:41:07.123456789`.
    Date {
        /// Seconds to add to UTC.
        offset_s: i32,
    },
}

impl TimeFormat {
    /// Returns the text of one time. For many times, a listing is faster.
    pub fn text(self, time: Time) -> String {
        let mut text = Vec::new();
        TimeWriter::new(self).write(time, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A writer of times that remembers the text of the last time: the next one is mostly of the same second.
#[derive(Clone, Debug)]
pub(crate) struct TimeWriter {
    format: TimeFormat,
    second: Option<i64>,
    text: Vec<u8>,
}

/// The number of digits of the nanoseconds of a second.
const DIGITS: usize = 9;

impl TimeWriter {
    pub(crate) fn new(format: TimeFormat) -> Self {
        Self { format, second: None, text: Vec::new() }
    }

    pub(crate) fn write(&mut self, time: Time, out: &mut Vec<u8>) {
        let (second, nanos) = match self.format {
            TimeFormat::Since(origin) => {
                let span = (time - origin).0;
                if span < 0 {
                    out.push(b'-');
                }
                let span = span.saturating_abs();
                (span / SECOND, span % SECOND)
            }
            _ => (time.0.div_euclid(SECOND), time.0.rem_euclid(SECOND)),
        };
        if self.second != Some(second) {
            self.second = Some(second);
            self.text.clear();
            match self.format {
                TimeFormat::Seconds | TimeFormat::Since(_) => number(second, &mut self.text),
                TimeFormat::Clock { offset_s } => clock(second + i64::from(offset_s), &mut self.text),
                TimeFormat::Date { offset_s } => {
                    date(second + i64::from(offset_s), &mut self.text);
                    self.text.push(b' ');
                    clock(second + i64::from(offset_s), &mut self.text);
                }
            }
            self.text.push(b'.');
            self.text.extend_from_slice(&[b'0'; DIGITS]);
        }
        if let Some(digits) = self.text.last_chunk_mut::<DIGITS>() {
            // In two halves, whose divisions do not wait for each other.
            let (nanos, (high, low)) = (nanos.cast_unsigned(), digits.split_at_mut(4));
            put_padded(nanos / 100_000, high);
            put_padded(nanos % 100_000, low);
        }
        out.extend_from_slice(&self.text);
    }
}

fn number(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Sets `digits` to the last digits of `number`.
#[inline]
fn put_padded(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Writes the last two digits of `number`.
fn two(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 2];
    put_padded(number, &mut digits);
    out.extend_from_slice(&digits);
}

fn clock(second: i64, out: &mut Vec<u8>) {
    let second = second.rem_euclid(DAY).cast_unsigned();
    two(second / 3600, out);
    out.push(b':');
    two(second / 60 % 60, out);
    out.push(b':');
    two(second % 60, out);
}

/// Writes the date in the Gregorian calendar. It is computed in 400-year cycles that begin on the 1st of March, so that
/// the leap day is the last of a year.
fn date(second: i64, out: &mut Vec<u8>) {
    const CYCLE: i64 = 146_097;
    // The days from 0000-03-01 to 1970-01-01.
    let days = second.div_euclid(DAY) + 719_468;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, the months have 31, 30, 31, 30, 31 days, repeatedly.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    number(year + 400 * cycle + next_year, out);
    out.push(b'-');
    two(month.cast_unsigned(), out);
    out.push(b'-');
    two(day.cast_unsigned(), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(format: TimeFormat, time: i64) -> String {
        format.text(Time(time))
    }

    #[test]
    fn times_are_written_in_all_formats() {
        let time = 1_763_700_067_123_456_789;
        let cases = [
            (TimeFormat::Seconds, "1763700067.123456789"),
            (TimeFormat::Since(Time(time - 5_000_000_001)), "5.000000001"),
            (TimeFormat::Since(Time(time + 5)), "-0.000000005"),
            (TimeFormat::Clock { offset_s: 0 }, "04:41:07.123456789"),
            (TimeFormat::Clock { offset_s: -5 * 3600 }, "23:41:07.123456789"),
            (TimeFormat::Date { offset_s: -5 * 3600 }, "2025-11-20 23:41:07.123456789"),
        ];
        for (format, expected) in cases {
            assert_eq!(text(format, time), expected);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00:00.000000000"),
            (-1, "1969-12-31 23:59:59.999999999"),
            (951_782_400_000_000_000, "2000-02-29 00:00:00.000000000"),
            (1_709_251_199_999_999_999, "2024-02-29 23:59:59.999999999"),
            (4_107_542_400_000_000_000, "2100-03-01 00:00:00.000000000"),
            (i64::MAX, "2262-04-11 23:47:16.854775807"),
            (i64::MIN, "1677-09-21 00:12:43.145224192"),
        ];
        for (time, expected) in cases {
            assert_eq!(text(TimeFormat::Date { offset_s: 0 }, time), expected);
        }
    }

    #[test]
    fn a_new_second_is_noticed() {
        let mut writer = TimeWriter::new(TimeFormat::Clock { offset_s: 0 });
        let mut out = Vec::new();
        for time in [1, 2, 1_000_000_003, 4] {
            writer.write(Time(time), &mut out);
            out.push(b' ');
        }
        let expected = "00:00:00.000000001 00:00:00.000000002 00:00:01.000000003 00:00:00.000000004 ";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn spans_that_saturate_are_written() {
        assert_eq!(text(TimeFormat::Since(Time::MAX), i64::MIN), "-9223372036.854775807");
    }
}
