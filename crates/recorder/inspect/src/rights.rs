//! The rights of a recorder, which examines hostile programs with no more rights than it needs.
//!
//! Rights belong to threads, and a thread inherits those of the thread that starts it. An executed program (the
//! command, the guardian) gets its own rights again, by its user.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

/// The capabilities that a recorder needs, each with its purpose.
const NEEDED: CapabilitySet = CapabilitySet::from_bits_retain(
    // Programs: descriptors, maps and pages.
    CapabilitySet::SYS_PTRACE.bits()
        // Mapped files through /proc/PID/map_files, from Linux 5.9 on.
        | CapabilitySet::CHECKPOINT_RESTORE.bits()
        // Reading files of other users; recordings in their directories; the tracer's files.
        | CapabilitySet::DAC_OVERRIDE.bits()
        | CapabilitySet::DAC_READ_SEARCH.bits()
        // Giving a recording to the user who called sudo.
        | CapabilitySet::CHOWN.bits()
        | CapabilitySet::FOWNER.bits()
        // Signals to a command that runs as another user.
        | CapabilitySet::KILL.bits()
        // CPUs and priorities; locked memory; limits.
        | CapabilitySet::SYS_NICE.bits()
        | CapabilitySet::IPC_LOCK.bits()
        | CapabilitySet::SYS_RESOURCE.bits()
        // Names of kernel functions.
        | CapabilitySet::SYSLOG.bits(),
);

/// The capability that is needed only until recording begins: to mount a private tracefs.
const UNTIL_IT_RECORDS: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Drops all rights that no recorder needs, for this thread and those that it starts later. To be called while it is
/// the only thread.
pub fn keep_needed_rights() {
    keep(NEEDED.union(UNTIL_IT_RECORDS));
}

/// Drops the rights that a recording thread does not need any more, and prevents programs that it executes from gaining
/// rights.
pub fn confine() {
    keep(NEEDED);
    // Available since Linux 3.5.
    let _ = set_no_new_privs(true);
}

/// Drops all rights but these. This is a second line of defence: an error is ignored.
fn keep(needed: CapabilitySet) {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective &= needed;
        sets.permitted &= needed;
        let _ = set_capabilities(None, sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_records_has_few_rights_and_others_keep_theirs() {
        let before = capabilities(None).unwrap();
        let confined = std::thread::spawn(|| {
            confine();
            (capabilities(None).unwrap(), rustix::thread::no_new_privs().unwrap())
        });
        let (sets, no_new_privs) = confined.join().unwrap();
        assert!(NEEDED.contains(sets.permitted) && NEEDED.contains(sets.effective) && no_new_privs);
        assert_eq!(sets.permitted, before.permitted & NEEDED);
        assert_eq!(capabilities(None).unwrap().permitted, before.permitted);
    }
}
