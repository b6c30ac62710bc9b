//! Parser for pi_stress of rt-tests, which tests priority inheritance: without it, a group's three threads are stuck.

use super::BadResult;
use serde::Deserialize;

#[derive(Deserialize)]
struct PiStressResult {
    return_code: i64,
    inversion: u64,
}

/// Returns the number of resolved inversions from the file that `--json` writes.
///
/// # Errors
/// Returns an error if the text is no such file, or if the return code reports that a group was stuck.
pub fn read(json: &str) -> Result<u64, BadResult> {
    let bad = |what| BadResult { program: "pi_stress", what };
    let file: PiStressResult =
        serde_json::from_str(json).map_err(|error| bad(format!("its JSON can't be read: {error}")))?;
    match file.return_code {
        0 => Ok(file.inversion),
        code => Err(bad(format!("it ended with {code} after {} inversions", file.inversion))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inversions_are_counted_and_a_group_that_is_stuck_is_no_count() {
        let json = |code| {
            format!(
                "{{\"file_version\": 1, \"return_code\": {code}, \"sysinfo\": {{}}, \"inversion\": 95562}}"
            )
        };
        assert_eq!(read(&json(0)), Ok(95_562));
        assert_eq!(
            read(&json(1)).unwrap_err().to_string(),
            "pi_stress: it ended with 1 after 95562 inversions"
        );
        assert!(read("").is_err());
    }
}
