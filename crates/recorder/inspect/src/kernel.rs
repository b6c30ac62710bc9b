//! The running kernel, as a trace's environment and a recording's summary describe it.

use sordino_ctf::Environment;
use sordino_proc::machine::{kernel_release, sysctl};

/// Names and settings of the running kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunningKernel {
    /// The release, such as `6.1.0-31-amd64`; empty if it can't be read.
    pub release: String,
    /// The build and its date; empty if it can't be read.
    pub version: String,
    /// The architecture, such as `x86_64`.
    pub machine: String,
    /// The names and values of the limit on real-time threads, in microseconds, as far as there is a limit.
    pub realtime_limit: Vec<(&'static str, i64)>,
}

impl RunningKernel {
    /// Reads the kernel's names and settings.
    pub fn read() -> Self {
        // A runtime of -1 means no limit.
        let limit = |name: &'static str| {
            let time = sysctl(&format!("kernel/{name}"))?.parse().ok()?;
            (time > 0).then_some((name, time))
        };
        Self {
            release: kernel_release(),
            version: sysctl("kernel/version").unwrap_or_default(),
            machine: rustix::system::uname().machine().to_string_lossy().into_owned(),
            realtime_limit: ["sched_rt_runtime_us", "sched_rt_period_us"]
                .into_iter()
                .filter_map(limit)
                .collect(),
        }
    }

    /// Adds the kernel to a trace's environment, under LTTng's names.
    pub fn describe(&self, environment: &mut Environment) {
        for (name, time) in &self.realtime_limit {
            environment.set(*name, *time);
        }
        environment
            .set("sysname", "Linux")
            .set("kernel_release", self.release.as_str())
            .set("machine", self.machine.as_str())
            .set("kernel_version", self.version.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_a_release_a_version_and_a_machine() {
        let kernel = RunningKernel::read();
        assert!(kernel.release.starts_with(|first: char| first.is_ascii_digit()), "{kernel:?}");
        assert!(!kernel.version.is_empty() && !kernel.machine.is_empty(), "{kernel:?}");
        assert!(kernel.realtime_limit.iter().all(|(_, time)| *time > 0), "{kernel:?}");
    }
}
