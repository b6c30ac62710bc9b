//! Durations and sizes in the form that people type and read: one parser and one printed form for each.
//!
//! Measured spans of time are `sordino_event::Nanos`, which prints itself.
//!
//! ```
//! use sordino_quantity::{bytes, duration, size, typed};
//! assert_eq!(typed(duration("1.5s")?), "1s 500ms");
//! assert_eq!(bytes(size("64K")?), "64.0 KiB");
//! # Ok::<(), String>(())
//! ```
#![forbid(unsafe_code)]

use std::time::Duration;

/// Parses a duration such as `200us`, `1.5s` or `2min`.
///
/// # Errors
/// The fault, with the way to write it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let fraction = text.find(|c: char| !c.is_ascii_digit() && c != '.').map(|end| text.split_at(end));
    if let Some((number, unit)) = fraction.filter(|(number, _)| number.contains('.')) {
        let number: f64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
        let one = humantime::parse_duration(&format!("1{unit}")).map_err(|error| error.to_string())?;
        return Duration::try_from_secs_f64(one.as_secs_f64() * number).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
            format!("a time has a unit: {text}us, {text}ms, {text}s or {text}min")
        }
        error => format!("{error}; write it as 200us, 1.5s or 2min"),
    })
}

/// Returns a duration exactly, in a form that [`duration`] reads: `1m 30s`.
pub fn typed(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

/// Parses a size such as `4096`, `64K`, `1M` or `2G`; units are powers of 1,024.
///
/// # Errors
/// The fault, with the way to write it.
pub fn size(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is no size; write it as 64K, 1M or 2G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(bad()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(bad)
}

/// Returns a size in the unit that fits: KiB, MiB or GiB.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.2} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_and_sizes_are_read_as_people_write_them() {
        assert_eq!(duration("200us"), Ok(Duration::from_micros(200)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert!(duration("5").is_err() && duration("x").is_err() && duration("1.5x").is_err());
        assert_eq!(
            [size("4096"), size("64K"), size("1MiB"), size("2g")],
            [Ok(4096), Ok(65_536), Ok(1 << 20), Ok(2 << 30)]
        );
        for bad in ["", "K", "-1", "1.5M", "1T", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_has_the_unit_that_fits() {
        let sizes = [0, 1024, 0x10_0000, 3 << 29].map(bytes);
        assert_eq!(sizes, ["0.0 KiB", "1.0 KiB", "1.0 MiB", "1.50 GiB"]);
    }

    proptest! {
        #[test]
        fn a_duration_that_was_typed_is_read_as_it_is(nanos in 0..u64::MAX / 2) {
            let time = Duration::from_nanos(nanos);
            prop_assert_eq!(duration(&typed(time)), Ok(time));
        }

        #[test]
        fn no_text_is_a_panic(text in "[0-9.µa-zA-Z -]{0,12}") {
            let _ = (duration(&text), size(&text));
        }
    }
}
