//! Tests of the removal of instances, however their creator ends.

use super::*;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use sordino_undo::{Guardian, UndoStep, guard};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn exists(tracefs: &Tracefs, name: &str) -> bool {
    tracefs.instances().unwrap().iter().any(|instance| instance == name)
}

/// An instance that records and whose pages are being read.
fn busy(tracefs: &Tracefs, name: &str) -> Drain {
    let mut instance = Instance::create(tracefs, name).unwrap();
    instance.select(&["sched".parse().unwrap()]).unwrap();
    Drain::new(instance, |_| Ok(tempfile::tempfile()?.into())).unwrap()
}

#[test]
fn nothing_is_left_after_drop_panic_and_removal() {
    let Some(tracefs) = tracefs() else { return };
    let name = unique();
    let drain = busy(&tracefs, &name);
    assert!(exists(&tracefs, &name));
    drop(drain);
    assert!(!exists(&tracefs, &name));

    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _drain = busy(&tracefs, &name);
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    assert!(!exists(&tracefs, &name));

    let instance = Instance::create(&tracefs, &name).unwrap();
    assert_eq!(instance.name(), name);
    instance.remove().unwrap();
    assert!(!exists(&tracefs, &name));
    Instance::remove_by_name(&tracefs, &name).unwrap();
}

#[test]
fn a_name_in_use_is_refused() {
    let Some(tracefs) = tracefs() else { return };
    let instance = instance(&tracefs);
    let Err(Error::InUse(name)) = Instance::create(&tracefs, instance.name()) else {
        panic!("created twice")
    };
    assert_eq!(name, instance.name());
    assert!(matches!(Instance::create(&tracefs, "other"), Err(Error::Name(_))));
}

#[test]
fn an_instance_that_is_still_read_is_reported_busy() {
    let Some(tracefs) = tracefs() else { return };
    let name = unique();
    let drain = busy(&tracefs, &name);
    let Err(Error::Busy(reported)) = Instance::remove_by_name(&tracefs, &name) else { panic!("removed") };
    assert_eq!(reported, name);
    // The instance gets some time to become free.
    let removed = std::thread::scope(|scope| {
        let removed = scope.spawn(|| Instance::remove_by_name(&tracefs, &name));
        std::thread::sleep(Duration::from_millis(50));
        drop(drain);
        removed.join().unwrap()
    });
    removed.unwrap();
    assert!(!exists(&tracefs, &name));
}

/// Starts a recorder and waits until it is ready.
fn recorder_of(instance: &str, role_name: &str) -> (tempfile::TempDir, Child) {
    // The recorder's guardian outlives it, and this process has to wait for it.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let recorder = role(role_name, directory.path()).env("INSTANCE", instance).spawn().unwrap();
    reported(directory.path(), "ready");
    (directory, recorder)
}

fn kill(mut recorder: Child) {
    recorder.kill().unwrap();
    recorder.wait().unwrap();
}

#[test]
fn what_a_killed_recorder_left_is_swept_and_what_is_used_is_not() {
    let Some(tracefs) = tracefs() else { return };
    let name = unique();
    let (_directory, recorder) = recorder_of(&name, "instances::as_recorder");
    assert!(!Instance::sweep(&tracefs).unwrap().contains(&name));
    assert!(matches!(Instance::create(&tracefs, &name), Err(Error::InUse(_))));
    kill(recorder);
    assert!(exists(&tracefs, &name));
    let swept = Instance::sweep(&tracefs).unwrap();
    assert!(swept.contains(&name), "{swept:?}");
    assert!(!exists(&tracefs, &name));
}

#[test]
fn what_a_killed_recorder_left_is_replaced() {
    let Some(tracefs) = tracefs() else { return };
    let stale = unique();
    let (_directory, recorder) = recorder_of(&stale, "instances::as_recorder");
    kill(recorder);
    let instance = Instance::create(&tracefs, &stale).unwrap();
    assert!(!instance.clocks().unwrap().current.contains("mono"), "the settings of the one before");
}

#[test]
fn a_guardian_removes_the_instance_of_a_killed_recorder() {
    let Some(tracefs) = tracefs() else { return };
    let name = unique();
    let (directory, recorder) = recorder_of(&name, "instances::as_guarded_recorder");
    kill(recorder);
    let guardian = reported(directory.path(), "ready").parse().unwrap();
    waitpid(Pid::from_raw(guardian), WaitOptions::empty()).unwrap();
    assert!(!exists(&tracefs, &name));
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_recorder() {
    let drain = recorder();
    tell(&directory(), "ready", "");
    std::thread::sleep(PATIENCE);
    drop(drain);
}

fn recorder() -> Drain {
    let mut drain = busy(&Tracefs::open().unwrap(), &std::env::var("INSTANCE").unwrap());
    drain.instance().set_clock("mono").unwrap();
    drain
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_guarded_recorder() {
    let mut guardian = Guardian::start(&mut role("instances::as_guardian", &directory())).unwrap();
    guardian.add(UndoStep::RemoveInstance { name: std::env::var("INSTANCE").unwrap() }).unwrap();
    let drain = recorder();
    // The guardian also ignores signals that are sent to the process group.
    let id = Pid::from_raw(guardian.id().try_into().unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    tell(&directory(), "ready", &guardian.id().to_string());
    std::thread::sleep(PATIENCE);
    drop((drain, guardian));
}

#[test]
#[ignore = "a role, started by the other tests"]
fn as_guardian() {
    let carry_out = |step: &UndoStep| match step {
        UndoStep::RemoveInstance { name } => {
            let tracefs = Tracefs::open().map_err(|error| error.to_string())?;
            Instance::remove_by_name(&tracefs, name).map_err(|error| error.to_string())
        }
        _ => Err("not in this test".to_owned()),
    };
    guard(carry_out).unwrap();
}
