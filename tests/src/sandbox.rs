//! A sandbox for one attack: private mounts, processes, network and `/run`, and an unprivileged user.

use crate::running::{EndedProcess, RunningProcess};
use crate::scene::{NOBODY, Scene};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Beginning of every script. `as_user COMMAND` runs a command as an unprivileged user without groups, in the user's
/// own directory; `until_there FILE` waits at most ten seconds for a file.
const PROLOGUE: &str = r#"
set -eu
mount -t tmpfs -o mode=755 tmpfs /run
as_user() (cd "$USER_HOME" && exec setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all -- "$@")
until_there() { i=0; while [ ! -e "$1" ] && [ $i -lt 1000 ]; do sleep 0.01; i=$((i + 1)); done; [ -e "$1" ]; }
"#;

/// Sandboxes of one test, which run one script each as root.
///
/// Scripts have `$SORDINO`, `$SCENE` (the test's directory, owned by root), `$USER_HOME` (the unprivileged user's
/// directory) and `$ATTACK`, the attacking program.
#[derive(Debug)]
pub struct Sandbox<'a> {
    scene: &'a Scene,
    home: PathBuf,
    attack: PathBuf,
}

impl<'a> Sandbox<'a> {
    /// Prepares a test whose attacks are kinds of the program `attack`, which becomes executable for every user.
    pub fn new(scene: &'a Scene, attack: &str) -> Self {
        let home = scene.directory_of(NOBODY, "home");
        let here = scene.path("attack");
        fs::copy(attack, &here).expect("the program that attacks");
        Self { scene, home, attack: here }
    }

    /// Returns the unprivileged user's directory.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Runs an `sh` script to its end, and kills every process that it started.
    pub fn run(&self, script: &str) -> EndedProcess {
        self.start(script).end()
    }

    /// Starts an `sh` script in a sandbox.
    pub fn start(&self, script: &str) -> RunningProcess {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.args(["sh", "-c", &format!("{PROLOGUE}{script}")]);
        command.env("SORDINO", self.scene.path("sordino")).env("SCENE", self.scene.path(""));
        command.env("USER_HOME", &self.home).env("ATTACK", &self.attack).current_dir(self.scene.path(""));
        for name in ["SUDO_UID", "SUDO_GID", "SUDO_USER"] {
            command.env_remove(name);
        }
        self.scene.start(&mut command)
    }
}
