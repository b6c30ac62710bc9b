//! Quantities: durations, sizes and process ids as people type them.

use crate::words::quoted;
use std::time::Duration;

/// Parses a duration such as `200us`, `1.5s` or `2min`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
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

/// Parses the id of a process, such as `4711`.
pub(crate) fn pid(text: &str) -> Result<i32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        let name = quoted([text]);
        format!("expected the id of a process, which 'pidof {name}' or 'sordino list' prints")
    })
}

/// Parses a size such as `4096`, `64K`, `1M` or `2G`; units are powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
