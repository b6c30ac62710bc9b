//! The kernel's build and its model of preemption, in `/proc/version` and sysfs.

use crate::SystemFiles;

/// Shortens the text of `/proc/version`, `Linux version 6.1.0 (builder) (compiler) #1 SMP
/// ...`, to release and build; `None` if it has no release.
///
/// ```
/// use sordino_proc::machine::short_version;
/// let text = "Linux version 6.1.0-rt (x@y) (gcc (Debian) 12) #1 SMP PREEMPT_RT Debian";
/// assert_eq!(short_version(text).as_deref(), Some("6.1.0-rt #1 SMP PREEMPT_RT Debian"));
/// assert_eq!(short_version(""), None);
/// ```
pub fn short_version(version: &str) -> Option<String> {
    let release = version.split_whitespace().nth(2)?;
    let build = version.find(" #").map_or("", |at| &version[at..]);
    Some(format!("{release}{build}"))
}

/// A model of preemption, with which a kernel was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptionModel {
    /// The name, such as `PREEMPT_DYNAMIC`; `None` if its version names none.
    pub name: Option<String>,
    /// The mode that is chosen, such as `full`, if it can be chosen and read.
    pub mode: Option<String>,
}

impl PreemptionModel {
    /// The name of the model in which almost all of the kernel can be preempted.
    pub const REAL_TIME: &str = "PREEMPT_RT";

    /// Reads the model of the kernel that has these files.
    pub fn read(files: &SystemFiles) -> Self {
        let version = files.text("proc/version").unwrap_or_default();
        let mut names = version.split_whitespace().filter(|word| word.starts_with("PREEMPT"));
        let is_real_time = files.text("sys/kernel/realtime").as_deref() == Some("1")
            || names.clone().any(|name| name == Self::REAL_TIME);
        let name = if is_real_time { Some(Self::REAL_TIME) } else { names.next() };
        // `none voluntary (full)`
        let modes = files.text("sys/kernel/debug/sched/preempt");
        let mode = modes.as_deref().and_then(|modes| Some(modes.split_once('(')?.1.split_once(')')?.0));
        Self { name: name.map(str::to_owned), mode: mode.map(str::to_owned) }
    }

    /// Returns true if almost all of the kernel can be preempted.
    pub fn is_real_time(&self) -> bool {
        self.name.as_deref() == Some(Self::REAL_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_model_is_that_of_the_version_or_of_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let read = |version| {
            write("proc/version", version);
            PreemptionModel::read(&SystemFiles::new(root.path()))
        };
        let named = |name: Option<&str>, mode: Option<&str>| PreemptionModel {
            name: name.map(str::to_owned),
            mode: mode.map(str::to_owned),
        };
        assert_eq!(read("Linux version 6.1.0 (x) #1 SMP Debian"), named(None, None));
        assert!(read("Linux version 6.1.0 (x) #1 SMP PREEMPT_RT Debian").is_real_time());
        write("sys/kernel/debug/sched/preempt", "none voluntary (full)\n");
        let dynamic = "Linux version 6.1.0 (x) #1 SMP PREEMPT_DYNAMIC Debian";
        assert_eq!(read(dynamic), named(Some("PREEMPT_DYNAMIC"), Some("full")));
        assert!(!read(dynamic).is_real_time());
        write("sys/kernel/realtime", "1\n");
        assert!(read(dynamic).is_real_time());
    }
}
