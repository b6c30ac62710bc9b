//! The frequency above the nominal one, to which a processor may raise its clock.

use crate::SystemFiles;

/// Returns true if CPUs may exceed their nominal frequency; `None` if no driver reports it. `intel_pstate` has a file
/// that is 1 if they may not, other drivers one that is 1 if they may.
pub fn turbo(files: &SystemFiles) -> Option<bool> {
    let is_one = |name: &str| match files.text(&format!("sys/devices/system/cpu/{name}"))?.as_str() {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    is_one("intel_pstate/no_turbo").map(|is_off| !is_off).or_else(|| is_one("cpufreq/boost"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn turbo_is_known_where_a_driver_reports_it() {
        let root = tempfile::tempdir().unwrap();
        let files = SystemFiles::new(root.path());
        let write = |name: &str, text: &str| {
            let file = root.path().join("sys/devices/system/cpu").join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        assert_eq!(turbo(&files), None);
        write("cpufreq/boost", "1\n");
        assert_eq!(turbo(&files), Some(true));
        write("intel_pstate/no_turbo", "1\n");
        assert_eq!(turbo(&files), Some(false));
        write("intel_pstate/no_turbo", "?\n");
        assert_eq!(turbo(&files), Some(true));
    }
}
