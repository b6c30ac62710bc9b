//! Tests that settings read back, and that rejections have reasons.

use super::*;
use sordino_tracefs::{CLOCK_MONOTONIC, Selection};

#[test]
fn settings_are_taken_and_read_back() {
    let Some(tracefs) = tracefs() else { return };
    let instance = instance(&tracefs);
    for clock in instance.clocks().unwrap().available {
        instance.set_clock(&clock).unwrap();
        assert_eq!(instance.clocks().unwrap().current, clock);
    }
    assert!(instance.clocks().unwrap().has(CLOCK_MONOTONIC));
    // The size is rounded up to whole pages, one of which is the reader's.
    let size = instance.set_buffer_kib(101).unwrap();
    assert!((101..120).contains(&size), "{size}");
    assert_eq!(instance.buffer_kib().unwrap(), size);
    for on in [false, true] {
        instance.set_overwrite(on).unwrap();
        instance.set_tracing(on).unwrap();
    }
    instance.set_cpus(&[Cpu(0)]).unwrap();
    let own = Tid(rustix::thread::gettid().as_raw_nonzero().get());
    for follow in [true, false] {
        instance.set_threads(&[own, Tid(1)], follow).unwrap();
    }
    instance.set_threads(&[], false).unwrap();
    for cpu in instance.cpus().unwrap() {
        assert_eq!(instance.statistics(cpu).unwrap().lost(), 0);
    }
}

#[test]
fn impossible_settings_are_refused() {
    let Some(tracefs) = tracefs() else { return };
    let instance = instance(&tracefs);
    assert!(matches!(instance.set_clock("sundial"), Err(Error::Io { .. })));
    assert!(matches!(instance.set_buffer_kib(1 << 50), Err(Error::Io { .. })));
    assert!(matches!(instance.set_subbuffer_kib(3 << 20), Err(Error::Io { .. } | Error::Missing { .. })));
    assert!(matches!(instance.statistics(Cpu(99_999)), Err(Error::Missing { .. })));
    // No machine has CPU 99,999: the kernel accepts the set and leaves it out.
    assert!(instance.set_cpus(&[Cpu(0), Cpu(99_999)]).is_err());
    assert!(instance.set_threads(&[Tid(-5)], false).is_err());
}

fn refused(instance: &mut Instance, text: &str) -> Error {
    let selection = text.parse::<Selection>();
    selection.and_then(|selection| instance.select(&[selection])).expect_err(text)
}

#[test]
fn a_bad_filter_is_refused_in_the_kernels_words() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    let Error::Filter { event, reason, context } = refused(&mut instance, "sched_switch if foo < 3") else {
        panic!("another error")
    };
    assert_eq!((event.as_str(), reason.as_str()), ("sched:sched_switch", "Field not found"));
    let lines: Vec<&str> = context.lines().collect();
    assert_eq!((lines[0], lines[1].trim()), ("foo < 3", "^"));
    for text in
        ["sched_switch if prev_prio <", "sched_switch if (prev_prio < 3", "sched_switch if prev_prio ~ \"x\""]
    {
        assert!(matches!(refused(&mut instance, text), Error::Filter { .. }), "{text}");
    }
    // A group can be filtered only if each of its events can be.
    assert!(matches!(refused(&mut instance, "sched:* if prev_prio < 100"), Error::Filter { .. }));
    // A rejected selection leaves nothing behind.
    instance.select(&["sched_switch".parse().unwrap()]).unwrap();
}

#[test]
fn an_unknown_event_is_refused_with_its_neighbours() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    let error = refused(&mut instance, "sched_swich");
    assert!(error.to_string().contains("did you mean sched_switch"), "{error}");
    assert!(matches!(refused(&mut instance, "nosuch:*"), Error::UnknownEvent { .. }));
}

#[test]
fn a_selection_replaces_the_one_before() {
    let Some(tracefs) = tracefs() else { return };
    let mut instance = instance(&tracefs);
    let select = |instance: &mut Instance, text: &str| {
        let events = instance.select(&[text.parse().unwrap()]).unwrap();
        events.iter().map(|event| event.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(select(&mut instance, "sched_switch if prev_prio < 0"), ["sched:sched_switch"]);
    // The filter, which is never true, must be removed.
    assert_eq!(select(&mut instance, "sched_switch"), ["sched:sched_switch"]);
    let recording = UnnamedFiles::start(instance);
    std::thread::sleep(Duration::from_millis(20));
    let entries: u64 = recording.finish().iter().map(|cpu| cpu.drained.statistics.read).sum();
    assert!(entries > 0);
}

#[test]
fn a_read_only_tracefs_is_reported() {
    let Some(_) = tracefs() else { return };
    let directory = tempfile::tempdir().unwrap();
    // tracefs is mounted there already on most machines; in any case, the mount namespace is this test's own.
    let script = "{ mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing; } \
                  && mount -o remount,bind,ro /sys/kernel/tracing && exec \"$0\" \"$@\"";
    let role = role("settings::as_reader", directory.path());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).args(role.get_args());
    let status = command.env("TRACEFS_TEST", directory.path()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    assert_eq!(reported(directory.path(), "done"), "");
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_reader() {
    // The mount is found and used.
    let tracefs = Tracefs::open().unwrap();
    assert!(!tracefs.events().unwrap().is_empty());
    let Err(Error::Io { action, path, source }) = Instance::create(&tracefs, &unique()) else {
        panic!("created")
    };
    assert_eq!((action, source.kind()), ("create", std::io::ErrorKind::ReadOnlyFilesystem));
    assert!(path.starts_with("/sys/kernel/tracing/instances"), "{}", path.display());
    tell(&directory(), "done", "");
}

#[test]
fn nobody_may_trace() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let Some(_) = tracefs() else { return };
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = role("settings::as_nobody", directory.path());
    match command.uid(65534).gid(65534).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return not_measured(&format!("nobody can't run this program: {error}")),
    }
    assert_eq!(reported(directory.path(), "done"), "");
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_nobody() {
    let error = Tracefs::open().unwrap_err();
    assert!(matches!(error, Error::NotPermitted { .. }), "{error:?}");
    assert!(error.to_string().contains("CAP_SYS_ADMIN"), "{error}");
    tell(&directory(), "done", "");
}
