//! The idle states of CPUs: `Documentation/admin-guide/pm/cpuidle.rst` in the kernel's sources.

use crate::SystemFiles;

/// Maximum number of idle states of a CPU: `CPUIDLE_STATE_MAX` is 10.
const MOST_STATES: usize = 16;

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    /// The name, such as `C6`; the directory's name if the kernel gives none.
    pub name: String,
    /// The longest time to wake from it, in microseconds.
    pub latency_us: u64,
}

/// Returns the deepest idle state that is enabled on one of these CPUs: the one with the longest time to wake. Of
/// states with the same time, it is the one with the highest number, because the kernel orders a CPU's states by depth,
/// and a driver may report the same time for several, such as 0 for polling and for `C1` of a virtual machine.
pub fn deepest_idle_state(files: &SystemFiles, cpus: impl IntoIterator<Item = u32>) -> Option<IdleState> {
    let states = cpus.into_iter().flat_map(|cpu| {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle");
        let numbers = files.numbered(&directory, "state").into_iter().take(MOST_STATES);
        numbers.filter_map(move |number| {
            let text = |file: &str| files.text(&format!("{directory}/state{number}/{file}"));
            let latency_us = text("latency")?.parse().ok()?;
            let is_enabled = text("disable").as_deref() != Some("1");
            let name = || text("name").unwrap_or_else(|| format!("state{number}"));
            is_enabled.then(|| (number, IdleState { name: name(), latency_us }))
        })
    });
    states.max_by_key(|(number, state)| (state.latency_us, *number)).map(|(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_deepest_state_is_enabled_and_the_last_one_of_those_that_wake_as_slowly() {
        let root = tempfile::tempdir().unwrap();
        let state = |cpu: u32, number: u32, latency: &str, name: &str, disable: &str| {
            let path = root.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}"));
            fs::create_dir_all(&path).unwrap();
            for (file, text) in [("latency", latency), ("name", name), ("disable", disable)] {
                fs::write(path.join(file), format!("{text}\n")).unwrap();
            }
        };
        let deepest = |cpus: &[u32]| {
            let found = deepest_idle_state(&SystemFiles::new(root.path()), cpus.iter().copied());
            found.map(|state| (state.name, state.latency_us))
        };
        let expected = |name: &str, latency_us| Some((name.to_owned(), latency_us));
        assert_eq!(deepest(&[0]), None);
        state(0, 0, "0", "POLL", "0");
        state(0, 1, "0", "C1", "0");
        assert_eq!(deepest(&[0]), expected("C1", 0));
        state(0, 2, "80", "C6", "0");
        state(0, 10, "80", "C8", "0");
        state(0, 11, "500", "C10", "1");
        assert_eq!(deepest(&[0]), expected("C8", 80));
        // Another CPU with fewer states changes nothing, wherever it stands.
        state(1, 0, "0", "POLL", "0");
        state(1, 1, "80", "C6", "0");
        assert_eq!([deepest(&[0, 1]), deepest(&[1, 0])], [expected("C8", 80), expected("C8", 80)]);
        assert_eq!(deepest(&[1]), expected("C6", 80));
    }
}
