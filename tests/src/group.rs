//! A control group of processes, with a limit of one controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "sordino-test-";

/// A control group; it is gone when this is, with the processes that it has by then.
#[derive(Debug)]
pub struct ControlGroup(PathBuf);

/// Removes groups that tests left which were killed; those of others that run have processes, or can be made again.
fn clear(place: &Path) {
    let groups = fs::read_dir(place).into_iter().flatten().flatten();
    let left = groups.filter(|group| group.file_name().to_string_lossy().starts_with(NAME));
    left.for_each(|group| _ = fs::remove_dir(group.path()));
}

impl ControlGroup {
    /// Creates a group with these files of a controller and their contents, under version 1 or 2 of control groups.
    /// Returns `None` where the controller is not mounted.
    pub fn new(controller: &str, one: &[(&str, &str)], two: &[(&str, &str)]) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let enabled = fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let (place, files) = match enabled.split_whitespace().any(|enabled| enabled == controller) {
            true => (root.to_owned(), two),
            false => (root.join(controller), one),
        };
        clear(&place);
        // Version 1 has a folder for each controller that is mounted.
        place.join("cgroup.procs").exists().then_some(())?;
        let group = Self(place.join(format!("{NAME}{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        files.iter().try_for_each(|(file, text)| fs::write(group.0.join(file), text)).ok()?;
        Some(group)
    }

    /// Returns the group's directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a command that is executed in the group.
    pub fn of(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.0);
        shell.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        command.get_current_dir().into_iter().for_each(|directory| _ = shell.current_dir(directory));
        shell
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
