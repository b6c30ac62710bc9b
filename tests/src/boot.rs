//! A machine that boots: systemd as the first process of namespaces of its own, with sordino's units.

use crate::Scene;
use crate::install::installed;
use crate::running::{EndedProcess, RunningProcess};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Script of the first process before it becomes systemd. `$DISK` holds the files that survive a boot: `etc` lies over
/// `/etc`, `lib` is `/var/lib`. The host's own services are hidden, and so are its units but for the targets that order
/// a boot.
const SCRIPT: &str = r#"
set -eu
targets=$(mktemp -d)
for name in basic final local-fs local-fs-pre multi-user paths shutdown slices sockets sysinit timers umount; do
    cp "/lib/systemd/system/$name.target" "$targets/"
done
if [ "$VERSION" = 1 ]; then
    umount -R /sys/fs/cgroup
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd systemd /sys/fs/cgroup/systemd
else
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /lib/systemd/system
test -d /sys/kernel/tracing/instances || mount -t tracefs nodev /sys/kernel/tracing
mv "$targets"/* /lib/systemd/system/
rmdir "$targets"
mount -t overlay -o "lowerdir=/etc,upperdir=$DISK/etc,workdir=$DISK/work" overlay /etc
rm -rf /etc/init.d /etc/systemd/system/*.wants/[!s]*
mount --bind "$DISK/lib" /var/lib
export container=sordino
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --default-standard-output=inherit
"#;

/// Files that survive a boot.
#[derive(Debug)]
pub struct Disk<'a> {
    scene: &'a Scene,
    path: PathBuf,
}

/// A machine from its boot until its power is cut.
#[derive(Debug)]
pub struct Boot<'a> {
    scene: &'a Scene,
    running: RunningProcess,
    /// Process id of the machine's first process in the host's namespace.
    init: String,
    cgroups: Cgroups,
}

/// A cgroup of our own in each hierarchy, in which systemd makes others.
#[derive(Debug)]
struct Cgroups {
    paths: Vec<PathBuf>,
    version: &'static str,
}

impl<'a> Disk<'a> {
    /// Creates a disk with sordino's units, as `make install` installs them.
    ///
    /// Returns `None`, and reports it, if systemd is not installed.
    pub fn new(scene: &'a Scene) -> Option<Self> {
        if !Path::new("/lib/systemd/systemd").exists() {
            Scene::not_measured("units at boot: systemd is not installed");
            return None;
        }
        let path = scene.path("disk");
        for directory in ["etc/systemd/system", "etc/sordino", "work", "lib"] {
            fs::create_dir_all(path.join(directory)).expect("a directory");
        }
        let disk = Self { scene, path };
        for unit in fs::read_dir(installed().join("lib/systemd/system")).expect("the units").flatten() {
            let text = fs::read_to_string(unit.path()).expect("a unit");
            disk.write(&format!("etc/systemd/system/{}", unit.file_name().display()), &text);
        }
        // The machine has no journal.
        let log = "[Service]\nStandardOutput=append:/var/lib/log\nStandardError=append:/var/lib/log\n";
        disk.write("etc/systemd/system/service.d/log.conf", log);
        Some(disk)
    }

    /// Writes a file below the disk, such as `etc/sordino/box.conf`.
    pub fn write(&self, name: &str, text: &str) {
        let file = self.path.join(name);
        fs::create_dir_all(file.parent().expect("its directory")).expect("a directory");
        fs::write(file, text).expect("a file");
    }

    /// Returns the directory that becomes `/var/lib`.
    pub fn lib(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// Returns the output of all services so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.lib().join("log")).unwrap_or_default()
    }

    /// Boots the machine, and waits until systemd has finished.
    pub fn boot(&self) -> Boot<'_> {
        let cgroups = Cgroups::new();
        let mut command = Command::new("sh");
        // The shell enters the cgroups before `unshare`, so that they become the roots of the new cgroup namespace.
        let enter = "for cgroup in $CGROUPS; do echo $$ > \"$cgroup/cgroup.procs\" || exit; done; exec unshare --fork --kill-child --pid --mount --uts --ipc --cgroup \
                     --mount-proc -- sh -c \"$SCRIPT\"";
        command.args(["-c", enter]).env("SCRIPT", SCRIPT).env("CGROUPS", cgroups.list());
        command.env("DISK", &self.path).env("VERSION", cgroups.version);
        let mut running = self.scene.start(&mut command);
        let child = format!("/proc/{0}/task/{0}/children", running.pid());
        let mut init = String::new();
        crate::wait_until("systemd runs", || {
            assert!(running.is_running(), "{}", running.errors());
            init = fs::read_to_string(&child).unwrap_or_default().trim().to_owned();
            let name = fs::read_to_string(format!("/proc/{init}/comm")).unwrap_or_default();
            name == "systemd\n"
        });
        let boot = Boot { scene: self.scene, running, init, cgroups };
        crate::wait_until("the machine has booted", || {
            let state = boot.run(&["systemctl", "is-system-running"]).output;
            ["running\n", "degraded\n"].contains(&&*state)
        });
        boot
    }
}

impl Boot<'_> {
    /// Runs a command on the machine.
    pub fn run(&self, command: &[&str]) -> EndedProcess {
        self.scene.run(&mut self.command(command))
    }

    /// Returns a command that would run on the machine, not yet started.
    pub fn command(&self, command: &[&str]) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.init, "--mount", "--pid", "--uts", "--ipc", "--"]).args(command);
        enter
    }

    /// Returns the value of a unit's property, as `systemctl show` prints it.
    pub fn property(&self, unit: &str, name: &str) -> String {
        let shown = self.run(&["systemctl", "show", "--value", "--property", name, unit]);
        shown.succeeded().trim().to_owned()
    }

    /// Cuts the machine's power: all its processes are killed.
    pub fn cut(self) {
        drop(self);
    }
}

impl Drop for Boot<'_> {
    fn drop(&mut self) {
        self.running.signal(Signal::KILL);
        let members = |cgroup: &PathBuf| fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        crate::wait_until("all processes have ended", || {
            let is_gone = !Path::new(&format!("/proc/{}", self.init)).exists();
            is_gone && self.cgroups.paths.iter().all(|cgroup| members(cgroup).is_empty())
        });
        self.cgroups.paths.iter().for_each(|cgroup| remove(cgroup));
    }
}

impl Cgroups {
    fn new() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.procs").exists();
        // A new cpuset has no CPUs and accepts no process; systemd does not use that hierarchy.
        let is_used =
            |path: &PathBuf| path.join("cgroup.procs").exists() && !path.join("cpuset.cpus").exists();
        let roots = match is_v2 {
            true => vec![root.to_owned()],
            false => fs::read_dir(root)
                .expect("cgroups")
                .flatten()
                .map(|entry| entry.path())
                .filter(is_used)
                .collect(),
        };
        let name = format!("sordino-test-{}", std::process::id());
        let paths: Vec<PathBuf> = roots.iter().map(|root| root.join(&name)).collect();
        // Several controllers may share a hierarchy.
        paths.iter().filter(|path| !path.exists()).for_each(|path| fs::create_dir(path).expect("a cgroup"));
        Self { paths, version: if is_v2 { "2" } else { "1" } }
    }

    fn list(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(" ")
    }
}

/// Removes a cgroup and those in it. The kernel may need a moment after the last process has ended.
fn remove(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    crate::wait_until("the cgroup is removed", || fs::remove_dir(cgroup).is_ok() || !cgroup.exists());
}
