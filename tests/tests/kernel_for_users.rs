//! A user whom root lets trace the kernel, exactly as docs/sessions.md says.

use sordino_tests::{DAEMON, NOBODY, Scene};
use std::fs;
use std::process::Command;

/// The group that is let in; nobody needs to be in it but the test's user.
const GROUP: u32 = 60;

/// Does what the page says in a mount namespace of its own, and takes it back: the file system is one for the whole machine.
const SCRIPT: &str = r#"
set -e
mount --make-rprivate /
tracing=/sys/kernel/tracing
test -d $tracing/instances || mount -t tracefs nodev $tracing
mode=$(stat -c %a $tracing) group=$(stat -c %g $tracing) owner=$(stat -c %u $tracing/instances)
as_user() { setpriv --reuid "$1" --regid "$1" --groups "$2" "$SORDINO" record -o "$3" --kernel sched --duration 300ms -- sh -c 'ls /'; }
back() { chown "$owner" $tracing/instances; mount -o remount,mode="$mode",gid="$group" $tracing; }
trap back EXIT
if as_user "$USER_ID" "$GROUP_ID" "$OUTPUT/before"; then exit 3; fi
COMMANDS
as_user "$USER_ID" "$GROUP_ID" "$OUTPUT/after"
if as_user "$OTHER_ID" "$GROUP_ID" "$OTHER/other"; then exit 4; fi
"#;

/// The commands of the page, for this group and user.
fn documented() -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sessions.md")).unwrap();
    let block = page.split("```sh\n").find(|block| block.starts_with("mount -o remount")).unwrap();
    let commands = block.split("```").next().unwrap();
    commands
        .replace("$(getent group tracing | cut -d: -f3)", &GROUP.to_string())
        .replace("USER", &NOBODY.to_string())
}

#[test]
fn a_user_whom_root_lets_trace_the_kernel_records_its_events() {
    let Some(scene) = Scene::new().as_root() else { return };
    let (home, other) = (scene.directory_of(NOBODY, "home"), scene.directory_of(DAEMON, "other"));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &SCRIPT.replace("COMMANDS", &documented())]);
    command.env("SORDINO", scene.path("sordino")).env("OUTPUT", &home).current_dir(&home);
    command.env("USER_ID", NOBODY.to_string()).env("GROUP_ID", GROUP.to_string());
    command.env("OTHER", &other).env("OTHER_ID", DAEMON.to_string());
    let ended = scene.run(&mut command);
    assert_eq!(ended.status, 0, "{ended:?}");
    // Who is only in the group gets as far as an instance of their own, and not into it.
    assert!(ended.errors.contains("no permission for /sys/kernel/tracing/instances/sordino-"), "{ended:?}");
    let events = scene.listed(&home.join("after"));
    assert!(events.iter().any(|event| event["name"] == "sched_switch"), "{} events", events.len());
}
